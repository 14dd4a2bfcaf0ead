"""Checks of credit rules over rollouts; ``testing.check_credit`` calls them for a rule with ``RECORD = "rollout"``."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from evolvent.core.rollout import Rollout
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.testing._broken import broken, check_claim, claims
from evolvent.testing.exact_team import measure_team, target_error, with_columns


def sample_rollout(steps: int = 7, batch: int = 3, agents: int = 2, seed: int = 0) -> tuple[Rollout, dict[str, Any]]:
    """Attempts that end either way in the middle, absent agents among them, and columns that rules may ask for."""
    rng = np.random.default_rng(seed)
    shape, end = (steps, batch, agents), rng.random((steps, batch))
    rollout = Rollout(
        obs_TBAD=rng.normal(size=(*shape, 2)),
        action_TBA=rng.integers(3, size=shape),
        reward_TBA=rng.normal(size=shape),
        terminated_TB=end < 0.2,
        truncated_TB=end > 0.8,
        value_TBA=rng.normal(size=shape),
        logp_TBA=-rng.random(shape),
        mask_TBA=rng.random(shape) < 0.8,
        bootstrap_BA=rng.normal(size=shape[1:]),
        final_value_TBA=rng.normal(size=shape),
    )
    weight = rng.random((*shape, 3)) + 0.1
    return rollout, {"q_TBAN": rng.normal(size=weight.shape), "policy_TBAN": weight / weight.sum(-1, keepdims=True)}


def check_rollout_rule(rule: Any, config: Any = None) -> list[str]:
    """Check everything but the declarations; the names of the checks passed."""
    done: list[str] = []
    for check in (_pure, _absent, _environments, _attempts):
        check(rule, config)
        done.append(check.__name__.strip("_"))
    if config is None:
        for critic, settings, claim in claims(rule):
            check_claim(rule, measure_team(rule, settings, critic=critic), critic, settings, claim)
            off = target_error(rule, settings, critic=critic) if claim is True else None
            if off is not None and off > 1e-9:
                expected = f"the values of the states, where the gradient is exact ({settings}, {critic} critic)"
                broken(rule, "the critic's targets are not true on average", f"off by {off:.3g}", expected)
        done.append("exact gradient")
    return done


def _pure(rule: Any, config: Any) -> None:
    rollout, more = sample_rollout()
    same_rollout, same_more = sample_rollout()
    call = with_columns(rule, config)
    first, again = call(rollout, more), call(rollout, more)
    if not isinstance(first, RolloutLedger) or first.rollout is not rollout:
        broken(rule, "assign must return a ledger of the rollout it was given", first, "RolloutLedger")
    for level, target in first.targets.items():
        if np.shape(target) != first.shape(level) or not np.isfinite(target).all():
            expected = f"finite {first.shape(level)}, of absent agents too"
            broken(rule, f"targets of level {level} do not fit", np.shape(target), expected)
    if not np.array_equal(first.values("step"), again.values("step"), equal_nan=True):
        broken(rule, "two calls with one input differ", "different credit", "a pure function")
    same = [np.array_equal(a, b) for a, b in zip(_arrays(rollout, more), _arrays(same_rollout, same_more), strict=True)]
    if not all(same):
        broken(rule, "assign changed its input", "other numbers", "a pure function")


def _absent(rule: Any, config: Any) -> None:
    rollout, more = sample_rollout()
    scored = ~np.isnan(with_columns(rule, config)(rollout, more).values("step"))
    if not np.array_equal(scored, rollout.active_TBA):
        broken(rule, "scored are not exactly the steps that agents took", int(scored.sum()), "Rollout.active_TBA")


def _environments(rule: Any, config: Any) -> None:
    rollout, more = sample_rollout()
    call = with_columns(rule, config)
    whole = call(rollout, more).values("step")
    for b in range(rollout.shape[1]):
        alone = call(_column(rollout, b), {name: x[:, b : b + 1] for name, x in more.items()}).values("step")
        if not np.allclose(alone[:, 0], whole[:, b], rtol=0, atol=1e-9, equal_nan=True):
            broken(rule, "another environment changed the credit", alone[:, 0].tolist(), whole[:, b].tolist())


def _attempts(rule: Any, config: Any) -> None:
    """What comes after an end has no influence on what came before it."""
    rollout, more = sample_rollout()
    other, _ = sample_rollout(seed=1)
    call = with_columns(rule, config)
    whole = call(rollout, more).values("step")
    for b in range(rollout.shape[1]):
        last = int(np.flatnonzero(rollout.done_TB[:, b])[0])
        reward, value = rollout.reward_TBA.copy(), np.array(rollout.value_TBA)
        assert other.value_TBA is not None
        reward[last + 1 :, b], value[last + 1 :, b] = other.reward_TBA[last + 1 :, b], other.value_TBA[last + 1 :, b]
        changed = call(replace(rollout, reward_TBA=reward, value_TBA=value), more).values("step")
        before, after = whole[: last + 1, b], changed[: last + 1, b]
        if not np.allclose(before, after, rtol=0, atol=1e-9, equal_nan=True):
            broken(rule, "the next attempt changed the credit of the one before", after.tolist(), before.tolist())


def _column(rollout: Rollout, b: int) -> Rollout:
    """One environment of a rollout."""
    cut: dict[str, Any] = {}
    for field in fields(rollout):
        x = getattr(rollout, field.name)
        axes = field.name.rsplit("_", 1)[-1]
        if isinstance(x, np.ndarray):
            cut[field.name] = np.take(x, [b], axis=axes.index("B"))
    return replace(rollout, **cut)


def _arrays(rollout: Rollout, more: dict[str, Any]) -> list[np.ndarray]:
    own = [getattr(rollout, field.name) for field in fields(rollout)]
    return [x for x in own if isinstance(x, np.ndarray)] + list(more.values())
