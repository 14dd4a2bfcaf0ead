"""Graded outcomes: a program earns by how far it came, from "does not compile" to "all tests pass" (CodeRL).

Paper: Le et al. 2022, CodeRL (arXiv 2207.01780), eq. of the reward and of the relative return.

    r = -1 does not compile, -0.6 ends with an error, -0.3 fails a test, +1 passes all
    A_i = r_i - baseline                                           for every step of attempt i

Where hardly any attempt is right, attempts that fail still differ, so there is something to learn. Biased against the
return as far as the grades are not what it pays for (cosine -0.72 to 0.63 in the exact test, where the kinds of reward
have nothing to do with it); against its own grades it is as unbiased as ``step_leave_one_out``. The kinds ``compiles``
and ``runs`` say how far it came, ``correct`` whether all tests pass (``core.reward_kinds``), of the last decision where
each has one.

Deviations: the baseline is the mean grade of the other attempts, not the grade of a greedy one: it costs no attempt and
is unbiased too. With the weights of the critic it is ``token_outcome_critic``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import last_reward
from evolvent.credit._group import over_groups
from evolvent.formulas.baselines import leave_one_out
from evolvent.formulas.process_rewards import GRADES, graded_outcome

LEVEL = "step"
UNBIASED = False
NEEDS = ("kind:compiles", "kind:runs", "kind:correct")


@dataclass(frozen=True)
class Config:
    """Settings of graded outcomes."""

    grades: tuple[float, float, float, float] = GRADES
    """Rewards of: does not compile, ends with an error, fails a test, passes all."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in grades.

    Raises:
        BadInput: an attempt that lacks one of the three kinds of reward.
    """
    grade = partial(grade_of, grades=config.grades)
    return over_groups(episodes, lambda earned, group: earned - leave_one_out(earned, group), grade)


def grade_of(episode: Episode, grades: tuple[float, float, float, float]) -> float:
    """What the outcome of an attempt is worth.

    Raises:
        BadInput: it lacks a kind of reward.
    """
    compiles, runs, correct = (last_reward(episode, kind) > 0.0 for kind in ("compiles", "runs", "correct"))
    return graded_outcome(compiles, runs, correct, grades)
