"""Job-shop scheduling: shops in progress, dispatch rules, and a check of schedules that shares no code with them.

J jobs have M operations each, one on each of M machines, in an order of their own; a machine does one at a time. What
is wanted is the shortest makespan: the time at which all is done. A dispatcher chooses the next operation again and
again, among those that can start earliest (schedules without needless delay; the optimum need not be among them), and
the operation starts as soon as its job and its machine are free.

Source: Giffler and Thompson 1960; the rules as in Haupt 1989, "A survey of priority rule-based scheduling".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from evolvent.core.errors import BadInput


@dataclass(frozen=True, eq=False)
class Instance:
    """One problem.

    Attributes:
        machine_JM: int64, the machine of every job's k-th operation: 0 to M - 1, each once a job.
        duration_JM: int64, of the same operations, in units of time; not negative.
        bounds: the best makespan that is known, from below and from above; 0 = not known.
    """

    name: str
    machine_JM: np.ndarray
    duration_JM: np.ndarray
    bounds: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        machine, duration = self.machine_JM, self.duration_JM
        if machine.ndim != 2 or not machine.size or machine.shape != duration.shape:
            got, expected = f"{machine.shape} and {duration.shape}", "machines and durations, [jobs, machines] each"
            raise BadInput("an instance of the wrong shape", got=got, expected=expected, where=self.name)
        many = machine.shape[1]
        for job, row in enumerate(machine.tolist()):
            where = f"{self.name}, job {job}"
            if outside := [one for one in row if not 0 <= one < many]:
                raise BadInput("no such machine", got=outside[0], expected=f"0 to {many - 1}", where=where)
            if twice := [one for one in row if row.count(one) > 1]:
                expected = "each machine once a job: a job that comes back to a machine is a cycle"
                raise BadInput("a job uses a machine twice", got=f"machine {twice[0]}", expected=expected, where=where)
            if (shortest := duration[job].min()) < 0:
                raise BadInput("a negative duration", got=int(shortest), expected="0 or more", where=where)


class Shops:
    """B shops of one size in progress; columns are over copies, jobs, and operations in the order of their job.

    Attributes:
        machine_BJM, duration_BJM: int64, the instances.
        next_BJ: how many operations of each job are placed; M = the job is complete.
        start_BJM: their starts; −1 = not placed.
        job_free_BJ, machine_free_BM: when what is placed is over.
    """

    def __init__(self, machine_BJM: np.ndarray, duration_BJM: np.ndarray) -> None:
        self.machine_BJM, self.duration_BJM = machine_BJM, duration_BJM
        copies, jobs, many = machine_BJM.shape
        self.next_BJ, self.job_free_BJ = np.zeros((2, copies, jobs), np.int64)
        self.machine_free_BM, self.start_BJM = np.zeros((copies, many), np.int64), np.full(machine_BJM.shape, -1)

    def restart(self, which_B: np.ndarray, machine_BJM: np.ndarray, duration_BJM: np.ndarray) -> None:
        """Begin anew in some copies, with these instances."""
        self.machine_BJM[which_B], self.duration_BJM[which_B], self.start_BJM[which_B] = machine_BJM, duration_BJM, -1
        for column in (self.next_BJ, self.job_free_BJ, self.machine_free_BM):
            column[which_B] = 0

    def upcoming(self, column_BJM: np.ndarray) -> np.ndarray:
        """A column at every job's next operation, ``[B, J]``; at its last one where it is complete."""
        at = np.minimum(self.next_BJ, column_BJM.shape[2] - 1)
        return np.take_along_axis(column_BJM, at[..., None], 2)[..., 0]

    def earliest(self) -> np.ndarray:
        """When every job's next operation can start, int64 ``[B, J]``; where a job is complete it says nothing."""
        free = np.take_along_axis(self.machine_free_BM, self.upcoming(self.machine_BJM), 1)
        return np.maximum(self.job_free_BJ, free)

    def open(self) -> np.ndarray:
        """The jobs whose next operation can start earliest, bool ``[B, J]``; none where all is done."""
        left = self.next_BJ < self.machine_BJM.shape[2]
        start = np.where(left, self.earliest(), np.iinfo(np.int64).max)
        return left & (start == start.min(axis=1, keepdims=True))

    def place(self, job_B: np.ndarray, which_B: np.ndarray | None = None) -> None:
        """Start the next operation of one job in every copy, or in some copies."""
        rows = np.arange(len(job_B)) if which_B is None else np.flatnonzero(which_B)
        job = job_B[rows]
        k, start = self.next_BJ[rows, job], self.earliest()[rows, job]
        self.start_BJM[rows, job, k], self.next_BJ[rows, job] = start, k + 1
        end = start + self.duration_BJM[rows, job, k]
        self.job_free_BJ[rows, job] = self.machine_free_BM[rows, self.machine_BJM[rows, job, k]] = end

    def completion(self) -> np.ndarray:
        """When every operation is over, at best: int64 ``[B, J, M]``, what is placed exactly."""
        free = np.take_along_axis(self.machine_free_BM[:, None], self.machine_BJM, 2)
        end = np.where(self.start_BJM >= 0, self.start_BJM, 0) + self.duration_BJM
        for k in range(end.shape[2]):
            before = end[..., k - 1] if k else np.zeros_like(end[..., 0])
            soonest = np.maximum(before, free[..., k]) + self.duration_BJM[..., k]
            end[..., k] = np.where(self.start_BJM[..., k] >= 0, end[..., k], soonest)
        return end

    def machine_work(self) -> np.ndarray:
        """What every machine has still to do, in units of time, ``[B, M]``."""
        left = np.where(self.start_BJM < 0, self.duration_BJM, 0)
        order = np.argsort(self.machine_BJM, axis=2)
        return np.take_along_axis(left, order, 2).sum(axis=1)

    def bound(self, completion_BJM: np.ndarray) -> np.ndarray:
        """A lower bound of the makespan that never falls, ``[B]``; the makespan itself where all is done."""
        machines = (self.machine_free_BM + self.machine_work()).max(axis=1)
        return np.maximum(completion_BJM[..., -1].max(axis=1), machines)


Rule = Callable[[Shops], np.ndarray]
"""Priorities of the jobs ``[B, J]``; of those that are open the first with the highest is next."""


def _work(shops: Shops) -> np.ndarray:
    return np.where(shops.start_BJM < 0, shops.duration_BJM, 0).sum(axis=2)


RULES: dict[str, Rule] = {
    "SPT": lambda shops: -shops.upcoming(shops.duration_BJM),
    "MWKR": _work,
    "MOPNR": lambda shops: -shops.next_BJ,
    "FIFO": lambda shops: -shops.job_free_BJ,
}
"""Shortest processing time, most work remaining, most operations remaining, first in first out."""


def dispatched(instance: Instance, rule: Rule, copies: int = 1) -> np.ndarray:
    """Starts of all operations by a rule, int64 ``[copies, J, M]``; several copies are for a rule that draws."""
    jobs, many = instance.machine_JM.shape
    shops = Shops(*(np.repeat(x[None], copies, axis=0) for x in (instance.machine_JM, instance.duration_JM)))
    for _ in range(jobs * many):
        lowest = np.iinfo(np.int64).min
        shops.place(np.where(shops.open(), rule(shops), lowest).argmax(axis=1))
    return shops.start_BJM


def drawn(rng: np.random.Generator) -> Rule:
    """A rule that draws uniformly among what is open."""
    return lambda shops: rng.integers(1 << 40, size=shops.next_BJ.shape)


def makespan(instance: Instance, start_JM: np.ndarray) -> int:
    """When the last operation of a schedule is over.

    Raises:
        BadInput: the schedule is infeasible (``fault``): it has no makespan.
    """
    if said := fault(instance, start_JM):
        raise BadInput("an infeasible schedule", got=said, where=instance.name)
    return int((start_JM + instance.duration_JM).max())


def fault(instance: Instance, start_JM: np.ndarray) -> str:
    """What makes a schedule infeasible, in words; "" = nothing. It looks at the starts alone, not at how they came.

    Every operation starts at a whole time from 0 on, not before the one before it in its job is over, and no two
    overlap on a machine.
    """
    if start_JM.shape != instance.machine_JM.shape or start_JM.dtype.kind not in "iu":
        return f"starts are {start_JM.dtype} {start_JM.shape}, not integers {instance.machine_JM.shape}"
    on: dict[int, list[tuple[int, int, int]]] = {}
    for job, rows in enumerate(zip(instance.machine_JM, start_JM, instance.duration_JM, strict=True)):
        over = 0
        for machine, start, length in zip(*(row.tolist() for row in rows), strict=True):
            if start < over:
                return f"job {job} starts on machine {machine} at {start}, before {over}"
            over = start + length
            if length:
                on.setdefault(machine, []).append((start, over, job))
    for machine, spans in sorted(on.items()):
        spans.sort()
        for (_, over, one), (start, _, other) in pairwise(spans):
            if start < over:
                return f"machine {machine} is given to job {other} at {start} while job {one} is there until {over}"
    return ""
