"""A run in which a frozen model writes programs that are compiled, checked and timed."""
