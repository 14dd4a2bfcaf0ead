"""Games in turns (``core.turns.GameEnv``), for populations of policies."""
