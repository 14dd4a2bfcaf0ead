"""Memento's estimates against similarity alone, in the synthetic worlds of memory: no model, the credit is known.

    python benchmarks/memento.py --seeds 0 1 2 3 4       # rows that are there are not run again
    python benchmarks/worlds_page.py                     # docs/results/memory-worlds.md from the result files

Arms choose among the same ten candidates and show three. ``memrl`` and ``memlift`` stand beside them.
"""

import argparse
import json
from pathlib import Path

from memory_trial import policy_for, run_bandit
from synthetic_worlds import Bandit, BanditOptions

from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.formulas.statistics import student_interval

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "memento.json"
PASSES = 6
WORLDS = {
    "plain": {},
    "nearer 2/3": {"more_similar": 2 / 3},
}
ARMS = {
    "rag": ("rag", {}),
    "kernel": ("memento", {"k": 3, "learn": "kernel"}),
    "classifier": ("memento", {"k": 3, "learn": "classifier"}),
    "memrl": ("memrl", {}),
    "memlift": ("memlift", {}),
}
COLUMNS = {"last": "last pass", "frozen": "held out"}


def main():
    """Run the missing rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--out", default=str(RESULTS))
    a = parser.parse_args()
    begun = provenance()  # before results are written: of the code that made them
    for cell in ({"world": w, "arm": arm, "seed": s} for s in a.seeds for w in a.worlds for arm in a.arms):
        if not any(cell.items() <= row.items() for row in rows(a.out)):
            name, settings = ARMS[cell["arm"]]
            world = Bandit(BanditOptions(passes=PASSES, **WORLDS[cell["world"]]), cell["seed"])
            row = cell | {"metrics": run_bandit(world, policy_for(name, **settings))} | begun
            write_atomic(Path(a.out), json.dumps([*rows(a.out), row], indent=1) + "\n")


def rows(path):
    """Rows that are there."""
    return json.loads(Path(path).read_text("utf-8")) if Path(path).exists() else []


def section(found):
    """The part of docs/results/memory-worlds.md."""
    lines = [f"| world | measure | {' | '.join(f'`{arm}`' for arm in ARMS)} |", "|---" * (2 + len(ARMS)) + "|"]
    for world in WORLDS:
        for column, one in COLUMNS.items():
            cells = [
                _mean([row["metrics"][column] for row in found if (row["world"], row["arm"]) == (world, arm)])
                for arm in ARMS
            ]
            lines.append(f"| {world} | {one} | {' | '.join(cells)} |")
    seeds = sorted({row["seed"] for row in found})
    commits = sorted({row["commit"]["id"][:10] + " (dirty)" * row["commit"]["dirty"] for row in found})
    return [
        "Success in two worlds of the table above; `kernel` and `classifier` are [Memento](../algos/memento.md)'s "
        "estimates over the same candidates, `rag` is Memento without one; `memlift` is the rule until 27 November.",
        "",
        *lines,
        "",
        f"Means over seeds, 95 % Student intervals. `python benchmarks/memento.py`, {PASSES} passes, seeds "
        f"{', '.join(map(str, seeds))}; commits {', '.join(commits)}; "
        "[memento.json](../../benchmarks/results/memento.json).",
    ]


def _mean(x):
    low, high = student_interval(x)
    return f"{sum(x) / len(x):.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()
