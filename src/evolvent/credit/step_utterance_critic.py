"""Utterance advantage: min Q minus min V of two critics (ArCHer).

Paper: Zhou et al. 2024, "ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL", arXiv 2402.19446.

    A_t = min(Q1, Q2)(o_t, a_t) - min(V1, V2)(o_t)          for every token of the utterance a_t

Biased: no reward enters but through the critics (cosine -0.72 to 0.67 in the exact test with arbitrary ones). With
exact critics of the undiscounted return it is unbiased. Needs no group.

Needs ``notes["q1"]``, ``["q2"]``, ``["v1"]``, ``["v2"]``, read at the first token of each decision, or the critics.

Deviations: the released actor draws fresh utterances at replayed observations; here the recorded one is judged, so a
run that replays records what it draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.credit._group import to_units, valid_rows
from evolvent.credit._tokens import first_tokens, noted

LEVEL = "step"
UNBIASED = False
NEEDS = ("q1", "q2", "v1", "v2")


@dataclass(frozen=True)
class Config:
    """Settings of ArCHer's advantage."""

    critics: Callable[[Episode], ArrayLike] | None = None
    """Q1, Q2, V1, V2 of every decision, ``[4, T]``; ``None`` = those recorded in the episode."""


_WHERE = "credit.step_utterance_critic"


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Advantage of every decision of the valid episodes, in the units of the critics.

    Raises:
        BadInput: notes missing, or critics that give other than ``[4, T]``.
    """
    rows = valid_rows(episodes)
    judged = [_judged(episodes[i], config) for i in rows]
    return to_units(episodes, LEVEL, rows, [np.minimum(q1, q2) - np.minimum(v1, v2) for q1, q2, v1, v2 in judged])


def _judged(episode: Episode, config: Config) -> np.ndarray:
    """Q1, Q2, V1, V2: float64 ``[4, T]``."""
    if config.critics is None:
        first = first_tokens(episode, _WHERE)
        return np.stack([noted(episode, name, _WHERE)[first] for name in ("q1", "q2", "v1", "v2")])
    judged = np.asarray(config.critics(episode), dtype=np.float64)
    if judged.shape != (4, episode.n_steps) or not np.isfinite(judged).all():
        raise BadInput(
            "the critics do not fit the episode",
            got=judged.shape,
            expected=f"(4, {episode.n_steps}), finite",
            where=f"{_WHERE}, episode {episode.id}",
        )
    return judged
