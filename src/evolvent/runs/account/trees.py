"""Trees of a search on a page, from ``trees.jsonl``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from evolvent.core.jsonfile import lines
from evolvent.evaluate.blocks import Node, Tree

Row = Mapping[str, Any]
FILE = "trees.jsonl"
LEGEND = (
    "Colour: value, from the least of its tree (red) to the largest (green). Line: the more visits, the thicker, "
    "against the most visited state of its tree. Behind a state: its value · its visits. Bold: the path that was taken."
)
Tag = tuple[Literal["good", "bad", ""], str]
_VERDICT: dict[bool, Tag] = {True: ("good", "✓ right"), False: ("bad", "✗ wrong")}


def read(folder: Path) -> list[Row]:
    """The lines of the file; none where there is none."""
    return list(lines(folder / FILE)) if (folder / FILE).exists() else []


def trees(found: Sequence[Row]) -> list[Tree]:
    """Trees as blocks."""
    return [_tree(tree) for tree in found]


def _tree(tree: Row) -> Tree:
    nodes: list[dict[str, Any]] = tree["nodes"]
    below: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        below.setdefault(int(node["parent"]), []).append(i)
    # where each attempt begins at a root of its own, nothing follows the first one
    roots = [i for i in below.get(-1, []) if i in below or len(below[-1]) == 1]
    if len(roots) > 1:
        named = {i: {**nodes[i], "text": nodes[i]["text"] or f"{k + 1}. attempt"} for k, i in enumerate(roots)}
        nodes = [named.get(i, node) for i, node in enumerate(nodes)]
    order = _order(nodes, below, roots)
    place = {i: at for at, i in enumerate(order)}
    worth = [float(node["value"]) for node in nodes if node["parent"] >= 0] or [0.0]
    scale = (min(worth), max(worth), max(1, *(int(node["visits"]) for node in nodes)))
    made = tuple(_node(nodes, below, i, place.get(int(nodes[i]["parent"]), -1), scale) for i in order)
    ended = [node["right"] for node in nodes if node["taken"] and node["right"] is not None]
    more = f"and {tree['left_out']} states more" if tree["left_out"] else ""
    return Tree(f"{'✓' if True in ended else '✗'} {tree['search']}: {str(tree['question'])[:80]}", made, more)


def _order(nodes: Sequence[Row], below: Mapping[int, Sequence[int]], roots: Sequence[int]) -> list[int]:
    """The way that was taken first, then the most visited; parents before what follows them."""
    order, waiting = list[int](), list(reversed(roots))
    while waiting:
        i = waiting.pop()
        order.append(i)
        ways = sorted(below.get(i, ()), key=lambda c: (not nodes[c]["taken"], -nodes[c]["visits"], -nodes[c]["value"]))
        waiting += reversed(ways)
    return order


def _node(
    nodes: Sequence[Row], below: Mapping[int, Sequence[int]], i: int, parent: int, scale: tuple[float, float, int]
) -> Node:
    node = nodes[i]
    low, high, most = scale
    attempt = node["parent"] < 0 and bool(node["text"])  # judged by what it came to: where it begins has no value
    end = _end(nodes, below, i) if attempt else node
    share = 0.5 if high <= low else (float(end["value"]) - low) / (high - low)
    weight = round(7 * math.log2(1 + node["visits"]) / math.log2(1 + most)) / 7
    unjudged = node["parent"] < 0 and not node["visits"]  # by a search that makes moves from there, and no simulation
    label = str(node["text"] or ("start" if node["parent"] < 0 else "(empty)"))
    hue = None if unjudged and not attempt else min(max(share, 0.0), 1.0)
    if attempt:
        mark: Tag = _VERDICT[bool(end["right"])] if end["right"] is not None else ("", "not ended")
        return Node(parent, label, True, (mark,), f"{end['value']:.3g}", hue, weight, bool(node["taken"]))
    worth = "" if unjudged else f"{node['value']:.3g} · "
    return Node(parent, label, False, _marks(node), f"{worth}{node['visits']}×", hue, weight, bool(node["taken"]))


def _marks(node: Row) -> tuple[Tag, ...]:
    """What a reader looks for: the verdict at an end, the first line that is wrong, the first that is doubted."""
    tags: list[Tag] = [] if node["right"] is None else [_VERDICT[bool(node["right"])]]
    # trees of older runs do not say which line is wrong
    if node.get("wrong"):
        tags.append(("bad", "first wrong line"))
    if node.get("doubted"):
        tags.append(("bad", "first doubted"))
    return tuple(tags)


def _end(nodes: Sequence[Row], below: Mapping[int, Sequence[int]], i: int) -> Row:
    """Where the attempt that begins at ``i`` ended."""
    while i in below:
        i = max(below[i], key=lambda c: (nodes[c]["taken"], nodes[c]["visits"]))
    return nodes[i]
