"""Monte-Carlo return of the sub-tree: a decision earns the mean of what followed it in all attempts that made it.

Source: what a search backs up (Coulom 2006; Kocsis & Szepesvari 2006), as credit; our own form.

    A_t = mean over the attempts j that share all up to and with decision t of G_{j,t}
    G_{j,t} = sum_{k >= t} r_{j,k}

Unbiased where the attempts are independent samples: attempts that share a decision share its gradient, so the mean
moves credit only between equal terms of the sum. Attempts that a search chose by their value are not independent: the
rule then says what the tree found, which is more than the policy would.

Deviations: none; without a shared decision it is reward to go (``step_return_to_go``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._shared import Shared
from evolvent.formulas.returns import discounted

LEVEL = "step"
UNBIASED = True


def assign(episodes: Sequence[Episode]) -> Ledger:
    """Credit of every step of the valid episodes, in units of reward."""
    shared = Shared(episodes)
    return shared.ledger(shared.mean(to_go(shared)))


def to_go(shared: Shared) -> np.ndarray:
    """Reward to go of each decision, float64 ``[D]``."""
    parts = [discounted(shared.episodes[i].rewards_T) for i in shared.rows]
    return np.concatenate(parts) if parts else np.zeros(0)
