"""Learners × tasks × seeds: what the ``marl_*.py`` and ``language_*.py`` scripts share.

Every cell is a run folder under --runs; a row of the result file is added when a run ends, and rows that are there are
not run again. A run that was stopped (Ctrl-C) goes on where its last checkpoint stands.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time

# small products on one core: the threads of two BLAS would wait for each other; before numpy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from evolvent.core import config as configs
from evolvent.core.config import with_fields
from evolvent.core.folder import Interrupted, RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live

HERE = Path(__file__).parent
POINTS = 240
PARTS = ("act", "step", "credit", "learn")


@dataclass(frozen=True)
class Cell:
    """One line of a table.

    Attributes:
        task, arm: where it stands.
        algo: a module of ``evolvent.algos``, or a learner that the script brings.
        settings: fields of its ``Config``.
        start: task and arm whose weights it starts with.
        keep: columns of the log that begin so are kept in the row, as ``measured``.
    """

    task: str
    arm: str
    algo: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    start: tuple[str, str] | None = None
    keep: str = ""


def main(
    name: str,
    cells: Sequence[Cell],
    doc: str | None,
    *,
    seeds: Sequence[int],
    minutes: float = 0.0,
    learners: Mapping[str, Any] | None = None,
) -> None:
    """Run the missing cells, seed by seed.

    Args:
        name: of the script, its result file and its runs.
        cells: what is crossed with the seeds; a cell that starts from another comes after it.
        doc: for --help.
        seeds: those that are run where --seeds does not say otherwise.
        minutes: time for a run whose settings name no steps; 0 = all settings do.
        learners: what a cell's ``algo`` may name besides our algorithms: has ``Config`` and ``run``.
    """
    a = _arguments(name, cells, doc, seeds, minutes)
    results = Path(a.out)
    with Live(plain=True) as live:
        for seed, cell in _missing(results, cells, a):
            live.phase(f"{cell.task} · {cell.arm} · seed {seed}")
            path = folder_of(Path(a.runs), cell.task, cell.arm, seed)
            command = f"python benchmarks/{name}.py --tasks {cell.task} --arms {cell.arm} --seeds {seed}"
            if minutes and "steps" not in cell.settings:
                command += f" --steps {a.steps}" if a.steps else f" --minutes {a.minutes:g}"
            if a.device:
                command += f" --device {a.device}"
                cell = replace(cell, settings=cell.settings | {"device": a.device})
            module = (learners or {}).get(cell.algo) or importlib.import_module(f"evolvent.algos.{cell.algo}")
            try:
                add(results, run(module, cell, seed, path, command, live, minutes=a.minutes, steps=a.steps))
            except Interrupted:
                live.note("stopped; the same command goes on")
                return


def run(
    module: Any, cell: Cell, seed: int, path: Path, command: str, live: Live, *, minutes: float = 0.0, steps: int = 0
) -> dict[str, Any]:
    """Run a cell in the folder ``path``, or go on with it, and give its row.

    A cell that names no steps gets ``steps``, or as many as fit into ``minutes``.
    """
    import torch

    torch.set_num_threads(1)
    resume = (path / "config.json").exists()
    if resume:
        folder = RunFolder.open(path)
        config = configs.from_json(module.Config, folder.config)
    else:
        config = with_fields(module.Config(), **{**cell.settings, "seed": seed})
        if cell.start is not None:
            config = with_fields(config, init=str(folder_of(path.parent.parent, *cell.start, seed)))
        if minutes and "steps" not in cell.settings:
            config = replace(config, steps=steps or steps_in(module, config, minutes, live))
        folder = RunFolder.create(
            path,
            algo=cell.algo,
            config=configs.to_json(config),
            env=config.env,
            seed=seed,
            command=command,
            kind=config.KIND,
        )
    spent = time.process_time()
    with folder:
        if not folder.finished:
            folder.write_summary(module.run(config, folder, live, resume=resume))
        summary, metrics = folder.summary(), folder.read_metrics()
    updates = [m for m in metrics if "update" in m]
    head: dict[str, Any] = {"task": cell.task, "arm": cell.arm, "algo": cell.algo, "seed": seed, "command": command}
    if cell.keep:
        kept = ({k: v for k, v in m.items() if k == "step" or k.startswith(cell.keep)} for m in updates)
        head["measured"] = [row for row in kept if len(row) > 1]
    sampled = sum(m.get("sampled_tokens", 0) for m in updates)
    head |= {"tokens": sampled} if sampled else {}
    head |= {} if resume else {"cpu_s": round(time.process_time() - spent, 1)}  # what a busy machine does not change
    return head | {
        # not a path of this machine
        "config": configs.to_json(with_fields(config, init="/".join(cell.start)) if cell.start else config),
        "greedy": summary["greedy"],
        "sampled": summary["sampled"],
        "random": summary["baseline"],
        "steps": summary["steps"],
        "updates": summary["updates"],
        "curve": curve(updates),
        "evaluations": [_short(m) for m in metrics if m.get("phase") == "eval"],
        "seconds": {name: round(sum(m[f"{name}_s"] for m in updates), 1) for name in PARTS},
        **provenance(),
    }


def curve(updates: Sequence[dict[str, Any]]) -> list[list[float]]:
    """At most 240 points: the step, and the mean return of the attempts that ended since the point before."""
    size = max(1, -(-len(updates) // POINTS))
    parts = [updates[i : i + size] for i in range(0, len(updates), size)]
    points = ((part[-1]["step"], [m["return"] for m in part if m["return"] is not None]) for part in parts)
    return [[step, round(fmean(one), 4)] for step, one in points if one]


def steps_in(module: Any, config: Any, minutes: float, live: Live) -> int:
    """How many environment steps fit into the time, by a trial of three updates."""
    trial = with_fields(config, steps=3 * config.envs * config.horizon, eval_every=0, eval_episodes=1)
    with TemporaryDirectory() as place:
        folder = RunFolder.create(
            Path(place) / "trial", algo="trial", config={}, env=config.env, seed=config.seed, command="trial"
        )
        with folder:
            module.run(trial, folder, live)
        logged = [m["steps_per_s"] for m in folder.read_metrics() if "update" in m]
    each = config.envs * config.horizon
    steps = max(1, round(fmean(logged[1:]) * 60.0 * minutes / each)) * each
    live.note(f"{steps:,} steps in {minutes:g} minutes at {fmean(logged[1:]):.0f} steps/s")
    return steps


def folder_of(runs: Path, task: str, arm: str, seed: int) -> Path:
    """Where the run of a cell lies."""
    return runs / task / f"{arm}-{seed}"


def add(results: Path, row: dict[str, Any]) -> None:
    """Add a row; the file is read again, since another process may have added some meanwhile."""
    results.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(each) for each in [*rows(results), row])
    write_atomic(results, f"[\n{lines}\n]\n")


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a result file, none where there is no file."""
    return json.loads(path.read_text("utf-8")) if path.exists() else []


def _missing(results: Path, cells: Sequence[Cell], a: argparse.Namespace) -> Iterator[tuple[int, Cell]]:
    for seed in a.seeds:
        for cell in cells:
            if cell.task in a.tasks and cell.arm in a.arms:
                key = {"task": cell.task, "arm": cell.arm, "seed": seed}
                if not any(key.items() <= row.items() for row in rows(results)):
                    yield seed, cell


def _short(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("step", "value", "ci95", "n", "success_mean") if name in row}


def _arguments(
    name: str, cells: Sequence[Cell], doc: str | None, seeds: Sequence[int], minutes: float
) -> argparse.Namespace:
    tasks, arms = (list(dict.fromkeys(column)) for column in zip(*((c.task, c.arm) for c in cells), strict=True))
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tasks", nargs="+", default=tasks, choices=tasks)
    p.add_argument("--arms", nargs="+", default=arms, choices=arms)
    p.add_argument("--seeds", nargs="+", type=int, default=list(seeds))
    if minutes:
        p.add_argument("--minutes", type=float, default=minutes, help="of a run: its steps are found by a trial")
        p.add_argument("--steps", type=int, default=0, help="of a run, instead of --minutes: the same for all")
    p.add_argument("--device", default="", help="of torch, where it is not the cells' own")
    p.add_argument("--runs", default=str(HERE / "runs" / name))
    p.add_argument("--out", default=str(HERE / "results" / f"{name}.json"))
    p.set_defaults(minutes=minutes, steps=0)
    return p.parse_args()
