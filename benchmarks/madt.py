"""MADT from recorded attempts to online, against from scratch: steps until the same return.

    nice python benchmarks/madt.py [--envs spread:n=3 smax:3m] [--seeds 3] [--online 500000]

MAPPO trains for a third, two thirds and all of ``--train-steps``; each policy plays ``--data-steps`` steps, actions
sampled. Of each set of data MADT makes ``--steps`` gradient steps and goes on for ``--online`` steps; the arm from
scratch goes on without. ``to_same`` is the first online step at which the mean return of five updates is at least what
scratch had at its end, and of scratch itself; the steps of the data are not counted in it and stand beside it. A row is
written as it is done, and one that is there is not done again.
"""

import argparse
import contextlib
import json
import shlex
import sys
from pathlib import Path

import numpy as np

import evolvent
from evolvent.algos import mappo
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.core.seeding import seed_tree
from evolvent.data.recorded.episodes import Recorded
from evolvent.runs.offline.behaviour import played
from evolvent.runs.team.actors import played as built
from evolvent.runs.team.frozen import policy_of

OUT = Path(__file__).parent / "results" / "madt.json"
PARTS = {"a third": 1 / 3, "two thirds": 2 / 3, "the end": 1.0}
SCRATCH = "from scratch"
MEAN = 5  # updates


def data_of(env, part, given):
    """The folder of the data of MAPPO after a part of its training, recorded where it is not there."""
    place = given.runs / env.replace(":", "-") / part.replace(" ", "-")
    if not (place / "recorded.json").exists():
        steps = round(PARTS[part] * given.train_steps)
        if not (place / "mappo" / "summary.json").exists():
            evolvent.run("mappo", out=place / "mappo", quiet=True, env=env, steps=steps, eval_every=0, seed=given.seeds)
        player = policy_of(mappo.Config, built, RunFolder.open(place / "mappo"))
        reset = seed_tree(given.seeds, "recorded", part)
        attempts = played(player, env, given.data_steps, reset, lambda share: None)
        Recorded(env, player.views.team, attempts, f"mappo after {steps:,} steps", (reset,)).save(place)
    return place


def row_of(env, arm, seed, given):
    """One run: its returns while it learned online, and what it was before."""
    part = "the end" if arm == SCRATCH else arm
    path = given.runs / env.replace(":", "-") / "runs" / f"{arm.replace(' ', '-')}-{seed}"
    data = data_of(env, part, given)
    settings = {"data": str(data), "env": env, "seed": seed, "steps": given.steps, "log_every": given.log_every}
    settings |= {"online": given.online, "eval_every": 0, "pretrain": arm != SCRATCH}
    if (path / "config.json").exists() and not RunFolder.open(path).finished:
        found = evolvent.run("madt", resume=path, quiet=True)
    else:
        found = evolvent.run("madt", out=path, quiet=True, **settings)
    returns = [row["return"] for row in RunFolder.open(path).read_metrics() if "policy_loss" in row]
    each = found.summary["online_steps"] // len(returns)
    row = {"env": env, "arm": arm, "seed": seed, "returns": [round(one, 4) for one in returns], "each": each}
    row |= {"data_return": found.summary["data"]["mean"], "greedy": found.summary["score"]["value"]}
    return row | {"data_steps": 0 if arm == SCRATCH else given.data_steps}


def to_same(row, level):
    """The first online step whose mean over ``MEAN`` updates is at least ``level``; ``None`` = never."""
    mean = _means(row)
    reached = np.flatnonzero(mean >= level)
    return None if not len(reached) else int(reached[0] + MEAN) * row["each"]


def _means(row):
    return np.convolve(row["returns"], np.ones(MEAN) / MEAN, "valid") if len(row["returns"]) >= MEAN else np.zeros(0)


def table(path=OUT):
    """The result file as lines of Markdown."""
    rows = json.loads(path.read_text("utf-8"))
    lines = ["| task | data of MAPPO at | seeds | data, return | at the start | at the end | steps to scratch's end |"]
    lines.append("|---|---|---|---|---|---|---|")
    for env, arm in dict.fromkeys((row["env"], row["arm"]) for row in rows["rows"]):
        mine = [row for row in rows["rows"] if (row["env"], row["arm"]) == (env, arm)]
        cells = [f"{np.mean([row['data_return'] for row in mine]):.2f}" if arm != SCRATCH else "–"]
        for at in (0, -1):
            cells.append(f"{np.mean([_means(row)[at] for row in mine if len(_means(row))] or [np.nan]):.2f}")
        ends = {row["seed"]: _means(row)[-1:] for row in rows["rows"] if (row["env"], row["arm"]) == (env, SCRATCH)}
        found = [to_same(row, ends[row["seed"]][0]) for row in mine if len(ends.get(row["seed"], ()))]
        cells.append(", ".join("never" if one is None else f"{one:,}" for one in found) or "–")
        lines.append(f"| {env} | {arm} | {len(mine)} | {' | '.join(cells)} |")
    commit = rows["provenance"]["commit"]["id"][:8]
    return [*lines, "", f"Means over seeds; the last column a seed each; `{'`, `'.join(rows['commands'])}`, {commit}."]


def main():
    """Do the rows that are missing; the result file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=["spread:n=3", "smax:3m"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train-steps", type=int, default=600_000)
    parser.add_argument("--data-steps", type=int, default=50_000)
    parser.add_argument("--steps", type=int, default=10_000, help="gradient steps on the data")
    parser.add_argument("--log-every", type=int, default=200)
    parser.add_argument("--online", type=int, default=500_000)
    parser.add_argument("--runs", type=Path, default=Path("runs") / "madt-benchmark")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    asked = [one for i, one in enumerate(sys.argv) if i and not {"--out", "--runs"} & set(sys.argv[i - 1 : i + 1])]
    result = {"commands": [], "rows": []}
    with contextlib.suppress(FileNotFoundError):
        result |= json.loads(given.out.read_text("utf-8"))
    command = shlex.join(["python", "benchmarks/madt.py", *asked])
    result["commands"] = list(dict.fromkeys([*result["commands"], command]))
    done = {(row["env"], row["arm"], row["seed"]) for row in result["rows"]}
    for env in given.envs:
        for seed in range(given.seeds):
            for arm in (SCRATCH, *PARTS):
                if (env, arm, seed) not in done:
                    result["rows"].append(row_of(env, arm, seed, given))
                    write_atomic(given.out, dump(result | {"provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
