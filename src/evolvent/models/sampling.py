"""Choosing a token from a row of logits: greedy, temperature, nucleus; in numpy, without a sort of the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Counters:
    """Since loading: calls to an endpoint; tokens of prompts, found in a cache, sampled, evaluated for scores."""

    requests: int = 0
    prompt: int = 0
    cached: int = 0
    sampled: int = 0
    scored: int = 0
    seconds: float = 0.0


def log_normaliser(logits: np.ndarray, scratch: np.ndarray) -> float:
    """``log(sum(exp(logits)))`` of a float32 row ``[V]``, natural log; ``scratch`` float32 ``[V]`` is overwritten.

    The log-probability of token ``t`` at temperature 1 is ``logits[t] - log_normaliser(logits, scratch)``.
    """
    top = logits.max()
    np.subtract(logits, top, out=scratch)
    np.exp(scratch, out=scratch)
    return float(top) + float(np.log(scratch.sum(dtype=np.float32)))


def sample(logits: np.ndarray, temperature: float, top_p: float, rng: np.random.Generator) -> int:
    """Draw a token id from softmax(logits / temperature) restricted to the nucleus of mass ``top_p``.

    Logits float32 ``[V]``, ``-inf`` = forbidden; temperature > 0 (0 is the caller's case). The nucleus is the smallest
    set of most probable tokens whose mass reaches ``top_p`` in (0, 1] (Holtzman et al. 2020, "The Curious Case of
    Neural Text Degeneration", section 3.1). ``rng`` is consumed once a call.
    """
    p = logits.astype(np.float64) if temperature == 1.0 else logits / np.float64(temperature)
    p -= p.max()
    np.exp(p, out=p)
    p /= p.sum()
    u = rng.random()
    if top_p >= 1.0:
        c = np.cumsum(p)
        return int(min(np.searchsorted(c, u * c[-1], side="right"), len(c) - 1))
    ids = nucleus(p, top_p)
    c = np.cumsum(p[ids])
    return int(ids[min(np.searchsorted(c, u * c[-1], side="right"), len(c) - 1)])


def nucleus(p: np.ndarray, top_p: float) -> np.ndarray:
    """Ids of the smallest set of most probable tokens whose mass reaches ``top_p``, most probable first."""
    # Tokens below (1 - top_p) / V weigh less than 1 - top_p together, so the nucleus never needs them.
    ids = np.flatnonzero(p >= (1.0 - top_p) / len(p))
    ids = ids[np.argsort(-p[ids], kind="stable")]
    return ids[: int(np.searchsorted(np.cumsum(p[ids]), top_p, side="left")) + 1]
