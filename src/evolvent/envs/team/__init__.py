"""Environments of teams."""
