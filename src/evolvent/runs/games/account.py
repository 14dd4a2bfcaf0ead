"""The page of a run over games: how often the model's pages play, and each lineage with pictures, to be played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import (
    Bars,
    Block,
    Frame,
    Headline,
    Hint,
    Node,
    Number,
    Page,
    Pictures,
    Section,
    Table,
    Text,
    Tree,
)
from evolvent.evaluate.live import count, interval
from evolvent.runs.account.updates import facts, number, section

Row = Mapping[str, Any]
GATES = {
    "": "plays",
    "text": "no program",
    "static": "refused by its text",
    "browser": "fails in the browser",
    "harness": "not judged",
}
_FULL = 0.75
"""The reward whose colour is full green."""
_READING = (
    "Shares are of answers of the model, with 95 % Wilson intervals: valid by its text, playable where a browser "
    "painted it without an error. Answers of one version are not independent. Whether a mechanic does what its words "
    "say is not judged. Rewards: at most 0.90, and 0.75 where no model rates creativity."
)


def account(folder: RunFolder) -> Page:
    """What a run over games tells of itself."""
    manifest, rows = folder.manifest(), folder.read_metrics()
    summary = folder.summary() if folder.finished else {}
    numbers = _numbers(summary)
    judges = f"played in {summary['browser']}" if summary.get("browser") else "no browser: judged by their text"
    shown = facts(manifest, summary, count(len(rows), "version"), judges if summary else "")
    body: list[Block] = [
        *([Headline(numbers)] if numbers else []),
        *_shares(summary),
        *section("Pages of the model", _table(summary)),
        *section("Lineages", [*_changes(summary), *_lineages(rows, folder)]),
        *section("Mechanics, and how often the model could write them", _ideas(summary.get("ideas", []))),
    ]
    score = numbers[0] if numbers else None
    return Page("", tuple(body), score, shown, hint=Hint(), reading=_READING)


def _numbers(summary: Row) -> tuple[Number, ...]:
    if (summary.get("score") or {}).get("value") is None:
        return ()
    nodes, shown = summary["nodes"], [number(str(summary["score"]["name"]), summary["score"], rate=True)]
    if nodes["features"]:
        own = {"value": nodes["by_the_model"] / nodes["features"], "ci95": nodes["by_the_model_ci95"]}
        shown.append(number("mechanics that the model wrote itself", own, rate=True))
    return (*shown, Number("reward of a version, mean", nodes["reward"]))


def _shares(summary: Row) -> list[Block]:
    found: list[Block] = []
    for name, heading in (("iteration", "Playable by iteration"), ("depth", "Playable by depth in the lineage")):
        rows = tuple(
            number(f"{name} {a[name]}, {a['n']} pages", {"value": a["playable"], "ci95": a["playable_ci95"]}, rate=True)
            for a in summary.get(f"{name}s", [])
        )
        if rows:
            found.append(Bars(heading, rows, tuple(i % 5 for i in range(len(rows)))))
    return found


def _table(summary: Row) -> list[Block]:
    cells: list[tuple[Any, ...]] = []
    for name in ("stage", "iteration", "depth"):
        for one in summary.get(f"{name}s", []):
            shares = [interval(one[what], one[f"{what}_ci95"]) for what in ("valid", "playable")]
            cells.append((f"{name} {one[name]}", one["n"], *shares, interval(one["realised"], None)))
    columns = ("by", "pages", "valid [95 %]", "playable [95 %]", "with the mechanic in it")
    return [Table(columns, tuple(cells), said=True)] if cells else []


def _changes(summary: Row) -> list[Block]:
    """How often rules were removed and taken over; runs of before do not say."""
    if "changes" not in summary:
        return []
    done = summary["changes"]
    said = (
        f"rules removed {done['removed']}, taken over from another lineage {done['taken']}, "
        f"not made because the page would not play {done['undone']}"
    )
    return [Text((said,), "soft", said=True)]


def _ideas(ideas: Sequence[Row]) -> list[Block]:
    cells = tuple(
        (a["name"], a["asked"], a["there"], None if a["value"] is None else f"{a['value']:.2f}") for a in ideas
    )
    return [Table(("mechanic", "asked for", "written", "value"), cells)] if cells else []


# ------------------------------------------------------------------------------------------------ lineages
def _lineages(rows: Sequence[Row], folder: RunFolder) -> list[Block]:
    found: list[Block] = []
    for game in dict.fromkeys(row["lineage"] for row in rows):
        mine = [row for row in rows if row["lineage"] == game]
        best = max(mine, key=lambda row: (row["reward"], row["step"]))
        ends = max(mine, key=lambda row: (row["depth"], row["reward"]))
        by_step = {row["step"]: row for row in mine}
        path: set[int] = set()
        at: Row | None = ends
        while at is not None and at["step"] not in path:
            path.add(at["step"])
            at = by_step.get(at["parent"])
        place = {row["step"]: i for i, row in enumerate(mine)}
        nodes = tuple(_version(row, place.get(row["parent"], -1), path, folder) for row in mine)
        heading = f"{game}: {count(len(mine), 'version')}, best reward {best['reward']:.2f}, depth {ends['depth']}"
        found.append(Tree(heading, nodes, opened=not found))
    return found


def _version(row: Row, place: int, path: set[int], folder: RunFolder) -> Node:
    """One version: how it looks, to be played, and what the model wrote for it."""
    by, taken = ", ".join(deltas(row)) or "nothing changed", row["step"] in path
    tag: tuple[Literal["good", "bad"], str] = ("good", "plays") if row["ok"] else ("bad", "the model's failed")
    inside = (*_seen(row, folder), *(_call(call) for call in row["calls"]))
    hue = min(1.0, max(0.0, row["reward"] / _FULL))
    facts = f"reward {row['reward']:.2f}"
    return Node(place, f"{row['phase']}: {by}", False, (tag,), facts, hue, 0.5 if taken else 0.0, taken, inside)


def _seen(row: Row, folder: RunFolder) -> list[Block]:
    name, step = f"{row['lineage']} {row['phase']}", int(row["step"])
    parts = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in row["signals"].items())
    picture, game = f"games/{step}.jpg", f"games/{step}.html"
    found: list[Block] = [Pictures((picture,), (name,))] if (folder.path / picture).exists() else []
    found.append(Text((f"Mechanics: {', '.join(row['mechanics'])}", parts, *_planned(row)), "soft"))
    if (folder.path / game).exists():
        found.append(Frame(game, name, "then click into it: arrow keys and space."))
    return found


def deltas(row: Row) -> list[str]:
    """What a version has more and less than its parent, and whence, one a mechanic."""
    done = [one for one in row.get("changes", ()) if one["done"]]  # runs of before had none
    gone = [f"removed {one['mechanic']} ({one['why']})" for one in done if one["what"] == "remove"]
    come = [f"took {one['mechanic']} of {_whence(one['from'])}" for one in done if one["what"] == "take"]
    return [*gone, *come, *(f"added {name} ({who})" for name, who in row["added"].items())]


def _whence(origin: Row) -> str:
    """A game and its version; runs of before noted no version."""
    return f"{origin['lineage']} v{origin['version']}" if "version" in origin else str(origin["lineage"])


def _planned(row: Row) -> list[str]:
    """What was planned, and what of it was not done."""
    aims = [f"{what} {', '.join(names)}" for what, names in row.get("plan", {}).items() if names]
    undone = [
        f"not done: {one['what']} {one['mechanic']}, the page then fails ({one['words']})"
        for one in row.get("changes", ())
        if not one["done"]
    ]
    return ["Plan: " + "; ".join(aims), *undone] if aims else []


def _call(call: Row) -> Section:
    gate = GATES.get(call["gate"], call["gate"])
    if call["gate"] == "" and not call["there"]:
        gate = "plays, without the mechanic"
    shown = ", ".join(f"{m['kind']} {m['id']} ({m['value']:+.2f})" for m in call["advice"])
    said = Text((f"{call['words']}{' · with ' + shown if shown else ''}",), "soft")
    code = [Text((str(call["source"]),), "code")] if call["source"] else []
    heading = f"{call['stage']} {call['mechanic']}, call {call['iteration']}: {gate}"
    return Section(heading, (said, *code), folded=True)
