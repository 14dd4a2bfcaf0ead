"""Rewards of several kinds: besides the reward of its task an episode may carry others, each with a name.

    episode.rewards_by_kind = {"format": [1.0, 0.0, 1.0], "budget": 0.5}

A list has one finite number for every decision, a single number belongs to the attempt as a whole. They stand beside
the reward of ``Episode.act`` and ``add_reward``, which is the task's own and alone makes ``total_reward``: a kind
counts only where a credit rule or an algorithm asks for it by name. This module is the one place that knows the layout.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput


def keep_reward(episode: Episode, kind: str, values: ArrayLike) -> None:
    """Keep one kind of reward, after the last decision and ``end`` too; one that was kept before is replaced.

    ``kind`` is a name, such as "format", "progress" or "test:3"; ``values`` are ``[T]``, one for every decision, or a
    single number for the whole attempt.

    Raises:
        BadInput: another number of values, or one that is not finite.
    """
    episode.rewards_by_kind[kind] = _checked(episode, kind, values).tolist()


def reward_kinds(episode: Episode) -> list[str]:
    """Names of the kinds that an episode carries, in order of keeping."""
    return list(episode.rewards_by_kind)


def rewards_of(episode: Episode, kind: str) -> np.ndarray:
    """One kind for every decision: float64 ``[T]``.

    Raises:
        BadInput: the episode does not carry it, or only one number for the whole attempt, or values that do not fit.
    """
    values = _read(episode, kind)
    if values.ndim == 0:
        raise BadInput(
            "one number for the whole attempt where one for every decision is needed",
            got=f"{kind!r}: {float(values):g}",
            expected=f"{episode.n_steps} numbers",
            where=_where(episode),
        )
    return values


def reward_total(episode: Episode, kind: str) -> float:
    """The sum of one kind over the decisions, or its single number.

    Raises:
        BadInput: as ``rewards_of``.
    """
    return math.fsum(np.atleast_1d(_read(episode, kind)).tolist())


def last_reward(episode: Episode, kind: str) -> float:
    """One kind at the last decision, or its single number; 0 where there was no decision.

    Raises:
        BadInput: as ``rewards_of``.
    """
    values = np.atleast_1d(_read(episode, kind))
    return float(values[-1]) if len(values) else 0.0


def succeeded(episode: Episode, above: float | None = None) -> bool:
    """Whether an attempt is right: as its environment said, or, with ``above``, whether its return is larger.

    A return alone does not say it: rewards may be shaped, partial, or penalties.

    Raises:
        BadInput: ``success`` is unknown and ``above`` is not given.
    """
    if above is not None:
        return episode.total_reward > above
    if episode.success is None:
        raise BadInput(
            "nobody said whether the attempt is right",
            got="success=None",
            expected="end(success=True or False)",
            where=f"Episode {episode.id}",
            do="let the environment say it (Turn.success), or set correct_above",
        )
    return episode.success


def _read(episode: Episode, kind: str) -> np.ndarray:
    kinds = episode.rewards_by_kind
    if kind not in kinds:
        raise BadInput(
            "the episode does not carry this kind of reward",
            got=f"{kind!r}, it has {list(kinds)}",
            where=_where(episode),
            do="core.reward_kinds.keep_reward(episode, kind, values) before the credit is worked out",
        )
    return _checked(episode, kind, kinds[kind])


def _checked(episode: Episode, kind: str, values: Any) -> np.ndarray:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.array([np.nan])
    if numbers.shape not in ((), (episode.n_steps,)) or not np.isfinite(numbers).all():
        raise BadInput(
            f"rewards of kind {kind!r} do not fit the episode",
            got=values,
            expected=f"{episode.n_steps} finite numbers, one a decision, or a single one",
            where=_where(episode),
            do="end(valid=False) marks an attempt that could not be judged",
        )
    return numbers


def _where(episode: Episode) -> str:
    return f"Episode {episode.id}, rewards_by_kind"
