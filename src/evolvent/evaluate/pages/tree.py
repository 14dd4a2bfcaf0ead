"""Trees that open on a click: what was searched, or made of what.

States that follow one another without another way stand under each other, and a long stretch of them opens on a click;
what lies deeper than ``NEAR`` levels is not indented on a narrow screen, ``FAR`` on any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evolvent.evaluate.blocks import Node, Tree
from evolvent.evaluate.pages.page import fold, text

FEW, NEAR, FAR = 4, 6, 24
"""States of an only way that are shown in full; levels that are indented on a narrow screen, and on any."""


@dataclass(frozen=True)
class _Grown:
    """A tree that is drawn: its states, what follows each, and how what opens with a state is drawn."""

    nodes: Sequence[Node]
    below: Mapping[int, Sequence[int]]
    draw: Callable[[Sequence[Any]], str]


def tree(block: Tree, draw: Callable[[Sequence[Any]], str]) -> str:
    """A tree as HTML, of the style ``tree.css``; ``draw`` gives the blocks inside a state as HTML.

    A state whose parent does not stand before it is left out.
    """
    below: dict[int, list[int]] = {}
    for i, node in enumerate(block.nodes):
        if -1 <= node.parent < i:
            below.setdefault(node.parent, []).append(i)
    shown = "".join(_node(_Grown(block.nodes, below, draw), i) for i in below.get(-1, []))
    after = f'<p class="soft">{text(block.after)}</p>' if block.after else ""
    return fold(block.title, f'<div class="tree">{shown}{after}</div>', opened=block.opened) if shown else ""


def _node(tree: _Grown, i: int, level: int = 0) -> str:
    """A state with what follows it: several ways one level further in, an only way as lines under each other."""
    way = _only_way(tree, i)
    if not way:
        return _row(tree, i, level, "".join(_node(tree, c, level + 1) for c in tree.below.get(i, ())))
    rows = [_row(tree, k, level + 1) for k in way[:-1]] + [_node(tree, way[-1], level + 1)]
    return _row(tree, i, level, _shortened(rows, [bool(tree.nodes[k].tags) for k in way]))


def _only_way(tree: _Grown, i: int) -> list[int]:
    """What follows a state one by one, up to an end or to where there are several ways, or something to open."""
    way: list[int] = []
    while len(tree.below.get(i, ())) == 1:
        i = tree.below[i][0]
        way.append(i)
    return way


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


def _row(tree: _Grown, i: int, level: int, children: str = "") -> str:
    """A state by itself, or what opens to its children; far inside, where nothing is indented, with its depth."""
    node = tree.nodes[i]
    depth = f" · level {level}" if level > NEAR else ""
    facts = f'<span class="soft small">{text(node.facts)}{depth}</span>' if node.facts or depth else ""
    said = f"<strong>{text(node.text)}</strong>" if node.strong else f'<span class="mono">{text(node.text)}</span>'
    tags = "".join(f' <span class="tag {tone}">{text(tag)}</span>' for tone, tag in node.tags)
    label = f"{said} {facts}{tags}"
    hue = 60.0 if node.hue is None else 120 * min(max(node.hue, 0.0), 1.0)
    style = f"--value:{hue:.0f};--thick:{1 + round(7 * min(max(node.weight, 0.0), 1.0))}px"
    kind = "state" + " taken" * node.taken + " deep" * (level > NEAR) + " deeper" * (level > FAR)
    kind += " unjudged" * (node.hue is None)
    inside = tree.draw(node.inside) + children
    if not inside:
        return f'<div class="{kind}" style="{style}"><span class="leaf">{label}</span></div>'
    opened = " open" if node.taken else ""
    return f'<div class="{kind}" style="{style}"><details{opened}><summary>{label}</summary>{inside}</details></div>'
