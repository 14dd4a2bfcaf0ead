"""Published systems, one file each: docstring with paper and equations, frozen ``Config``, ``run``."""
