"""Minimises a loss on a batch: epochs, optimiser steps, micro-batches, KL guard, metrics. Knows no algorithm.

Weights are fixed for a whole optimiser step (``Loss.prepare``), so micro-batches add up to the same gradient whatever
their size. Where a unit's loss depends on units of other rows (ratios of long trajectories, covariances, pairs) and the
step does not fit into one pass, the gradient goes in two: without gradient to get every log-probability of the step,
then the loss's slope with respect to each of them, then backward through the model a portion of rows at a time. This is
exact, and rows whose slope is 0 are not visited again.

In bfloat16 a token's log-probability has an error of .07 nats (rms), which differs between sampler and training and
with the rows that go through the model beside it. That exceeds GSPO's clip range and MARFT's guard. So a loss
subtracts only what was computed alike: units marked as ``fresh`` are compared with what the policy in training
says before its first step, and with what the ``reference`` says, both in the very passes of the first epoch. A policy
that has not moved has ratio 1 and divergence 0, exactly. ``gap`` still compares with the sampler's log-probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor, nn

from evolvent.core.errors import BadInput, ModelError
from evolvent.learn.tokens.batch import LogprobFn, TokenBatch, portions
from evolvent.learn.tokens.ratios import LIMIT, approx_kl, kl, log_ratios, segment_sum
from evolvent.learn.tokens.units import Loss, Terms, Units


def improve(
    objective: Loss,
    batch: TokenBatch,
    policy: LogprobFn,
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int = 1,
    minibatches: int = 1,
    micro_tokens: int = 8192,
    kl_stop: float = 0.0,
    grad_clip: float = 1.0,
    generator: torch.Generator | None = None,
    reference: LogprobFn | None = None,
) -> dict[str, float]:
    """Train the parameters of the optimiser on a batch.

    Args:
        objective: the loss, an ``Objective`` or a ``Preference``.
        batch: the training batch.
        policy: log-probabilities of the policy in training, differentiable and deterministic (no dropout).
        optimizer: optimiser of the parameters.
        epochs: passes over the batch.
        minibatches: optimiser steps of a pass; a trajectory (a group, for pairs) is never split over two.
        micro_tokens: tokens of one forward and backward pass; bounds the memory and changes nothing else.
        kl_stop: KL divergence mean[(r - 1) - log r] from the sampling policy that discards a step; 0 = never.
        grad_clip: gradient norm above which the gradient is scaled down; 0 = no clipping.
        generator: random generator of minibatches and of random picks of units.
        reference: log-probabilities of the reference model; they replace those of the batch.

    Returns:
        loss, ratio_mean, ratio_min, ratio_max, clip_low, clip_high, kept (fractions of units), approx_kl, kl_ref,
        entropy (of units that had an alternative), ess (effective sample size as a share), grad_norm, and the metrics
        of the loss: means over the steps. gap: largest difference between log-probabilities as sampled and before the
        first step. zero_advantage and untrained: shares of the units. tokens: units trained on. updates, discarded (by
        kl_stop), empty (nothing to learn): numbers of steps. What is not known (grad_norm without a step, gap without
        log-probabilities as sampled, entropy without an alternative, all but the last where every step was empty) is
        not there.

    Raises:
        BadInput: an empty batch, or a setting out of range.
        ModelError: loss or gradient is not finite; the parameters are those before the step.
    """
    if not len(batch.units):
        raise BadInput(
            "nothing to train on",
            got="no unit has credit",
            where="learn.policy_gradient",
            do="check that the rule scores this level and that episodes are valid and not all left out",
        )
    if epochs < 1 or minibatches < 1 or micro_tokens < 1:
        raise BadInput(
            "a setting is below 1",
            got=f"epochs={epochs}, minibatches={minibatches}, micro_tokens={micro_tokens}",
            expected="at least 1",
            where="learn.policy_gradient",
        )
    metrics: list[_StepMetrics] = []
    gap, coarse = None, batch.units.fresh is not None
    for epoch in range(epochs):
        split = _split(batch, objective.together, minibatches, generator)
        columns: dict[str, LogprobFn] = {}
        if reference is not None and (epoch == 0 or coarse):  # another split, another company
            columns["ref_logp"] = reference
        if coarse and epoch == 0 and epochs * minibatches > 1:  # with one step it is the step's own pass
            columns["old_logp"] = policy
        batch, seen_gap = _looked_up_alike(objective, batch, split, columns, micro_tokens)
        gap = seen_gap if epoch == 0 else gap
        for rows in split:
            part = batch if len(split) == 1 else batch.select(rows)
            seen = _Step(objective, part, policy, micro_tokens, generator)
            optimizer.zero_grad(set_to_none=True)
            metrics.append(seen.backward(kl_stop))
            if metrics[-1].outcome == "stepped":
                metrics[-1].numbers["grad_norm"] = _clip(optimizer, grad_clip)
                optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    out = _summary(metrics, batch)
    return out if gap is None else out | {"gap": gap}


def reference_kl(batch: TokenBatch, policy: LogprobFn, reference: LogprobFn, *, micro_tokens: int, which: int) -> float:
    """Mean k3 estimate of the divergence of a policy from a reference, over one portion of the rows.

    ``which`` picks the portion, so that over the updates all parts of a batch have their turn.
    """
    found = portions(batch, range(len(batch.rows)), reference, micro_tokens)
    some = batch.select(found[which % len(found)])
    now, base = (some.looked_up(one, micro_tokens)[0] for one in (policy, reference))
    return float(kl(now, base, "k3").mean())


class _StepMetrics(NamedTuple):
    """The result of one optimiser step (stepped, discarded or empty) and its metrics."""

    outcome: str
    numbers: dict[str, float]


class _Pass(NamedTuple):
    """One forward pass: its units, their log-probabilities and entropies (detached), and the terms of the loss."""

    units: Units
    logp: Tensor
    entropy: Tensor
    terms: Terms
    gap: Tensor


class _Step:
    """The gradient of one optimiser step."""

    def __init__(
        self, objective: Loss, part: TokenBatch, policy: LogprobFn, micro_tokens: int, generator: torch.Generator | None
    ) -> None:
        self.objective, self.policy, self.micro_tokens, self.generator = objective, policy, micro_tokens, generator
        self.by_turn = getattr(objective, "ratio", "token") == "turn"
        units = objective.prepare(part.units)
        self.part = replace(part, units=units).select(_busy(objective, units))

    def backward(self, kl_stop: float) -> _StepMetrics:
        """Add to the parameters' gradients, unless the policy has moved too far already."""
        if not self.part.rows:
            return _StepMetrics("empty", {})
        found = self.part.passes(self.policy, self.micro_tokens)
        if len(found) > 1 and self.objective.spans_rows(self.part.units):
            seen, slopes = self._slopes()
            numbers = _numbers([seen], self.by_turn)
            if _too_far(numbers, kl_stop):
                return _StepMetrics("discarded", numbers)
            self._descend(slopes)
            return _StepMetrics("stepped", numbers)
        seen_all: list[_Pass] = []
        for _, portion in found:
            seen = self._terms(portion.units, *portion.logprobs(self.policy))
            if seen.terms.loss.requires_grad:  # not where nothing was decided: forced tokens, one action
                seen.terms.loss.backward()
            seen_all.append(_detached(seen))
        numbers = _numbers(seen_all, self.by_turn)
        return _StepMetrics("discarded" if _too_far(numbers, kl_stop) else "stepped", numbers)

    def _terms(self, units: Units, logp: Tensor, entropy: Tensor) -> _Pass:
        units = units.to(logp.device)
        gap = log_ratios(logp.detach(), units.old_logp)
        if units.fresh is not None:
            units = replace(units, old_logp=torch.where(units.fresh, logp.detach(), units.old_logp), fresh=None)
        terms = self.objective.terms(units, logp, entropy, self.generator)
        if not bool(torch.isfinite(terms.loss)):
            bad = int((~torch.isfinite(logp.detach())).sum())
            raise ModelError(
                "the loss is not finite",
                got=f"{terms.loss.item()}, {bad} of {len(logp)} log-probabilities not finite",
                where="learn.policy_gradient",
                do="lower the learning rate, or train in float32",
            )
        return _Pass(units, logp, entropy, terms, gap)

    def _slopes(self) -> tuple[_Pass, tuple[Tensor, Tensor]]:
        """The loss of the whole step and its slope with respect to each log-probability and entropy, ``[U]`` each."""
        logp, entropy = self.part.looked_up(self.policy, self.micro_tokens)
        logp.requires_grad_()
        entropy.requires_grad_()
        seen = self._terms(self.part.units, logp, entropy)
        slopes = torch.autograd.grad(seen.terms.loss, (logp, entropy), allow_unused=True, materialize_grads=True)
        return _detached(seen), (slopes[0], slopes[1])

    def _descend(self, slopes: tuple[Tensor, Tensor]) -> None:
        """Backward through the model with these slopes, a portion of the rows at a time."""
        on_logp, on_entropy = slopes
        part = self.part
        # the columns of numbers carry the slopes, so that selecting rows selects them too
        units = Units(
            **{name: getattr(part.units, name) for name in ("row", "at", "step", "trajectory", "group", "agent")},
            adv=on_logp,
            old_logp=on_entropy,
        )
        sloped = TokenBatch(part.rows, part.sizes, units, part.agents, part.sampled)
        rows = torch.unique(units.row[(on_logp != 0) | (on_entropy != 0)]).tolist()
        for portion in portions(sloped, rows, self.policy, self.micro_tokens):
            one = sloped.select(portion)
            logp, entropy = one.logprobs(self.policy)
            total = (one.units.adv.to(logp.device) * logp).sum()
            if bool((one.units.old_logp != 0).any()):
                total = total + (one.units.old_logp.to(logp.device) * entropy).sum()
            if total.requires_grad:
                total.backward()


def _split(batch: TokenBatch, together: str, n: int, generator: torch.Generator | None) -> list[list[int]]:
    """The rows in ``n`` parts of whole trajectories (or groups), drawn at random; fewer where there are fewer."""
    if n == 1:
        return [list(range(len(batch.rows)))]
    segment = getattr(batch.units, together)
    ids = torch.unique(segment)
    order = ids[torch.randperm(len(ids), generator=generator)]
    row_of = torch.zeros(len(batch.rows), dtype=torch.int64).index_copy(0, batch.units.row, segment)
    return [
        torch.nonzero(torch.isin(row_of, mine)).squeeze(-1).tolist() for mine in order.tensor_split(min(n, len(order)))
    ]


def _detached(seen: _Pass) -> _Pass:
    terms = Terms(seen.terms.loss.detach(), seen.terms.metrics)
    return seen._replace(logp=seen.logp.detach(), entropy=seen.entropy.detach(), terms=terms)


def _busy(objective: Loss, units: Units) -> list[int]:
    """The rows of an optimiser step that can contribute to its gradient."""
    return torch.unique(units.row[~objective.idle(units)]).tolist()


def _looked_up_alike(
    objective: Loss,
    batch: TokenBatch,
    split: Sequence[Sequence[int]],
    columns: Mapping[str, LogprobFn],
    micro_tokens: int,
) -> tuple[TokenBatch, float | None]:
    """The batch with the log-probabilities of these functions now, computed in the same passes as in training.

    Of the old log-probabilities only those of fresh units are replaced; also returned is the largest difference from
    what was sampled, where there is one.
    """
    units = batch.units
    if "ref_logp" in columns:  # whatever it says, the same rows are idle
        batch = replace(batch, units=replace(units, ref_logp=torch.zeros_like(units.adv)))
    said = {name: torch.empty(len(units)) for name in columns}
    for rows in split if columns else ():
        part = batch if len(split) == 1 else batch.select(rows)
        busy = _busy(objective, objective.prepare(part.units))
        for some in (busy, sorted(set(range(len(rows))) - set(busy))):
            index = batch.units_in([rows[i] for i in some])
            for name, of in columns.items():
                said[name][index] = part.select(some).looked_up(of, micro_tokens)[0]
    gap = None
    if "old_logp" in said and units.fresh is not None:
        away = log_ratios(said["old_logp"], units.old_logp).abs()
        gap = float(away[~away.isnan()].max()) if bool((~away.isnan()).any()) else None
        said["old_logp"] = torch.where(units.fresh, said["old_logp"], units.old_logp)
        units = replace(units, fresh=None)
    return replace(batch, units=replace(units, **said)), gap


def _numbers(seen: Sequence[_Pass], by_turn: bool) -> dict[str, float]:
    """Metrics of one step over its scored units; the divergence a unit, or a turn where ratios are those of turns."""
    out = {"loss": math.fsum(float(s.terms.loss) for s in seen)}
    metrics = {name: torch.cat([s.terms.metrics[name].float() for s in seen]) for name in seen[0].terms.metrics}
    ratio = metrics.pop("ratio", None)
    if ratio is not None:
        out |= {"ratio_mean": float(ratio.mean()), "ratio_min": float(ratio.min()), "ratio_max": float(ratio.max())}
        out["ess"] = float(ratio.sum() ** 2 / (len(ratio) * (ratio**2).sum()))
    out |= {name: float(column.mean()) for name, column in metrics.items()}
    entropy = torch.cat([s.entropy if s.units.free is None else s.entropy[s.units.free] for s in seen])
    if len(entropy):  # elsewhere it is 0 whatever the policy
        out["entropy"] = float(entropy.mean())
    moved = torch.cat([_moved(s, by_turn) for s in seen])
    out["approx_kl"] = float(approx_kl(moved).mean()) if len(moved) else 0.0
    gap = torch.cat([s.gap for s in seen])
    gap = gap[~gap.isnan()]
    if len(gap):
        out["gap"] = float(gap.abs().max())
    if all(s.units.ref_logp is not None for s in seen):
        away = [kl(s.logp, s.units.ref_logp, "k3") for s in seen if s.units.ref_logp is not None]
        out["kl_ref"] = float(torch.cat(away).mean())
    return out


def _moved(seen: _Pass, by_turn: bool) -> Tensor:
    """Log-ratios of its units, or of its turns, where they are known."""
    moved = log_ratios(seen.logp, seen.units.old_logp)
    known = ~moved.isnan()
    if not by_turn:
        return moved[known]
    turn = torch.unique(seen.units.row[known], return_inverse=True)[1]
    return segment_sum(moved[known], turn).clamp(-LIMIT, LIMIT)


def _too_far(numbers: dict[str, float], kl_stop: float) -> bool:
    return kl_stop > 0.0 and numbers["approx_kl"] > kl_stop


def _clip(optimizer: torch.optim.Optimizer, limit: float) -> float:
    """Clip the gradient; returns its norm before."""
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = float(nn.utils.clip_grad_norm_(parameters, limit if limit > 0 else math.inf))
    if not math.isfinite(norm):
        raise ModelError(
            "the gradient is not finite",
            got=norm,
            where="learn.policy_gradient",
            do="lower the learning rate, or train in float32",
        )
    return norm


def _summary(metrics: Sequence[_StepMetrics], batch: TokenBatch) -> dict[str, float]:
    rows = [step.numbers for step in metrics if step.outcome != "empty"]
    names = dict.fromkeys(name for row in rows for name in row if name != "gap")
    out = {name: fmean(row[name] for row in rows if name in row) for name in names}
    for name, pick in (("ratio_min", min), ("ratio_max", max)):
        if name in out:
            out[name] = pick(row[name] for row in rows)
    if "gap" in metrics[0].numbers:
        out["gap"] = metrics[0].numbers["gap"]
    outcomes = [step.outcome for step in metrics]
    return out | {
        "zero_advantage": float((batch.units.adv == 0).float().mean()),
        "untrained": 1.0 - len(batch.units) / batch.sampled,
        "tokens": float(len(batch.units)),
        "updates": float(outcomes.count("stepped")),
        "discarded": float(outcomes.count("discarded")),
        "empty": float(outcomes.count("empty")),
    }
