"""From credit to better weights: losses, value normalisation, trust-region steps, checkpoints. Needs torch."""
