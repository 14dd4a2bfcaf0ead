"""Flow-GRPO: the outcome of a workflow as advantage of every decision of the trained agents, and of no other.

Paper: Li et al. 2025 (*In-the-Flow Agentic System Optimization*, AgentFlow, arXiv 2510.05592).

    A_i = (R_i - mean_j R_j) / (std_j R_j + eps)        for every decision of ``agents`` in attempt i

Each turn of the planner becomes a training sample of its own, with the query and a snapshot of the memory for a prompt;
all of them share the outcome. Biased like ``step_group_std``, whose advantage this is (same figures in the exact test,
in which everybody learns). The decisions of other agents are not scored. An attempt without others, or a group of equal
returns, gets 0.

Deviations: mean and standard deviation are over attempts. The released trainer takes them over turns that share a
query, so that long attempts count more often: with R = (1, 0) and 3 and 1 turns ±0.5 becomes (0.25, -0.75).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit import step_group_std

LEVEL = "step"
UNBIASED = False
COMPARES = True


@dataclass(frozen=True)
class Config:
    """Settings of Flow-GRPO's advantage."""

    agents: tuple[str, ...] = ()
    """Agents that are trained, such as ``("planner",)`` in AgentFlow; empty = every agent."""
    eps: float = 1e-6
    """Added to the standard deviation, against division by zero."""
    ddof: int = 1
    """1: sample standard deviation, 0: population."""


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """The advantage of its episode on the steps of ``agents`` in the valid episodes, in standard deviations."""
    ledger = step_group_std.assign(episodes, step_group_std.Config(eps=config.eps, ddof=config.ddof))
    if config.agents:
        mine = np.array([agent in config.agents for e in episodes for agent in e.agents_T], dtype=bool)
        ledger.set("step", np.where(mine, ledger.values("step"), np.nan))
    return ledger
