"""Runs that train nothing: teams of language agents, measured."""
