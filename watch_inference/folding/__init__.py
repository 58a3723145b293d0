"""Look after look folded into what is known: whose lines, accounts, rates, rhythm."""
