"""Process rewards of steps, normalised over those of the group (GRPO with process supervision) or of the whole batch.

Paper: Shao et al. 2024 (DeepSeekMath, arXiv 2402.03300), process supervision; Wang et al. 2024 (OpenR, arXiv
2410.09671) as coded (``scope="batch", to_go=False``).

    r~_t = (r_t - mean r) / (std r + eps)        mean and population std over all steps of the group, or of the batch
    A_t  = sum_{k >= t} r~_k   (to_go)           or  A_t = r~_t

Biased: the spread depends on the rewards themselves, and the mean over steps includes a decision's own reward; as coded
a step is paid for itself alone, whatever follows from it.

Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import labels, to_units, valid_rows
from evolvent.formulas.baselines import group_z

LEVEL = "step"
UNBIASED = False


@dataclass(frozen=True)
class Config:
    """Settings of normalised process rewards."""

    scope: Literal["group", "batch"] = "group"
    """Over whose steps: those of the attempts at one task, or of all."""
    to_go: bool = True
    """Pay a step for what follows it, too."""
    eps: float = 1e-8
    """Added to the standard deviation, against division by zero."""


CLAIMS = ((Config(scope="batch", to_go=False), False),)


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Credit of every step of the valid episodes, in standard deviations."""
    rows = valid_rows(episodes)
    sizes = [episodes[i].n_steps for i in rows]
    names = labels(episodes, rows) if config.scope == "group" else [""] * len(rows)
    group = [name for name, n in zip(names, sizes, strict=True) for _ in range(n)]
    flat = np.concatenate([np.zeros(0), *(episodes[i].rewards_T for i in rows)])
    parts = np.split(group_z(flat, group, ddof=0, eps=config.eps), np.cumsum(sizes)[:-1]) if rows else []
    return to_units(episodes, LEVEL, rows, [np.cumsum(z[::-1])[::-1] for z in parts] if config.to_go else parts)
