"""What the library was measured with: scripts, page generators, and ``python -m benchmarks.speed NAME``."""
