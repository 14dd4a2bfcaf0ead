"""From the metrics of a stream to its summary: rates with intervals, paired tests, the memories that earned most."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from evolvent.evaluate.live import count
from evolvent.formulas.statistics import mcnemar, wilson
from evolvent.memory.items import Item
from evolvent.memory.memory import Memory
from evolvent.runs.account.memories import RANKED
from evolvent.runs.memory.attempt import Agent

PHASES = {
    "before": "held out, before (no memory)",
    "after": "held out, after learning",
    "control": "stream tasks without memory",
}


def rate(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Successes among valid outcomes with a Wilson 95 % interval."""
    valid = [r for r in rows if r.get("valid", 1)]
    n, won = len(valid), sum(int(r["success"]) for r in valid)
    low, high = wilson(won, n) if n else (0.0, 1.0)
    return {"n": n, "successes": won, "rate": won / n if n else None, "ci95": [low, high]}


def summarise(algo: str, env: str, agent: Agent, metrics: Sequence[dict[str, Any]], seed: int) -> dict[str, Any]:
    """The run's summary: score = held-out success after learning, baseline = before."""
    by_phase = {name: [m for m in metrics if m.get("phase") == name] for name in ("before", "after", "control")}
    stream = [m for m in metrics if m.get("phase") == "stream"]
    phases = [{"name": PHASES[name], "phase": name, **rate(rows)} for name, rows in by_phase.items() if rows]
    passes = [
        {"pass": number, **rate([m for m in stream if m["pass"] == number])}
        for number in sorted({int(m["pass"]) for m in stream})
    ]
    after, before = rate(by_phase["after"]), rate(by_phase["before"])
    scored = after if after["n"] else (passes[-1] if passes else rate([]))
    name = "held-out success" if after["n"] else "success in the last pass"
    baseline = before if before["n"] else rate(by_phase["control"])
    return {
        "algo": algo,
        "env": env,
        "model": agent.name,
        "seed": seed,
        "score": {"name": name, "value": scored["rate"], "ci95": scored["ci95"], "higher_is_better": True},
        "baseline": {"name": "without memory", "value": baseline["rate"], "ci95": baseline["ci95"]},
        "paired": _paired(by_phase["before"], by_phase["after"]),
        "first_encounter": rate([m for m in stream if m.get("first")]),
        "phases": phases,
        "passes": passes,
        "broken": sum(not m.get("valid", 1) for m in metrics),
        "steps": len(metrics),
        "seconds": round(sum(float(m.get("seconds", 0.0)) for m in metrics), 1),
        "tokens": int(sum(m.get("tokens", 0) for m in metrics)),
        "prompt_tokens": int(sum(m.get("prompt_tokens", 0) for m in metrics)),
    }


def _paired(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """McNemar's exact test on the same held-out tasks before and after."""
    old = {m["task"]: int(m["success"]) for m in before if m.get("valid", 1)}
    pairs = [(old[m["task"]], int(m["success"])) for m in after if m["task"] in old and m.get("valid", 1)]
    if not pairs:
        return None
    a, b = np.array(pairs).T
    gained, lost = int(((a == 0) & (b == 1)).sum()), int(((a == 1) & (b == 0)).sum())
    return {"n": len(pairs), "gained": gained, "lost": lost, "mcnemar_p": float(mcnemar(a, b))}


def top_memories(memory: Memory, most: int = 3) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The memories that earned most, by value weighted with how often they were shown, and those that earned least.

    Most are only those above the middle of the rewards that helped at least once, least only those below it that had
    ``RANKED`` outcomes.
    """
    items = [item for item in memory.items() if item.n > 0]
    items.sort(key=lambda item: (item.value * item.n / (item.n + 2.0), item.n), reverse=True)
    middle = sum(memory.bank.reward_range) / 2
    bad = [item for item in items if item.n >= RANKED and item.value < middle]
    worst = sorted(bad, key=lambda item: (item.value, -item.n))
    rows = (_row(memory, item) for item in items if item.value > middle)
    best = list(islice((row for row in rows if row.pop("helped")), most))
    return best, [{name: cell for name, cell in _row(memory, m).items() if name != "helped"} for m in worst[:most]]


def _row(memory: Memory, item: Item) -> dict[str, Any]:
    return {
        "id": item.id,
        "key": item.key,
        "body": item.body,
        "value": round(item.value, 3),
        "n": item.n,
        "lift": None if item.lift is None else round(item.lift, 3),
        "adds": "" if item.lift is None else _adds(memory, item),
        "source": item.source,
        **_why(memory, item),
    }


def _adds(memory: Memory, item: Item) -> str:
    """What it adds, in the words of ``explain``."""
    values = memory.explain(item.id).to_dict()["values"]
    return next((value["adds"] for value in values if value["adds"]), "")


def _why(memory: Memory, item: Item) -> dict[str, Any]:
    """Who paid: how often it was shown with success, where it helped last, and what came back from its descendants."""
    events = memory.explain(item.id).to_dict()["history"]
    shown = [e for e in events if e["rule"] == "shown"]
    helped = [e for e in shown if e["reward"] > 0]
    parts = [f"right in {len(helped)} of {count(len(shown), 'attempt')} that showed it, said by {item.source}"]
    if helped:
        parts.append(f"last for “{helped[0]['task']}”")
    credits = sum(e["rule"] == "ancestor" and e["reward"] > 0 for e in events)
    if credits:
        parts.append(f"credited {count(credits, 'time')} more for what it helped to write")
    return {"why": "; ".join(parts), "helped": bool(helped or credits)}
