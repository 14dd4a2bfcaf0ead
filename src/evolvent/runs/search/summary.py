"""From the metrics of a search run to its summary: what each search came to, what it cost, and how they compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evolvent.formulas.statistics import mcnemar, wilson
from evolvent.formulas.two_state import right_after
from evolvent.runs.search.config import WHICH, SearchConfig, wider
from evolvent.runs.search.outcome import REVISED


def summarise(config: SearchConfig, model: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Success of each search with its interval, what it cost, and each against the first on the same tasks."""
    by_name = {name: [row for row in rows if row["phase"] == name and row["valid"]] for name in config.search}
    first = {row["task"]: row["success"] for row in by_name[config.search[0]]}
    arms: list[dict[str, Any]] = []
    for name, mine in by_name.items():
        won, n = sum(row["success"] for row in mine), len(mine)
        mean = {
            key: float(np.mean([row[key] for row in mine])) if n else None
            for key in ("oracle", "tokens", "calls", "seconds", "paths", "nodes", "prompt_tokens", "cached_tokens")
        }
        pairs = sum(row.get("pairs", 0) for row in mine)  # rows of older runs do not say
        low, high = wilson(won, n) if n else (0.0, 1.0)
        both = [row for row in mine if row["task"] in first]
        a, b = [first[row["task"]] for row in both], [row["success"] for row in both]
        p = mcnemar(a, b) if both else 1.0
        arms.append(
            {
                "name": name,
                "n": n,
                "successes": won,
                "rate": won / n if n else None,
                "ci95": [low, high],
                **mean,
                **(_spent(config, name, mine) if n else {"judge_tokens": None, "left": None}),
                "ranks": sum(row.get("ranked", 0.0) for row in mine) / pairs if pairs else None,
                "first_only": sum(x > y for x, y in zip(a, b, strict=True)),
                "this_only": sum(y > x for x, y in zip(a, b, strict=True)),
                "p": p,
                **_two_states([row for row in mine if REVISED[0] in row]),
            }
        )
    head = arms[0]
    other = arms[1] if len(arms) > 1 else None
    score = {"name": f"{WHICH[config.plan.split]} success, {head['name']}", "value": head["rate"], "ci95": head["ci95"]}
    baseline = {"name": other["name"], "value": other["rate"], "ci95": other["ci95"]} if other else {}
    return {
        "algo": "search",
        "env": config.env,
        "model": model,
        "seed": config.seed,
        "arms": arms,
        "score": score | {"higher_is_better": True},
        **({"baseline": baseline} if baseline else {}),
        "value": config.value,
        "verifier": config.verifier,
        "budget_tokens": config.budget_tokens,
        "budget_calls": config.budget_calls,
        "budget_seconds": config.budget_seconds,
        "steps": len(rows),
        "seconds": round(sum(row["seconds"] for row in rows), 1),
        "tokens": int(sum(row["tokens"] for row in rows)),
    }


def _spent(config: SearchConfig, name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a judge read, the mean share of the budget that was left, and what lets the search spend it.

    Of a budget of seconds alone nothing is said: it is one for tasks side by side. Beside another budget it may be what
    ended a search, so that nothing is advised.
    """
    tokens, calls, read = (
        float(np.mean([row.get(key, 0) for row in rows])) for key in ("tokens", "calls", "judge_tokens")
    )
    limits = ((tokens + read, config.budget_tokens), (calls, config.budget_calls))
    shares = [spent / limit for spent, limit in limits if limit]
    left = 1.0 - max(shares) if shares else None  # below 0 where a judge read beyond it
    return {"judge_tokens": read, "left": left, "wider": None if config.budget_seconds else wider(name)}


def _two_states(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Chances that a round mends a wrong answer and spoils a right one, with intervals, and what they lead to."""
    mended, wrong, spoiled, right = (sum(row[name] for row in rows) for name in REVISED)
    if not wrong or not right:
        return {}
    p, q = mended / wrong, spoiled / right
    shares = {"mends": p, "mends_ci95": wilson(mended, wrong), "spoils": q, "spoils_ci95": wilson(spoiled, right)}
    return shares | {"right_after_80_rounds": right_after(80, p, q)}
