"""T steps of a team as torch tensors: written row by row while acting, read as one batch when learning.

Nothing is allocated after the start: an update overwrites the one before. What is stored is what was seen; ``Views``
says what a policy is shown of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from evolvent.core.rollout import Rollout
from evolvent.core.team import Frame
from evolvent.learn.team.batch import Batch, View
from evolvent.learn.team.views import Views


class Steps:
    """Storage of ``T`` steps of ``B`` environments, filled by ``add`` and read by ``batch``.

    ``frame`` is what followed the last step, as long as the environments do not take another.
    """

    def __init__(self, views: Views, horizon: int, n_envs: int) -> None:
        self.views, self.team, self.device = views, views.team, views.device
        team, device, a = views.team, views.device, views.team.n_agents

        def column(*shape: int, dtype: torch.dtype = torch.float32, rows: int = horizon) -> Tensor:
            return torch.zeros(rows, n_envs, *shape, dtype=dtype, device=device)

        self.obs = column(a, team.obs_dim, rows=horizon + 1)
        self.state = column(views.state_dim, rows=horizon + 1)
        self.available: Tensor | None = None
        self.active: Tensor | None = None
        discrete = team.kind == "discrete"
        self.action = column(a, *team.action_shape, dtype=torch.int64 if discrete else torch.float32)
        self.logp: Tensor | None = None
        self.value = column(a)
        self.reward = column(a)
        self.part = column(a, len(team.parts))
        self.terminated = column(dtype=torch.bool)
        self.truncated = column(dtype=torch.bool)
        self.final_value = column(a)
        self.memory: Tensor | None = None
        self.begins = column(dtype=torch.bool, rows=horizon + 1)
        self.extra: dict[str, Tensor] = {}
        self.frame: Frame | None = None
        self._cut: list[tuple[int, Tensor, View]] = []
        self._final_obs: list[np.ndarray] = []
        self._final_state: list[np.ndarray] = []
        self.t = 0

    def take_in(self) -> None:
        """The steps of this update count for the statistics, once it has learned from them."""
        steps, norms = slice(0, self.t), self.views.norms
        if norms:
            norms["obs_norm"].update(self.obs[steps], None if self.active is None else self.active[steps])
        if "state_norm" in norms:
            norms["state_norm"].update(self.state[steps].unsqueeze(-2))

    # ---------------------------------------------------------------------------------------------- writing
    def see(self, frame: Frame, t: int | None = None) -> View:
        """Write what is seen before step ``t`` (the current one) and return it as a view into the storage."""
        t = self.t if t is None else t
        self.obs[t] = torch.from_numpy(frame.obs_BAD)
        self.state[t] = self.views.state(frame.obs_BAD, frame.state_BS)
        if frame.available_BAN is not None or (self.team.unequal and self.team.choices):
            self.available = self._mask(self.available, frame.available_BAN, t)
        if frame.active_BA is not None:
            if self.active is None:
                self.active = torch.ones(self.obs.shape[:3], dtype=torch.bool, device=self.device)
            self.active[t] = torch.from_numpy(frame.active_BA)
        return self.view(t)

    def add(
        self,
        action: Tensor,
        logp: Tensor,
        value: Tensor | None,
        frame: Frame,
        memory: Tensor | None = None,
        **extra: Tensor,
    ) -> View:
        """Write the step just taken and what is seen after it; returns the new view.

        ``action`` as acted, ``[B, A, ...]``, ``logp`` ``[B, A, P]``, ``value`` ``[B, A]`` what the critic said before
        the step, where there is one; ``memory`` ``[B, A, W]`` is what the policy now remembers (not read where
        ``Views`` say that it has none); ``extra`` are further columns ``[B, ...]``.
        """
        t = self.t
        if self.logp is None:
            self.logp = torch.zeros(len(self.action), *logp.shape, device=self.device)
        self.action[t], self.logp[t] = action, logp
        if value is not None:
            self.value[t] = value
        self.reward[t] = torch.from_numpy(frame.reward_BA)
        if frame.part_BAR is not None:
            self.part[t] = torch.from_numpy(frame.part_BAR)
        self.terminated[t] = torch.from_numpy(frame.terminated_B)
        self.truncated[t] = torch.from_numpy(frame.truncated_B)
        for name, column in extra.items():
            if name not in self.extra:
                self.extra[name] = torch.zeros(len(self.action), *column.shape, dtype=column.dtype, device=self.device)
            self.extra[name][t] = column
        if (done_B := frame.done_B).any():
            for last, rows in ((frame.final_obs_BAD, self._final_obs), (frame.final_state_BS, self._final_state)):
                if last is not None:
                    rows.append(last[done_B])
        self.begins[t + 1] = self.terminated[t] | self.truncated[t]
        if self.views.memory and memory is not None:
            self._remembered[t + 1] = memory.masked_fill(self.begins[t + 1, :, None, None], 0.0)
        if frame.truncated_B.any():
            rows, last = self.views.cut_off(frame)
            if self.views.memory and memory is not None:
                last = replace(last, memory=memory[rows])
            self._cut.append((t, rows, last))
        self.t, self.frame = t + 1, frame
        return self.see(frame)

    # ---------------------------------------------------------------------------------------------- reading
    def view(self, t: int | slice) -> View:
        """What is seen before step ``t``, or before several."""
        view = self.views.shown(
            self.obs[t],
            self.state[t],
            None if self.available is None else self.available[t],
            None if self.active is None else self.active[t],
        )
        return replace(view, memory=self._remembered[t], begins=self.begins[t]) if self.views.memory else view

    def batch(self, critic: Callable[[View], Tensor], scale: Callable[[Tensor], Tensor] = lambda v: v) -> Batch:
        """The T steps; what followed the last one, and what was cut off, is valued by ``critic``.

        ``critic`` says values ``[B, A]`` of a view in its own scale, ``scale`` brings them to units of reward.
        """
        assert self.logp is not None
        with torch.no_grad():
            last = scale(critic(self.view(self.t)))
            for t, rows, view in self._cut:
                self.final_value[t, rows] = scale(critic(view))
            value = scale(self.value)
        steps = slice(0, self.t)
        active = None if self.active is None else _numpy(self.active[steps])
        has_state = self.team.state_dim > 0
        has_last = has_state and len(self._final_state) == len(self._final_obs)
        rollout = Rollout(
            obs_TBAD=_numpy(self.obs[steps]),
            action_TBA=_numpy(self.action),
            reward_TBA=_numpy(self.reward),
            terminated_TB=_numpy(self.terminated),
            truncated_TB=_numpy(self.truncated),
            value_TBA=_numpy(value),
            logp_TBA=_numpy(self.logp.sum(-1)),
            mask_TBA=active,
            bootstrap_BA=_numpy(last),
            final_value_TBA=_numpy(self.final_value),
            part_TBAR=_numpy(self.part) if self.team.parts else None,
            parts=self.team.parts,
            agents=self.team.agents,
            available_TBAN=None if self.available is None else _numpy(self.available[steps]),
            last_obs_BAD=_numpy(self.obs[self.t]),
            final_obs_EAD=_stacked(self._final_obs, self.obs.shape[2:]),
            state_TBS=_numpy(self.state[steps]) if has_state else None,
            last_state_BS=_numpy(self.state[self.t]) if has_state else None,
            final_state_ES=_stacked(self._final_state, self.state.shape[2:]) if has_last else None,
        )
        return Batch(self.view(steps), self.action, self.logp, self.value, self.extra, rollout)

    def begin(self) -> View:
        """Start over: what was seen last is what is seen first."""
        for column in (self.obs, self.state, self.available, self.active, self.memory, self.begins):
            if column is not None and self.t:
                column[0] = column[self.t]
        self.t = 0
        for ends in (self._cut, self._final_obs, self._final_state):
            ends.clear()
        return self.view(0)

    def recall(self, memory: Tensor | None) -> None:
        """What is remembered before the first step: as it was where the attempts go on, nothing where they begin."""
        self.begins[0] = memory is None
        if self.views.memory:
            self._remembered[0] = 0.0 if memory is None else memory

    # ---------------------------------------------------------------------------------------------- inside
    @property
    def _remembered(self) -> Tensor:
        if self.memory is None:
            self.memory = self.obs.new_zeros(*self.obs.shape[:3], self.views.memory)
        return self.memory

    def _mask(self, column: Tensor | None, available_BAN: np.ndarray | None, t: int) -> Tensor:
        mask = self.views.available(available_BAN, self.obs.shape[1])
        assert mask is not None
        if column is None:
            column = torch.ones(len(self.obs), *mask.shape, dtype=torch.bool, device=self.device)
        column[t] = mask
        return column


def _stacked(rows: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """``[E, *shape]`` of parts of it, which may be none."""
    return np.concatenate([np.zeros((0, *shape), np.float32), *rows])


def _numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()
