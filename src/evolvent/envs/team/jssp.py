"""Job-shop scheduling: one agent chooses the next operation to start; random problems to train on, published to judge.

``jssp:train=6x6,test=ft06+la01+ta01``: what is played are random 6 x 6 problems (durations 1 to 99, machines in random
order: Taillard 1993); ``test`` names what ``evolvent run jssp`` judges itself on. ``train`` may name published ones,
too, or a file. The reward is minus the rise of a lower bound of the makespan, so that an attempt earns the bound at its
beginning minus the makespan (Zhang et al. 2020, "Learning to Dispatch", arXiv 2010.12367). A dispatcher chooses among
the operations that can start earliest (``evolvent.formulas.job_shop``); where there is one alone, it starts unasked.
"""

from __future__ import annotations

import re

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.seeding import rng
from evolvent.core.team import ActionSpec, Frame, TeamSpec
from evolvent.envs.team._job_shops import instances
from evolvent.formulas.job_shop import Instance, Shops

FEATURES = ("machine", "placed", "open", "duration", "completion", "tail", "machine work", "operations left")
"""What is seen of an operation; times but the duration in units of the time from now to the bound."""
LARGEST = 10_000
_HUES = np.array([(78, 121, 167), (242, 142, 43), (89, 161, 79), (225, 87, 89), (176, 122, 161), (156, 117, 95)])


def make_team(*, n_envs: int, train: str = "6x6", test: str = "") -> JobShop:
    """``n_envs`` copies that play problems of ``train``: JOBSxMACHINES, or names and files of one size, joined by +."""
    size = re.fullmatch(r"(\d{1,4})x(\d{1,4})", train)
    found = () if size else instances(train, f"jssp, train={train}")
    tests = instances(test, f"jssp, test={test}")
    sizes = {one.machine_JM.shape for one in found} or {tuple(map(int, size.groups())) if size else (0, 0)}
    if len(sizes) > 1 or min(sizes)[0] < 2 or not 1 <= np.prod(min(sizes)) <= LARGEST:
        expected = f"problems of one size, e.g. 6x6 or la01+la02, of 2 jobs or more and at most {LARGEST:,} operations"
        raise BadInput("what to train on", got=train, expected=expected, where="jssp, train")
    return JobShop(n_envs, min(sizes), found, tests)


class JobShop:
    """B copies; copy b begins with problem b of ``played`` and goes on round, or draws new ones where there are none.

    Observation: ``FEATURES`` of every operation, ``[J, M, F]`` in a row. Action: a job; its next operation is started.

    Attributes:
        tests: the problems of ``test``.
        shops: where the copies stand.
        ended_BJM: starts in the schedules that were completed last; −1 in copies that have completed none.
    """

    name = "jssp"

    def __init__(
        self, n_envs: int, size: tuple[int, int], played: tuple[Instance, ...], tests: tuple[Instance, ...] = ()
    ) -> None:
        self.n_envs, self._size, self._played, self.tests = n_envs, size, played, tests
        jobs, many = size
        self.team = TeamSpec(("dispatcher",), jobs * many * len(FEATURES), (ActionSpec(choices=jobs),))
        self._turn_B, self._rng = np.arange(n_envs), rng(0, "jssp")
        self.shops = Shops(np.zeros((n_envs, *size), np.int64), np.ones((n_envs, *size), np.int64))
        self._bound_B, self.ended_BJM = np.zeros(n_envs, np.int64), self.shops.start_BJM.copy()

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        self._rng, self._turn_B = rng(seed, "jssp"), np.arange(self.n_envs)
        everybody_B = np.ones(self.n_envs, np.bool_)
        obs_BAD, self._bound_B = self._begin(everybody_B)
        return Frame(obs_BAD, np.zeros((self.n_envs, 1), np.float32), ~everybody_B, ~everybody_B, self._open())

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        self.shops.place(action[:, 0])
        while (forced_B := (open_BJ := self.shops.open()).sum(axis=1) == 1).any():
            self.shops.place(open_BJ.argmax(axis=1), forced_B)
        obs_BAD, bound_B = self._look()
        reward_BA = -(bound_B - self._bound_B).astype(np.float32)[:, None]
        done_B = (self.shops.next_BJ == self._size[1]).all(axis=1)
        last, info = dict[str, np.ndarray](), dict[str, np.ndarray]()
        if done_B.any():
            info = {"makespan": np.where(done_B, bound_B, np.nan).astype(np.float32)}
            last = {"final_obs_BAD": obs_BAD, "final_available_BAN": self._open()}
            self.ended_BJM[done_B] = self.shops.start_BJM[done_B]
            obs_BAD, bound_B = self._begin(done_B)
        self._bound_B = bound_B
        cut_B = np.zeros_like(done_B)
        return Frame(obs_BAD, reward_BA, done_B, cut_B, self._open(), **last, info=info)

    def render(self) -> np.ndarray:
        """Copy 0 as a Gantt chart: a row a machine, time to the right, jobs in colour; uint8 ``[H, 320, 3]``."""
        shops, high = self.shops, 12
        picture = np.full((high * self._size[1], 320, 3), 255, np.uint8)
        scale = 320 / max(int(self._bound_B[0]), 1)
        for job, k in np.argwhere(shops.start_BJM[0] >= 0).tolist():
            start, row = int(shops.start_BJM[0, job, k]), high * int(shops.machine_BJM[0, job, k])
            span = slice(int(start * scale), max(int((start + shops.duration_BJM[0, job, k]) * scale) - 1, 1))
            picture[row + 1 : row + high - 1, span] = _HUES[job % len(_HUES)]
        return picture

    def close(self) -> None:
        """Nothing is held."""

    def _begin(self, which_B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = np.flatnonzero(which_B)
        if self._played:
            chosen = [self._played[turn % len(self._played)] for turn in self._turn_B[rows]]
            machine, duration = (np.stack([getattr(x, a) for x in chosen]) for a in ("machine_JM", "duration_JM"))
            self._turn_B[rows] += self.n_envs
        else:
            shape = (len(rows), *self._size)
            machine, duration = self._rng.random(shape).argsort(axis=2), self._rng.integers(1, 100, shape)
        self.shops.restart(which_B, machine, duration)
        return self._look()

    def _open(self) -> np.ndarray:
        return self.shops.open()[:, None]

    def _look(self) -> tuple[np.ndarray, np.ndarray]:
        """What is seen, ``[B, 1, D]``, and the lower bounds ``[B]``."""
        shops, many = self.shops, self._size[1]
        machine, duration, k = shops.machine_BJM, shops.duration_BJM, np.arange(many)
        open_BJ, left = shops.open(), shops.start_BJM < 0
        end = shops.completion()
        bound_B = shops.bound(end)
        now_B = np.where(open_BJ, shops.earliest(), bound_B[:, None]).min(axis=1)
        ahead = np.maximum(bound_B - now_B, 1)[:, None, None]
        work = np.where(left, duration, 0)
        tail = work[..., ::-1].cumsum(axis=2)[..., ::-1]
        on_machine = np.take_along_axis(shops.machine_work()[:, None], machine, 2)
        obs = np.empty((*machine.shape, len(FEATURES)), np.float32)
        obs[..., 0], obs[..., 1] = machine, ~left
        obs[..., 2] = open_BJ[..., None] & (k == shops.next_BJ[..., None])
        obs[..., 3] = duration / np.maximum(duration.mean(axis=(1, 2), keepdims=True), 1e-9)
        obs[..., 4] = np.maximum(end - now_B[:, None, None], 0) / ahead
        obs[..., 5], obs[..., 6] = tail / ahead, on_machine / ahead
        obs[..., 7] = left * (many - k) / many
        return obs.reshape(self.n_envs, 1, -1), bound_B
