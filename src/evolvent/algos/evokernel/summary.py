"""From the lines of a run over programs to its summary: what was right and fast by when, and what advice earned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evolvent.formulas.refinement import GAIN
from evolvent.formulas.statistics import wilson

Row = Mapping[str, Any]


def summarise(rows: Sequence[Row], names: Sequence[str]) -> dict[str, Any]:
    """The numbers of the summary, from lines of ``metrics.jsonl``, one an attempt, and the tasks in order.

    A task of which no attempt could be judged counts in no share.
    """
    by_name = {name: [row for row in rows if row["kernel"] == name] for name in names}
    tasks = [_task(name, mine) for name, mine in by_name.items()]
    judged = [name for name, mine in by_name.items() if any(row["valid"] for row in mine)] or list(by_name)
    n = len(judged)
    rounds = _rounds([by_name[name] for name in judged])
    summary: dict[str, Any] = {"steps": len(rows), "kernels": tasks, "judged": n, "rounds": rounds}
    for what in ("compiled", "right", "faster"):
        won = sum(task[what] for task in tasks if task["name"] in judged)
        summary[what] = {"n": n, "successes": won, "rate": won / n, "ci95": list(wilson(won, n))}
    gains = [task["best"] / task["first"] for task in tasks if task["first"]]
    middle = [float(q) for q in np.quantile(gains, [0.25, 0.5, 0.75])] if gains else [None] * 3
    summary["speedup"] = {"of": "best over first right", "median": middle[1], "quartiles": middle[::2], "n": len(gains)}
    right = summary["right"]
    summary["score"] = {
        "name": "kernels right within the budget",
        "value": right["rate"],
        "ci95": right["ci95"],
        "higher_is_better": True,
    }
    summary["advice"] = advice(rows)
    summary["seconds"] = round(sum(row["seconds"] for row in rows), 1)
    summary["tokens"] = int(sum(row["tokens"] for row in rows))
    summary["prompt_tokens"] = int(sum(row["prompt_tokens"] for row in rows))
    return summary


def _task(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    valid = [row for row in rows if row["valid"]]
    right = [row for row in valid if row["gate"] == ""]
    best = max(right, key=lambda row: row["ratio"], default=None)
    return {
        "name": name,
        "attempts": len(rows),
        "compiled": int(any(row["gate"] in ("", "correct") for row in valid)),
        "right": int(bool(right)),
        "faster": int(best is not None and best["ratio"] >= GAIN),
        "first_right_at": right[0]["attempt"] if right else None,
        "first": right[0]["ratio"] if right else None,
        "best": best["ratio"] if best else None,
        "ci95": [best["low"], best["high"]] if best else None,
        "us": best["us"] if best else None,
        "best_step": best["step"] if best else None,
        "advice": [item["id"] for item in best["advice"]] if best else [],
    }


def _rounds(by_task: Sequence[Sequence[Row]]) -> list[dict[str, float]]:
    """Share of tasks that had a compiled, a right and a faster program by each round."""
    found: list[dict[str, float]] = []
    for k in range(max((len(rows) for rows in by_task), default=0)):
        so_far = [[row for row in rows[: k + 1] if row["valid"]] for rows in by_task]
        best = [max([row["ratio"] for row in rows if row["gate"] == ""], default=0.0) for rows in so_far]
        found.append(
            {
                "round": k + 1,
                "compiled": float(np.mean([any(row["gate"] in ("", "correct") for row in rows) for rows in so_far])),
                "right": float(np.mean([ratio > 0 for ratio in best])),
                "faster": float(np.mean([ratio >= GAIN for ratio in best])),
            }
        )
    return found


def advice(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What each memory that was shown came to, by stage: how often, what came of it, and its value at the end.

    Attempts that nobody could judge do not count.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in (row for row in rows if row["valid"]):
        for item in row["advice"]:
            one = found.setdefault(
                (item["id"], row["phase"]),
                {
                    "id": item["id"],
                    "stage": row["phase"],
                    "kind": item["kind"],
                    "body": item["body"],
                    "shown": 0,
                    "right": 0,
                    "gains": 0,
                    "value": None,
                },
            )
            one["shown"] += 1
            one["right"] += row["gate"] == ""
            one["gains"] += row["gain"] >= GAIN
            one["value"] = row["values"].get(item["id"], one["value"])
    return sorted(found.values(), key=lambda one: (one["stage"], -(one["value"] or 0.0), -one["shown"]))
