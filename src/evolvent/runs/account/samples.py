"""Recorded attempts on a page: two of the first update, and of the last one those that earned least and most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evolvent.evaluate.blocks import Block, Section, Text

Record = Mapping[str, Any]
_NODES, _SEEN, _SAID, _EACH = 24, 700, 1200, 2


def first_and_last(records: Iterable[Record]) -> list[Block]:
    """The attempts of ``episodes.jsonl`` as folded sections."""
    first: list[Record] = []
    last: list[Record] = []
    for record in records:
        if last and last[0]["step"] != record["step"]:
            first, last = first or last[:_EACH], []
        last.append(record)
    ranked = sorted(last, key=_earned)
    chosen = ranked if len(ranked) <= 2 * _EACH else ranked[:_EACH] + ranked[-_EACH:]
    return [_sample(record) for record in (*first, *chosen)]


def _earned(record: Record) -> float:
    return sum(float(node.get("reward") or 0.0) for node in _first(record))


def _first(record: Record) -> Sequence[Record]:
    """The nodes of its first attempt, where several share a beginning."""
    ends = record.get("ends") or ()
    return record["nodes"][: ends[0]["leaf"] + 1] if len(ends) > 1 else record["nodes"]


def _sample(record: Record) -> Section:
    ends = record.get("ends") or [record.get("end") or {}]  # "end" until schema 2
    mark = {True: "✓ ", False: "✗ ", None: ""}[ends[0].get("success")]
    task = str(record.get("task_id", ""))[:80]
    shown = [node for node in _first(record) if node.get("kind") in ("observation", "action")]
    inside = [_line(node) for node in shown[:_NODES]]
    if len(shown) > _NODES:
        inside.append(Text((f"and {len(shown) - _NODES} more parts in episodes.jsonl",), "soft"))
    heading = f"{mark}{task}, after {record['step']:,} attempts: return {_earned(record):.3g}"
    return Section(heading, tuple(inside), folded=True)


def _line(node: Record) -> Text:
    said = str(node.get("text", ""))
    if node["kind"] == "observation":
        return Text((said[:_SEEN] + (" …" if len(said) > _SEEN else ""),), "code")
    reward = f" (reward {node['reward']:.3g})" if node.get("reward") else ""
    return Text((f"→ {said[:_SAID]}{reward}",))
