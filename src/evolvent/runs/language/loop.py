"""The loop that learners of language models share; a system is what it gives to it: a credit rule and an objective.

    with open_language(config, folder, live, resume=resume) as run:
        return learn(run, "grpo", RULE, objective)

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
    before: Callable[[list[Episode]], Logged | None] = lambda episodes: None,
    after: Callable[[Ledger], Logged] = lambda ledger: {},
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
        before: what the rule reads besides: kept or noted in the attempts; what it returns is logged.
        after: what to log of the ledger.
        critic: its values are noted before the rule is asked; then it learns the targets that the rule gives.
        **passes: to ``LanguageRun.improve``: unit, kl_stop.
    """
    from evolvent.learn.critics.token import token_targets
    from evolvent.learn.preference.objective import Preference

    plan = run.config.plan
    epochs, warmup = (plan.critic_epochs, plan.warmup) if isinstance(plan, CriticPlan) else (0, 0)
    for update in run.updates():
        episodes, metrics = collect(update) if collect else (run.collect(), {})  # ACT and STEP
        with run.clock("credit"):  # CREDIT
            metrics = {**metrics, **(before(episodes) or {})}
            seen = critic.note(episodes) if critic else None
            ledger = rule.assign(episodes)
            metrics |= after(ledger)
        with run.clock("learn"):  # LEARN
            if critic and seen:
                metrics |= critic.learn(
                    seen,
                    token_targets(ledger),
                    epochs=epochs or run.config.epochs,
                    generator=run.generator,
                    minibatches=run.config.minibatches,
                    grad_clip=run.config.grad_clip,
                )
            waits = isinstance(objective, Preference) and np.isnan(ledger.values(rule.level)).all()
            if not waits and not run.early(warmup):  # preferences: where all earned the same there is no pair
                moves = run.learners(update)
                rows = [run.improve(objective, ledger, level=rule.level, adapter=name, **passes) for name in moves]
                metrics |= {name: float(np.mean([row[name] for row in rows if name in row])) for name in rows[0]}
        run.log(episodes, ledger, **metrics)
    return run.finish(algo, rule)
