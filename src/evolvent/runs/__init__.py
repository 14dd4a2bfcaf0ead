"""One run from start to finish: the shell that every kind shares, and what is particular to each."""
