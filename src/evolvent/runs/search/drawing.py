"""A searched tree as plain data for the report: states with text, value, visits, and whether they lie on the path."""

from __future__ import annotations

from typing import Any

from evolvent.search.attempts import Attempts
from evolvent.search.search import Path, Search

MOST = 300


def drawn(search: Search, space: Attempts, task: int, taken: Path, name: str) -> dict[str, Any]:
    """One line of ``trees.jsonl``: at most ``MOST`` states, those of the path and the most visited first."""
    tree = search.tree
    path, inside = set(tree.path(taken.leaf)), tree.inside(task).tolist()
    ranked = sorted(inside, key=lambda n: (n not in path, -int(tree.taken[n]), n))
    kept: set[int] = set()
    for node in ranked:
        if len(kept) < MOST:
            kept.update(tree.path(node))
    order = sorted(kept)
    place = {node: i for i, node in enumerate(order)}
    nodes: list[dict[str, Any]] = []
    for node in order:
        above, steps = int(tree.parent[node]), space.state(node).steps
        episode = space.episode(node) if tree.terminal[node] and not tree.dead[node] else None
        nodes.append({
            "parent": place.get(above, -1), "text": steps[-1] if steps else "", "value": round(float(tree.q(node)), 4),
            "visits": int(tree.taken[node]), "tokens": int(tree.tokens[node]), "taken": node in path,
            "right": None if episode is None else bool(episode.success), "dead": bool(tree.dead[node]),
        })  # fmt: skip
    question = space.questions[task]
    return {"search": name, "question": question, "left_out": len(inside) - len(order), "nodes": nodes}
