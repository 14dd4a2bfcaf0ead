"""What rules with credit turn by turn share: one row an attempt, one column a turn, zeros after its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import rewards_of
from evolvent.credit._group import labels, to_units, valid_rows
from evolvent.formulas.baselines import group_mean
from evolvent.formulas.returns import discounted


def by_turn(episodes: Sequence[Episode], rows: Sequence[int], values: Callable[[Episode], np.ndarray]) -> np.ndarray:
    """``values(episode)`` ``[T]`` of each row, float64 ``[N, T_longest]``: what has ended counts 0."""
    out_NT = np.zeros((len(rows), max((episodes[i].n_steps for i in rows), default=0)))
    for row, i in enumerate(rows):
        out_NT[row, : episodes[i].n_steps] = values(episodes[i])
    return out_NT


def turns_to_ledger(episodes: Sequence[Episode], rows: Sequence[int], adv_NT: np.ndarray) -> Ledger:
    """A ledger in which step t of row n carries ``adv_NT[n, t]``; the steps of other episodes stay unscored."""
    parts = (adv_T[: episodes[i].n_steps] for i, adv_T in zip(rows, adv_NT, strict=True))
    return to_units(episodes, "step", rows, parts)


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


def refined_to_go(
    episodes: Sequence[Episode], kind: str, weight: float, refine: Callable[[np.ndarray], np.ndarray]
) -> Ledger:
    """``G_t - mean_j G_{j,t}`` with ``G_t = sum_{k >= t} (r_k + weight refine(p)_k)``; what has ended counts 0."""
    rows = valid_rows(episodes)
    reward_NT = by_turn(episodes, rows, lambda e: e.rewards_T + weight * refine(rewards_of(e, kind)))
    to_go_NT = discounted(reward_NT.T).T
    return turns_to_ledger(episodes, rows, to_go_NT - group_mean(to_go_NT, labels(episodes, rows)))
