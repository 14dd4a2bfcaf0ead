"""What rules over groups of attempts share: who can be compared with whom."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import reward_total


def valid_rows(episodes: Sequence[Episode]) -> list[int]:
    """Positions of the episodes that may be learned from; the others enter no baseline and stay unscored."""
    return [i for i, e in enumerate(episodes) if e.valid]


def labels(episodes: Sequence[Episode], rows: Sequence[int]) -> list[str]:
    """Group of each row: the episode's group, or its task where none was given."""
    return [episodes[i].group or episodes[i].task_id for i in rows]


def totals(episodes: Sequence[Episode], rows: Sequence[int], kinds: Sequence[str] = ("return",)) -> np.ndarray:
    """Undiscounted return of each row: float64 ``[len(rows)]``; with ``kinds`` the sum of these kinds of reward.

    "return" is the reward of the task itself, the others are read by ``core.reward_kinds``.
    """
    return np.array([math.fsum(_total(episodes[i], kind) for kind in kinds) for i in rows], dtype=np.float64)


def _total(episode: Episode, kind: str) -> float:
    return episode.total_reward if kind == "return" else reward_total(episode, kind)


def over_groups(
    episodes: Sequence[Episode],
    advantage: Callable[[np.ndarray, list[str]], np.ndarray],
    reward: Callable[[Episode], float] | None = None,
    kinds: Sequence[str] = ("return",),
) -> Ledger:
    """Step credit of a rule that compares whole attempts, on every step of the valid episodes.

    ``advantage`` takes what they earned, float64 ``[N]``, and the groups they belong to. They earned what ``reward``
    says, or these ``kinds`` in sum (``totals``).
    """
    rows = valid_rows(episodes)
    if reward is None:
        ret = totals(episodes, rows, kinds)
    else:
        ret = np.array([reward(episodes[i]) for i in rows], dtype=np.float64)
    return to_steps(episodes, rows, advantage(ret, labels(episodes, rows)))


def to_steps(episodes: Sequence[Episode], rows: Sequence[int], adv: np.ndarray) -> Ledger:
    """A ledger in which every step of an episode carries that episode's advantage; other episodes stay unscored."""
    ledger = Ledger.for_episodes(episodes)
    adv_E = np.full(len(episodes), np.nan)
    adv_E[rows] = adv
    ledger.set("step", adv_E[ledger.episode_index("step")])
    return ledger


def to_units(episodes: Sequence[Episode], level: str, rows: Sequence[int], parts: Iterable[np.ndarray]) -> Ledger:
    """A ledger in which the units of row n carry ``parts[n]``, one number each; other episodes stay unscored."""
    ledger = Ledger.for_episodes(episodes)
    credit = np.full(ledger.size(level), np.nan)
    starts = np.searchsorted(ledger.episode_index(level), np.array(rows, np.int64)).tolist()
    for start, part in zip(starts, parts, strict=True):
        credit[start : start + len(part)] = part
    ledger.set(level, credit)
    return ledger
