"""Environments of tasks in text, for one agent."""
