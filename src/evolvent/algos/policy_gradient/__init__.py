"""Policy gradient: any credit rule with any policy loss, in the loop that language systems share.

Paper: Williams 1992; Sutton et al. 2000, Policy Gradient Methods for Reinforcement Learning.

    A_u = rule(attempts)                                          who earned what, ``credit/``
    L   = objective(log pi, log pi_old, A)                        what is minimised,
    ``learn/tokens/objectives_of_papers.py``

``--rule`` is a file of ``credit/`` for tokens, steps or agents that speak in turn, or ``file.py:assign``; its settings
are ``--rule-options key=value …``. ``--objective`` is that of a published system, or ``file.py:NAME`` with an object of
your own (``learn.tokens.units.Loss``). A rule that reads a critic, of values, of outcomes or of test shares, gets one.
What a rule reads besides and no part of this system makes (a model of rewards, soft values, budgets) is refused with
the name of the system that makes it. With ``--agents`` several agents speak in turn, each with weights of its own.

``--recorded`` learns from attempts of an earlier run in place of its own: a search's trees (``search --split train``)
with a rule that pays decisions against their siblings, ``--rule step_search_siblings``. They were sampled once: take as
many updates as ``--prompts`` goes into their tasks, or an objective with a ratio (``--objective gspo``), which weighs
by the log-probabilities on record. What a search chose by its value is not what the policy would do, and no rule here
takes that out: the rule is exact for the searches that draw (``cot_sc``, ``best_of_n``).

Defaults: leave-one-out with rewards to go, and no ratio: unbiased, with one optimiser step an update.

Deviations: LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from evolvent import catalogue
from evolvent.core.credit_rule import CreditRule
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.seeding import seed_tree
from evolvent.evaluate.live import Live
from evolvent.play.workflow import workflow
from evolvent.runs.language.pairs import find_attempts, sampled
from evolvent.runs.language.system import (
    CRITIC,
    REFERENCE,
    ClippedConfig,
    CriticPlan,
    LanguageRun,
    Needs,
    Rule,
    check_stages,
    evaluate_language,
    learn,
    open_language,
)

PAPER = "Williams 1992"
LEVELS = ("token", "step", "agent")
STATUS = "lightly tested"
JUDGES = {"outcome_p": "outcomes", "share_behind": "shares"}
"""Notes of a critic that learns beside the policy, and its name in checkpoints."""
PASSES = 20
"""Epochs of such a critic over an update: it may be all the credit there is, and with one pass it never foresees."""
# what a rule may need that this system brings, or any world
MADE = ("value", "entropy", "share_before", *JUDGES, "answer", "embedder")


@dataclass(frozen=True)
class RecordedPlan(CriticPlan):
    """Settings of a run that may learn from recorded attempts."""

    recorded: str = ""
    """Run folder or episodes.jsonl: learn from these attempts, a search's trees among them; empty = own attempts."""


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of the policy gradient."""

    rule: str = "step_leave_one_out_to_go"
    """Credit rule that computes the advantages: a name of `evolvent list credit`, or file.py:assign."""
    rule_options: tuple[str, ...] = ()
    """Settings of the credit rule, as key=value."""
    objective: str = "rloo"
    """Policy loss: the name of a published system, or file.py:NAME."""
    objective_options: tuple[str, ...] = ()
    """Settings of the policy loss, as key=value, e.g. clip_high=0.28."""
    agents: tuple[str, ...] = ()
    """Agents in speaking order: NAME, or NAME:PROMPT; the last one acts. Empty = one agent."""
    critic: Literal["auto", "always"] = "auto"
    """Train a critic: auto = where the credit rule needs one, or always."""
    critic_lr: float = 1e-4
    """Learning rate of the critic."""
    plan: RecordedPlan = field(default_factory=RecordedPlan)
    """Device, prompts, budgets, evaluations, checkpoints, critic, recorded attempts."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import objective_named
    from evolvent.memory import embedders

    found = catalogue.credit_rule(config.rule)
    settings, asked = found.settings(config.rule_options), needs_of(found)
    objective = objective_named(config.objective, config.objective_options)
    embedder = {"embed": embedders.ready("all-MiniLM-L6-v2").embed} if "embedder" in asked else {}
    rule = Rule.of(found, found.name, found.summary, replace(settings, **embedder) if embedder else settings)
    team = workflow(config.agents) if config.agents else None
    with_critic = config.critic == "always" or "value" in asked
    judges = [need for need in asked if need in JUDGES]
    if with_critic:
        check_stages(config.updates, config.plan.warmup, "--warmup")
    usual = found.Config is None or settings == found.Config()
    needs = Needs(
        base=CRITIC if with_critic or judges else REFERENCE if objective.needs_reference else "",
        tokens=rule.level == "token",
        kinds=tuple(need.removeprefix("kind:") for need in asked if need.startswith("kind:")) if usual else (),
        compares=getattr(found.source, "COMPARES", False) and not config.plan.recorded,
        recorded=bool(config.plan.recorded),
    )
    unit = "action" if config.act != "trie" and rule.level == "step" else "token"
    names = team.names if team else ("policy",)
    found_attempts = find_attempts(config.plan.recorded)
    if found_attempts and team:
        raise BadInput(
            "recorded attempts are those of one agent", got=" ".join(config.agents), where="--recorded, --agents"
        )
    with open_language(config, folder, live, resume=resume, adapters=names, needs=needs) as run:
        if team is not None:
            run.attempt_settings = replace(run.attempt_settings, team=team)
        critic = run.critic(config.critic_lr, 0.2) if with_critic else None
        hooks: dict[str, Any] = {"before": _foreseen(run, config, judges[0])} if judges else {}
        recorded = sampled(run, found_attempts)
        return learn(run, "policy_gradient", rule, objective, critic=critic, unit=unit, collect=recorded, **hooks)


def _foreseen(run: LanguageRun, config: Config, need: str) -> Callable[[list[Episode]], dict[str, float]]:
    """A critic of how attempts end, which judges an update's attempts and then learns from them."""
    from evolvent.algos.policy_gradient.foreseen import OutcomeCritic, ShareCritic

    name, kind = JUDGES[need], OutcomeCritic if need == "outcome_p" else ShareCritic
    model, seed = run.model, seed_tree(config.seed, name) % 2**31
    critic: Any = kind(
        model.states, model.width, context=model.context, lr=config.critic_lr, seed=seed, device=model.device
    )
    run.keep(**{name: critic})

    def judge(episodes: list[Episode]) -> dict[str, float]:
        return critic.learn(
            critic.note(episodes),
            epochs=config.plan.critic_epochs or PASSES,
            minibatches=config.minibatches,
            grad_clip=config.grad_clip,
            generator=run.generator,
        )

    return judge


def needs_of(rule: CreditRule) -> tuple[str, ...]:
    """What a rule reads besides what was earned: its constant ``NEEDS``.

    Raises:
        BadInput: it feeds no policy gradient of language models, or needs what only another system makes.
    """
    asked: tuple[str, ...] = getattr(rule.source, "NEEDS", ())
    others = [need for need in asked if need not in MADE and not need.startswith("kind:")]
    if rule.LEVEL in ("token", "step", "agent") and rule.RECORD == "episode" and not others:
        return asked
    what = f"it needs {' and '.join(others)}" if others else f"it credits {rule.LEVEL}s of {rule.RECORD}s"
    systems = catalogue.systems_of(rule.name)
    raise BadInput(
        f"the rule cannot run here: {what}",
        got=rule.name,
        expected="a rule for tokens, steps or agents, over attempts that are recorded here",
        where="--rule",
        do=f"evolvent run {' or '.join(systems)}" if systems else "see `evolvent list credit`",
    )


def evaluate(
    folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = "", attempts: int = 0
) -> dict[str, Any]:
    """Attempt held-out tasks with the newest checkpoint, frozen; ``env`` may be another world."""
    if not folder.config["agents"]:
        return evaluate_language(Config, folder, live, episodes, env=env, attempts=attempts)
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
