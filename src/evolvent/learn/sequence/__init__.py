"""Learning from sequences of recorded steps: windows of attempts, and acting with what came before."""
