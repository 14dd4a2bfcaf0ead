"""The loop that learners of language models share; a system is what it gives to it: a credit rule and an objective.

    with open_language(config, folder, live, resume=resume) as run:
        return learn(run, "grpo", RULE, objective, grad_clip=config.grad_clip)

What a system does besides stands in its file, as a function that the loop calls at its place. Systems whose attempts
come from elsewhere, or that learn twice in an update, have a loop of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.runs.language.config import CriticPlan
from evolvent.runs.language.credit import Rule
from evolvent.runs.language.run import LanguageRun

if TYPE_CHECKING:
    from evolvent.learn.critics.token import TokenCritic
    from evolvent.learn.tokens.units import Loss

Logged = Mapping[str, float]


def learn(
    run: LanguageRun,
    algo: str,
    rule: Rule,
    objective: Loss,
    *,
    collect: Callable[[int], tuple[list[Episode], Logged]] | None = None,
    before: Callable[[list[Episode]], Logged] | None = None,
    after: Callable[[Ledger], Logged] | None = None,
    critic: TokenCritic | None = None,
    **passes: Any,
) -> dict[str, Any]:
    """Train until the run is over; returns the summary that stands in ``summary.json``.

    Args:
        run: what ``open_language`` opened.
        algo: name of the system.
        rule: who earned what.
        objective: what is minimised.
        collect: number of the update → its attempts, and what to log of how they came; ``run.collect`` by default.
        before: what the rule reads besides: kept or noted in the attempts; returns what to log.
        after: what to log of the ledger.
        critic: its values are noted before the rule is asked; then it learns the targets that the rule gives.
        **passes: to ``LanguageRun.improve``: unit, kl_stop, grad_clip; level, where it is not the rule's.
    """
    from evolvent.learn.critics.token import token_targets
    from evolvent.learn.preference.objective import Preference

    plan = run.config.plan
    epochs, warmup = (plan.critic_epochs, plan.warmup) if isinstance(plan, CriticPlan) else (0, 0)
    passes.setdefault("level", rule.level)
    for update in run.updates():
        episodes, metrics = collect(update) if collect else (run.collect(), {})  # ACT and STEP
        with run.clock("credit"):  # CREDIT
            metrics = dict(metrics) | dict(before(episodes) if before else {})
            seen = critic.note(episodes) if critic else None
            ledger = rule.assign(episodes)
            metrics |= dict(after(ledger) if after else {})
        with run.clock("learn"):  # LEARN
            if critic and seen:
                metrics |= critic.learn(
                    seen,
                    token_targets(ledger),
                    epochs=epochs or run.config.epochs,
                    generator=run.generator,
                    minibatches=run.config.minibatches,
                    grad_clip=passes["grad_clip"],
                )
            waits = isinstance(objective, Preference) and np.isnan(ledger.values(passes["level"])).all()
            if not waits and not run.early(warmup):  # preferences: where all earned the same there is no pair
                rows = [run.improve(objective, episodes, ledger, adapter=a, **passes) for a in run.learners(update)]
                metrics |= {name: float(np.mean([row[name] for row in rows if name in row])) for name in rows[0]}
        run.log(episodes, ledger, **metrics)
    return run.finish(algo, rule)
