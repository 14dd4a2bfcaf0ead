"""What recorded attempts are worth to a learner: returns, ends, duplicates, how good and how wide they are.

    TQ    = (mean return - random) / (best - random)                    quality of the attempts
    SACo  = unique (state, action) of the data / of the reference       width, for as many steps of both

of Schweighofer et al. 2022, A Dataset Perspective on Offline Reinforcement Learning (arXiv 2111.04714). The best is the
expert that the data's maker measured; the reference is what a learner saw on its way (medium-replay). States and
actions are cut into 100 bins a number over the range of the reference, as in its code; pairs are counted exactly
(there with HyperLogLog, within 1 %). Their finding in short: imitation does at high TQ, learners that only avoid
what is not in the data need both, and learners without such a bound need high SACo.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evolvent.data.recorded.episodes import Attempt, Recorded

BINS = 100


@dataclass(frozen=True)
class Measures:
    """See ``measure``; returns and lengths as (least, 25 %, median, 75 %, most)."""

    attempts: int
    steps: int
    returns: tuple[float, ...]
    lengths: tuple[float, ...]
    mean: float
    terminated: int
    truncated: int
    duplicates: int
    unique: float
    tq: float | None
    saco: float | None


def measure(data: Recorded, reference: Recorded | None = None) -> Measures:
    """What is known of the data; ``tq`` where its scale is, ``saco`` where there is a reference.

    ``unique`` is the share of steps whose (state, action) is the first of its kind, ``duplicates`` the number of
    attempts that are equal to an earlier one in all that was seen and done.
    """
    returns_E, lengths = data.returns_E, np.array([len(attempt) for attempt in data.attempts])
    over, scaled = sum(attempt.terminated for attempt in data.attempts), data.normalised(float(returns_E.mean()))
    own = _pairs(data)
    return Measures(
        len(lengths),
        data.steps,
        _spread(returns_E),
        _spread(lengths),
        float(returns_E.mean()),
        over,
        len(lengths) - over,
        len(lengths) - len({_bytes(attempt) for attempt in data.attempts}),
        unique_pairs(own, own) / len(own),
        None if scaled is None else scaled / 100.0,
        None if reference is None else saco(own, _pairs(reference)),
    )


def saco(pairs: np.ndarray, reference: np.ndarray) -> float:
    """Unique rows of ``pairs`` ``[N, K]`` over those of ``reference``, of as many rows each, evenly spread."""
    steps = min(len(pairs), len(reference))
    few, other = (some[np.linspace(0, len(some) - 1, steps).astype(int)] for some in (pairs, reference))
    return unique_pairs(few, other) / unique_pairs(other, other)


def unique_pairs(pairs: np.ndarray, limits: np.ndarray) -> int:
    """Different rows after cutting each column into ``BINS`` bins over its range in ``limits``."""
    low, high = limits.min(axis=0), limits.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    binned = np.clip(np.floor((pairs - low) / width * BINS), 0, BINS - 1).astype(np.uint8)
    return len(np.unique(np.ascontiguousarray(binned).view(np.dtype((np.void, binned.shape[1]))).ravel()))


def advice(data: Recorded, found: Measures, limit: int) -> Iterator[str]:
    """What a learner should know, in plain words; ``limit`` is the time limit of the environment, 0 = none."""
    best, low = found.returns[4], found.returns[0]
    if found.attempts < 10:
        yield f"only {found.attempts} attempts: whatever is learned will depend on each of them"
    if best == low:
        yield "all attempts earned the same: returns say nothing about what to prefer, so imitate (bc)"
    elif found.returns[3] - found.returns[1] < 0.1 * (best - low) and found.returns[2] > low + 0.8 * (best - low):
        yield "nearly all attempts are as good as the best: imitation (bc) is hard to beat here"
    else:
        top = float(np.sort(data.returns_E)[-max(1, found.attempts // 10) :].mean())
        yield (
            f"the best tenth of the attempts earned {top:,.4g}, the mean {found.mean:,.4g}: compare with bc --share "
            "0.1 before you credit a method that looks at rewards"
        )
    if not any(attempt.reward_TA.any() for attempt in data.attempts):
        yield "no reward anywhere: only imitation can learn from this"
    if found.duplicates:
        yield f"{found.duplicates} attempts are copies of others: they count twice in every mean"
    if found.truncated and limit and max(map(len, data.attempts)) < limit and not found.terminated:
        yield f"every attempt was cut off before the environment's limit of {limit} steps: nothing shows how it ends"
    if not found.truncated and limit and found.lengths[4] == limit:
        yield f"attempts of {limit} steps, the time limit, are marked as terminated: it will be taken for an end"
    for name, share in _edges(data):
        yield f"{share:.0%} of the {name} stand at a bound of [-1, 1]: a Gaussian imitates that badly"
    if found.tq is not None:
        yield f"TQ {found.tq:.2f}: " + (
            "close to the expert, imitation does"
            if found.tq > 0.8
            else "far from the expert, there is room above imitation"
        )
    if found.saco is not None and found.saco < 0.3:
        yield f"SACo {found.saco:.2f}: narrow; learners that leave the data (plain Q-learning) fail on such data"


def _edges(data: Recorded) -> Iterator[tuple[str, float]]:
    if data.team.dims:
        first = 1 if data.team.kind == "mixed" else 0
        share = float(np.mean([np.mean(np.abs(one.action_TA[..., first:]) >= 1.0) for one in data.attempts]))
        if share > 0.3:
            yield "numbers of actions", share


def _pairs(data: Recorded) -> np.ndarray:
    """What all agents saw and did, a row a step, ``[steps, A (D + parts)]``."""
    rows = [
        np.concatenate([one.obs_TAD[:-1].reshape(len(one), -1), one.action_TA.reshape(len(one), -1)], axis=1)
        for one in data.attempts
    ]
    return np.concatenate(rows).astype(np.float64)


def _bytes(attempt: Attempt) -> int:
    return hash((attempt.obs_TAD.tobytes(), attempt.action_TA.tobytes()))


def _spread(values: np.ndarray) -> tuple[float, ...]:
    return tuple(np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist())
