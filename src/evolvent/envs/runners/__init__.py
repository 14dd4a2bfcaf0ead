"""Copies of a team environment: in this process, in others, on Ray."""
