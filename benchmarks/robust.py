"""What disturbances cost: a frozen policy by source and strength, learning under disturbance, and steps a second.

    nice python benchmarks/robust.py [--parts small large] [--env gymnasium:InvertedPendulum-v5] [--seeds 0 1 2]
    nice python benchmarks/robust.py --parts small --system ddpg --env gymnasium:Pendulum-v1 --steps 10000

``small`` and ``large``: PPO (or DDPG, whose critic judges actions) learns undisturbed; its greedy policy is played
frozen, every source at every strength. ``small`` are observations (Gaussian noise, and in a ball: uniform noise, an
adversary by the critic's gradient, one by the policy's) and rewards, ``large`` actions and dynamics. ``train``: PPO
learns undisturbed, with noise on its rewards, with noise on its observations, against an adversary of its own, and
ATLA; each is played undisturbed, under noise, and under an adversary that knows its networks. ``speed``: steps a CPU
second beside gymnasium's own loop.

A row of the result file is written when it is done; rows that are there are not made again. Policies stand in --runs.
"""

from __future__ import annotations

import argparse
import json
import os

# one thread; before numpy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import evolvent
from evolvent import catalogue, envs
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live, interval

OUT = Path(__file__).parent / "results" / "robust.json"
PARTS = ("small", "large", "train", "speed")
BALL = 0.15
"""Radius of the ball in ``train``."""
GRIDS = {
    "small": ("obs=gaussian,uniform,adversary,adversary:policy,reward=gaussian", "0,0.05,0.1,0.15,0.2"),
    "large": ("action=gaussian,dynamics=mass:shift,gravity:shift,gear:shift,geometry:shift", "0,0.25,0.5,1,2"),
}
TITLES = {"small": "small disturbances", "large": "large ones"}
DDPG = {"hidden": (64, 64), "batch": 128, "warmup": 1_000, "buffer": 100_000, "eval_every": 0}
"""Settings that fit a pendulum; PPO has its defaults."""
ARMS: dict[str, tuple[str, str]] = {
    "undisturbed": ("ppo", ""),
    "reward noise": ("ppo", ",reward=gaussian:3,during=train"),
    "observation noise": ("ppo", f",obs=uniform:{BALL}"),
    "adversary": ("ppo", f",obs=adversary:{BALL}:policy"),
    "ATLA": ("atla", f",obs=adversary:{BALL}"),
}
JUDGED = {"undisturbed": "", "noise": f",obs=uniform:{BALL}", "adversary": f",obs=adversary:{BALL}:policy"}


def learned(system: str, spec: str, seed: int, given: argparse.Namespace) -> RunFolder:
    """The run of a system on an environment, made where it is not there."""
    name = "".join(c if c.isalnum() else "-" for c in f"{system}-{spec}-{given.steps}-{seed}")
    folder = given.runs / name
    if not (folder / "summary.json").exists():
        more = DDPG if system == "ddpg" else {}
        evolvent.run(system, **more, env=spec, steps=given.steps, seed=seed, out=folder, quiet=True)
    return RunFolder.open(folder)


def judged(folder: RunFolder, episodes: int, **options: Any) -> dict[str, Any]:
    """``evolvent eval``, as Python."""
    evaluate = catalogue.of_run(folder).evaluate()
    assert evaluate is not None
    with Live(plain=True) as live:
        return evaluate(folder, live, episodes, **options)


def grid(part: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """One row: the grid of a frozen policy."""
    sources, strengths = GRIDS[part]
    start = time.process_time()
    folder = learned(given.system, given.env, seed, given)
    found = judged(folder, given.episodes, env=f"disrupt:[{given.env}],{sources}", strengths=strengths)
    return {"rows": found["rows"], "strengths": found["strengths"], "cpu_s": time.process_time() - start}


def train(arm: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """One row: a policy that learned under a disturbance, judged under each."""
    system, disturbed = ARMS[arm]
    start = time.process_time()
    folder = learned(system, f"disrupt:[{given.env}]{disturbed}" if disturbed else given.env, seed, given)
    results: dict[str, Any] = {}
    for name, by in JUDGED.items():
        found = judged(folder, given.episodes, env=f"disrupt:[{given.env}]{by}")["greedy"]
        results[name] = {"mean": found["value"], "ci95": found["ci95"], "n": found["n"]}
    return {"judged": results, "cpu_s": time.process_time() - start}


def speed(steps: int, rounds: int = 5) -> dict[str, Any]:
    """Steps a CPU second of Hopper-v5: gymnasium's own loop, ours, and ours disturbed, in turns."""
    import gymnasium

    arms = {
        "undisturbed": "gymnasium:Hopper-v5",
        "observations and actions": "disrupt:[gymnasium:Hopper-v5],obs=gaussian:0.1,action=gaussian:0.1",
        "all": "disrupt:[gymnasium:Hopper-v5],obs=gaussian:0.1,action=gaussian:0.1,reward=gaussian:0.1,"
        "dynamics=gear*0.9",
    }
    rng, copies = np.random.default_rng(0), 8
    actions = rng.uniform(-1, 1, (steps, copies, 1, 3)).astype(np.float32)
    seconds: dict[str, list[float]] = {name: [] for name in ("gymnasium", *arms)}
    for _ in range(rounds):
        own = gymnasium.make("Hopper-v5")
        own.reset(seed=0)
        start = time.process_time()
        for action in actions[:, :, 0].reshape(-1, 3):
            _, _, over, cut, _ = own.step(action)
            if over or cut:
                own.reset()
        seconds["gymnasium"].append(time.process_time() - start)
        own.close()
        for name, spec in arms.items():
            with closing(envs.load_team(spec, copies)) as env:
                env.reset(0)
                start = time.process_time()
                for action in actions:
                    env.step(action)
                seconds[name].append(time.process_time() - start)
    base, n = np.array(seconds["gymnasium"]), steps * copies
    found: dict[str, Any] = {}
    for name, took in seconds.items():
        ratios = (base / np.array(took)).tolist()
        found[name] = {"steps_per_cpu_s": n / float(np.median(took)), "of_gymnasium": ratios}
    return {"steps": n, "arms": found}


def rows_of(part: str, given: argparse.Namespace) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """What names a row, and how it is made."""
    if part == "speed":
        yield {"part": part, "env": "gymnasium:Hopper-v5"}, partial(speed, given.speed_steps)
        return
    for seed in given.seeds:
        named = {"part": part, "env": given.env, "seed": seed, "steps": given.steps, "episodes": given.episodes}
        if part == "train":
            for arm in ARMS:
                yield {**named, "arm": arm}, partial(train, arm, seed, given)
        else:
            yield {**named, "system": given.system}, partial(grid, part, seed, given)


def table() -> list[str]:
    """The result file as Markdown."""
    result = json.loads(OUT.read_text("utf-8"))
    lines = list[str]()
    for row in (row for row in result["rows"] if row["part"] in GRIDS):
        about = f"`{row['env'].removeprefix('gymnasium:')}`, {row['system'].upper()} after {row['steps']:,} steps, "
        about += f"seed {row['seed']}"
        lines += [f"{about}: {TITLES[row['part']]}; {row['episodes']} attempts a cell", ""]
        lines += [f"| strength | {' | '.join(f'{s:g}' for s in row['strengths'])} |"]
        lines += ["|---" * (len(row["strengths"]) + 1) + "|"]
        for one in row["rows"]:
            cells = (interval(cell["iqm"], cell["ci95"], rate=False) for cell in one["cells"])
            lines.append(f"| {one['source']}: {one['how'].replace(':', ' ')} | {' | '.join(cells)} |")
        lines.append("")
    if rows := [row for row in result["rows"] if row["part"] == "train"]:
        lines += ["Learned under a disturbance and judged under each: mean return over attempts", ""]
        lines += [f"| learned with | seed | {' | '.join(JUDGED)} |", "|---" * (len(JUDGED) + 2) + "|"]
        for row in rows:
            cells = (interval(one["mean"], one["ci95"], rate=False) for one in row["judged"].values())
            lines.append(f"| {row['arm']} | {row['seed']} | {' | '.join(cells)} |")
        lines.append("")
    for row in (row for row in result["rows"] if row["part"] == "speed"):
        shares = {name: one["of_gymnasium"] for name, one in row["arms"].items() if name != "gymnasium"}
        told = ", ".join(f"{name} {np.median(s):.2f} [{min(s):.2f}, {max(s):.2f}]" for name, s in shares.items())
        lines += [f"Steps a CPU second of Hopper-v5, of gymnasium's own loop: {told} (median and range of rounds).", ""]
    return [*lines, f"`{'`, `'.join(result['commands'])}`, commit {result['provenance']['commit']['id'][:8]}."]


def main() -> None:
    """Make the rows that are asked for and not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["small", "large"], choices=PARTS)
    parser.add_argument("--env", default="gymnasium:InvertedPendulum-v5")
    parser.add_argument("--steps", type=int, default=65_536)
    parser.add_argument("--system", default="ppo", choices=["ppo", "ddpg"], help="of the parts small and large")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--episodes", type=int, default=32, help="attempts a cell")
    parser.add_argument("--speed-steps", type=int, default=500, help="of each of 8 copies")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "robust-benchmark")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    result = {"commands": [], "rows": []} | (json.loads(given.out.read_text("utf-8")) if given.out.exists() else {})
    asked = [one for i, one in enumerate(sys.argv) if i and not {"--out", "--runs"} & set(sys.argv[i - 1 : i + 1])]
    command = shlex.join(["python", "benchmarks/robust.py", *asked])
    for part in given.parts:
        for named, made in rows_of(part, given):
            if any(named.items() <= row.items() for row in result["rows"]):
                continue
            result["rows"].append({**named, **made()})
            result["commands"] = list(dict.fromkeys([*result["commands"], command]))
            write_atomic(given.out, dump(result | {"provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
