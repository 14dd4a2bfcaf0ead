"""From the lines of a run over games to its summary, and what is reported of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from evolvent.evaluate.live import Live
from evolvent.formulas.statistics import wilson
from evolvent.runs.games.account import deltas

Row = Mapping[str, Any]


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """The summary's numbers, of the lines of ``metrics.jsonl``, one a node.

    Shares are of calls: a page is *valid* where its text passes, *playable* where a browser plays it.
    """
    calls = [(row, call) for row in rows for call in row["calls"]]
    summary: dict[str, Any] = {
        "steps": len(rows),
        "calls": len(calls),
        "iterations": _by(calls, "iteration", lambda row, call: call["iteration"]),
        "depths": _by(calls, "depth", lambda row, call: row["depth"]),
        "stages": _by(calls, "stage", lambda row, call: call["stage"]),
    }
    whole = _share(calls)
    summary["score"] = {
        "name": "pages of the model that play",
        "value": whole["playable"],
        "ci95": whole["playable_ci95"],
        "n": whole["n"],
        "higher_is_better": True,
    }
    features = [row for row in rows if any(call["stage"] == "feature" for call in row["calls"])]
    own = sum(any(call["stage"] == "feature" and call["there"] for call in row["calls"]) for row in features)
    n = len(features)
    summary["nodes"] = {
        "n": len(rows),
        "features": n,
        "by_the_model": own,
        "by_the_model_ci95": list(wilson(own, n)) if n else None,
        "by_template": sum(by == "template" for row in rows for by in row["added"].values()),
        "reward": fmean(row["reward"] for row in rows) if rows else None,
    }
    changes = [change for row in rows for change in row["changes"]]
    summary["changes"] = {
        "removed": sum(one["what"] == "remove" and one["done"] for one in changes),
        "taken": sum(one["what"] == "take" and one["done"] for one in changes),
        "undone": sum(not one["done"] for one in changes),
    }
    summary["lineages"] = [
        _lineage(game, [row for row in rows if row["lineage"] == game])
        for game in dict.fromkeys(row["lineage"] for row in rows)
    ]
    summary["ideas"] = _ideas(rows)
    summary["seconds"] = round(sum(row["seconds"] for row in rows), 1)
    summary["tokens"] = int(sum(row["tokens"] for row in rows))
    summary["prompt_tokens"] = int(sum(row["prompt_tokens"] for row in rows))
    return summary


def _share(calls: Sequence[tuple[Row, Row]]) -> dict[str, Any]:
    n = len(calls)
    found: dict[str, Any] = {"n": n}
    for name, gates in (("valid", ("", "browser")), ("playable", ("",))):
        won = sum(call["gate"] in gates for _, call in calls)
        found[name], found[f"{name}_ci95"] = (won / n, list(wilson(won, n))) if n else (None, None)
    found["realised"] = fmean(call["there"] for _, call in calls) if n else None
    return found


def _by(calls: Sequence[tuple[Row, Row]], name: str, of: Callable[[Row, Row], object]) -> list[dict[str, Any]]:
    keys = list(dict.fromkeys(of(row, call) for row, call in calls))
    keys = keys if name == "stage" else sorted(keys, key=lambda key: int(str(key)))
    return [{name: key} | _share([pair for pair in calls if of(*pair) == key]) for key in keys]


def _lineage(game: str, rows: Sequence[Row]) -> dict[str, Any]:
    best = max(rows, key=lambda row: (row["reward"], row["step"]))
    return {
        "game": game,
        "nodes": len(rows),
        "depth": max(row["depth"] for row in rows),
        "best": best["reward"],
        "best_step": best["step"],
        "mechanics": best["mechanics"],
    }


def _ideas(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What each mechanic came to when it was asked for: how often the model's own played."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        for call in row["calls"]:
            one = found.setdefault(call["mechanic"], {"name": call["mechanic"], "asked": 0, "there": 0, "value": None})
            one["asked"] += 1
            one["there"] += call["there"]
            if call["stage"] == "feature":
                one["value"] = row["values"].get(row["idea"], one["value"])
    return sorted(found.values(), key=lambda one: (-one["there"] / one["asked"], -one["asked"]))


def tell(live: Live, row: Row, total: int) -> None:
    """One line a node: what was added, by whom, and its reward."""
    parts = deltas(row)
    failed = [f"{one['what']} {one['mechanic']}: {one['words']}" for one in row["changes"] if not one["done"]]
    failed += [f"{call['mechanic']}: {call['words']}" for call in row["calls"] if not call["there"]]
    begun = f"from {row['parent']}, " if row["parent"] else ""
    live.task(
        row["step"],
        total,
        question=f"{row['lineage']} {row['phase']}, {begun}depth {row['depth']}",
        action=f"reward {row['reward']:+.2f}: {', '.join(parts) or 'nothing added'}",
        ok=bool(row["ok"]),
        note=" · ".join(failed[-2:]),
        seconds=row["seconds"],
    )
