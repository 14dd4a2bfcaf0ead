"""A grid of memory systems × conditions × seeds: what ``analyst.py`` and ``text_world.py`` share.

Every cell is a run folder under --runs; a row of the result file is added when a run ends, and rows that are there are
not run again, so a grid can be stopped and continued. All arms of a seed see the same tasks in the same order. Model
answers are cached by (model, prompt, settings), so the seconds of a row say nothing where another asked the same.
"""

from __future__ import annotations

import argparse
import json
import os

# one BLAS thread: the embedder's products are small, and on a busy machine the threads of OpenBLAS wait for each other
# (0.53 s instead of 0.014 s a text was seen); must be set before numpy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cached_model import Cached

from evolvent import models
from evolvent.core.config import to_json, with_fields
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Grid:
    """What is crossed: environment specs by condition, (algorithm, settings) by arm, settings by condition."""

    name: str
    conditions: dict[str, str]
    arms: dict[str, tuple[Any, dict[str, Any]]]
    settings: dict[str, Any]
    by_condition: dict[str, dict[str, Any]]


def main(grid: Grid, doc: str | None) -> None:
    """Run the missing cells of the grid."""
    a = _arguments(grid, doc)
    results = Path(a.out)
    with closing(_engine(a)) as engine, Live(plain=True) as live:
        model = Cached(engine, Path(a.runs) / "completions.db")
        for seed in a.seeds:
            for condition in a.condition:
                for arm in a.arms:
                    cell = {"model": a.model, "condition": condition, "arm": arm, "seed": seed}
                    if any(cell.items() <= row.items() for row in _rows(results)):
                        continue
                    live.phase(f"{condition} · {arm} · seed {seed}")
                    row = _run(grid, a, condition, arm, seed, model, live)
                    results.parent.mkdir(parents=True, exist_ok=True)
                    # read again: another process may have added rows meanwhile
                    write_atomic(results, json.dumps([*_rows(results), row], indent=1) + "\n")


def config_of(grid: Grid, condition: str, arm: str, model: str, seed: int) -> Any:
    """What a cell runs with."""
    module, own = grid.arms[arm]
    common = {"env": grid.conditions[condition], "model": model, "seed": seed, "control": False}
    return with_fields(module.Config(), **common | grid.settings | grid.by_condition.get(condition, {}) | own)


def _engine(a: argparse.Namespace) -> Any:
    return models.load(a.model, n_threads=a.threads) if a.threads else models.load(a.model)


def _run(
    grid: Grid, a: argparse.Namespace, condition: str, arm: str, seed: int, model: Any, live: Live
) -> dict[str, Any]:
    module = grid.arms[arm][0]
    config = config_of(grid, condition, arm, a.model, seed)
    path = Path(a.runs) / a.model / condition / f"{arm}-{seed}"
    command = f"python benchmarks/{grid.name}.py --model {a.model} --condition {condition} --arms {arm} --seeds {seed}"
    resume = (path / "config.json").exists()
    folder = (
        RunFolder.open(path)
        if resume
        else RunFolder.create(
            path,
            algo=module.__name__.rpartition(".")[2],
            config=to_json(config),
            env=config.env,
            seed=seed,
            command=command,
            kind=config.KIND,
        )
    )
    with closing(folder):
        without = config.model == "none"
        summary = module.run(config, folder, live, resume=resume, model=None if without else model)
        stream = [m for m in folder.read_metrics() if m["phase"] == "stream"]
    tries = max(1, len(stream))
    return {
        "model": a.model,
        "condition": condition,
        "arm": arm,
        "seed": seed,
        "config": asdict(config),
        "command": command,
        "passes": [p["rate"] for p in summary["passes"]],
        "first_encounter": summary["first_encounter"]["rate"],
        "before": _rate(summary, "before"),
        "heldout": _rate(summary, "after"),
        "heldout_attempts": getattr(config, "attempts", 1),
        "heldout_tasks": {m["task"]: m["success"] for m in folder.read_metrics() if m["phase"] == "after"},
        "stream_mean": sum(m["success"] for m in stream) / tries,
        "prompt_tokens_per_task": sum(m["prompt_tokens"] for m in stream) / tries,
        "tokens_per_task": sum(m["tokens"] for m in stream) / tries,
        "seconds_per_task": sum(m["seconds"] for m in stream) / tries,
        "health": summary["health"],
        **provenance(),
    }


def _rate(summary: dict[str, Any], phase: str) -> float | None:
    rates = [p["rate"] for p in summary["phases"] if p["phase"] == phase]
    return rates[0] if rates else None


def _rows(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text()) if path.exists() else []


def _arguments(grid: Grid, doc: str | None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--condition", nargs="+", default=list(grid.conditions), choices=list(grid.conditions))
    p.add_argument("--arms", nargs="+", default=list(grid.arms), choices=list(grid.arms))
    p.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    p.add_argument("--model", default="qwen2.5-coder-1.5b")
    p.add_argument("--threads", type=int, default=0, help="of the model; 1 suits several processes side by side")
    p.add_argument("--runs", default=str(HERE / "runs" / grid.name))
    p.add_argument("--out", default=str(HERE / "results" / f"{grid.name}.json"))
    return p.parse_args()
