"""Learning from which of two answers was better."""
