"""Performance as ratios in one run: each module has ``run(seed) -> dict``, called by ``evolvent bench NAME``."""
