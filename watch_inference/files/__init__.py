"""The files that grow under us: following, counting, listing, and what is remembered of them."""
