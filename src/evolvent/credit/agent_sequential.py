"""GAE from agent to agent inside a turn, and from turn to turn (MARFT-A).

Paper: Liao et al. 2025 (MARFT), arXiv 2504.16129: a turn of a workflow is a sequence of decisions, the next state of
agent i is that of agent i + 1, which has seen what i wrote. For the i-th of n decisions of turn t:

    i < n:  d = r_{t,i} + kappa V_{t,i+1} - V_{t,i}          A_{t,i} = d + kappa lambda A_{t,i+1}
    i = n:  d = r_{t,n} + gamma V_{t+1,1} - V_{t,n}          A_{t,n} = d + gamma lambda A_{t+1,1}

so every agent's advantage is conditional on the actions of those before it (the sequential decomposition of the team's
advantage). A turn ends before an agent decides again that has already decided in it, or where ``episode.turn_T``, the
number of the turn of every decision, says so; with kappa = gamma it makes no difference where turns end.

Biased by default: gamma < 1, and trace < 1 lets the critic's errors in (cosine 0.994 to 0.9999 with an arbitrary critic
in the exact test, on a solver and a checker). It is unbiased with gamma = lambda = 1 whatever the critic says, and with
gamma = 1 and the exact critic for every lambda. With gamma = 0.95 and lambda = 1 the cosine is 0.9995 or more; with
kappa = 0.95 too, 0.9985 or more. Needs no group.

Needs ``episode.notes["value"]`` (its first token of each decision; or a critic) and, for truncated attempts,
``episode.final_value``. Credit of decisions stands at level "step", its sum for each agent at level "agent".

Deviations: the released code discounts between agents as well; ``Config(kappa=0.99)`` is that. We take 1, the same
argument that the backup of ``token_bad`` rests on: how many agents a workflow has should not change what it is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._tokens import Gae, gae_ledger, turn_ends

LEVEL = "agent"
UNBIASED = False
NEEDS = ("value",)


@dataclass(frozen=True)
class Config(Gae):
    """Settings of MARFT's action-level advantage."""

    kappa: float = 1.0
    """Discount factor from agent to agent inside a turn; 0.99 (gamma) is the released behaviour."""


CLAIMS = ((Config(gamma=1.0, gae_lambda=1.0), True), (Config(gamma=1.0), False))
CLAIMS_EXACT_CRITIC = ((Config(gamma=1.0), True), (Config(gamma=1.0, kappa=0.95), False))
_WHERE = "credit.agent_sequential"


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Advantage of every decision (level "step") and its sum for each agent, in units of reward.

    Raises:
        BadInput: values missing or not one for each decision, turns that do not fit, or a truncated episode without a
            final value.
    """

    def discounts(episode: Episode) -> tuple[np.ndarray, float]:
        return np.where(turn_ends(episode, _WHERE), config.gamma, config.kappa), config.gae_lambda

    ledger = gae_ledger(episodes, "step", config, _WHERE, discounts=discounts)
    ledger.project("step", LEVEL)
    return ledger
