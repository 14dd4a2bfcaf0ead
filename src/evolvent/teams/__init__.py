"""Workflows of language agents: what each part is worth, and what it takes."""
