"""What a log says: the formats, the lines found by them, and what they say together."""
