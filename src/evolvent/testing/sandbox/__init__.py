"""Attempts to get out of a sandbox, and to be judged right without being it."""
