"""What search_depth and search_chores share: a cell as a mean over seeds, and their command and result file."""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.formulas.statistics import wilson


def summed(found: list[dict], tasks: int, cost: str) -> dict:
    """One cell of its seeds, each with ``right`` and ``oracle`` of ``tasks`` and its mean ``cost``."""
    right, n = sum(one["right"] for one in found), tasks * len(found)
    return {
        "right": right / n,
        "ci95": list(wilson(right, n)),
        "seeds": [one["right"] / tasks for one in found],
        "oracle": sum(one["oracle"] for one in found) / n,
        cost: float(np.mean([one[cost] for one in found])),
    }


def main(doc: str, result: Path, tasks: int, cells: Callable[[int], Iterable[tuple[str, list[dict]]]], **given) -> None:
    """Run the cells one after the other, say each, and write their rows; ``tasks`` is the default of ``--tasks``."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=tasks)
    tasks, begun, rows = parser.parse_args().tasks, provenance(), []
    for said, some in cells(tasks):
        rows += some
        print(said, flush=True)
    command = f"python benchmarks/{result.name.removesuffix('.json')}.py --tasks {tasks}"
    file = {"name": result.stem, "command": command, "tasks": tasks, **given, **begun, "rows": rows}
    write_atomic(result, json.dumps(file, indent=1) + "\n")
