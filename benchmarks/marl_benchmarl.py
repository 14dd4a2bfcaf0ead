"""Environment steps per second, everything included: our MAPPO against BenchMARL's on VMAS simple_spread.

    python benchmarks/marl_benchmarl.py --python .venv-benchmarl/bin/python

Same task (3 agents, continuous, cut off after 100 steps), copies, steps and passes of an iteration, minibatches, shared
actor and central critic of the same widths (BenchMARL: tanh; ours: ReLU with layer norms), one thread each. The sides
take turns, round by round, in processes of their own; the first iteration of each is not counted. Rates are medians
over iterations of this process's own time and of the clock; the interval is a bootstrap of the ratio of the medians
over rounds and iterations. BenchMARL has an environment of its own (requirements-benchmarl.txt).
"""

import argparse
import json
import os

# one thread, as the other side has; before numpy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from speed._marl_whole import Between

from evolvent.algos import mappo
from evolvent.core.config import with_fields
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.evaluate.live import Live
from evolvent.models.team.actors import Actors

HERE = Path(__file__).parent
# as many gradient steps on both sides: whole batches, parts of 4,096 joint steps, the counts of BenchMARL's defaults
SETTINGS = {
    "one_minibatch": {"envs": 1024, "horizon": 20, "epochs": 5, "minibatches": 1},
    "five_minibatches": {"envs": 1024, "horizon": 20, "epochs": 5, "minibatches": 5},
    "benchmarl_defaults": {"envs": 10, "horizon": 600, "epochs": 45, "minibatches": 15},
}
SHARED = {
    "hidden": [128, 128],
    "lr": 5e-4,
    "clip": 0.2,
    "entropy": 0.01,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "grad_clip": 10.0,
}


def main() -> None:
    """Race and write the result file."""
    a = _arguments()
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    with Live(plain=True) as live:
        for name in a.settings:
            want = {**SHARED, **SETTINGS[name], "iterations": a.iterations, "device": a.device}
            want |= {"envs": a.envs} if a.envs else {}
            sides: dict[str, list[np.ndarray]] = {"ours": [], "benchmarl": []}
            for turn in range(a.rounds):
                for side in sorted(sides, reverse=bool(turn % 2)):
                    live.note(f"{name}, round {turn + 1} of {a.rounds}: {side}")
                    rows, facts = (ours if side == "ours" else theirs)({**want, "seed": turn}, a)
                    sides[side].append(rows)
                    if side == "benchmarl":
                        found["benchmarl"] = facts
            found[name] = {"settings": want, **compared(sides, want["envs"] * want["horizon"])}
            live.note(f"{name}: {found[name]['ratio_cpu']:.2f} times the steps per second (process time)")
        command = (
            "python benchmarks/marl_benchmarl.py --python PYTHON " + f"--rounds {a.rounds} --iterations {a.iterations}"
        )
        load = [round(x, 1) for x in os.getloadavg()]
        content = {"command": command, "load": load, "actor_parameters": actor_size(), **found, **provenance()}
        write_atomic(Path(a.out), dump(content, indent=1) + "\n")
        live.note(f"result: {a.out}")


def ours(want: dict[str, Any], a: argparse.Namespace) -> tuple[np.ndarray, dict[str, Any]]:
    """Seconds ``[iterations - 1, (wall, cpu)]`` of our iterations."""
    config = with_fields(
        mappo.Config(),
        env="vmas:simple_spread",
        seed=want["seed"],
        envs=want["envs"],
        horizon=want["horizon"],
        ids=False,
        steps=want["iterations"] * want["envs"] * want["horizon"],
        epochs=want["epochs"],
        critic_epochs=want["epochs"],
        minibatches=want["minibatches"],
        hidden=tuple(want["hidden"]),
        lr=want["lr"],
        critic_lr=want["lr"],
        clip=want["clip"],
        entropy=want["entropy"],
        gamma=want["gamma"],
        gae_lambda=want["gae_lambda"],
        grad_clip=want["grad_clip"],
        eval_every=0,
        eval_episodes=1,
        device=want["device"],
    )
    with TemporaryDirectory() as place, Live(plain=True) as live:
        folder = Between.create(
            Path(place) / "run", algo="mappo", config={}, env=config.env, seed=config.seed, command=""
        )
        assert isinstance(folder, Between)
        with folder:
            mappo.run(config, folder, live)
    return np.array([[row["wall"], row["cpu"]] for row in folder.rows]), {}


def theirs(want: dict[str, Any], a: argparse.Namespace) -> tuple[np.ndarray, dict[str, Any]]:
    """The same of BenchMARL's."""
    words = [a.python, str(HERE / "benchmarl_worker.py"), json.dumps(want)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"BenchMARL's side failed:\n{done.stderr[-3000:]}")
    data = json.loads(done.stdout.strip().splitlines()[-1])
    return np.diff(np.array(data["rows"]), axis=0), {"versions": data["versions"], "parameters": data["parameters"]}


def compared(sides: dict[str, list[np.ndarray]], frames: int) -> dict[str, Any]:
    """Steps per second of both and their ratio, on the clock and of the processes' own time, with intervals."""
    out: dict[str, Any] = {"frames_per_iteration": frames}
    generator = np.random.default_rng(0)
    for column, name in enumerate(("wall", "cpu")):
        seconds = {side: [rows[:, column] for rows in rounds] for side, rounds in sides.items()}
        medians = {side: float(np.median(np.concatenate(rounds))) for side, rounds in seconds.items()}
        out |= {f"{side}_steps_per_s_{name}": round(frames / spent) for side, spent in medians.items()}
        draws = [
            _resampled(seconds["benchmarl"], generator) / _resampled(seconds["ours"], generator) for _ in range(2000)
        ]
        low, high = np.percentile(draws, [2.5, 97.5])
        out[f"ratio_{name}"] = round(medians["benchmarl"] / medians["ours"], 3)
        out[f"ratio_{name}_ci95"] = [round(float(low), 3), round(float(high), 3)]
    out["rounds"], out["iterations_counted"] = len(sides["ours"]), int(sum(len(rows) for rows in sides["ours"]))
    return out


def actor_size() -> int:
    """Parameters of our shared actor on this task."""
    team = TeamSpec(("a", "b", "c"), 14, (ActionSpec(dims=2),) * 3)
    return sum(p.numel() for p in Actors(team, 14, hidden=tuple(SHARED["hidden"]), shared=True).parameters())


def _resampled(rounds: list[np.ndarray], generator: np.random.Generator) -> float:
    chosen = [rounds[i] for i in generator.integers(0, len(rounds), len(rounds))]
    return float(np.median(np.concatenate([generator.choice(part, len(part)) for part in chosen])))


def _arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--python", required=True, help="of the environment with BenchMARL")
    p.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    p.add_argument("--envs", type=int, default=0, help="copies, for a trial; 0 = those of the setting")
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--iterations", type=int, default=6)
    p.add_argument("--device", default="cpu")
    p.add_argument("--out", default=str(HERE / "results" / "marl_benchmarl.json"))
    return p.parse_args()


if __name__ == "__main__":
    main()
