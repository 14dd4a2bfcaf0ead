"""A run that searches: tasks, one way or several at the same budget."""
