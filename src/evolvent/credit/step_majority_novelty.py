"""Majority and novelty: rewards without labels, from the group's answers and the novelty of reasoning (EVOL-RL).

Paper: Zhou et al. 2025 (*Evolving Language Models without Labels*, arXiv 2509.15194).

    u_i = 1 - (mean cos to its class + max cos to anyone) / 2           cos of the embedded reasoning
    R_i in [0.5, 1] for the majority answer, [-1, -0.5] for any other, by u inside the class; -1 without an answer
    A_i = (R_i - mean_j R_j) / (std_j R_j + eps)        for every step of attempt i

The majority stands in for the truth; novelty keeps the answers that agree from becoming one. Biased against the return,
which it never looks at (cosine -0.68 to 0.42 in the exact test, where answers are arbitrary). An attempt says its
``answer``: a text, empty where none could be read. Its reasoning is the text of its decisions. An attempt without
others gets 0.

Deviations: of equally frequent answers the first in the alphabet is the majority; a lone member's class mean is its
mean to all others. The paper votes among 64 attempts and learns from 32 of them: give the others ``valid=False`` after
the vote, or all of them here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.credit._group import labels, to_steps, valid_rows
from evolvent.formulas.baselines import group_z
from evolvent.formulas.novelty import majority_novelty_rewards

LEVEL = "step"
UNBIASED = False
COMPARES = True
NEEDS = ("answer", "embedder")


@dataclass(frozen=True)
class Config:
    """Settings of EVOL-RL's reward."""

    embed: Callable[[Sequence[str]], ArrayLike] | None = None
    """Texts to vectors ``[N, D]``, such as ``Embedder.embed``; scaled to length 1 here."""
    eps: float = 1e-6
    """Added to the standard deviation, against division by zero."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in standard deviations.

    Raises:
        BadInput: no embedder or one that returns something else, or an attempt that does not say what it answered.
    """
    if config.embed is None:
        raise BadInput(
            "novelty needs an embedder",
            expected="Config(embed=function from texts to vectors)",
            where="credit.step_majority_novelty",
        )
    rows = valid_rows(episodes)
    group, answers = labels(episodes, rows), [_answer(episodes[i]) for i in rows]
    texts = ["\n".join(n.text for n in episodes[i].nodes if n.kind == "action") for i in rows]
    members: dict[str, list[int]] = {}
    for row, label in enumerate(group):
        members.setdefault(label, []).append(row)
    reward = np.zeros(len(rows))
    for own in members.values():
        vector = np.asarray(config.embed([texts[row] for row in own]), dtype=np.float64)
        if vector.ndim != 2 or len(vector) != len(own) or not np.isfinite(vector).all():
            raise BadInput(
                "the embedder does not return one finite vector a text",
                got=vector.shape,
                expected=f"({len(own)}, D)",
                where="credit.step_majority_novelty",
            )
        vector = vector / np.maximum(np.linalg.norm(vector, axis=1, keepdims=True), 1e-12)
        reward[own] = majority_novelty_rewards([answers[row] for row in own], vector @ vector.T)
    return to_steps(episodes, rows, group_z(reward, group, eps=config.eps))


def _answer(episode: Episode) -> str | None:
    if episode.answer is None:
        raise BadInput(
            "the episode does not say what it answered",
            got=None,
            expected="Episode.end(answer=…), a text or empty",
            where=f"credit.step_majority_novelty, episode {episode.id}",
        )
    return episode.answer or None
