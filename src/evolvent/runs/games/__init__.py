"""A run in which a frozen model makes games that a browser plays."""
