"""Replay buffer: the last steps of a team, from which learners off their own policy draw.

A ring of rows, each one step of all B copies: what was seen, done and earned, and what was seen after it, *before* any
restart. A transition over n steps sums rewards until its attempt ends, is cut off, or the newest row is reached:

    R = sum_{k < m} gamma^k r_{t+k},   m <= n;   bootstrapped by gamma^m V(what was seen after step t + m - 1)

and by 0 where the attempt terminated, but not where it was cut off. It is a part of the checkpoint, so that a run that
was killed goes on with the numbers of one that was not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from evolvent.core.errors import BadInput
from evolvent.learn.team.batch import View
from evolvent.learn.team.steps import Steps
from evolvent.learn.team.views import Views

_AFTER = "after_"


class Transitions(NamedTuple):
    """M joint transitions, on the device of the policy; or M courses of T: ``[M, T, ...]``.

    Attributes:
        view: what was seen before acting, ``[M, ...]``.
        action: int64 ``[M, A]`` or float32 ``[M, A, parts]``.
        reward: discounted sum over up to n steps, ``[M, A]``.
        discount: factor of the value of ``after``, ``[M]``: gamma^m, 0 where the attempt terminated.
        after: what was seen after the last of these steps.
    """

    view: View
    action: Tensor
    reward: Tensor
    discount: Tensor
    after: View


class Replay:
    """The last ``capacity`` steps over all copies, drawn as transitions over ``n_step`` steps."""

    def __init__(self, views: Views, capacity: int, n_envs: int, *, n_step: int = 1, gamma: float = 0.99) -> None:
        self.views, self.n_envs, self.n_step, self.gamma = views, n_envs, n_step, gamma
        self._rows = max(1, capacity // n_envs)
        self._at = self._size = 0
        self._columns: dict[str, Tensor] = {}

    def __len__(self) -> int:
        """Transitions at hand."""
        return self._size * self.n_envs

    # ---------------------------------------------------------------------------------------------- writing
    def add(self, steps: Steps) -> None:
        """Take in the step that ``steps`` was given last."""
        t, frame = steps.t - 1, steps.frame
        assert frame is not None
        ended = steps.terminated[t] | steps.truncated[t]
        row = {name: getattr(steps, name)[t] for name in ("action", "reward", "terminated")} | {"ended": ended}
        seen = {
            "obs": (steps.obs, frame.final_obs_BAD),
            "state": (steps.state if steps.team.state_dim else None, frame.final_state_BS),
            "available": (steps.available, frame.final_available_BAN),
            "active": (steps.active, frame.final_active_BA),
        }
        for name, (column, last) in seen.items():
            if column is None:
                continue
            row[name], row[_AFTER + name] = column[t], column[t + 1]
            if last is not None and frame.done_B.any():
                row[_AFTER + name] = after = column[t + 1].clone()
                after[ended] = torch.from_numpy(last[frame.done_B]).to(after.device)
        if steps.memory is not None:
            row |= {"memory": steps.memory[t], "begins": steps.begins[t]}
        for name, value in row.items():
            if name not in self._columns:
                self._columns[name] = value.new_empty(self._rows, *value.shape)
            self._columns[name][self._at] = value
        self._at, self._size = (self._at + 1) % self._rows, min(self._size + 1, self._rows)

    def cut(self) -> None:
        """All copies restart: no transition goes on beyond the newest row."""
        if self._size:
            self._columns["ended"][self._at - 1] = True

    # ---------------------------------------------------------------------------------------------- reading
    def sample(self, count: int, generator: torch.Generator) -> Transitions:
        """Transitions drawn uniformly, with replacement; there must be some."""
        drawn = torch.randint(len(self), (count,), generator=generator, device=self.views.device)
        return self.transitions(drawn // self.n_envs, drawn % self.n_envs)

    def courses(self, count: int, steps: int, generator: torch.Generator) -> Transitions:
        """Courses of so many steps of a copy, ``[M, T, ...]``, drawn uniformly; shorter ones while there are fewer."""
        steps = min(steps, self._size)

        def drawn(most: int) -> Tensor:
            return torch.randint(most, (count, 1), generator=generator, device=self.views.device)

        age = drawn(self._size - steps + 1) + torch.arange(steps, device=self.views.device)
        row = (self._at - self._size + age) % self._rows
        return self.transitions(row, drawn(self.n_envs).expand_as(row))

    def transitions(self, row: Tensor, copy: Tensor) -> Transitions:
        """Those that begin in given rows and copies, int64 ``[M]`` each, or ``[M, T]``."""
        held, newest = self._columns, (self._at - 1) % self._rows
        view, action = self._view(row, copy), held["action"][row, copy]
        if "memory" in held:
            view = replace(view, memory=held["memory"][row, copy], begins=held["begins"][row, copy])
        reward = torch.zeros_like(held["reward"][row, copy])
        discount, goes_on, last = torch.ones_like(reward[..., 0]), torch.ones_like(row, dtype=torch.bool), row
        for _ in range(self.n_step):
            last = torch.where(goes_on, row, last)
            reward += (discount.unsqueeze(-1) * held["reward"][row, copy]).masked_fill(~goes_on.unsqueeze(-1), 0.0)
            discount = torch.where(goes_on, self.gamma * discount, discount)
            goes_on = goes_on & ~held["ended"][row, copy] & (row != newest)
            row = (row + 1) % self._rows
        discount = discount.masked_fill(held["terminated"][last, copy], 0.0)
        return Transitions(view, action, reward, discount, self._view(last, copy, _AFTER))

    # ---------------------------------------------------------------------------------------------- checkpoints
    def state_dict(self) -> dict[str, Any]:
        """The rows that are filled, and which is the next to be written."""
        held = {name: column[: self._size] for name, column in self._columns.items()}
        return {"at": self._at, "size": self._size, "rows": self._rows, "columns": held}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Of a buffer of the same capacity.

        Raises:
            BadInput: it holds another number of steps.
        """
        if (rows := int(state.get("rows", self._rows))) != self._rows:  # earlier checkpoints do not say it
            raise BadInput(
                "a replay buffer of another size",
                got=f"{self._rows} steps of each copy",
                expected=f"{rows}, those of the checkpoint",
                where="--buffer",
                do="resume with the buffer that the run began with",
            )
        self._at, self._size = int(state["at"]), int(state["size"])
        self._columns = {}
        for name, held in state["columns"].items():
            self._columns[name] = held.new_empty(self._rows, *held.shape[1:], device=self.views.device)
            self._columns[name][: self._size] = held

    def _view(self, row: Tensor, copy: Tensor, prefix: str = "") -> View:
        seen = {
            name: None if (column := self._columns.get(prefix + name)) is None else column[row, copy]
            for name in ("state", "available", "active")
        }
        obs, state = self._columns[prefix + "obs"][row, copy], seen["state"]
        return self.views.shown(obs, obs.flatten(-2) if state is None else state, seen["available"], seen["active"])
