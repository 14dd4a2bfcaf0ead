"""Runs that grow a population of policies for each player of a game."""
