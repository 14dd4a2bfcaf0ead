"""B-Coder: action values of every token, which begin as the model itself and aim no higher than to beat it.

Paper: Yu et al. 2024, B-Coder: Value-Based Deep Reinforcement Learning for Program Synthesis, arXiv 2310.03173.

    Q(s, w) = alpha (l(s, w) - max l(s, .)) + V(s),     pi = softmax(Q / alpha)          ``algos/b_coder/dueling_q.py``
    y = gamma Q(s', argmax rho(. | s')),  at the end r = -1, -.6, -.3, +1     rho: the model before training
    warmup    mean (y - Q)^2 by V alone;    then   mean (y - Q)^2 + .1 sum |A(W*)| + .5 sum -log pi(W*)
    ranking   R(W) = sum_k Q(s_k, w_k) - gamma V(s_{k+1})

Nothing is asked of the attempts but what came of them: those of earlier updates serve as well. Of each group of fresh
attempts the one with the largest R is noted before anything is learned from it: ``ranked_right``, beside the mean of
all, ``drawn_right``.

Deviations: right programs W* are the run's own (kept; as many are drawn again as there are fresh attempts), not those
of people, so that it learns from what other systems here learn from; attempts are made in each update, 256 were made
once. Warmup is counted in updates, with ``--critic-epochs`` passes, each with new targets (published: 18,000
steps); adapters on one base instead of a second decoder, rates for LoRA, no weight decay. See ``dueling_q``, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from evolvent.core.config import at_least
from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import last_reward
from evolvent.core.seeding import seed_tree
from evolvent.credit import token_conservative_bellman
from evolvent.evaluate.live import Live
from evolvent.learn.tokens.replay import Replay
from evolvent.runs.language.system import CRITIC, ClippedConfig, CriticPlan, Needs, Rule, check_stages, open_language

PAPER = "arXiv 2310.03173"
LEVELS = ("token",)
STATUS = "lightly tested"
_NEEDS = Needs(base=CRITIC, text=True, kinds=("compiles", "runs", "correct"))


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of B-Coder."""

    env: str = "program:easy"
    """Environment that runs programs, and pays the kinds of reward compiles, runs and correct."""
    gamma: float = 0.999
    """Discount factor per token."""
    alpha: float = 0.1
    """Temperature α of the policy: units of reward per nat of the logits. Rewards span 2, so no token can be more than
    2/α nats worse than another."""
    adv: float = 0.1
    """Weight of the advantages of right programs, summed over their tokens."""
    ce: float = 0.5
    """Weight of the cross-entropy of right programs, summed over their tokens."""
    kept: int = 256
    """Right programs that are kept to learn from again, the newest; 0 = none."""
    critic_lr: float = 1e-3
    """Learning rate of the value of states, which learns in the warmup."""
    plan: CriticPlan = field(default_factory=lambda: CriticPlan(warmup=5, critic_epochs=20))
    """Device, prompts, budgets, evaluations, checkpoints, warmup."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.algos.b_coder.dueling_q import DuelingConfig, DuelingQ

    check_stages(config.updates, config.plan.warmup, "--warmup")
    at_least(config, {"alpha": 1e-6})
    rule = token_conservative_bellman.Config(gamma=config.gamma)
    settings = DuelingConfig(
        alpha=config.alpha,
        gamma=config.gamma,
        adv=config.adv,
        ce=config.ce,
        grad_clip=config.grad_clip,
        micro_tokens=config.plan.micro_tokens,
    )
    with open_language(config, folder, live, resume=resume, needs=_NEEDS) as run:
        seed = seed_tree(config.seed, "values") % 2**31
        values = DuelingQ(run.model, settings, lr=config.lr, critic_lr=config.critic_lr, seed=seed)
        kept = Replay(max(1, config.kept), stale=config.updates, seed=config.seed)
        run.keep(values=values, kept=kept)
        how: dict[str, Any] = {"minibatches": config.minibatches, "generator": run.generator}
        for update in run.updates():
            fresh = run.collect()  # ACT and STEP
            with run.clock("credit"):  # CREDIT
                again = kept.draw(len(fresh), update, right_ones).episodes if config.kept else ()
                episodes = [*fresh, *again]
                seen = values.read(episodes)
                values.note(episodes, seen)
                ledger, metrics = token_conservative_bellman.assign(episodes, rule), rates(fresh)
            with run.clock("learn"):  # LEARN
                if update < config.plan.warmup:
                    for _ in range(config.plan.critic_epochs or config.epochs):
                        metrics |= values.pretrain(seen, ledger, **how)
                        values.note(episodes, seen)
                        ledger = token_conservative_bellman.assign(episodes, rule)
                else:
                    right = [e.valid and is_right(e) for e in episodes]
                    metrics |= values.learn(ledger, right, run.optimizers["policy"], epochs=config.epochs, **how)
            kept.add(right_ones(fresh), update)
            run.log(fresh, token_conservative_bellman.assign(fresh, rule), **metrics)
        summary = "what the conservative backup says the token is worth (a target, not an advantage)"
        return run.finish("b_coder", Rule.of(token_conservative_bellman, "b_coder", summary, rule))


def is_right(episode: Episode) -> bool:
    """Whether the program passed all tests."""
    return last_reward(episode, "correct") > 0.0


def right_ones(episodes: Sequence[Episode]) -> Ledger:
    """Credit 1 for the steps of right programs, 0 for others: which are kept."""
    ledger = Ledger.for_episodes(episodes)
    right = np.array([float(e.valid and is_right(e)) for e in episodes])
    ledger.set("step", right[ledger.episode_index("step")])
    return ledger


def rates(episodes: Sequence[Episode]) -> dict[str, float]:
    """How often the attempt that is ranked first in its group is right, and how often any of them is."""
    from evolvent.algos.b_coder.dueling_q import ranked

    groups = ranked(episodes)
    if not groups:
        return {}
    first = fmean(float(is_right(episodes[some[0]])) for some in groups.values())
    drawn = fmean(fmean(float(is_right(episodes[i])) for i in some) for some in groups.values())
    return {"ranked_right": first, "drawn_right": drawn}
