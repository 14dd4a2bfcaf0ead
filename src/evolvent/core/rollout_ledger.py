"""``RolloutLedger``: credit of a ``Rollout``, the dense twin of ``Ledger``.

Two levels: ``"step"``, what each agent earned at each of its steps, ``[T, B, A]``, and ``"agent"``, what it earned in
all, ``[A]``. A step belongs to an agent, so credit goes up by summing, and the total is kept. NaN is "not scored".
A rule that reads a critic also says what it should have said: ``targets``, as in ``Ledger``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput
from evolvent.core.rollout import Rollout

LEVELS = ("step", "agent")


class AgentCredit(NamedTuple):
    """What one agent earned, for reports."""

    signed: float
    """Sum of its credit."""
    absolute: float
    """Sum of its credit's size: how much there was to learn from it."""
    share: float
    """``absolute`` over that of the team, 0 where nobody has any; shares sum to 1."""


class RolloutLedger:
    """Credit of the steps and agents of one rollout; nothing scored when made.

    Attributes:
        rollout: whose credit it is.
        targets: what a critic should have said before each step, by level: ``"step"`` ``[T, B, A]``, in units of
            reward, of absent agents too.
        columns: what the rule was given besides the rollout, by the name of its argument.
    """

    __slots__ = ("_values", "columns", "rollout", "targets")

    def __init__(self, rollout: Rollout) -> None:
        self.rollout = rollout
        self.targets: dict[str, np.ndarray] = {}
        self.columns: dict[str, np.ndarray] = {}
        self._values: dict[str, np.ndarray] = {}

    @classmethod
    def for_rollout(cls, rollout: Rollout) -> RolloutLedger:
        """A ledger with an address for every step and agent of ``rollout``."""
        return cls(rollout)

    def shape(self, level: str) -> tuple[int, ...]:
        """``(T, B, A)`` for ``"step"``, ``(A,)`` for ``"agent"``."""
        if level not in LEVELS:
            raise BadInput("unknown level", got=level, expected=LEVELS, where="RolloutLedger")
        return self.rollout.shape if level == "step" else self.rollout.shape[2:]

    def set(self, level: str, values: ArrayLike) -> None:
        """Score a level: values that broadcast to its shape, NaN = not scored. Steps of absent agents become NaN.

        Raises:
            BadInput: another shape, or an infinite value.
        """
        shape = self.shape(level)
        new = np.array(values, dtype=np.float64)
        if new.ndim > len(shape) or any(n not in (1, m) for n, m in zip(new.shape[::-1], shape[::-1], strict=False)):
            raise BadInput("values do not fit", got=new.shape, expected=shape, where=f"RolloutLedger.set({level!r})")
        if np.isinf(new).any():
            raise BadInput("credit is infinite", expected="finite, or NaN", where=f"RolloutLedger.set({level!r})")
        new = np.array(np.broadcast_to(new, shape))
        if level == "step" and self.rollout.mask_TBA is not None:
            new[~self.rollout.mask_TBA] = np.nan
        new.flags.writeable = False
        self._values[level] = new

    def values(self, level: str) -> np.ndarray:
        """Credit at ``level``: float64, read-only, NaN where not scored."""
        stored = self._values.get(level)
        return np.full(self.shape(level), np.nan) if stored is None else stored

    def total(self, level: str) -> float:
        """Sum of what is scored at ``level``: what ``project`` keeps."""
        return float(np.nansum(self.values(level)))

    def project(self, source: str, target: str) -> np.ndarray:
        """Sum the credit of steps up to their agents, ``project("step", "agent")``: float64 ``[A]``.

        An agent none of whose steps is scored is not scored.

        Raises:
            BadInput: any other direction; how an agent's credit falls on its steps is for a rule to say.
        """
        if (source, target) != ("step", "agent"):
            raise BadInput("no such projection", got=f"{source} → {target}", expected="step → agent", where="project")
        steps = self.values("step")
        total_A = np.where(np.isnan(steps).all(axis=(0, 1)), np.nan, np.nansum(steps, axis=(0, 1)))
        self.set("agent", total_A)
        return self.values("agent")

    def by_agent(self) -> Mapping[str, AgentCredit]:
        """Who earned how much, by the name of the agent, from the credit of the steps."""
        steps = self.values("step")
        signed, size = np.nansum(steps, axis=(0, 1)), np.nansum(np.abs(steps), axis=(0, 1))
        share = size / size.sum() if size.sum() > 0 else np.zeros_like(size)
        rows = zip(signed.tolist(), size.tolist(), share.tolist(), strict=True)
        return {agent: AgentCredit(*row) for agent, row in zip(self.rollout.agents, rows, strict=True)}
