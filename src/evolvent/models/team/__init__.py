"""Policies and critics of teams: one joint sequence, or separate actors."""
