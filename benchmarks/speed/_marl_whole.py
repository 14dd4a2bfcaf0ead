"""Whole runs against the environment's own speed with random actions, update by update in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from evolvent import envs
from evolvent.core.config import to_json, with_fields
from evolvent.core.errors import missing_extra
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.learn.team.batch import View
from evolvent.runs.team.evaluation import random_act

PHASES = ("act", "step", "credit", "learn")
Work = Callable[[], None]


class Between(RunFolder):
    """A run folder that does something else after every update, and keeps what the updates took."""

    work: Work = staticmethod(lambda: None)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.rows: list[dict[str, float]] = []
        self._from: tuple[float, float] | None = None

    def log(self, step: int, **values: Any) -> None:
        """As of ``RunFolder``; a line of an update ends one measurement and begins the next."""
        now = time.perf_counter(), time.process_time()
        super().log(step, **values)
        if "update" in values:
            if self._from is not None:
                spent = {"wall": now[0] - self._from[0], "cpu": now[1] - self._from[1]}
                self.rows.append(spent | {name: float(values[f"{name}_s"]) for name in PHASES})
            self.work()
            self._from = time.perf_counter(), time.process_time()


def against_random(
    algo: Any, config: Any, random: Callable[[], tuple[Work, Work]], steps: int, rounds: int
) -> dict[str, Any]:
    """Run an algorithm for ``rounds`` updates and, between them, the environment with random actions.

    Args:
        algo: a module of ``algos``.
        config: its settings; as many updates are made as there are rounds, and one before that is not counted.
        random: opens the environment: a function that takes ``steps`` steps in all copies, and one that closes it.
        steps: of a random stretch.
        rounds: how often.

    Returns:
        Environment steps per second of random actions (``random``), of acting and stepping (``collect``) and of all
        (``whole``), medians; ``share_*``: medians over rounds of their ratios to random actions; ``milliseconds`` of
        each part for a step of all copies.
    """
    config = with_fields(
        config, steps=(rounds + 1) * config.envs * config.horizon, eval_every=0, eval_episodes=1, save_every=10**6
    )
    took: list[tuple[float, float]] = []
    step, close = random()

    def work() -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        took.append((time.perf_counter() - wall, time.process_time() - cpu))

    with TemporaryDirectory() as place, Live(plain=True, stream=StringIO()) as live:
        run_path = Path(place) / "run"
        settings, name = to_json(config), algo.__name__
        folder = Between.create(run_path, algo=name, config=settings, env=config.env, seed=config.seed, command="")
        assert isinstance(folder, Between)
        folder.work = work
        with folder:
            algo.run(config, folder, live)
    close()
    rows = {name: np.array([row[name] for row in folder.rows]) for name in ("wall", "cpu", *PHASES)}
    free_wall, free_cpu = np.array(took[: len(folder.rows)]).T / (steps * config.envs)  # seconds a step of one copy
    each = config.horizon * config.envs
    collect, whole, whole_cpu = (rows["act"] + rows["step"]) / each, rows["wall"] / each, rows["cpu"] / each
    metrics: dict[str, Any] = {
        "random": _rate(free_wall),
        "collect": _rate(collect),
        "whole": _rate(whole),
        "share_collect": _share(free_wall, collect),
        "share_whole": _share(free_wall, whole),
        "milliseconds": {name: round(1e3 * float(np.median(rows[name])) / config.horizon, 3) for name in PHASES},
    }
    if config.plan.workers or config.plan.device != "cpu":  # others work too: this process's own time says little
        return metrics
    own = {"random_cpu": _rate(free_cpu), "whole_cpu": _rate(whole_cpu), "share_whole_cpu": _share(free_cpu, whole_cpu)}
    return metrics | own


def team_random(spec: str, copies: int, steps: int, workers: int = 0) -> tuple[Work, Work]:
    """Random actions through our own adapter."""
    env = envs.load_team(spec, copies, workers=workers)
    act, generator = random_act(env.team), torch.Generator()
    view = View(torch.from_numpy(env.reset(0).obs_BAD), torch.zeros(copies, 0))

    def work() -> None:
        for _ in range(steps):
            env.step(act(view, False, generator).numpy())

    return work, env.close


def vmas_random(scenario: str, copies: int, steps: int, device: str, limit: int = 100) -> tuple[Work, Work]:
    """Random actions through VMAS itself, restarted after ``limit`` steps."""
    try:
        import vmas
    except ImportError as err:
        raise missing_extra("vmas", "vmas", "bench.marl") from err
    env: Any = vmas.make_env(scenario, copies, device, True, seed=0)
    state = {"t": 0}
    env.reset()

    def work() -> None:
        for _ in range(steps):
            if state["t"] == limit:
                env.reset()
                state["t"] = 0
            env.step([env.get_random_action(agent) for agent in env.agents])
            state["t"] += 1
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    return work, lambda: None


def _rate(seconds: np.ndarray) -> int:
    return round(1.0 / max(float(np.median(seconds)), 1e-12))


def _share(free: np.ndarray, ours: np.ndarray) -> float:
    return round(float(np.median(free / ours)), 4)
