"""One answer of many: majority, sum or maximum of scores, scores of steps by their least or their last.

Papers: Wang et al. 2022 (self-consistency, arXiv 2203.11171), Feng et al. 2023 (TS-LLM), OpenR (arXiv 2410.09671).
Answers that could not be read (``None`` or empty) are dropped first; where none is left the result is ``None``. Votes
shift scores of which one is negative, and no others (TS-LLM shifts all, OpenR none).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from evolvent.core.errors import BadInput

Steps = Sequence[Sequence[float]]
"""Scores of the steps of each answer."""


def majority(answers: Sequence[str | None], steps: Steps) -> str | None:
    """The most frequent answer, of equally frequent ones the first; scores are not read."""
    return _vote(answers, [1.0] * len(answers))


def last_vote(answers: Sequence[str | None], steps: Steps) -> str | None:
    """The answer of the largest sum of last scores (ORM-vote, PRM-last-vote)."""
    return _vote(answers, last(steps))


def last_max(answers: Sequence[str | None], steps: Steps) -> str | None:
    """The answer of the highest last score (best of n, ORM-max, PRM-last-max)."""
    return _max(answers, last(steps))


def min_vote(answers: Sequence[str | None], steps: Steps) -> str | None:
    """The answer of the largest sum of least scores (PRM-min-vote)."""
    return _vote(answers, least(steps))


def min_max(answers: Sequence[str | None], steps: Steps) -> str | None:
    """The answer of the highest least score (PRM-min-max)."""
    return _max(answers, least(steps))


AGGREGATORS: dict[str, Callable[[Sequence[str | None], Steps], str | None]] = {
    f.__name__: f for f in (majority, last_vote, last_max, min_vote, min_max)
}


def last(steps: Steps) -> np.ndarray:
    """The last score of each answer, -1 where it has no steps: float64 ``[N]``."""
    return np.array([one[-1] if len(one) else -1.0 for one in steps], np.float64)


def least(steps: Steps) -> np.ndarray:
    """The least score of each answer, -1 where it has no steps: float64 ``[N]``."""
    return np.array([min(one) if len(one) else -1.0 for one in steps], np.float64)


def shifted(scores: Sequence[float]) -> np.ndarray:
    """Scores moved to 0 … about 1: minus the least, over the largest + 0.001 (TS-LLM): float64 ``[N]``.

    A sum of negative scores would punish answers for being frequent.
    """
    x = np.asarray(scores, np.float64)
    x = x - x.min(initial=np.inf)
    return x / (x.max(initial=0.0) + 1e-3)


def _vote(answers: Sequence[str | None], scores: Sequence[float] | np.ndarray) -> str | None:
    """The answer of the largest sum; of equal sums, as where nothing is valued, the more frequent, then the first."""
    values = _scores(answers, scores)[[i for i, answer in enumerate(answers) if answer]]
    known = [answer for answer in answers if answer]
    values = shifted(values.tolist()) if len(values) and values.min() < 0 else values
    sums: dict[str, float] = {}
    times = Counter(known)
    for answer, value in zip(known, values.tolist(), strict=True):
        sums[answer] = sums.get(answer, 0.0) + value
    return max(sums, key=lambda a: (sums[a], times[a])) if sums else None  # shifted, equal scores are all 0


def _max(answers: Sequence[str | None], scores: np.ndarray) -> str | None:
    values = _scores(answers, scores)
    known = [i for i, answer in enumerate(answers) if answer]
    return answers[max(known, key=lambda i: values[i])] if known else None


def _scores(answers: Sequence[str | None], scores: Sequence[float] | np.ndarray) -> np.ndarray:
    values = np.asarray(scores, np.float64)
    if values.shape != (len(answers),) or not np.isfinite(values).all():
        raise BadInput(
            "one finite score an answer", got=values.tolist(), expected=f"{len(answers)} numbers", where="aggregate"
        )
    return values
