"""``report.html`` of a search run: how often each search was right at which cost, and the trees themselves.

A state opens on a click: its colour is its value, the line beside it is as thick as it was visited against the most
visited one of its tree, states of the path that was taken are open, and at an end stands the environment's verdict.
Where the world says which line of an answer is the first wrong one, it is marked, and so is the first that a process
reward model doubts. States that follow one another without another way stand under each other, and a long stretch of
them opens on a click; what lies deeper than ``NEAR`` levels is not indented on a narrow screen, ``FAR`` on any.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolvent.evaluate.live import count, interval, percent
from evolvent.evaluate.pages.page import cards, fold, page, section, table, text
from evolvent.evaluate.pages.report_parts import configuration, figure, foot, head, title
from evolvent.evaluate.pages.svg import Bar, bars
from evolvent.evaluate.spent import uneven

FEW, NEAR, FAR = 4, 6, 24
"""States of an only way that are shown in full; levels that are indented on a narrow screen, and on any."""
_READING = (
    "Rates carry 95 % Wilson intervals. An oracle's choice: a right path was among those that were found. Value ranks: "
    "of all pairs of a right and a wrong path of one task, in how many the right one has the higher value (50 %: by "
    "chance). Tokens are those that the model wrote; p is of an exact McNemar test against the first search, on the "
    "same tasks."
)
_LEGEND = (
    "Colour: value, from the least of its tree (red) to the largest (green). Line: the more visits, the thicker, "
    "against the most visited state of its tree. Behind a state: its value · its visits. Bold: the path that was taken."
)


def read_trees(path: Path) -> list[dict[str, Any]]:
    """The lines of ``trees.jsonl``; none where there is no such file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def render(
    manifest: Mapping[str, Any],
    summary: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    trees: Sequence[Mapping[str, Any]],
    top: str = "",
) -> str:
    """The page as text; of a run that has not ended without its table."""
    arms: list[dict[str, Any]] = summary.get("arms", [])
    facts = [str(summary.get("model") or manifest["config"].get("model", "")), f"seed {manifest['seed']}"]
    shown = [
        figure(summary[name], rates=True, minor=name == "baseline")
        for name in ("score", "baseline")
        if summary.get(name, {}).get("value") is not None
    ]
    return page(
        title(manifest),
        [
            head(manifest, summary, [*facts, _counted(rows)], top),
            f'<div class="hero">{"".join(shown)}</div>' if shown else "",
            cards([("Right, by search", _bars(arms))] if arms else []),
            section("Searches at one budget", _table(arms) + _said(arms)),
            section("Trees", drawn(trees)),
            section("Configuration", configuration(manifest)),
            foot(manifest, _READING),
        ],
        styles=("report.css", "tree.css"),
    )


def _said(arms: Sequence[Mapping[str, Any]]) -> str:
    """Which searches ended early, and what a round of answers that are written again does (``search.dser``)."""
    told = [
        f"{a['name']}: a round mends {interval(a['mends'], a['mends_ci95'])} of wrong answers and spoils "
        f"{interval(a['spoils'], a['spoils_ci95'])} of right ones; 80 such rounds would lead to "
        f"{interval(a['right_after_80_rounds'], None)}."
        for a in arms
        if a.get("mends") is not None
    ]
    return "".join(f'<p class="soft">{text(one)}</p>' for one in [*uneven(arms), *told])


def drawn(trees: Sequence[Mapping[str, Any]]) -> str:
    """Trees that open on a click, as HTML; its style is ``tree.css``."""
    return "".join(_tree(tree) for tree in trees) + (f'<p class="soft small">{_LEGEND}</p>' if trees else "")


def _counted(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many kinds of search at how many tasks."""
    kinds, tasks = {row["phase"] for row in rows}, {row["task"] for row in rows}
    said = "1 search" if len(kinds) == 1 else f"{len(kinds)} searches"
    return f"{said} × {count(len(tasks), 'task')}"


def _bars(arms: Sequence[Mapping[str, Any]]) -> str:
    return bars(
        [
            Bar(a["name"], a["rate"], a["ci95"][0], a["ci95"][1], i % 5)
            for i, a in enumerate(arms)
            if a["rate"] is not None
        ]
    )


def _table(arms: Sequence[Mapping[str, Any]]) -> str:
    read = ["judge_tokens"] if any(a.get("judge_tokens") for a in arms) else []
    rows = [
        [
            a["name"],
            interval(a["rate"], a["ci95"]),
            percent(a["oracle"]),
            percent(a.get("ranks")),
            *(round(a[key], 1) for key in ("tokens", *read, "calls", "paths", "nodes")),
            round(a["seconds"], 2),
            "" if i == 0 else f"{a['p']:.2g}",
            percent(a.get("left")),
        ]
        for i, a in enumerate(arms)
        if a["n"]
    ]
    spent = ["tokens", *(["read by the judge"] if read else []), "calls", "paths", "states", "seconds"]
    names = ["search", "right [95 %]", "an oracle's choice", "value ranks", *spent, "p", "budget left"]
    return table(names, rows)


def _tree(tree: Mapping[str, Any]) -> str:
    nodes: list[dict[str, Any]] = tree["nodes"]
    below: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        below.setdefault(int(node["parent"]), []).append(i)
    worth = [float(node["value"]) for node in nodes if node["parent"] >= 0] or [0.0]
    scale = (min(worth), max(worth), max(1, *(int(node["visits"]) for node in nodes)))
    # where each attempt begins at a root of its own, nothing follows the first one
    roots = [i for i in below.get(-1, []) if i in below or len(below[-1]) == 1]
    if len(roots) > 1:
        named = {i: {**nodes[i], "text": nodes[i]["text"] or f"{k + 1}. attempt"} for k, i in enumerate(roots)}
        nodes = [named.get(i, node) for i, node in enumerate(nodes)]
    inside = "".join(_node(_Grown(nodes, below, scale), i) for i in roots)
    more = f'<p class="soft">and {tree["left_out"]} states more</p>' if tree["left_out"] else ""
    ended = [node["right"] for node in nodes if node["taken"] and node["right"] is not None]
    mark = "✓" if True in ended else "✗"
    return fold(f"{mark} {tree['search']}: {str(tree['question'])[:80]}", f'<div class="tree">{inside}{more}</div>')


@dataclass(frozen=True)
class _Grown:
    """A tree that is drawn: its states, what follows each, and least value, largest value, most visits."""

    nodes: Sequence[Mapping[str, Any]]
    below: Mapping[int, Sequence[int]]
    scale: tuple[float, float, int]


def _node(tree: _Grown, i: int, level: int = 0) -> str:
    """A state with what follows it: several ways one level further in, an only way as lines under each other."""
    way = _only_way(tree.below, i)
    if not way:
        children = _ways(tree, i, level)
    else:
        rows = [_row(tree, k, level + 1) for k in way[:-1]] + [_node(tree, way[-1], level + 1)]
        children = _shortened(rows, [bool(_marks(tree.nodes[k])) for k in way])
    return _row(tree, i, level, children)


def _only_way(below: Mapping[int, Sequence[int]], i: int) -> list[int]:
    """What follows a state one by one, up to an end or to where there are several ways."""
    way: list[int] = []
    while len(below.get(i, ())) == 1:
        i = below[i][0]
        way.append(i)
    return way


def _ways(tree: _Grown, i: int, level: int) -> str:
    """The ways behind a state: the one that was taken, then the most visited."""
    nodes = tree.nodes
    best = sorted(tree.below.get(i, ()), key=lambda c: (not nodes[c]["taken"], -nodes[c]["visits"], -nodes[c]["value"]))
    return "".join(_node(tree, c, level + 1) for c in best)


def _shortened(rows: Sequence[str], marked: Sequence[bool]) -> str:
    """Lines under each other, with long stretches of unmarked ones folded; the first and the last stay."""
    out, start = list[str](), 0
    for i in range(len(rows) + 1):
        if i < len(rows) and 0 < i < len(rows) - 1 and not marked[i]:
            continue
        between = rows[start:i]
        folded = f'<details class="way"><summary>… {len(between)} states</summary>{"".join(between)}</details>'
        out += [folded] if len(between) > FEW else between
        out += rows[i : i + 1]
        start = i + 1
    return "".join(out)


def _marks(node: Mapping[str, Any]) -> str:
    """What a reader looks for: the verdict at an end, the first line that is wrong, the first that is doubted."""
    told = "" if node["right"] is None else f" {_VERDICT[bool(node['right'])]}"
    # trees of older runs do not say which line is wrong
    told += ' <span class="tag bad">first wrong line</span>' if node.get("wrong") else ""
    return told + (' <span class="tag bad">first doubted</span>' if node.get("doubted") else "")


def _row(tree: _Grown, i: int, level: int, children: str = "") -> str:
    """A state by itself, or what opens to its children; far inside, where nothing is indented, with its depth."""
    node = tree.nodes[i]
    attempt = node["parent"] < 0 and bool(node["text"])  # judged by what it came to: where it begins has no value
    low, high, most = tree.scale
    end = _end(tree.nodes, tree.below, i) if attempt else node
    share = 0.5 if high <= low else (float(end["value"]) - low) / (high - low)
    thick = 1 + round(7 * math.log2(1 + node["visits"]) / math.log2(1 + most))
    style = f"--value:{120 * min(max(share, 0.0), 1.0):.0f};--thick:{thick}px"
    words = text(node["text"] or ("start" if node["parent"] < 0 else "(empty)"))
    depth = f" · level {level}" if level > NEAR else ""
    unjudged = node["parent"] < 0 and not node["visits"]  # by a search that makes moves from there, and no simulation
    worth = "" if unjudged else f"{node['value']:.3g} · "
    facts = f'<span class="soft small">{worth}{node["visits"]}×{depth}</span>'
    label = f'<span class="mono">{words}</span> {facts}{_marks(node)}'
    if attempt:
        label = f"<strong>{words}</strong> {_outcome(end)}"
    kind = "state" + " taken" * bool(node["taken"]) + " deep" * (level > NEAR) + " deeper" * (level > FAR)
    kind += " unjudged" * (unjudged and not attempt)
    if not children:
        return f'<div class="{kind}" style="{style}"><span class="leaf">{label}</span></div>'
    opened = " open" if node["taken"] else ""
    return f'<div class="{kind}" style="{style}"><details{opened}><summary>{label}</summary>{children}</details></div>'


def _end(nodes: Sequence[Mapping[str, Any]], below: Mapping[int, Sequence[int]], i: int) -> Mapping[str, Any]:
    """Where the attempt that begins at ``i`` ended."""
    while i in below:
        i = max(below[i], key=lambda c: (nodes[c]["taken"], nodes[c]["visits"]))
    return nodes[i]


def _outcome(end: Mapping[str, Any]) -> str:
    """What an attempt came to: its end's value and verdict."""
    facts = f'<span class="soft small">{end["value"]:.3g}</span>'
    if end["right"] is None:
        return f'{facts} <span class="tag">not ended</span>'
    return f"{facts} {_VERDICT[bool(end['right'])]}"


_VERDICT = {
    True: '<span class="tag good">✓ right</span>',
    False: '<span class="tag bad">✗ wrong</span>',
}
