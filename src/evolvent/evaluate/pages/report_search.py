"""``report.html`` of a search run: how often each search was right at which cost, and the trees themselves.

A state opens on a click: its colour is its value, the line beside it is as thick as it was visited against the most
visited one of its tree, states of the path that was taken are open, and at an end stands the environment's verdict.
Where the world says which line of an answer is the first wrong one, it is marked, and so is the first that a process
reward model doubts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evolvent.evaluate.live import count, interval, percent
from evolvent.evaluate.pages.page import cards, fold, page, section, table, text
from evolvent.evaluate.pages.report_parts import configuration, figure, foot, head, title
from evolvent.evaluate.pages.svg import Bar, bars
from evolvent.evaluate.spent import early

_READING = (
    "Rates carry 95 % Wilson intervals. An oracle's choice: a right path was among those that were found. Value ranks: "
    "of all pairs of a right and a wrong path of one task, in how many the right one has the higher value (50 %: by "
    "chance). Tokens are those that the model wrote; p is of an exact McNemar test against the first search, on the "
    "same tasks."
)


def read_trees(path: Path) -> list[dict[str, Any]]:
    """The lines of ``trees.jsonl``; none where there is no such file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def render(
    manifest: Mapping[str, Any], summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]],
    trees: Sequence[Mapping[str, Any]], top: str = "",
) -> str:  # fmt: skip
    """The page as text; of a run that has not ended without its table."""
    arms: list[dict[str, Any]] = summary.get("arms", [])
    facts = [str(summary.get("model") or manifest["config"].get("model", "")), f"seed {manifest['seed']}"]
    shown = [figure(summary[name], rates=True, minor=name == "baseline") for name in ("score", "baseline")
             if summary.get(name, {}).get("value") is not None]  # fmt: skip
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
        for a in arms if a.get("mends") is not None
    ]  # fmt: skip
    return "".join(f'<p class="soft">{text(one)}</p>' for one in [*early(arms), *told])


def drawn(trees: Sequence[Mapping[str, Any]]) -> str:
    """Trees that open on a click, as HTML; its style is ``tree.css``."""
    return "".join(_tree(tree) for tree in trees)


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
        [a["name"], interval(a["rate"], a["ci95"]), percent(a["oracle"]), percent(a.get("ranks")),
         *(round(a[key], 1) for key in ("tokens", *read, "calls", "paths", "nodes")), round(a["seconds"], 2),
         "" if i == 0 else f"{a['p']:.2g}", percent(a.get("left"))]
        for i, a in enumerate(arms) if a["n"]
    ]  # fmt: skip
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
    inside = "".join(_node(nodes, below, i, scale) for i in roots)
    more = f'<p class="soft">and {tree["left_out"]} states more</p>' if tree["left_out"] else ""
    ended = [node["right"] for node in nodes if node["taken"] and node["right"] is not None]
    mark = "✓" if True in ended else "✗"
    return fold(f"{mark} {tree['search']}: {str(tree['question'])[:80]}", f'<div class="tree">{inside}{more}</div>')


def _node(
    nodes: Sequence[Mapping[str, Any]], below: Mapping[int, Sequence[int]], i: int, scale: tuple[float, float, int]
) -> str:
    """A state with what follows it; depth is bounded by the attempts themselves."""
    node = nodes[i]
    attempt = node["parent"] < 0 and bool(node["text"])  # judged by what it came to: where it begins has no value
    low, high, most = scale
    value = float((_end(nodes, below, i) if attempt else node)["value"])
    share = 0.5 if high <= low else (value - low) / (high - low)
    thick = 1 + round(7 * math.log2(1 + node["visits"]) / math.log2(1 + most))
    style = f"--value:{120 * min(max(share, 0.0), 1.0):.0f};border-left-width:{thick}px"
    verdict = "" if node["right"] is None else f" {_VERDICT[bool(node['right'])]}"
    # trees of older runs do not say which line is wrong
    verdict += ' <span class="tag bad">first wrong line</span>' if node.get("wrong") else ""
    verdict += ' <span class="tag bad">first doubted</span>' if node.get("doubted") else ""
    words = text(node["text"] or ("start" if node["parent"] < 0 else "(empty)"))
    facts = f'<span class="soft small">{node["value"]:.3g} · {node["visits"]}×</span>'
    kind = "state taken" if node["taken"] else "state"
    label = f'<span class="mono">{words}</span> {facts}{verdict}'
    if attempt:
        label = f"<strong>{words}</strong> {_outcome(_end(nodes, below, i))}"
    children = "".join(_node(nodes, below, c, scale) for c in sorted(
        below.get(i, []), key=lambda c: (not nodes[c]["taken"], -nodes[c]["visits"], -nodes[c]["value"])))  # fmt: skip
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
    True: '<span class="tag good">✓ right</span>', False: '<span class="tag bad">✗ wrong</span>',
}  # fmt: skip
