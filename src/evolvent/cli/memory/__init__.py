"""`evolvent memory`: a file a group of commands."""
