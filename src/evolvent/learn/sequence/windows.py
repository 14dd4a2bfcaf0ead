"""Windows of K steps drawn from recorded attempts; each agent's course is a sequence of its own.

Every step of an agent that was alive is as likely as any other to be the first of a window (Decision Transformer, Chen
et al. 2021: attempts by their length, then a start). A window that would go beyond the end of the attempt, or of the
agent, is shorter: its last rows are padding. Padding stands at the end, where a causal network cannot see it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from evolvent.data.recorded.episodes import Recorded
from evolvent.learn.team.views import Views


@dataclass(frozen=True, eq=False)
class Window:
    """M windows of K steps; ``mask_MK`` bool says which rows are steps, the rest is padding.

    Attributes:
        obs_MKD, next_obs_MKD: what was seen before and after the step, as ``Views`` show it.
        action_MK: int64 ``[M, K]`` or float32 ``[M, K, dims]``.
        reward_MK: what followed.
        togo_MK: the undiscounted sum of rewards from this step to the end of the attempt.
        step_MK: int64, steps since the start.
        available_MKN: bool, or ``None`` where all choices are open.
        state_MKS: the shared state, or all observations in a row where there is none.
        row_MK, agent_MK: int64, which step of ``Windows`` it is, and whose.
    """

    obs_MKD: Tensor
    next_obs_MKD: Tensor
    action_MK: Tensor
    reward_MK: Tensor
    togo_MK: Tensor
    step_MK: Tensor
    mask_MK: Tensor
    available_MKN: Tensor | None
    state_MKS: Tensor
    row_MK: Tensor
    agent_MK: Tensor


class Windows:
    """All steps of recorded data on the device of ``views``, as these show them, and windows of them.

    Attributes:
        length: steps of a window.
        choices: of an agent; 0 where actions are numbers.
        scale: the largest absolute return to go, or 1 where all are 0.
        longest: steps of the longest attempt.
        targets: returns to ask for: the best of an attempt (the mean over agents), and three on the way to the worst.
    """

    def __init__(self, views: Views, data: Recorded, length: int) -> None:
        self.length, self.device, self.choices = length, views.device, data.team.choices
        attempts = data.attempts
        lengths = np.array([len(attempt) for attempt in attempts])
        self.longest, returns_E = int(lengths.max()), data.returns_E
        self.targets = tuple(np.linspace(returns_E.max(), returns_E.min(), 5)[:4].tolist())

        def column(rows: Iterable[np.ndarray], dtype: type = np.float32) -> Tensor:
            return torch.from_numpy(np.concatenate([np.asarray(row, dtype) for row in rows])).to(views.device)

        obs = column(a.obs_TAD for a in attempts)
        has_state, has_available = attempts[0].state_TS is not None, attempts[0].available_TAN is not None
        state = column(a.state_TS for a in attempts if a.state_TS is not None) if has_state else obs.flatten(1)
        shown = views.shown(obs, state, None, None)
        self.obs, self.state = shown.obs, shown.state
        some = (a.available_TAN for a in attempts if a.available_TAN is not None)
        self.available = column(some, np.bool_) if has_available else None
        self.action = column((a.action_TA for a in attempts), np.int64 if data.team.kind == "discrete" else np.float32)
        self.reward = column(a.reward_TA for a in attempts)
        self.togo = column(np.cumsum(a.reward_TA[::-1].astype(np.float64), 0)[::-1] for a in attempts)
        # of each step: its number in the attempt, the attempt's last step, and the row of what is seen before it; an
        # attempt has one more of these
        self._step = column((np.arange(n) for n in lengths), np.int64)
        self._last = column((np.full(n, end - 1) for n, end in zip(lengths, lengths.cumsum(), strict=True)), np.int64)
        self.seen = column((np.full(n, e) for e, n in enumerate(lengths)), np.int64) + torch.arange(
            len(self.reward), device=views.device
        )
        everybody = np.ones((1, data.team.n_agents))
        self._alive = column(
            (a.active_TA[:-1] if a.active_TA is not None else everybody.repeat(len(a), 0) for a in attempts), np.bool_
        )
        self._starts = self._alive.nonzero()
        self.scale = float(self.togo.abs().max()) or 1.0

    def first(self) -> Tensor:
        """What each agent saw at the start of each attempt, ``[attempts * A, D]``."""
        return self.obs[self.seen[self._step == 0]].flatten(0, 1)

    def sample(self, count: int, generator: torch.Generator) -> Window:
        """``count`` windows, drawn with replacement from ``generator``, which is on the device."""
        some = torch.randint(len(self._starts), (count,), generator=generator, device=self.device)
        start, agent = self._starts[some].unbind(1)
        ahead_MK = start[:, None] + torch.arange(self.length, device=self.device)
        row, last = torch.minimum(ahead_MK, self._last[start, None]), self._last[start, None]
        agent = agent[:, None].expand_as(row)
        mask = ((ahead_MK <= last) & self._alive[row, agent]).cumprod(1).bool()
        seen = self.seen[row]
        return Window(
            self.obs[seen, agent],
            self.obs[seen + 1, agent],
            self.action[row, agent],
            self.reward[row, agent],
            self.togo[row, agent],
            self._step[row],
            mask,
            None if self.available is None else self.available[seen, agent],
            self.state[seen],
            row,
            agent,
        )
