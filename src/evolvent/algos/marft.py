"""MARFT: a workflow of language agents, one LoRA adapter each on a frozen base, trained one after another.

Paper: Liao et al. 2025, MARFT: Multi-Agent Reinforcement Fine-Tuning (arXiv 2504.16129).

In each turn the agents answer in order, each reading those before it; the last one's answer is the action and gets the
reward. A shared critic predicts the value of each agent's prompt. GAE runs backwards from agent to agent (``--level
action``, MARFT-A) or from token to token (``--level token``, MARFT-T):

    A = delta + g lambda A',   delta = r + g V' - V,      g = gamma at the end of a turn, kappa inside it
    L = mean max(-r A, -clip(r, 1 +- eps) A) - c H       one ratio a decision (the product over its tokens), or a token

over the decisions of one agent at a time, the next one after ``interval`` updates (0: all in every update). A single
agent is ``--agents solver``; multiply ``--group`` by the number of agents for the same token budget.

Deviations: kappa = 1, so that values do not depend on the number of agents; ``--kappa 0.99`` is the released code. One
threshold for discarding a step at both levels: the released 1.7e-6 for tokens discards all but the first. Advantages
are normalised over the decisions of the agent in its turn, not over those of all agents: its step then has the same
size whatever the others' advantages are. Agents share one base and one critic's features; no warm-up of the critic.
``interval`` counts updates, the released one 1,000 environment steps; a run in which an agent's turn never comes is
refused. Temperature 1 over all tokens (released .5 among the 50 likeliest). One pass of one step is that of the
released script, its defaults are 5 passes of 4. Rates for LoRA on a small model. A workflow is fixed: no agent is
absent, the order does not change with t, layers speak one after another, and only the last agent is graded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from evolvent.core.folder import RunFolder
from evolvent.credit import agent_sequential, token_sequential
from evolvent.evaluate.live import Live
from evolvent.play.workflow import Workflow, workflow
from evolvent.runs.language.system import (
    CRITIC,
    LanguageConfig,
    Needs,
    Rule,
    Way,
    check_stages,
    evaluate_language,
    learn,
    open_language,
)

PAPER = "arXiv 2504.16129"
LEVELS = ("agent", "token")
STATUS = "tested"
TRACE, CLIP = 0.95, 0.2  # as published


@dataclass(frozen=True)
class Config(LanguageConfig):
    """Settings of MARFT."""

    grad_clip = 0.5  # as published

    act: Way = "sum"
    """How the last agent chooses a listed command: by log-probability (sum, token, word), or trie, as in `grpo`."""
    agents: tuple[str, ...] = ("solver", "checker")
    """Agents in order: NAME or NAME<A+B (reads only A and B), each with ": PROMPT" if any; the last one acts."""
    level: Literal["action", "token"] = "action"
    """Unit of advantages and ratios: action (MARFT-A) or token (MARFT-T)."""
    interval: int = 10
    """Updates in which one agent is trained before the next one's turn; 0 = all agents in every update."""
    gamma: float = 0.99
    """Discount factor per turn."""
    kappa: float = 1.0
    """Discount factor inside a turn: from agent to agent, and from token to token."""
    entropy: float = 0.01
    """Coefficient of the entropy bonus."""
    kl_stop: float = 1e-3
    """KL divergence from the sampling policy, in nats, above which an optimiser step is discarded; 0 = never."""
    critic_lr: float = 1e-4
    """Learning rate of the critic."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import MARFT_A, MARFT_T

    team = workflow(config.agents)
    others = len(team.names) - 1
    check_stages(config.updates, others * config.interval, "--interval", parts=others or 1, who=team.names[-1])
    rule, objective = _rule(config), MARFT_A if config.level == "action" else MARFT_T
    objective = replace(objective, clip_low=CLIP, clip_high=CLIP, entropy=config.entropy)
    needs = Needs(base=CRITIC, whole=config.level == "action")
    with open_language(config, folder, live, resume=resume, adapters=team.names, needs=needs) as run:
        run.attempt_settings = replace(run.attempt_settings, team=team)
        run.learners = lambda update: learners(team, config.interval, update)
        critic = run.critic(config.critic_lr, CLIP)
        unit = "action" if config.level == "action" else "token"
        return learn(run, "marft", rule, objective, critic=critic, unit=unit, kl_stop=config.kl_stop)


def learners(team: Workflow, interval: int, update: int) -> tuple[str, ...]:
    """Whose adapters move in an update."""
    return team.names if interval == 0 else (team.names[update // interval % len(team.names)],)


def _rule(config: Config) -> Rule:
    if config.level == "action":
        by_agent = agent_sequential.Config(gamma=config.gamma, gae_lambda=TRACE, kappa=config.kappa)
        summary = "one advantage a decision, given what the agents before it said"
        return Rule.of(agent_sequential, "marft_a", summary, by_agent)
    by_token = token_sequential.Config(gamma=config.gamma, gae_lambda=TRACE, kappa=config.kappa)
    summary = "token by token through the agents of a turn"
    return Rule.of(token_sequential, "marft_t", summary, by_token)


def evaluate(
    folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = "", attempts: int = 0
) -> dict[str, Any]:
    """Attempt held-out tasks with the newest checkpoint, frozen; ``env`` may be another world."""
    team = workflow(folder.config["agents"])
    return evaluate_language(
        Config,
        folder,
        live,
        episodes,
        env=env,
        attempts=attempts,
        adapters=team.names,
        settings=lambda s: replace(s, team=team),
    )
