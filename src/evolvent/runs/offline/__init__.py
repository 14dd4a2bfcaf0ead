"""Runs that learn from recorded attempts, and are judged in the environment."""
