"""``Units``: what a loss knows of each unit (a sampled token, or a whole action), as flat columns without padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Units:
    """Columns ``[U]``, one entry for every unit that is trained on; ids are int64, numbers float32.

    Attributes:
        row: which decision of the batch (also the turn, as a segment).
        at: position within the row.
        step: which decision of its episode.
        trajectory: which episode.
        group: attempts that are compared with one another.
        agent: who decided, as an index.
        adv: the credit.
        old_logp: log-probability when it was sampled, NaN where not known. Whose log-probabilities may be subtracted
            from whose: ``learn.tokens.policy_gradient`` and ``runs.language.notes``.
        ref_logp: under the reference.
        entropy: of the policy when it was sampled, nats.
        free: bool, whether anything else was allowed there; None = everywhere.
        fresh: bool, whether the policy that is trained sampled it, so that what it says before the first step may stand
            for ``old_logp``; None = nowhere.
        weight: share in the loss; set by a loss for one optimiser step.
        h: entropy relative to the step's (HAPO); set likewise.
        kept: bool, whether it takes part, where that depends on what was sampled alone; set likewise.
    """

    row: Tensor
    at: Tensor
    step: Tensor
    trajectory: Tensor
    group: Tensor
    agent: Tensor
    adv: Tensor
    old_logp: Tensor
    ref_logp: Tensor | None = None
    entropy: Tensor | None = None
    free: Tensor | None = None
    fresh: Tensor | None = None
    weight: Tensor | None = None
    h: Tensor | None = None
    kept: Tensor | None = None

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, index: Tensor) -> Units:
        """The units at ``index`` (bool or int64), in that order."""
        return self._each(lambda column: column[index])

    def to(self, device: torch.device | str) -> Units:
        """The same on another device."""
        return self._each(lambda column: column.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Units:
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: change(column) for name, column in columns.items() if column is not None})


class Terms(NamedTuple):
    """A loss, ``sum_u weight_u term_u``, and its metrics: vectors by name, whose means are logged."""

    loss: Tensor
    metrics: dict[str, Tensor]


class Loss(Protocol):
    """A loss that ``learn.tokens.policy_gradient`` minimises, such as ``Objective`` and ``Preference``.

    Attributes:
        needs_reference: whether ``ref_logp`` must be there.
        together: column whose segments are never split over two optimiser steps.
    """

    @property
    def needs_reference(self) -> bool: ...  # noqa: D102
    @property
    def together(self) -> str: ...  # noqa: D102

    def prepare(self, units: Units) -> Units:
        """Fix what counts over the whole optimiser step: weights, normalised advantages."""
        ...

    def spans_rows(self, units: Units) -> bool:
        """Whether the loss of a unit depends on units of other rows."""
        ...

    def idle(self, units: Units) -> Tensor:
        """Units that cannot contribute to the gradient, nor to that of others: bool ``[U]``."""
        ...

    def terms(self, units: Units, logp: Tensor, entropy: Tensor, generator: torch.Generator | None) -> Terms:
        """The loss of some units of the step, given log-probability and entropy of the policy now, ``[U]`` each."""
        ...
