"""Job shops: a dispatcher trained on random 6 x 6 problems, judged on eleven published ones, beside its controls.

    nice python benchmarks/jssp.py --seeds 0 1 2        # about 4 CPU minutes a seed
    nice python benchmarks/jssp.py --seeds 0 --steps 2304 --out /tmp/jssp.json      # the smallest size

A row a seed, written as soon as it is there; seeds that the result file has are not done again. ``untrained`` is the
same network before learning. CP-SAT needs ortools (the extra scheduling).
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path

import numpy as np

import evolvent
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.formulas.statistics import student_interval

OUT = Path(__file__).parent / "results" / "jssp.json"
TESTS = "la01+la02+la03+la04+la05+ft10+ta01+ta02+ta03+ta04+ta05"
ARMS = {
    "learned": "learned, greedy, once",
    "32 drawn": "learned, best of 32 drawn",
    "untrained": "the same network before learning",
    "SPT": "rule: shortest processing time",
    "MWKR": "rule: most work remaining",
    "MOPNR": "rule: most operations remaining",
    "FIFO": "rule: first in, first out",
    "200 random": "best of 200 random schedules",
    "CP-SAT": "CP-SAT, as many seconds as the learned one took",
}
RULES = ("SPT", "MWKR", "MOPNR", "FIFO")


def row_of(seed, steps, runs):
    """One seed: the run, and the same network without learning."""
    env, began = f"jssp:train=6x6,test={TESTS}", time.process_time()
    more = {"env": env, "seed": seed, "quiet": True, "eval_every": 0}
    found = evolvent.run("jssp", steps=steps, out=runs / f"seed-{seed}", **more).summary
    cpu_s = time.process_time() - began
    start = evolvent.run("jssp", steps=1, lr=0.0, out=runs / f"untrained-{seed}", **more).summary
    tests = {name: row | {"untrained": start["tests"][name]["learned"]} for name, row in found["tests"].items()}
    return {"seed": seed, "steps": found["steps"], "cpu_s": round(cpu_s, 1), "tests": tests}


def gaps(rows, arm):
    """Mean excess over the best makespan known, in per cent, of each seed that has all of them."""
    tests = [row["tests"] for row in rows if all(arm in one for one in row["tests"].values())]
    return [100 * float(np.mean([one[arm] / one["bounds"][1] - 1 for one in found.values()])) for found in tests]


def table():
    """The result file as lines of Markdown."""
    result = json.loads(OUT.read_text("utf-8"))
    rows = result["rows"]
    lines = [f"Mean excess over the best makespan known, on {TESTS.replace('+', ', ')}; {len(rows)} seeds", ""]
    lines += ["| | excess, % | 95 % interval over seeds |", "|---|---|---|"]
    mean = {arm: float(np.mean(found)) for arm in ARMS if (found := gaps(rows, arm))}
    for arm in mean:
        of_seed = gaps(rows, arm)
        low, high = student_interval(of_seed) if len(of_seed) > 1 else (np.nan, np.nan)
        span = "the same for all" if arm in (*RULES, "200 random") else f"[{low:.1f}, {high:.1f}]"
        lines.append(f"| {ARMS[arm]} | {mean[arm]:.1f} | {span if len(of_seed) > 1 else '–'} |")
    best = min(RULES, key=lambda rule: mean[rule])
    apart = np.array(gaps(rows, "learned")) - mean[best]
    low, high = student_interval(apart) if len(apart) > 1 else (np.nan, np.nan)
    said = "below" if high < 0 else "above" if low > 0 else "not shown to differ from"
    lines += [
        "",
        f"Learned minus the best rule ({best}): {apart.mean():+.1f} points [{low:+.1f}, {high:+.1f}]: {said} it.",
    ]
    seconds = np.mean([row["cpu_s"] for row in rows])
    commit = result["provenance"]["commit"]["id"][:8]
    return [*lines, "", f"{seconds:,.0f} CPU seconds a seed. `{'`, `'.join(result['commands'])}`, commit {commit}."]


def main():
    """Run the seeds that are asked for; the result file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--runs", type=Path, default=Path("runs") / "jssp-benchmark")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    asked = [one for i, one in enumerate(sys.argv) if i and not {"--out", "--runs"} & set(sys.argv[i - 1 : i + 1])]
    result = {"commands": [], "rows": []} | (json.loads(given.out.read_text("utf-8")) if given.out.exists() else {})
    command = shlex.join(["python", "benchmarks/jssp.py", *asked])
    result["commands"] = list(dict.fromkeys([*result["commands"], command]))
    for seed in given.seeds:
        if any(row["seed"] == seed for row in result["rows"]):
            continue
        result["rows"].append(row_of(seed, given.steps, given.runs))
        write_atomic(given.out, dump(result | {"provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
