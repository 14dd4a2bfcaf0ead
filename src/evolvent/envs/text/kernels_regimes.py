"""Regimes of the inputs that a kernel is checked with: what is right for usual numbers alone is not right.

Values stand for themselves where sums of them are exact (halves, a power of ten), so that the order of a sum decides
nothing about a right kernel.
"""

from __future__ import annotations

import numpy as np

USUAL = "usual"
WORDS = {
    "equal": "numbers that are all equal",
    "spread 0.01": "numbers of spread .01",
    "spread 1": "numbers of spread 1",
    "spread 30": "numbers of spread 30",
    "ties": "few different numbers",
    "one huge": "one huge number",
    "signed zeros": "zeros of both signs",
    "denormals": "denormal numbers",
}
"""What each of them holds."""
REGIMES = (USUAL, *WORDS)
HUGE, TINY = np.float32(1e4), np.float32(1e-40)
_HALVES = np.arange(-4, 5, dtype=np.float32) / 2
_SIGNS = np.array([-1, 1], np.float32)
_ZEROS = np.array([0.0, -0.0, -1.0], np.float32)


def drawn(rng: np.random.Generator, regime: str, x: np.ndarray, anything: bool) -> np.ndarray:
    """The array of a regime in place of the usual one ``x``, of its shape and type.

    ``anything``: whether any number may stand there; else those of ``x`` alone may, and regimes of others leave it.
    """
    if regime == "equal":
        return np.full_like(x, rng.choice(_few(rng, x, anything)))
    if regime == "ties":
        return rng.choice(_few(rng, x, anything), x.shape).astype(x.dtype)
    if not anything:
        return x
    return _floats(rng, regime, x) if x.dtype == np.float32 else _bytes(rng, regime, x)


def _few(rng: np.random.Generator, x: np.ndarray, anything: bool) -> np.ndarray:
    if not anything:
        return rng.choice(x.ravel(), 3)
    if x.dtype == np.float32:
        return _HALVES
    ends = np.iinfo(x.dtype)
    return np.array([ends.min, ends.max, rng.integers(ends.min, ends.max)], x.dtype)


def _floats(rng: np.random.Generator, regime: str, x: np.ndarray) -> np.ndarray:
    if regime.startswith("spread "):  # an offset grows with it: a sum is as exact as it was
        return x * np.float32(float(regime[7:]) / max(1.0, float(x.std(dtype=np.float64))))
    if regime == "one huge":
        x = x.copy()
        x.flat[rng.integers(x.size)] = HUGE * rng.choice(_SIGNS)
        return x
    return x * TINY if regime == "denormals" else rng.choice(_ZEROS, x.shape)


def _bytes(rng: np.random.Generator, regime: str, x: np.ndarray) -> np.ndarray:
    ends = np.iinfo(x.dtype)
    if regime == "one huge":
        x = np.zeros_like(x)
        x.flat[rng.integers(x.size)] = rng.choice([ends.min, ends.max])
        return x
    most = {"spread 1": 1, "spread 30": 30, "signed zeros": 0}.get(regime)
    return x if most is None else rng.integers(max(-most, ends.min), most + 1, x.shape, x.dtype)


def floors(usual: list[np.ndarray], others: list[np.ndarray]) -> list[float]:
    """By output the least magnitude that errors are measured against: 1 for usual inputs, and in proportion."""

    def size(output: np.ndarray) -> float:
        return float(np.abs(output.astype(np.float64)).mean())

    ratios = (size(other) / max(size(one), 1e-30) for one, other in zip(usual, others, strict=True))
    return [min(900.0, max(1e-4, ratio)) for ratio in ratios]
