"""What a policy promises and what it gets where luck decides: Dichotomy of Control, its released loss, DT.

    nice python benchmarks/doc.py [--worlds bandit lake] [--seeds 5]

Bandits whose data take the better arm (which pays .6, the other .4) with probability p = .1, .5, .9, 10,000 pulls, and
FrozenLake on slippery ice, 1,000 attempts by policies that make the best move with probability 0 to 1. Seed k draws the
data and the weights. DT promises what it is asked for: the best return of the data. What is got is the mean of 500
attempts (FrozenLake) with sampled actions; of bandits it follows from the share of 20,000 sampled pulls that take the
better arm. A row is written as it is done, and one that is there is not done again.
"""

import argparse
import contextlib
import json
import shlex
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import evolvent
from evolvent import catalogue, envs
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.data.recorded.named import named

OUT = Path(__file__).parent / "results" / "doc.json"
BANDITS = (0.1, 0.5, 0.9)
LAKE = "gymnasium:FrozenLake-v1"
SMALL = {"width": 32, "blocks": 1, "context": 1, "steps": 1_000, "lr": 1e-3, "warmup": 100}
MIDDLE = {"width": 64, "blocks": 2, "context": 20, "steps": 3_000, "lr": 1e-3, "warmup": 300}
ARMS = {
    "doc": ("doc", {}, {}),
    "doc, released loss": ("doc", {"loss": "released"}, {"loss": "released"}),
    "dt": ("dt", SMALL, MIDDLE),
}
"""By name: a system, and its settings for bandits and for the lake."""


def tasks(worlds, seed):
    """Names of tasks, each with the name of its data and its environment."""
    bandits = [(f"bandit, p = {p:g}", f"bandit:p={p:g},attempts=10000,seed={seed}", "bandit") for p in BANDITS]
    lake = [("FrozenLake", f"frozen_lake:seed={seed}", LAKE)]
    return (bandits if "bandit" in worlds else []) + (lake if "lake" in worlds else [])


def row_of(task, data, env, arm, seed):
    """One run: what it promised, and what it got."""
    system, bandit, lake = ARMS[arm]
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        settings = {"data": data, "env": env, "seed": seed, "eval_every": 0, "eval_episodes": 20}
        settings |= bandit if env == "bandit" else lake
        found = evolvent.run(system, out=Path(folder) / "run", quiet=True, **settings)
        player = catalogue.system(system).module.policy(RunFolder.open(found.folder))
        row = {"promised": found.summary["asked"][0]["asked"], **got(player, env, seed)}
    row |= in_data(data) if env == "bandit" else {}
    told = {"task": task, "arm": arm, "seed": seed, **row, "cpu_s": round(time.process_time() - start, 1)}
    print(told, flush=True)
    return told


def got(player, env, seed):
    """What sampled actions earn, and which share of them is the better arm."""
    generator = torch.Generator().manual_seed(seed)
    if env == "bandit":
        copies = envs.load_team(env, 2_000)
        taken = []
        for _ in range(10):
            player.begin()
            taken.append(player.act(copies.reset(seed), greedy=False, generator=generator) == 0)
        better = float(np.mean(taken))
        return {"better": better, "got": 0.4 + 0.2 * better}
    played = player.play(envs.load_team(env, 50), episodes=500, greedy=False, generator=generator, seed=seed)
    return {"got": float(played["return"].mean())}


def in_data(data):
    """What the better arm paid in the data: no promise can be nearer to .6."""
    paid = [float(one.reward_TA[0, 0]) for one in named(data).attempts if one.action_TA[0, 0] == 0]
    return {"better_in_data": float(np.mean(paid))}


def table(path=OUT):
    """The result file as lines of Markdown: means over seeds, with the least and the most."""
    result = json.loads(path.read_text("utf-8"))
    lines = ["| data | system | seeds | promised | got | better arm |", "|---|---|---|---|---|---|"]
    for task, arm in dict.fromkeys((row["task"], row["arm"]) for row in result["rows"]):
        mine = [row for row in result["rows"] if (row["task"], row["arm"]) == (task, arm)]
        cells = [_cell([row[name] for row in mine if name in row]) for name in ("promised", "got", "better")]
        lines.append(f"| {task} | {arm} | {len(mine)} | {' | '.join(cells)} |")
    commit = result["provenance"]["commit"]["id"][:8]
    return [*lines, "", f"Mean over seeds [least, most]; `{'`, `'.join(result['commands'])}`, commit {commit}."]


def _cell(found):
    return f"{np.mean(found):.2f} [{min(found):.2f}, {max(found):.2f}]" if found else "–"


def main():
    """Do the rows that are missing; the result file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=["bandit", "lake"], choices=["bandit", "lake"])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    asked = [one for i, one in enumerate(sys.argv) if i and "--out" not in sys.argv[i - 1 : i + 1]]
    result = {"commands": [], "rows": []}
    with contextlib.suppress(FileNotFoundError):
        result |= json.loads(given.out.read_text("utf-8"))
    command = shlex.join(["python", "benchmarks/doc.py", *asked])
    result["commands"] = list(dict.fromkeys([*result["commands"], command]))
    done = {(row["task"], row["arm"], row["seed"]) for row in result["rows"]}
    for seed in range(given.seeds):
        for task, data, env in tasks(given.worlds, seed):
            for arm in given.arms:
                if (task, arm, seed) not in done:
                    result["rows"].append(row_of(task, data, env, arm, seed))
                    write_atomic(given.out, dump(result | {"provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
