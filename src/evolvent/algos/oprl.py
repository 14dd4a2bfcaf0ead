"""OPRL: a process reward model learned from successes and failures gives implicit rewards for each step.

Paper: Liu et al. 2025, Agentic Reinforcement Learning with Implicit Step Rewards (iStar, arXiv 2509.19199).

    model:  - log sigma( f(success) - f(failure) ) on all pairs of a group,   f = beta sum_t log(pi_phi / pi_old)
    r_t = beta sum_{tokens of t} log(pi_phi / pi_old),    A = A_attempt + alpha A_step, both leave-one-out
    L = - mean_tokens min(r A, clip(r, 1 +- eps) A)

The model is a second adapter on the same base. In each update it learns first and then scores; its reference is the
policy that sampled. Groups without both a success and a failure teach it nothing. Implicit rewards are divided by the
largest sum to go of the batch, as released, but never scaled up from less than rounding; the log-probabilities of both
models are computed in float32 for them.

Deviations: sums over steps as in the paper, the released code takes means; all steps enter the step baseline, the
released code lets only the first of each attempt in. The penalty for invalid actions is the environment's business. 8
tasks x 4 attempts and one step an update (released: 16 x 8, minibatches of 64). LoRA instead of all weights, and
learning rates that suit it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.ledger import Ledger
from evolvent.credit import step_wanted, token_implicit
from evolvent.evaluate.live import Live
from evolvent.runs.language.notes import note_logp
from evolvent.runs.language.system import LanguageRun, Needs, PPOConfig, Rule, learn, open_language
from evolvent.runs.language.weights import Weights

if TYPE_CHECKING:
    import torch

    from evolvent.learn.tokens.batch import TokenBatch

PAPER = "arXiv 2509.19199"
LEVELS = ("token",)
STATUS = "lightly tested"
PRM = "prm"
PRM_CLIP = 10.0  # as released


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of OPRL."""

    alpha: float = 1.0
    """Coefficient of the step advantage beside the advantage of the attempt."""
    beta: float = 0.05
    """Scale β of the implicit reward, in units of reward per nat."""
    prm_lr: float = 2e-4
    """Learning rate of the process reward model; in the paper twice the policy's."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.tokens.objectives_of_papers import OPRL

    objective = replace(OPRL, clip_low=config.clip, clip_high=config.clip)
    rule = token_implicit.Config(alpha=config.alpha, beta=config.beta)
    with open_language(
        config, folder, live, resume=resume, others=(PRM,), needs=Needs(tokens=True, compares=True)
    ) as run:
        optimizer = torch.optim.AdamW(run.model.trainable(PRM), lr=config.prm_lr, weight_decay=0.0)
        run.keep(prm=Weights(run.model, PRM), prm_optimizer=optimizer)

        def prefer(episodes: list[Episode]) -> dict[str, float]:
            metrics = _prefer(run, episodes, optimizer, config.beta)
            note_logp(run, episodes, "policy_logp", "policy")
            note_logp(run, episodes, "prm_logp", PRM)
            return metrics

        summary = "the return against that of the others, and what a model of successes likes"
        implicit = Rule.of(token_implicit, "implicit", summary, rule)
        return learn(run, "oprl", implicit, objective, before=prefer)


def _prefer(
    run: LanguageRun, episodes: Sequence[Episode], optimizer: torch.optim.Optimizer, beta: float
) -> dict[str, float]:
    """Train the model of rewards on this update's pairs; their number, its loss, how often it is right."""
    from evolvent.learn.preference.objective import Preference
    from evolvent.learn.tokens.policy_gradient import improve

    pairs = success_pairs(episodes)
    if not pairs:
        return {"pairs": 0.0}
    sides = step_wanted.assign([episodes[i] for pair in pairs for i in pair])
    batch = pair_batch(sides, constrained=run.config.act == "trie")
    metrics = improve(
        Preference("dpo", beta=beta),
        batch,
        run.logprobs(PRM),
        optimizer,
        micro_tokens=run.config.plan.micro_tokens,
        grad_clip=PRM_CLIP,
        generator=run.generator,
        reference=run.logprobs("policy"),
    )
    return {"pairs": float(len(pairs)), "prm_loss": metrics["loss"], "prm_accuracy": metrics["accuracy"]}


def success_pairs(episodes: Sequence[Episode]) -> list[tuple[int, int]]:
    """Every (success, failure) pair within a group, as positions; without attempts of unknown success or no tokens."""
    usable = [i for i, e in enumerate(episodes) if e.valid and e.success is not None and e.n_tokens]
    return [
        (i, j)
        for i in usable
        if episodes[i].success
        for j in usable
        if not episodes[j].success and episodes[j].group == episodes[i].group
    ]


def pair_batch(ledger: Ledger, *, constrained: bool) -> TokenBatch:
    """The pairs as a batch for ``learn.preference.objective.Preference``, yet without a reference.

    The ledger has a success and a failure in turn: two are a pair; one attempt may be in several.
    """
    from evolvent.learn.tokens.batch import token_batch

    batch = token_batch(ledger.episodes, ledger, level="step", constrained=constrained)
    return replace(batch, units=replace(batch.units, group=batch.units.trajectory // 2))
