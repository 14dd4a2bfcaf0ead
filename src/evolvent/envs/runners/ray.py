"""Copies of a ``Solo`` in Ray actors, for more than one machine; the numbers are those of ``_processes``.

Start a cluster with ``ray start`` and set RAY_ADDRESS to use it; without one, Ray runs on this machine. Evolvent must
be installed on every machine. Actions and frames go through Ray's object store, so a step costs more than with
processes: worth it only where one machine has too few cores.

An actor that dies, as with its machine, does not end the run: a new one is given the seed of the last restart and the
actions since, and stands where the dead one stood.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from evolvent.core.errors import EnvError, missing_extra
from evolvent.envs.runners.copies import Columns, Copies, Layout, shares
from evolvent.envs.runners.processes import described
from evolvent.envs.runners.solo import Solo

_START_S = 120
_DEATHS = 5  # of actors in a row, before the run gives up
_REMEMBERED = 50_000  # steps since a restart: a new actor would need too long for more


class RayActors:
    """Actors, each with a contiguous share of the copies; ``workers=0`` = one for each CPU."""

    def __init__(self, make: Callable[[], Solo], layout: Layout, n_envs: int, workers: int) -> None:
        try:
            import ray
            import ray.exceptions as failures
        except ImportError as err:
            raise missing_extra("ray", "ray", "workers=ray") from err
        if not ray.is_initialized():
            try:
                ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
            except Exception as err:  # it raises a bare Exception where a part of it does not come up in time
                do = "try `ray start --head`; a machine that is too busy makes it time out"
                raise EnvError("Ray does not start", got=str(err), where="workers=ray", do=do) from err
        self._ray: Any = ray
        self._failures = failures
        cpus = ray.cluster_resources().get("CPU", 1.0)
        workers = workers or max(1, min(n_envs, int(cpus)))
        self._shares = shares(n_envs, workers)
        self.columns: Columns = {name: np.zeros(shape, kind) for name, (shape, kind) in layout.items()}
        actor = ray.remote(num_cpus=min(1.0, cpus / workers), max_restarts=0)(Share)
        self._begin: Callable[[int, int], Any] = partial(actor.remote, make, layout)
        self._actors: list[Any] = [self._begin(first, end) for first, end in self._shares]
        self._seed, self._taken, self._deaths = 0, list[np.ndarray](), 0
        self._gather([share.reset.remote(0) for share in self._actors], _START_S)

    def reset(self, seed: int) -> None:
        """Restart all copies."""
        self._seed, self._taken = seed, []
        self._gather([share.reset.remote(seed) for share in self._open()])

    def step(self) -> None:
        """Act with ``columns["action"]``."""
        action = self.columns["action"].copy()
        if len(self._taken) <= _REMEMBERED:
            self._taken.append(action)
        pairs = zip(self._open(), self._shares, strict=True)
        self._gather([share.step.remote(action[first:end]) for share, (first, end) in pairs])

    def render(self) -> np.ndarray | None:
        """A picture of copy 0."""
        return self._ray.get(self._open()[0].render.remote())

    def close(self) -> None:
        """End the actors; Ray itself stays up for other environments until Python ends."""
        if self._ray.is_initialized():
            for share in self._actors:
                self._ray.kill(share)
        self._actors = []

    def _open(self) -> list[Any]:
        if not self._actors:
            raise EnvError("the workers are closed", where="envs", do="make the environment anew")
        return self._actors

    def _gather(self, jobs: list[Any], timeout_s: float | None = None) -> None:
        for number, (job, (first, end)) in enumerate(zip(jobs, self._shares, strict=True)):
            where = f"Ray worker {number} of {len(self._shares)}, copies {first} to {end - 1}"
            try:
                answer = self._answered(number, job, timeout_s)
            except self._failures.GetTimeoutError as error:
                self.close()
                do = "is the cluster full? see `ray status`"
                raise EnvError(f"a worker did not start in {_START_S} s", where=where, do=do) from error
            except self._failures.RayError as error:
                self.close()
                raise EnvError(f"a worker died\n{error}", where=where) from error
            if isinstance(answer, str):
                self.close()
                copy, _, text = answer.partition("\n")
                raise EnvError(text, where=f"{where}: copy {copy}")
            for name, array in answer.items():
                self.columns[name][first:end] = array
        self._deaths = 0

    def _answered(self, number: int, job: Any, timeout_s: float | None) -> Columns | str:
        """What an actor answers; if it died, what a new one answers to the same."""
        try:
            return self._ray.get(job, timeout=timeout_s)
        except self._failures.GetTimeoutError:
            raise
        except self._failures.RayError as error:
            died = error
        first, end = self._shares[number]
        while self._deaths < _DEATHS and len(self._taken) <= _REMEMBERED:
            self._deaths += 1
            share = self._actors[number] = self._begin(first, end)
            try:
                answer = self._ray.get(share.reset.remote(self._seed), timeout=_START_S)
                for action in self._taken:
                    answer = self._ray.get(share.step.remote(action[first:end]))
                return answer
            except self._failures.GetTimeoutError:
                raise
            except self._failures.RayError as error:
                died = error
        raise died


class Share:
    """What one actor holds; answers with its columns, or with the copy that failed and the traceback as text."""

    def __init__(self, make: Callable[[], Solo], layout: Layout, first: int, end: int) -> None:
        self._columns = {name: np.zeros((end - first, *shape[1:]), kind) for name, (shape, kind) in layout.items()}
        self._first, self._make = first, make
        self._copies: Copies | None = None

    def reset(self, seed: int) -> Columns | str:
        """Restart all copies."""
        return self._answer(lambda copies: copies.reset(seed))

    def step(self, action: np.ndarray) -> Columns | str:
        """Act in all copies."""
        self._columns["action"][...] = action
        return self._answer(Copies.step)

    def render(self) -> np.ndarray | None:
        """A picture of the first copy."""
        return self._copies.render() if self._copies else None

    def _answer(self, do: Callable[[Copies], None]) -> Columns | str:
        try:
            self._copies = self._copies or Copies(self._make, self._columns, self._first)
            do(self._copies)
        except Exception as error:  # noqa: BLE001  (sent to the parent, which raises it)
            return f"{self._copies.at if self._copies else self._first}\n{described(error)}"
        ended = (self._columns["terminated_B"] | self._columns["truncated_B"]).any()
        return {
            name: array
            for name, array in self._columns.items()
            if name != "action" and (ended or not name.startswith("final"))
        }
