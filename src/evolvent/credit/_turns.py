"""What rules with credit turn by turn share: one row an attempt, one column a turn, zeros after its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger


def by_turn(episodes: Sequence[Episode], rows: Sequence[int], values: Callable[[Episode], np.ndarray]) -> np.ndarray:
    """``values(episode)`` ``[T]`` of each row, float64 ``[N, T_longest]``: what has ended counts 0."""
    out_NT = np.zeros((len(rows), max((episodes[i].n_steps for i in rows), default=0)))
    for row, i in enumerate(rows):
        out_NT[row, : episodes[i].n_steps] = values(episodes[i])
    return out_NT


def turns_to_ledger(episodes: Sequence[Episode], rows: Sequence[int], adv_NT: np.ndarray) -> Ledger:
    """A ledger in which step t of row n carries ``adv_NT[n, t]``; the steps of other episodes stay unscored."""
    ledger = Ledger.for_episodes(episodes)
    owner, adv = ledger.episode_index("step"), np.full(ledger.size("step"), np.nan)
    for row, i in enumerate(rows):
        start = np.searchsorted(owner, i)
        adv[start : start + episodes[i].n_steps] = adv_NT[row, : episodes[i].n_steps]
    ledger.set("step", adv)
    return ledger


def trajectory_means(values_NT: np.ndarray, episodes: Sequence[Episode], rows: Sequence[int]) -> np.ndarray:
    """Mean over the turns that each attempt really had, float64 ``[N]``: every attempt counts once, long or short."""
    turns = np.array([max(1, episodes[i].n_steps) for i in rows], dtype=np.float64)
    return values_NT.sum(axis=1) / turns


def lengths(episodes: Sequence[Episode], rows: Sequence[int], where: str) -> np.ndarray:
    """Sampled tokens of each row, float64 ``[N]``.

    Raises:
        BadInput: an attempt that took a decision and recorded no token.
    """
    for i in rows:
        if episodes[i].n_steps and not episodes[i].n_tokens:
            raise BadInput(
                "no tokens were recorded",
                got=f"episode {episodes[i].id}",
                where=where,
                expected="token ids of the decisions",
                do="record Episode.act(…, token_ids=…)",
            )
    return np.array([episodes[i].n_tokens for i in rows], dtype=np.float64)
