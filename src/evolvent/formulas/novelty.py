"""Rewards without labels: the majority answer is taken for right, and among equals the unusual reasoning earns more.

EVOL-RL (Zhou et al. 2025, arXiv 2509.15194).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput


def majority(answers: Sequence[str | None]) -> str | None:
    """The answer given most often, ``None`` = no answer not counted; of equals the first in the alphabet."""
    votes = Counter(a for a in answers if a is not None)
    return min(votes, key=lambda a: (-votes[a], a)) if votes else None


def novelty(cos_NN: ArrayLike, same_class: Sequence[object]) -> np.ndarray:
    """``u_i = 1 - (mean cos to the others of its class + largest cos to anyone else) / 2``, ``[N]``.

    A member alone in its class has no such mean: that to all others takes its place. Alone altogether: 1.
    """
    cos, n = np.asarray(cos_NN, dtype=np.float64), len(same_class)
    if cos.shape != (n, n):
        raise BadInput("one similarity a pair", got=cos.shape, expected=(n, n), where="formulas.novelty.novelty")
    u = np.ones(n)
    for i in range(n if n > 1 else 0):
        others = [j for j in range(n) if j != i]
        own = [j for j in others if same_class[j] == same_class[i]] or others
        u[i] = 1.0 - (float(cos[i, own].mean()) + float(cos[i, others].max())) / 2.0
    return u


def majority_novelty_rewards(answers: Sequence[str | None], cos_NN: ArrayLike) -> np.ndarray:
    """Rewards of one group ``[N]``: [0.5, 1] for the majority answer, [-1, -0.5] for others, -1 without an answer.

    Inside a class the place is the novelty, scaled to 0..1 between the least and the most novel member. A member alone
    in its class gets the upper end (1 or -0.5), members of equal novelty the middle (±0.75). ``cos_NN`` is the cosine
    similarity of the reasoning of each pair; rows without an answer are not read.
    """
    winner, cos = majority(answers), np.asarray(cos_NN, dtype=np.float64)
    if cos.shape != (len(answers), len(answers)):
        raise BadInput("one similarity a pair", got=cos.shape, where="formulas.novelty.majority_novelty_rewards")
    given = [i for i, a in enumerate(answers) if a is not None]
    right = [answers[i] == winner for i in given]
    u = novelty(cos[np.ix_(given, given)], right)
    out = np.full(len(answers), -1.0)
    for chosen, low in ((True, 0.5), (False, -1.0)):
        place = [k for k, r in enumerate(right) if r == chosen]
        if not place:
            continue
        least, most = float(u[place].min()), float(u[place].max())
        if most - least < 1e-12:
            share = np.full(len(place), 1.0 if len(place) == 1 else 0.5)
        else:
            share = (u[place] - least) / (most - least)
        out[[given[k] for k in place]] = low + 0.5 * share
    return out
