"""Some copies of a ``Solo`` in one process, run one after the other into columns.

Each copy restarts by itself when its attempt ends; the last observation is kept. Seeds belong to the copy and to the
number of its attempt, so that the numbers are the same wherever the copies live.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from evolvent.core.errors import EnvError
from evolvent.core.seeding import seed_tree
from evolvent.envs.runners.solo import Numbered, Seen, Solo, foreign, only_of

Columns = dict[str, np.ndarray]
Layout = dict[str, tuple[tuple[int, ...], str]]


def _seen(shown: object) -> Seen:
    if not isinstance(shown, Seen):
        raise EnvError(
            "a copy shows something else", got=type(shown).__name__, expected="evolvent.envs.runners.solo.Seen"
        )
    return shown


def _number(reward: Any, agent: object = None) -> float:
    """A reward, which may be an array or tensor of one number."""
    array = np.asarray(reward)
    if array.size != 1 or array.dtype.kind not in "biuf":
        where = "" if agent is None else f"agent {agent}"
        raise EnvError("a reward that is no single number", got=reward, expected="a number", where=where)
    return float(array.item())


def layout_of(solo: Solo, n_envs: int) -> Layout:
    """Shape and dtype of each column of ``n_envs`` copies."""
    team, B, A = solo.team, n_envs, solo.team.n_agents
    kind = "int64" if team.kind == "discrete" else "float32"
    layout: Layout = {
        "action": ((B, A, *team.action_shape), kind),
        "obs_BAD": ((B, A, team.obs_dim), "float32"),
        "reward_BA": ((B, A), "float32"),
        "terminated_B": ((B,), "bool"),
        "truncated_B": ((B,), "bool"),
        "final_obs_BAD": ((B, A, team.obs_dim), "float32"),
    }
    if "available" in solo.gives:
        layout["available_BAN"] = layout["final_available_BAN"] = ((B, A, team.choices), "bool")
    if "active" in solo.gives:
        layout["active_BA"] = layout["final_active_BA"] = ((B, A), "bool")
    if team.state_dim:
        layout["state_BS"] = layout["final_state_BS"] = ((B, team.state_dim), "float32")
    if team.parts:
        layout["part_BAR"] = ((B, A, len(team.parts)), "float32")
    return layout | {f"info:{name}": ((B,), "float32") for name in solo.columns}


def shares(n_envs: int, workers: int) -> list[tuple[int, int]]:
    """The first copy of each worker, and the first that is not its own."""
    return list(itertools.pairwise(n_envs * i // workers for i in range(workers + 1)))


class Copies:
    """The copies ``first … first + B' - 1`` of the whole batch, run one after the other into columns ``[B', …]``."""

    def __init__(self, make: Callable[[], Solo], columns: Columns, first: int, made: Solo | None = None) -> None:
        self.columns, self._first, self.at = columns, first, first
        n = len(columns["reward_BA"])
        self.solos = [made or make(), *(make() for _ in range(n - 1))]
        team = self.solos[0].team
        self._index = {agent: i for i, agent in enumerate(team.agents)}
        self._parts = team.parts
        self._choices = [spec.choices for spec in team.actions]
        self._widths: list[dict[str, int]] = [{} for _ in range(n)]
        self._attempt = [0] * n
        self._seed = 0

    def reset(self, seed: int) -> None:
        """Restart all copies."""
        self._seed = seed
        for name in self.columns.keys() & {"reward_BA", "part_BAR", "terminated_B", "truncated_B"}:
            self.columns[name][...] = 0
        for b in range(len(self.solos)):
            self._attempt[b] = 0
            self._restart(b)

    def step(self) -> None:
        """Act with ``columns["action"]`` in each copy; who ends starts again."""
        columns = self.columns
        for b, solo in enumerate(self.solos):
            self.at = self._first + b
            with self._named("step"):
                seen = _seen(solo.step(columns["action"][b]))
                ended = bool(seen.terminated or seen.truncated)
                columns["terminated_B"][b] = seen.terminated
                columns["truncated_B"][b] = seen.truncated and not seen.terminated
                self._write_reward(self.columns["reward_BA"][b], seen.reward)
                if self._parts or seen.parts:
                    self._write_parts(b, seen.parts)
                for name in solo.columns:
                    columns[f"info:{name}"][b] = seen.info.get(name, math.nan) if ended else math.nan
                self._show(b, seen, "final_" if ended else "")
            if ended:
                self._attempt[b] += 1
                self._restart(b)

    def render(self) -> np.ndarray | None:
        """A picture of the first copy."""
        return self.solos[0].render()

    def close(self) -> None:
        """Close all copies."""
        for solo in self.solos:
            solo.close()

    def _restart(self, b: int) -> None:
        self.at = self._first + b
        seed = seed_tree(self._seed, "copy", self.at, self._attempt[b]) & 0x7FFFFFFF  # numpy's old seeds end at 2**32
        with self._named("reset"):
            if isinstance(solo := self.solos[b], Numbered):
                solo.attempt = self._attempt[b]
            self._show(b, _seen(solo.reset(seed)))

    def _named(self, what: str) -> AbstractContextManager[None]:
        return foreign("an environment broke", f"copy {self.at}, {what}")

    def _show(self, b: int, seen: Seen, prefix: str = "") -> None:
        self._write_obs(b, seen, prefix)
        columns = self.columns
        if "active_BA" in columns:
            alive = self._index if seen.alive is None else seen.alive
            columns[f"{prefix}active_BA"][b] = [agent in alive for agent in self._index]
        if "available_BAN" in columns:
            row_AN = columns[f"{prefix}available_BAN"][b]
            row_AN[...] = False
            for agent, i in self._index.items():
                mask = None if seen.available is None else seen.available.get(agent)
                row_AN[i, : self._choices[i]] = True if mask is None else mask

    def _write_obs(self, b: int, seen: Seen, prefix: str) -> None:
        row_AD, known = self.columns[f"{prefix}obs_BAD"][b], self._widths[b]
        if seen.state is not None:
            self.columns[f"{prefix}state_BS"][b] = np.asarray(seen.state).reshape(-1)
        if isinstance(seen.obs, np.ndarray):
            row_AD[...] = seen.obs
            return
        only_of(seen.obs, self._index)
        if len(seen.obs) < len(self._index):
            row_AD[...] = 0
        for agent, value in seen.obs.items():
            flat = np.asarray(value).reshape(-1)
            if known.setdefault(agent, flat.size) != flat.size or flat.size > row_AD.shape[1]:
                raise EnvError(
                    "an environment changed what its agents see",
                    got=f"{flat.size} numbers",
                    expected=f"{min(known[agent], row_AD.shape[1])}",
                    where=f"agent {agent}",
                )
            row_AD[self._index[agent], : flat.size] = flat

    def _write_parts(self, b: int, parts: Mapping[str, Mapping[str, float] | float]) -> None:
        if parts.keys() != set(self._parts):
            got, expected = (", ".join(sorted(names)) or "none" for names in (parts, self._parts))
            raise EnvError("an environment changed the parts of its reward", got=got, expected=expected)
        for r, name in enumerate(self._parts):
            self._write_reward(self.columns["part_BAR"][b, :, r], parts[name])

    def _write_reward(self, row_A: np.ndarray, reward: Mapping[str, float] | float) -> None:
        if not isinstance(reward, Mapping):
            row_A[...] = reward if isinstance(reward, float) else _number(reward)
            return
        only_of(reward, self._index)
        if len(reward) < len(self._index):
            row_A[...] = 0
        for agent, value in reward.items():
            row_A[self._index[agent]] = value if isinstance(value, float) else _number(value, agent)
