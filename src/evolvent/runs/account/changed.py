"""One held-out task before learning and after it, side by side, and how many tasks changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evolvent.core.branches import trees_of
from evolvent.core.episode import Episode
from evolvent.core.jsonfile import dump, lines, write_atomic
from evolvent.evaluate.blocks import Block, Pair, Section, Text
from evolvent.evaluate.live import count
from evolvent.runs.account import calls
from evolvent.runs.account.series import Row
from evolvent.runs.account.tasks import Seen, seen_in

_HEAD, _TAIL, _ACTION = 500, 700, 2000
_TITLE = "One task, before and after"
Both = tuple[Row, Row]
HELDOUT = {"before": "heldout_before.jsonl", "after": "heldout_after.jsonl"}
"""Attempts at held-out tasks of a run that judges all of them at once: before it learned, and the newest after."""


def write(folder: Path, when: str, episodes: Sequence[Episode]) -> None:
    """Keep the attempts of an evaluation, in place of those that were kept before; ``when``: of ``HELDOUT``."""
    write_atomic(folder / HELDOUT[when], "".join(dump(one.to_dict()) + "\n" for one in trees_of(episodes)))


def read(folder: Path) -> tuple[list[Row], dict[int, Seen]]:
    """What ``write`` kept, as rows and what was recorded by their ``step``, which only numbers them."""
    rows, attempts = list[Row](), dict[int, Seen]()
    for when, name in HELDOUT.items():
        for record in lines(folder / name):
            end = record["ends"][0]
            nodes = record["nodes"][: end["leaf"] + 1] if len(record["ends"]) > 1 else record["nodes"]
            step, earned = len(rows), sum(float(node.get("reward") or 0.0) for node in nodes)
            about = {"success": end["success"], "reward": earned, "valid": int(end["valid"])}
            rows.append({"step": step, "phase": when, "task": record["task_id"], **about})
            attempts[step] = seen_in({**record, "nodes": nodes})
    return rows, attempts


def example(rows: Sequence[Row], attempts: Mapping[int, Seen]) -> list[Block]:
    """The first held-out task whose outcome changed, in the order of the run, and the first that changed the other way.

    Args:
        rows: attempts: ``phase`` ("before" and "after" are looked at), ``task``, ``success`` and ``reward``, ``step``.
        attempts: what was recorded of them, by step.
    """
    pairs = _pairs(rows)
    if not pairs:
        return []
    judged = all(row.get("success") is not None for pair in pairs for row in pair)
    words = ("from wrong to right", "from right to wrong") if judged else ("to a higher return", "to a lower return")
    moves = [_worth(after, judged) - _worth(before, judged) for before, after in pairs]
    changed = [pair for pair, move in zip(pairs, moves, strict=True) if move]
    up, down = sum(move > 0 for move in moves), sum(move < 0 for move in moves)
    same = f"{len(pairs) - up - down} came out as before"
    if judged:
        right = sum(bool(before["success"]) and bool(after["success"]) for before, after in pairs)
        same = f"{right} were right both times, {len(pairs) - up - down - right} wrong both times"
    said = f"Of {count(len(pairs), 'held-out task')} {up} changed {words[0]} and {down} {words[1]}; {same}."
    if not changed:
        nothing = f"No outcome changed: of {count(len(pairs), 'held-out task')} {same}."
        return [Section(_TITLE, (Text((nothing,)),))]
    first = changed[0]
    rose = _worth(first[1], judged) > _worth(first[0], judged)
    other = next((pair for pair in changed if (_worth(pair[1], judged) > _worth(pair[0], judged)) != rose), None)
    inside: list[Block] = [Text((f"{said} This is the first that changed.",)), *_shown(*first, attempts, judged)]
    if other:
        inside.append(Section("The first that changed the other way", tuple(_shown(*other, attempts, judged)), True))
    return [Section(_TITLE, tuple(inside))]


def _pairs(rows: Sequence[Row]) -> list[Both]:
    """Valid attempts at the same tasks, before and after."""
    valid = [row for row in rows if row.get("valid", 1)]
    before = {row["task"]: row for row in valid if row.get("phase") == "before"}
    after = [row for row in valid if row.get("phase") == "after" and row["task"] in before]
    return [(before[row["task"]], row) for row in after]


def _worth(row: Row, judged: bool) -> float:
    return float(bool(row["success"])) if judged else float(row.get("reward") or 0.0)


def _shown(before: Row, after: Row, attempts: Mapping[int, Seen], judged: bool) -> list[Block]:
    """The question, both answers, and what is known of them in words."""
    sides = [attempts.get(int(row["step"]), Seen()) for row in (before, after)]
    names = [f"{when}: {_came_to(row, judged)}" for when, row in (("before", before), ("after", after))]
    texts = [_action(row, seen) for row, seen in zip((before, after), sides, strict=True)]
    told = [f"{when}: {said}." for when, seen in zip(("Before", "After"), sides, strict=True) if (said := _said(seen))]
    question = str(after.get("question") or sides[1].question or sides[0].question or after["task"])
    question = calls.split(question)[1] if sides[1].judged else question  # the schemas stand further below
    asked = Text((_short(question),), "code" if "\n" in question else "plain")
    pair = Pair((names[0], names[1]), (texts[0], texts[1]))
    return [asked, pair, *([Text((" ".join(told),))] if told else [])]


def _came_to(row: Row, judged: bool) -> str:
    return ("right" if row["success"] else "wrong") if judged else f"return {float(row.get('reward') or 0.0):.3g}"


def _action(row: Row, seen: Seen) -> str:
    said = str(row.get("action") or "\n".join(seen.actions)).strip()
    return said[:_ACTION] or "(nothing was answered)"


def _said(seen: Seen) -> str:
    """What is known of an attempt besides its answer: what was wrong with it, memories in sight, cut off."""
    found = [calls.in_words(seen) or " ".join(seen.words.split())]
    found += ["the answer was cut off by its length"] if seen.cut else []
    found += [f"with the memories {', '.join(seen.shown[:5])} in the prompt"] if seen.shown else []
    return "; ".join(part.rstrip(".") for part in found if part)


def _short(question: str) -> str:
    """Its beginning and its end, where what is asked usually stands."""
    text = question.strip()
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n…\n{text[-_TAIL:]}"
