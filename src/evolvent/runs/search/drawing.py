"""A searched tree as plain data for the report: states with text, value, visits, and whether they lie on the path."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path as File
from typing import Any

from evolvent.core.jsonfile import lines, write_atomic
from evolvent.core.reward_kinds import reward_kinds, reward_total
from evolvent.search.attempts import Attempts
from evolvent.search.search import Path, Search

TREES, MOST = 4, 300
"""Trees of each search, and states of each, that are kept for the report (``trees.jsonl``)."""
LINES = "lines"
"""The kind of reward by which a world says how many lines of an answer are right before the first that is not."""


def save_trees(folder: File, step: int, trees: Sequence[dict[str, Any]]) -> None:
    """Write trees into ``trees.jsonl``, in place of what stands there for this step or later ones."""
    file = folder / "trees.jsonl"
    remaining = [line for line in lines(file) if line["step"] < step] if file.exists() else []
    remaining += [{"step": step, **tree} for tree in trees]
    write_atomic(file, "".join(json.dumps(line) + "\n" for line in remaining))


def drawn(search: Search, space: Attempts, task: int, taken: Path, name: str) -> dict[str, Any]:
    """One line of ``trees.jsonl``: at most ``MOST`` states, those of the path and the most visited first.

    ``wrong`` is the first line of an answer that the world calls wrong, ``doubted`` the first that a process reward
    model gives less than one half.
    """
    tree, process = search.tree, getattr(search.value, "kind", "") == "process"
    path, inside = set(tree.path(taken.leaf)), tree.inside(task).tolist()
    ranked = sorted(inside, key=lambda n: (n not in path, -int(tree.taken[n]), n))
    retained: set[int] = set()
    for node in ranked:
        if len(retained) < MOST:
            retained.update(tree.path(node))
    order = sorted(retained)
    place = {node: i for i, node in enumerate(order)}
    nodes: list[dict[str, Any]] = []
    wrong = {
        _first_wrong(space, node, tree.path(node)) for node in order if tree.terminal[node] and not tree.dead[node]
    }
    doubted = {n for n in order if process and tree.depth[n] > 0 and tree.value[n] < 0.5}
    for node in order:
        above, steps = int(tree.parent[node]), space.state(node).steps
        episode = space.episode(node) if tree.terminal[node] and not tree.dead[node] else None
        said = steps[-1] if steps else space.labels.get(node, "")
        nodes.append(
            {
                "parent": place.get(above, -1),
                "text": said,
                "value": round(float(tree.q(node)), 4),
                "visits": int(tree.taken[node]),
                "tokens": int(tree.tokens[node]),
                "taken": node in path,
                "right": None if episode is None else bool(episode.success),
                "dead": bool(tree.dead[node]),
                "wrong": node in wrong,
                "doubted": node in doubted and doubted.isdisjoint(tree.path(node)[:-1]),
            }
        )
    question = space.questions[task]
    return {"search": name, "question": question, "left_out": len(inside) - len(order), "nodes": nodes}


def _first_wrong(space: Attempts, end: int, path: Sequence[int]) -> int:
    """The node of the first wrong line of an answer, where moves are lines and the world says it; otherwise -1."""
    episode = space.episode(end) if space.unit == "line" else None
    if episode is None or episode.success or LINES not in reward_kinds(episode):
        return -1
    before = sum(len(pieces) for pieces in space.answers(end)[:-1])  # what was said ahead of the answer, such as a plan
    behind = before + int(reward_total(episode, LINES)) + 1
    return path[behind] if behind < len(path) else -1
