"""Flow-GRPO: in a workflow only the planner is trained; each of its turns gets the outcome of the whole attempt.

Paper: Li et al. 2025, In-the-Flow Agentic System Optimization for Effective Planning and Tool Use (AgentFlow,
arXiv 2510.05592).

    A_i = (R_i - mean_j R_j) / (std_j R_j + eps)          on every turn of the planner in attempt i, on no other
    L   = - mean_tokens min(r A, clip(r, 1 - .2, 1 + high) A) + kl KL(pi || ref)

In every turn the planner writes in free text what to do next; the executor, the frozen base, reads it and acts. Both
see the observations and answers of earlier turns. Each turn of the planner is a decision with a prompt of its own.

Deviations: of AgentFlow's four modules the verifier is the environment, which says when an attempt is over, and the
generator of the answer is the executor. Statistics are over attempts, the released ones over turns. 8 tasks x 4
attempts and one step an update at temperature 1, as many turns as the world allows (released: 32 x 8, minibatches of 8,
.7, at most 3 steps of tools). LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.credit import step_flow_group
from evolvent.evaluate.live import Live
from evolvent.play.settings import AttemptSettings
from evolvent.play.workflow import workflow
from evolvent.runs.language.system import ClippedConfig, Needs, Rule, evaluate_language, learn, open_language

PAPER = "arXiv 2510.05592"
LEVELS = ("step",)
STATUS = "lightly tested"
PLANNER, EXECUTOR = "planner", "executor"
RULE = Rule.of(step_flow_group, "flow", "GRPO on the planner's turns", step_flow_group.Config(agents=(PLANNER,)))


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of Flow-GRPO."""

    profile: str = "Say in a few words what to do next."
    """Instruction at the start of the planner's prompt."""
    clip_low: float = 0.2
    """Lower clip range: the ratio is clipped below 1 - clip_low."""
    clip_high: float = 0.3
    """Upper clip range: the ratio is clipped above 1 + clip_high."""
    kl: float = 0.001
    """Coefficient of the KL penalty towards the reference model; 0 = no penalty."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import FLOW_GRPO

    objective = replace(FLOW_GRPO, clip_low=config.clip_low, clip_high=config.clip_high, kl=config.kl)
    needs = Needs(base="it is the executor", compares=True)
    with open_language(config, folder, live, resume=resume, adapters=(PLANNER,), needs=needs) as run:
        run.attempt_settings = _settings(run.attempt_settings, config.profile)
        return learn(run, "flow_grpo", RULE, objective)


def _settings(settings: AttemptSettings, profile: str) -> AttemptSettings:
    """The planner speaks, and the frozen base carries it out; both see what was said before."""
    team = workflow((f"{PLANNER}:{profile}", EXECUTOR)).frozen(EXECUTOR)
    return replace(settings, team=team, transcript=True)


def evaluate(
    folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = "", attempts: int = 0
) -> dict[str, Any]:
    """Attempt held-out tasks with the newest checkpoint, frozen; ``env`` may be another world."""
    profile = str(folder.config["profile"])
    return evaluate_language(
        Config,
        folder,
        live,
        episodes,
        env=env,
        attempts=attempts,
        adapters=(PLANNER,),
        settings=lambda s: _settings(s, profile),
    )
