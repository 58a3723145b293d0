"""How long it still takes: measured work and speed to a remaining time with its range."""
