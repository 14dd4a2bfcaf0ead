"""Where attempts at a task part: how many start afresh, and after which turns one is tried again (AEPO).

Source: Dong et al. 2025 (arXiv 2510.14545) with the constants of the released code. Entropies are those of a turn's
first tokens, summed, over the logarithm of the vocabulary's size.
"""

from __future__ import annotations

import math

from evolvent.core.errors import BadInput


def whole_attempts(root: float, later: float, budget: int, *, sensitivity: float = 0.5) -> int:
    """``floor(budget sigmoid(sensitivity (root - later))) + 1``, between 1 and ``budget``: attempts that start afresh.

    Args:
        root: entropy at the task itself.
        later: mean entropy over the turns of an attempt. Where it is larger, trying turns again tells more.
        budget: attempts in all.
        sensitivity: beta.
    """
    if budget < 1:
        raise BadInput("a budget of attempts", got=budget, expected=">= 1", where="algos.aepo.formulas")
    share = 1.0 / (1.0 + math.exp(-sensitivity * (root - later)))
    return max(1, min(budget, int(budget * share) + 1))


def branch_score(draw: float, gain: float, streak: int, *, weight: float = 0.2, penalty: float = 0.05) -> float:
    """``(draw + weight gain) max(0, 1 - penalty streak)``, cut to [0, 1]: a turn is tried again from a threshold on.

    Args:
        draw: uniform in [0, 1), so that without a gain a threshold of 0.5 branches half of the time.
        gain: entropy of the turn minus that at the task.
        streak: how many turns in a row attempts at this task have branched.
        weight: of the gain.
        penalty: of a branch right after a branch, which would pile attempts up on one path.
    """
    return min(1.0, max(0.0, (draw + weight * gain) * max(0.0, 1.0 - penalty * streak)))
