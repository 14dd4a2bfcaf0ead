"""Networks over the tokens of an attempt, causal."""
