"""A run of a kind that nobody describes: a system of your own that writes metrics and a summary."""
