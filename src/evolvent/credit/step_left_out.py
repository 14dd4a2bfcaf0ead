"""Filter: the credit of some attempts only; the others are in no batch and in no denominator.

Source: our own form of what DAPO (arXiv 2503.14476), LOOP (arXiv 2502.01600), NFT (arXiv 2505.18116), EVOL-RL
(arXiv 2509.15194) and SPEAR (arXiv 2509.22601) do to their batches.

    A_i = base_i for attempts that are learned from; not scored (None, not 0) for the others

What the base promises holds only where leaving out does not depend on what attempts earned. Without ``out`` the
attempts whose credit is 0 everywhere are left out: if these are whole groups, the gradient keeps its direction on
average, since a mean over the rest only scales it, though by a number that differs from batch to batch. An ``out`` that
looks at the outcome is always biased. The group is the base's.

Deviations: where nothing would be left all stay as they are. A step in which all credit is 0 changes nothing, and a
batch without any credit is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.credit import step_group_std, step_leave_one_out

LEVEL = "step"
SCOPE = "batch"
UNBIASED = False
COMPARES = True
LEAVES_OUT = True


@dataclass(frozen=True)
class Config:
    """Whose credit, and who is left out."""

    base: Callable[[Sequence[Episode]], Ledger] = step_group_std.assign
    """Credit rule for the attempts that are trained on; it sees all attempts, so that all count in baselines."""
    out: Callable[[Sequence[Episode]], ArrayLike] | None = None
    """Attempts to leave out, bool ``[E]``; ``None`` = those with zero advantage everywhere."""


def _below_nothing(episodes: Sequence[Episode]) -> ArrayLike:
    return np.array([e.total_reward < 0.0 for e in episodes], dtype=np.bool_)


CLAIMS = (
    (Config(base=step_leave_one_out.assign), True),
    (Config(base=step_leave_one_out.assign, out=_below_nothing), False),
)


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The base's credit of the attempts that are learned from.

    Raises:
        BadInput: not one mark an episode, or what the base raises.
    """
    ledger = config.base(episodes)
    owner, values = ledger.episode_index(LEVEL), ledger.values(LEVEL)
    if config.out is None:
        out = np.ones(len(episodes), dtype=np.bool_)
        out[owner[np.nan_to_num(values) != 0.0]] = False
    else:
        out = np.asarray(config.out(episodes), dtype=np.bool_)
    if out.shape != (len(episodes),):
        raise BadInput("one mark an episode", got=out.shape, expected=(len(episodes),), where="credit.step_left_out")
    remaining = np.where(out[owner], np.nan, values)
    if not np.isnan(remaining).all():
        ledger.set(LEVEL, remaining)
    return ledger
