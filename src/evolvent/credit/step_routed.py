"""Routing: a router earns by form, then by the answer, then by how cheap the models were that it asked (Router-R1).

Paper: Zhang et al. 2025, Router-R1 (arXiv 2506.09033), the released reward.

    R = -1 broken form;  0 wrong answer;  (1 - beta) R_out + beta c   otherwise
    c = 1 - clip((x - p5) / (p95 - p5), 0, 1),   x = sqrt(cost), percentiles of the last 1,000
    A_i = R_i - mean of R_j over the others at the task                for every step of attempt i

Only a right answer earns by its cost, so cheap wrong ones are not learned. The kind ``format`` says whether the form is
whole (above 0; ``formulas.routing.well_formed`` says so of a transcript), the return is the outcome. The cost is the
kind ``cost``, or what the decisions took, ``cost_usd``; its unit does not matter. Biased against the return as far as
cost is not what it pays for; against its own reward as unbiased as ``step_leave_one_out``, but for the percentiles.

Deviations: the baseline is the mean of the others; the released code trains a critic (PPO). The window is over the
attempts that are scored together. All costs count, not completion tokens alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import last_reward, reward_kinds, reward_total
from evolvent.credit._group import labels, to_steps, valid_rows
from evolvent.formulas.baselines import leave_one_out
from evolvent.formulas.routing import cheapness, routed_reward

LEVEL = "step"
UNBIASED = False
NEEDS = ("kind:format",)


@dataclass(frozen=True)
class Config:
    """Settings of Router-R1's reward."""

    beta: float = 0.0
    """Weight of cheapness; above 0 attempts must say what they cost."""
    window: int = 1000
    """Costs that one is compared with."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on every step of the valid episodes.

    Raises:
        BadInput: an attempt that does not pay ``format``, or with ``beta`` one whose cost is not known.
    """
    rows = valid_rows(episodes)
    cheap_N = cheapness([_cost(episodes[i]) for i in rows], config.window) if config.beta else np.zeros(len(rows))
    reward_N = np.array(
        [
            routed_reward(last_reward(e, "format") > 0.0, e.total_reward, cheap, config.beta)
            for e, cheap in zip((episodes[i] for i in rows), cheap_N.tolist(), strict=True)
        ],
        np.float64,
    )
    return to_steps(episodes, rows, reward_N - leave_one_out(reward_N, labels(episodes, rows)))


def _cost(episode: Episode) -> float:
    cost = reward_total(episode, "cost") if "cost" in reward_kinds(episode) else episode.usage["cost_usd"]
    if cost is None or cost < 0.0:
        raise BadInput(
            "it is not known what the attempt cost",
            got=cost,
            expected="the kind of reward `cost`, or `cost_usd` of every decision",
            where=f"credit.step_routed, episode {episode.id}",
            do="set beta to 0, or record what was paid",
        )
    return cost
