"""Attempts that were recorded, to learn from without an environment: their form, where they come from, their worth."""
