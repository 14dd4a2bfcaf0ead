"""Spread: n agents share out n landmarks without touching; cooperative navigation, small enough for tests.

The task of "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments" (Lowe et al., NeurIPS 2017),
written anew and batched. Differences: an agent sees the nearest landmarks and the nearest others only, so that the
observation has the same length for every n and a policy trained with 3 agents can act with 8; means instead of sums, so
that rewards compare over n; agents pass through one another (touching costs, but does not push).
"""

from __future__ import annotations

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.seeding import rng
from evolvent.core.team import ActionSpec, Frame, TeamSpec

DT, DAMPING, FORCE = 0.1, 0.25, 5.0
WALL, TOUCH, COVER = 1.5, 0.2, 0.15
PARTS = ("distance", "touching")
_MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)


def make_team(*, n_envs: int, n: int = 3, near: int = 3, limit: int = 25, discrete: bool = False) -> Spread:
    """``n_envs`` copies with ``n`` agents and landmarks; each agent sees the ``near`` nearest landmarks."""
    if n < 1 or near < 1 or limit < 1:
        raise BadInput("spread", got=f"n={n}, near={near}, limit={limit}", expected="numbers of at least 1")
    return Spread(n_envs, n, near, limit, discrete=discrete)


class Spread:
    """B copies of the task.

    An agent's observation: its velocity and position; for each of the ``near`` nearest landmarks the way to it (2) and
    how far the nearest other agent is from it; the way to each of the ``near - 1`` nearest others. What n agents do not
    fill is 0. Action: a force (2 numbers), or none, right, left, up, down. Reward, the same for all: minus the distance
    from a landmark to the nearest agent (mean), minus the number of others that an agent touches (mean); its parts.
    State: all velocities, positions and landmarks.
    """

    name = "spread"

    def __init__(self, n_envs: int, n: int, near: int, limit: int, *, discrete: bool) -> None:
        self.n_envs, self._n, self._near, self._discrete = n_envs, n, near, discrete
        spec = ActionSpec(choices=5) if discrete else ActionSpec(dims=2)
        width = 4 + 3 * near + 2 * (near - 1)
        names = tuple(f"agent{i}" for i in range(n))
        self.team = TeamSpec(names, width, (spec,) * n, state_dim=6 * n, limit=limit, parts=PARTS)
        self._age_B = np.zeros(n_envs, np.int64)
        self._rng = rng(0, "spread")
        self._velocity, self._position, self._landmark = np.zeros((3, n_envs, n, 2), np.float32)

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        self._rng = rng(seed, "spread")
        everybody_B = np.ones(self.n_envs, np.bool_)
        self._start(everybody_B)
        obs_BAD, _ = self._look()
        zero_BA = np.zeros((self.n_envs, self._n), np.float32)
        parts = np.zeros((*zero_BA.shape, len(PARTS)), np.float32)
        return Frame(obs_BAD, zero_BA, ~everybody_B, ~everybody_B, state_BS=self._state(), part_BAR=parts)

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        force = _MOVES[action] if self._discrete else action
        self._velocity = (1 - DAMPING) * self._velocity + FORCE * DT * force
        self._position = np.clip(self._position + DT * self._velocity, -WALL, WALL)
        self._age_B += 1
        obs_BAD, away_BAL = self._look()
        nearest_BL = away_BAL.min(axis=1)
        part_BR = np.stack([-nearest_BL.mean(axis=1), -self._touching()], axis=1)
        reward_B = part_BR[:, 0] + part_BR[:, 1]
        ended_B = self._age_B >= self.team.limit
        reward_BA, part_BAR = (np.repeat(x[:, None], self._n, axis=1) for x in (reward_B, part_BR))
        frame = {"terminated_B": np.zeros(self.n_envs, np.bool_), "truncated_B": ended_B, "part_BAR": part_BAR}
        if not ended_B.any():
            return Frame(obs_BAD, reward_BA, **frame, state_BS=self._state())
        covered_BL = nearest_BL < COVER
        nothing_B = np.where(ended_B, np.float32(0), np.float32(np.nan))
        info = {"success": covered_BL.all(axis=1) + nothing_B, "covered": covered_BL.mean(axis=1) + nothing_B}
        last = {"final_obs_BAD": obs_BAD, "final_state_BS": self._state()}
        self._start(ended_B)
        obs_BAD, _ = self._look()
        return Frame(obs_BAD, reward_BA, **frame, state_BS=self._state(), **last, info=info)

    def render(self) -> np.ndarray:
        """Copy 0: landmarks grey, agents in colour; uint8 ``[160, 160, 3]``."""
        axis = np.linspace(-WALL, WALL, 160)
        picture = np.full((160, 160, 3), 255, np.uint8)
        dots = [(at, 0.05, (120, 120, 120)) for at in self._landmark[0]]
        hues = [(215, 48, 39), (69, 117, 180), (26, 152, 80), (254, 153, 41), (118, 42, 131)]
        dots += [(at, TOUCH / 2, hues[i % 5]) for i, at in enumerate(self._position[0])]
        for (x, y), radius, colour in dots:
            picture[((axis[None] - x) ** 2 + (axis[::-1, None] - y) ** 2) < radius**2] = colour
        return picture

    def close(self) -> None:
        """Nothing is held."""

    def _start(self, which_B: np.ndarray) -> None:
        shape = (2, int(which_B.sum()), self._n, 2)
        place = self._rng.uniform(-1, 1, shape).astype(np.float32)
        self._position, self._velocity, self._landmark = (
            x.copy() for x in (self._position, self._velocity, self._landmark)
        )
        self._position[which_B], self._landmark[which_B] = place
        self._velocity[which_B], self._age_B[which_B] = 0, 0

    def _look(self) -> tuple[np.ndarray, np.ndarray]:
        """What each agent sees ``[B, A, D]`` and how far it is from each landmark ``[B, A, L]``."""
        B, n, near = self.n_envs, self._n, self._near
        obs = np.zeros((B, n, self.team.obs_dim), np.float32)
        obs[..., :2], obs[..., 2:4] = self._velocity, self._position
        way = self._landmark[:, None] - self._position[:, :, None]
        away = np.sqrt((way**2).sum(axis=3))
        k = min(near, n)
        order = np.argsort(away, axis=2, kind="stable")[..., :k]
        seen = obs[..., 4 : 4 + 3 * near].reshape(B, n, near, 3)  # a view would not survive every numpy; written back
        seen[:, :, :k, :2] = np.take_along_axis(way, order[..., None], axis=2)
        if n > 1:
            two = np.sort(away, axis=1)[:, :2]  # nearest and second nearest agent of each landmark
            rival = np.where(away <= two[:, :1], two[:, 1:2], two[:, :1])
            seen[:, :, :k, 2] = np.take_along_axis(rival, order, axis=2)
        obs[..., 4 : 4 + 3 * near] = seen.reshape(B, n, 3 * near)
        m = min(near - 1, n - 1)
        if m:
            other = self._position[:, None] - self._position[:, :, None]
            gap = (other**2).sum(axis=3) + np.where(np.eye(n, dtype=np.bool_), np.float32(np.inf), 0)
            order = np.argsort(gap, axis=2, kind="stable")[..., :m]
            part = np.take_along_axis(other, order[..., None], axis=2).reshape(B, n, 2 * m)
            obs[..., 4 + 3 * near : 4 + 3 * near + 2 * m] = part
        return obs, away

    def _touching(self) -> np.ndarray:
        """Others that an agent touches, mean over agents: ``[B]``."""
        gap = ((self._position[:, None] - self._position[:, :, None]) ** 2).sum(axis=3)
        return ((gap < TOUCH**2).sum(axis=(1, 2)) - self._n).astype(np.float32) / self._n

    def _state(self) -> np.ndarray:
        parts = (self._velocity, self._position, self._landmark)
        return np.concatenate([part.reshape(self.n_envs, -1) for part in parts], axis=1)
