"""An axis of the objective: functions by name, each with what it needs; one may stand in a file of your own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from evolvent.core import outside
from evolvent.core.errors import BadInput

Bound = float | Tensor
_TAKES = {"ratio": 4, "surrogate": 2, "keep": 2, "kl_form": 1, "aggregate": 2, "normalise": 1}
"""How many arguments a function of each axis is called with."""
_NEEDS, _SPANS = ("old_logp", "entropy", "length"), ("unit", "trajectory", "step", "sampled")


class Now(NamedTuple):
    """What there is of each unit in the midst of an optimiser step, ``[U]`` each."""

    logp: Tensor
    """Under the policy now."""
    ratio: Tensor
    log_ratio: Tensor
    """Of the unit alone, whatever the level of ``ratio``."""
    adv: Tensor
    low: Bound
    high: Bound
    """Clip range, as distances from 1."""
    trajectory: Tensor
    cut: Tensor
    """Bool, what PPO's clip leaves without a gradient."""
    generator: torch.Generator | None
    """Of random picks, on the CPU."""


@dataclass(frozen=True)
class Part:
    """A choice on an axis. In a file of your own the constants ``NEEDS`` and ``SPANS`` declare what stands here."""

    call: Callable[..., Any]
    """The function; its axis says what it takes."""
    needs: tuple[str, ...] = ()
    """``old_logp``, ``entropy`` (columns of ``Units``, as sampled), ``length`` (the setting)."""
    spans: Literal["unit", "trajectory", "step", "sampled"] = "unit"
    """What the result depends on: the unit, others of its trajectory, the whole step; or, before the step, on what was
    known when sampling."""

    def __post_init__(self) -> None:
        for what, said, known in (("NEEDS", self.needs, _NEEDS), ("SPANS", (self.spans,), _SPANS)):
            if not {*said} <= {*known}:
                raise BadInput(f"{what} of a choice is not known", got=said, expected=" or ".join(known), where="axis")


P = TypeVar("P", bound=Part)


def part_of(axis: str, name: str, known: Mapping[str, P], kind: type[P]) -> P:
    """The choice of this name on an axis, or the function ``file.py:NAME`` (without a name: that of the axis).

    Raises:
        BadInput: no such choice, file, or function, or one that does not take what its axis gives it.
    """
    at = outside.pointer(name)
    if at is None and name not in known:
        raise BadInput(f"unknown {axis}", got=name, expected=" or ".join(known), where="Objective")
    if at is None:
        return known[name]
    module, _, found = outside.load(at, f"a choice of {axis}", (axis,))
    takes = _TAKES[axis]
    try:
        inspect.signature(found).bind(*[None] * takes)
    except (TypeError, ValueError) as error:
        example = inspect.signature(next(iter(known.values())).call)
        raise BadInput(
            f"this is no choice of {axis}",
            got=f"{name}: {error}",
            where="Objective",
            expected=f"a function of {takes} argument{'s' if takes > 1 else ''}, as {axis}{example}",
        ) from error
    called = partial(_reporting, found, str(at.file or at.home), f"{axis} {name} failed")
    return kind(called, tuple(getattr(module, "NEEDS", ())), getattr(module, "SPANS", "unit"))


def _reporting(function: Callable[..., Any], home: str, what: str, *args: Any) -> Any:
    with outside.own_faults(home, what):
        return function(*args)
