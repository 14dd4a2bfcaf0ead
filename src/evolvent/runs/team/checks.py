"""What the settings of a team learner may be, checked by name before anything is opened."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.team import TeamSpec

_AT_LEAST_ONE = """
    steps envs horizon epochs critic_epochs minibatches width blocks heads eval_episodes save_every threads hidden
    critic_hidden critic_steps target_every backtracks buffer batch train_every n_step delay exploration
    log_every rounds
"""
_SHARES = ("gamma", "gae_lambda", "backtrack", "epsilon_end", "tau", "share", "expectile", "lr_end")
_NOT_NEGATIVE = """
    lr critic_lr entropy eval_every keep_rollouts rank_weight damping accept_ratio step_s warmup smoothing memory
"""
_POSITIVE = ("clip", "value_clip", "grad_clip", "delta", "noise")


def check_settings(config: Any) -> None:
    """Refuse values that no team learner can work with; names a learner does not have are passed over.

    Raises:
        BadInput: names the flag, what was got and what is accepted.
    """
    owners = [
        config,
        *(x for f in dataclasses.fields(config) if dataclasses.is_dataclass(x := getattr(config, f.name))),
    ]
    values = {f.name: getattr(owner, f.name) for owner in owners for f in dataclasses.fields(owner)}
    for name, value in values.items():
        low, high, open_ = _bounds(name)
        for one in value if isinstance(value, tuple) else (value,):
            if low is None or (math.isfinite(one) and low <= one <= high and not (open_ and one == low)):
                continue
            expected = f"{low:g} to {high:g}" if math.isfinite(high) else f"{'>' if open_ else '>='} {low:g}"
            raise BadInput("a setting out of range", got=one, expected=expected, where=f"--{name.replace('_', '-')}")


def check_minibatches(config: Any) -> None:
    """Refuse to cut a rollout into more parts than it has steps; a frozen policy does not care.

    Raises:
        BadInput: ``minibatches`` is larger than copies times steps.
    """
    parts, remembers = getattr(config, "minibatches", 1), getattr(getattr(config, "nets", None), "memory", 0)
    most = config.envs * (1 if remembers else config.horizon)
    if parts > most:
        raise BadInput(
            "more minibatches than copies of the environment"
            if remembers
            else "more minibatches than steps in a rollout",
            got=parts,
            expected=f"at most --envs {'' if remembers else 'x --horizon '}= {most}",
            where="--minibatches",
        )


def _bounds(name: str) -> tuple[float | None, float, bool]:
    """Lowest and highest value, and whether the lowest itself is refused; ``None`` = anything."""
    if name in _AT_LEAST_ONE.split():
        return 1, math.inf, False
    if name in _SHARES:
        return 0, 1, False
    if name in _POSITIVE:
        return 0, math.inf, True
    return (0, math.inf, False) if name in _NOT_NEGATIVE.split() else (None, math.inf, False)


def check_kind(team: TeamSpec, kinds: Collection[str], env: str, do: str) -> None:
    """Refuse actions of another kind than those of ``kinds`` (``TeamSpec.kind``).

    Raises:
        BadInput: ``do`` says what takes them.
    """
    if team.kind not in kinds:
        expected = " or ".join(f"{kind} actions" for kind in kinds)
        raise BadInput("actions of another kind", got=f"{team.kind} actions", expected=expected, where=env, do=do)
