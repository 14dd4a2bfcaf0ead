"""OmegaPRM's label: 1 for a step behind which attempts still come right, 0 for one behind which they do not.

Paper: Luo et al. 2024 (OmegaPRM, arXiv 2406.06592); labels as in OpenR (arXiv 2410.09671).

    MC_t = share of the attempts with the same steps up to t that came right
    label = [MC_t > threshold]                                          (``first_error = False``)
    label = [t < first step with MC = 0], found by bisection            (``first_error = True``)

An attempt comes right where its return is above ``right``. Biased as credit: a label knows no probabilities, so a step
that was lucky is paid like the others at the same place. It is what a process reward model is trained on.

Deviations: OmegaPRM samples behind a step when the bisection comes to it; here the record is read, and the step of an
attempt that shares it with no other has that attempt's outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._shared import Shared
from evolvent.formulas.process_supervision import first_error, labels

LEVEL = "step"
UNBIASED = False


@dataclass(frozen=True)
class Config:
    """Settings of OmegaPRM's labels."""

    threshold: float = 0.5
    """A step is good where more attempts than this share come right."""
    first_error: bool = False
    """Look for the first step behind which nothing comes right, by bisection; all before it are good."""
    right: float = 0.0
    """An attempt comes right where its return is above this."""


CLAIMS = ((Config(first_error=True), False),)


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Labels 0 or 1 of every step of the valid episodes."""
    shared = Shared(episodes)
    came_right = np.array([float(episodes[i].total_reward > config.right) for i in shared.rows])
    mc_D = shared.mean(came_right[shared.row_D])
    if not config.first_error:
        return shared.ledger(labels(mc_D, config.threshold))
    out_D = np.zeros(len(mc_D))
    for row in range(len(shared.rows)):
        at = np.flatnonzero(shared.row_D == row)
        alive = mc_D[at] > 0.0
        out_D[at[: first_error(lambda i, alive=alive: bool(alive[i]), len(at))]] = 1.0
    return shared.ledger(out_D)
