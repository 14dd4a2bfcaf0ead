"""Ledger → weights of a team: PPO, trust regions, critics and baselines."""
