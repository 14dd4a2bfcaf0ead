"""Ledger → weights of a language model: batches, objectives, steps."""
