"""The analyst grid: memory systems × reviewer errors × seeds on the real model, and the drift run.

    python benchmarks/analyst.py --condition wrong0.4 --arms rag memrl memlift --seeds 0 1 2

Every run is a run folder under --runs; a row of the result file is added when a run ends, and rows that are there are
not run again, so the grid can be stopped and continued. All arms of a seed see the same tasks in the same order, the
same reviewer, the same gate and k. Completions are cached by (model, prompt, settings); the seconds of a cached
completion are those of its first computation.
"""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evolvent import models
from evolvent.algos import memlift, memp, memq, memrl, no_memory, rag
from evolvent.core.config import to_json
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live
from evolvent.models.cached import Cached

HERE = Path(__file__).parent
CONDITIONS = {
    "wrong0": "analyst:kinds=12",
    "wrong0.2": "analyst:kinds=12,reviewer_wrong=0.2",
    "wrong0.4": "analyst:kinds=12,reviewer_wrong=0.4",
    "drift": "analyst:kinds=12,drift=0.5,drift_at=3",
}
PASSES = {"drift": 4}
ARMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "none": (no_memory, {"passes": 1}),
    "pass@k": (no_memory, {"passes": 1, "attempts": 3, "temperature": 0.8}),
    "shuffled": (rag, {"shuffled": True}),
    "rag": (rag, {}),
    "rag-hybrid": (rag, {"relevance": "hybrid"}),
    "memp": (memp, {}),
    "memrl": (memrl, {}),
    "memrl-hybrid": (memrl, {"relevance": "hybrid", "gate": 0.3}),
    "memq": (memq, {}),
    "memlift": (memlift, {}),
    "memlift-cosine": (memlift, {"relevance": "cosine", "gate": 0.37}),
}


def main() -> None:
    """Run the missing cells of the grid."""
    a = _arguments()
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
                    row = _run(a, condition, arm, seed, model, live)
                    results.parent.mkdir(parents=True, exist_ok=True)
                    # read again: another process may have added rows meanwhile
                    write_atomic(results, json.dumps([*_rows(results), row], indent=1) + "\n")


def _engine(a: argparse.Namespace) -> Any:
    return models.load(a.model, n_threads=a.threads) if a.threads else models.load(a.model)


def _run(a: argparse.Namespace, condition: str, arm: str, seed: int, model: Any, live: Live) -> dict[str, Any]:
    module, settings = ARMS[arm]
    config = module.Config(
        env=CONDITIONS[condition], model=a.model, seed=seed, train=a.train, heldout=a.heldout, control=False,
        **{"passes": PASSES.get(condition, a.passes), **settings},
    )  # fmt: skip
    if condition == "drift" and module is no_memory:
        config = replace(config, passes=PASSES["drift"] if arm == "none" else 1)
    path = Path(a.runs) / condition / f"{arm}-{seed}"
    command = f"python benchmarks/analyst.py --condition {condition} --arms {arm} --seeds {seed}"
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
        )
    )
    with closing(folder):
        summary = module.run(config, folder, live, resume=resume, model=model)
        stream = [m for m in folder.read_metrics() if m["phase"] == "stream"]
    tries = max(1, len(stream))
    return {
        "model": a.model, "condition": condition, "arm": arm, "seed": seed, "config": asdict(config),
        "command": command,
        "passes": [p["rate"] for p in summary["passes"]],
        "first_encounter": summary["first_encounter"]["rate"],
        "before": _rate(summary, "before"), "heldout": _rate(summary, "after"),
        "heldout_tasks": {m["task"]: m["success"] for m in folder.read_metrics() if m["phase"] == "after"},
        "stream_mean": sum(m["success"] for m in stream) / tries,
        "prompt_tokens_per_task": sum(m["prompt_tokens"] for m in stream) / tries,
        "tokens_per_task": sum(m["tokens"] for m in stream) / tries,
        "seconds_per_task": sum(m["seconds"] for m in stream) / tries,
        "health": summary["health"], **provenance(),
    }  # fmt: skip


def _rate(summary: dict[str, Any], phase: str) -> float | None:
    rates = [p["rate"] for p in summary["phases"] if p["phase"] == phase]
    return rates[0] if rates else None


def _rows(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text()) if path.exists() else []


def _arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--condition", nargs="+", default=list(CONDITIONS), choices=list(CONDITIONS))
    p.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    p.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    p.add_argument("--model", default="qwen2.5-coder-1.5b")
    p.add_argument("--threads", type=int, default=0, help="of the model; 1 suits several processes side by side")
    p.add_argument("--passes", type=int, default=3)
    p.add_argument("--train", type=int, default=24)
    p.add_argument("--heldout", type=int, default=24)
    p.add_argument("--runs", default=str(HERE / "runs" / "analyst"))
    p.add_argument("--out", default=str(HERE / "results" / "analyst.json"))
    return p.parse_args()


if __name__ == "__main__":
    main()
