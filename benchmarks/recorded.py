"""Learning from recorded attempts: systems beside imitation, equal gradient steps, on data of our own.

    nice python benchmarks/recorded.py [--qualities medium-replay medium-expert] [--arms bc iql] [--seeds 3]

First ``evolvent data make`` records the data: PPO for ``--train-steps`` steps, one behaviour run for all qualities of
an environment. Then a run of each arm and seed, of ``--steps`` gradient steps at batch 256 with networks ``--hidden``,
judged by 20 attempts after its last step. DT and Decision Mamba learn from 64 windows of 10 steps, with two blocks of
width 64, and are asked for the best return of the data. Scores are on the scale of the data: random play 0, our expert
100, both measured here; they are no scores of D4RL. A row is written as it is done, and one that is there is not done
again.
"""

import argparse
import contextlib
import json
import shlex
import sys
import time
from pathlib import Path

import numpy as np

import evolvent
from evolvent import catalogue
from evolvent.cli.recorded import make
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.data.recorded.measures import measure
from evolvent.data.recorded.opening import open_recorded

OUT = Path(__file__).parent / "results" / "recorded.json"
ARMS = {
    "bc": ("bc", {}),
    "bc, best 10 %": ("bc", {"share": 0.1}),
    "iql": ("iql", {}),
    "td3_bc": ("td3_bc", {}),
    "dt": ("dt", {"batch": 64, "context": 10, "width": 64, "blocks": 2, "warmup": 1_000}),
    "decision_mamba": ("decision_mamba", {"batch": 64, "context": 10, "width": 64, "blocks": 2, "warmup": 1_000}),
}
"""By name: a system and its settings beside those of all; one that looks at rewards stands beside both of ``bc``."""


def data_of(env, quality, given):
    """The folder of the data, recorded where it is not there; the first of an environment trains who acts."""
    place = given.runs / env.rpartition(":")[2]
    folder, first = place / quality, place / given.qualities[0]
    if not (folder / "recorded.json").exists():
        by = first if first != folder and (first / "behaviour" / "expert" / "summary.json").exists() else None
        sizes = {"steps": given.data_steps, "train_steps": given.train_steps}
        make(env=env, quality=quality, out=folder, by=by, plain=True, **sizes)
    return folder


def described(env, quality, given):
    """What the data are, for the result file."""
    data = open_recorded(data_of(env, quality, given))
    found = measure(data)
    about = {name: getattr(found, name) for name in ("attempts", "steps", "mean", "returns", "terminated", "tq")}
    return {**about, "scale": dict(data.scale), "made_by": data.made_by, "notes": list(data.notes)}


def row_of(env, quality, arm, seed, given):
    """One run: its score, on the scale of the data too, and gradient steps for each second of learning."""
    system, settings = ARMS[arm]
    path = given.runs / env.rpartition(":")[2] / "runs" / f"{quality}-{arm.replace(', ', '-').replace(' ', '-')}-{seed}"
    shared = {"data": str(data_of(env, quality, given)), "env": env, "seed": seed, "steps": given.steps}
    shared |= {"eval_every": given.eval_every}
    shared |= {"hidden": tuple(given.hidden)} if hasattr(catalogue.settings_of(system), "hidden") else {}
    start = time.process_time()
    if (path / "config.json").exists() and not RunFolder.open(path).finished:
        found = evolvent.run(system, resume=path, quiet=True)
    elif (path / "summary.json").exists():
        found = evolvent.running.Result(path, RunFolder.open(path).summary())
    else:
        found = evolvent.run(system, out=path, quiet=True, **shared, **settings)
    learned = sum(row.get("learn_s", 0.0) for row in RunFolder.open(path).read_metrics())
    score = found.summary["score"]
    return {
        "env": env,
        "quality": quality,
        "arm": arm,
        "seed": seed,
        "steps": found.summary["steps"],
        "hidden": given.hidden,
        "value": score["value"],
        "ci95": score["ci95"],
        "normalised": found.summary["normalised"],
        "cpu_s": time.process_time() - start,
        "steps_per_s": found.summary["steps"] / max(learned, 1e-9),
    }


def table(path=OUT):
    """The result file as lines of Markdown: the mean of the scaled scores over seeds, and their range."""
    result = json.loads(path.read_text("utf-8"))
    arms = [arm for arm in ARMS if any(row["arm"] == arm for row in result["rows"])]
    lines = [f"| data | data, mean | {' | '.join(arms)} |", "|---" * (len(arms) + 2) + "|"]
    for name, about in result["data"].items():
        cells = list[str]()
        for arm in arms:
            mine = [row for row in result["rows"] if f"{row['env']} {row['quality']}" == name and row["arm"] == arm]
            found = [row["normalised"] for row in mine]
            cells.append(f"{np.mean(found):.1f} [{min(found):.1f}, {max(found):.1f}] ({len(found)})" if found else "–")
        lines.append(f"| {name} | {100 * about['tq']:.1f} | {' | '.join(cells)} |")
    commit = result["provenance"]["commit"]["id"][:8]
    return [*lines, "", f"`{'`, `'.join(result['commands'])}`, commit {commit}."]


def main():
    """Do the rows that are missing; the result file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=["gymnasium:Hopper-v5"])
    parser.add_argument("--qualities", nargs="+", default=["medium-replay", "medium-expert"])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10_000, help="gradient steps of a run")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 64])
    parser.add_argument("--eval-every", type=int, default=10, help="updates of 200 gradient steps; 0 = at the end")
    parser.add_argument("--train-steps", type=int, default=1_000_000, help="of the behaviour run")
    parser.add_argument("--data-steps", type=int, default=200_000, help="of medium-expert")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "recorded-benchmark")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    asked = [one for i, one in enumerate(sys.argv) if i and not {"--out", "--runs"} & set(sys.argv[i - 1 : i + 1])]
    result = {"commands": [], "data": {}, "rows": []}
    with contextlib.suppress(FileNotFoundError):
        result |= json.loads(given.out.read_text("utf-8"))
    command = shlex.join(["python", "benchmarks/recorded.py", *asked])
    result["commands"] = list(dict.fromkeys([*result["commands"], command]))
    done = {(row["env"], row["quality"], row["arm"], row["seed"], row["steps"]) for row in result["rows"]}
    for env in given.envs:
        for quality in given.qualities:
            result["data"][f"{env} {quality}"] = described(env, quality, given)
            for seed in range(given.seeds):
                for arm in given.arms:
                    if (env, quality, arm, seed, given.steps) not in done:
                        result["rows"].append(row_of(env, quality, arm, seed, given))
                        write_atomic(given.out, dump(result | {"provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
