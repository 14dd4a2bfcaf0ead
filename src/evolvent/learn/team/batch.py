"""What a team's learner works on: observations and actions as tensors, and the same as a ``Rollout`` for credit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from evolvent.core.rollout import Rollout
from evolvent.core.rollout_ledger import RolloutLedger


@dataclass(frozen=True, eq=False)
class View:
    """What a team sees, on the device of the policy; leading axes ``...`` are ``[B]`` or ``[T, B]`` or rows.

    Attributes:
        obs: float32 ``[..., A, D]``.
        state: float32 ``[..., S]``; all observations in a row where the environment has no state.
        available: bool ``[..., A, N]``, or ``None`` where every choice is always open.
        active: bool ``[..., A]``, or ``None`` where everybody always lives.
        memory: what each agent's policy remembers, before it sees this, float32 ``[..., A, W]``; ``None`` = nothing.
        begins: bool ``[...]``, where an attempt begins; with ``memory`` only.
    """

    obs: Tensor
    state: Tensor
    available: Tensor | None = None
    active: Tensor | None = None
    memory: Tensor | None = None
    begins: Tensor | None = None

    def __getitem__(self, rows: Tensor | slice | int) -> View:
        """The same columns, chosen rows of the first axis."""
        return self._map(lambda column: column[rows])

    def flat(self) -> View:
        """``[T, B, ...]`` as ``[T*B, ...]``, without a copy."""
        return self._map(lambda column: column.flatten(0, 1))

    def by_copy(self) -> View:
        """``[T, B, ...]`` as ``[B, T, ...]``: rows are the courses of single copies, for policies with memory."""
        return self._map(lambda column: column.transpose(0, 1))

    def _map(self, change: Callable[[Tensor], Tensor]) -> View:
        columns = (self.obs, self.state, self.available, self.active, self.memory, self.begins)
        return View(*(None if column is None else change(column) for column in columns))  # type: ignore[arg-type]


class Own(NamedTuple):
    """What one agent saw and did: rows are the T*B joint steps, or with memory courses ``[B, T]``; see ``View`` and
    ``Batch``.
    """

    obs: Tensor
    action: Tensor
    logp: Tensor
    available: Tensor | None
    active: Tensor | None
    memory: Tensor | None = None
    begins: Tensor | None = None

    def ratio(self, logp: Tensor) -> Tensor:
        """``pi / pi_old`` of whole actions, given ``log pi`` of their parts; 1 where the agent was not alive."""
        log_ratio = (logp - self.logp).sum(-1)
        return (log_ratio if self.active is None else log_ratio.masked_fill(~self.active, 0.0)).exp()


@dataclass(frozen=True, eq=False)
class Batch:
    """T x B joint steps: what was seen and done, and the same as a ``Rollout`` for credit rules.

    Attributes:
        view: what was seen before each step, ``[T, B, ...]``.
        action: int64 ``[T, B, A]`` or float32 ``[T, B, A, parts]``.
        logp: log-probability of each part of the action as sampled, float32 ``[T, B, A, P]``.
        value: the critic's output when acting, in its own scale, float32 ``[T, B, A]``.
        extra: further columns of an algorithm, ``[T, B, ...]``.
        rollout: numpy view of the same steps, values in units of reward.
    """

    view: View
    action: Tensor
    logp: Tensor
    value: Tensor
    extra: dict[str, Tensor]
    rollout: Rollout

    def credit(self, ledger: RolloutLedger) -> Tensor:
        """Credit of every step on the policy's device, float32 ``[T, B, A]``, 0 where it is not scored."""
        return self.tensor(ledger.values("step")).nan_to_num()

    def tensor(self, column: np.ndarray) -> Tensor:
        """A column of the rollout on the policy's device, float32."""
        return torch.tensor(column, dtype=torch.float32, device=self.logp.device)

    def of(self, agent: int) -> Own:
        """One agent's columns of all joint steps, as ``learned``; those that are not alive among them."""
        view, action, logp = self.learned()
        lead, columns = (
            (slice(None),) * (action.ndim - self.action.ndim + 2),
            (view.available, view.active, view.memory),
        )
        available, active, memory = (None if column is None else column[*lead, agent] for column in columns)
        obs = view.obs[*lead, agent].contiguous()
        return Own(obs, action[*lead, agent], logp[*lead, agent], available, active, memory, view.begins)

    def learned(self) -> tuple[View, Tensor, Tensor]:
        """View, actions and logp to learn from: rows are single joint steps, or with memory courses ``[B, T, ...]``."""
        view = self.view.flat() if self.view.memory is None else self.view.by_copy()
        return view, self.rows(self.action), self.rows(self.logp)

    def rows(self, column: Tensor) -> Tensor:
        """A column ``[T, B, ...]`` in the order of ``learned``."""
        return column.flatten(0, 1) if self.view.memory is None else column.transpose(0, 1)

    def passes(
        self, epochs: int, minibatches: int, generator: torch.Generator, *, learned: bool = False
    ) -> Iterator[Tensor | slice]:
        """Rows of the flat batch, or of what is ``learned``, ``epochs`` times in ``minibatches`` random parts; one part
        is a slice: no copy.
        """
        n = self.logp.shape[1] * (1 if learned and self.view.memory is not None else self.logp.shape[0])
        for _ in range(epochs):
            if minibatches <= 1:
                yield slice(None)
            else:
                yield from torch.randperm(n, generator=generator, device=self.logp.device).tensor_split(minibatches)
