"""The memories of a run on its page: those that earned most and least, and the numbers of the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evolvent.evaluate.blocks import Block, Note, Notes, Section, Tiles
from evolvent.evaluate.live import cell_text, percent

RANKED = 3
"""Outcomes below which a memory is not called one of the least valuable."""
_BODY = 2000
_HEALTH = {
    "items": "memories",
    "coverage": "memories with an outcome",
    "nonzero": "memories with a value that moved",
    "updates_per_item": "outcomes a memory",
    "test_recalls": "recalls in evaluations",
    "empty_recalls": "recalls that found nothing",
    "settled": "recalls with an outcome",
    "merged": "written again",
    "gate": "least similarity for a recall",
    "gate_top_fifth": "similarity of the closest fifth of all pairs",
}
_SHARES = ("coverage", "nonzero")


def valuable(summary: Mapping[str, Any]) -> list[Block]:
    """The memories that earned most, and of those with outcomes enough to say so the ones that earned least."""
    best = [_note(row) for row in summary.get("top_memories") or ()]
    worst = [_note(row) for row in summary.get("worst_memories") or () if row.get("n", RANKED) >= RANKED]
    title = "The most valuable memories (few outcomes count less)"
    found: list[Block] = [Notes(tuple(best), title, said=True)] if best else []
    return found + ([Notes(tuple(worst), "The least valuable memories", bad=True)] if worst else [])


def _note(memory: Mapping[str, Any]) -> Note:
    numbers = [
        f"{label} {cell_text(memory[name])}".strip()
        for name, label in (("value", "value"), ("adds", ""), ("n", "settled"))
        if memory.get(name) not in (None, "")
    ]
    facts = " · ".join([str(memory.get("id", "")), *numbers])
    return Note(str(memory.get("key", "")), str(memory.get("body", ""))[:_BODY], facts, str(memory.get("why", "")))


def health(summary: Mapping[str, Any]) -> list[Block]:
    """The numbers of a store."""
    found: Mapping[str, Any] = summary.get("health") or {}
    flat = {name: value for name, value in found.items() if value is not None and not isinstance(value, dict | list)}
    shown = dict(health_label(name, value) for name, value in flat.items())
    return [Section("Health of the memory", (Tiles(shown),))] if shown else []


def health_label(name: str, value: Any) -> tuple[str, Any]:
    """What a number of a store is, in words, and how to write it: shares in per cent."""
    said = percent(value) if name in _SHARES and isinstance(value, int | float) else value
    if name == "gate" and value == -1.0:  # the least that a cosine can be
        said = "none"
    return _HEALTH.get(name, name.replace("_", " ")), said
