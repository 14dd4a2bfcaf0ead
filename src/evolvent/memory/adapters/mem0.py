"""Memories of mem0 as candidates: what its search finds, under its ids, with its scores.

recall = memory.recall(task, candidates=candidates(mem0.Memory(), task, {"user_id": "u7"}))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def candidates(
    store: Any, task: str, filters: Mapping[str, Any], *, most: int = 20, **options: Any
) -> list[dict[str, Any]]:
    """What ``mem0.Memory.search`` finds for a task.

    Args:
        store: a ``mem0.Memory``.
        task: what the agent is asked.
        filters: whose memories: one of user_id, agent_id, run_id at least.
        most: at most so many.
        options: of ``search``: threshold, rerank.
    """
    found = store.search(task, filters=dict(filters), top_k=most, **options)["results"]
    return [{"id": row["id"], "text": row["memory"], "score": row["score"]} for row in found if row["memory"].strip()]
