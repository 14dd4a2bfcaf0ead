"""Efficiency: a program earns for being right, and more for being fast, measured by running it (ACECode).

Paper: Yang et al. 2024, ACECode (arXiv 2412.17264): a reward without training, from execution alone.

    r = -1 does not compile, -0.5 wrong, 0.5 + 0.5 clip((t_ref - t) / t_ref, -1, 1) right
    A_i = r_i - mean_{j != i} r_j                                  for every step of attempt i

A wrong program never earns more than a right one, however slow. Biased against the return as far as it pays for other
things (cosine -0.41 to 0.75 in the exact test, where the kinds of reward have nothing to do with it). Reads the kinds
``compiles``, ``correct`` and ``ratio`` (t_ref / t, ``core.reward_kinds``) of the last decision; the world ``kernels``
pays them.

Deviations: the paper's reward of a right program is 0.5 + 0.5 min(t_ref / t, ...) by what is quoted of it; we could not
read where it is cut, nor what a wrong program gets, so this form is ours: a gain and a loss of time count alike. The
baseline is the mean of the other attempts instead of PPO's critic. Times are noisy: ``kernels`` counts a gain from 1.15
on only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import last_reward
from evolvent.credit._group import over_groups
from evolvent.formulas.baselines import leave_one_out
from evolvent.formulas.process_rewards import efficiency_reward

LEVEL = "step"
UNBIASED = False
NEEDS = ("kind:compiles", "kind:correct", "kind:ratio")


@dataclass(frozen=True)
class Config:
    """Efficiency has no settings."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes, in units of the reward above.

    Raises:
        BadInput: an attempt that lacks a kind of reward, or is right and has no ratio above 0.
    """
    return over_groups(episodes, lambda earned, group: earned - leave_one_out(earned, group), _reward)


def _reward(episode: Episode) -> float:
    compiles, correct = (last_reward(episode, kind) > 0.0 for kind in ("compiles", "correct"))
    return efficiency_reward(compiles, correct, last_reward(episode, "ratio"))
