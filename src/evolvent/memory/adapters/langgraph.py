"""Items of a LangGraph store as candidates: what its search finds, under namespace and key, with its scores.

recall = memory.recall(task, candidates=candidates(store, ("u7", "lessons"), task))
"""

from __future__ import annotations

import json
from typing import Any


def candidates(
    store: Any, namespace: tuple[str, ...], task: str, *, field: str | None = None, most: int = 20, **options: Any
) -> list[dict[str, Any]]:
    """What ``BaseStore.search`` finds for a task below a namespace; a store without an index gives no scores.

    Args:
        store: a ``BaseStore``: ``InMemoryStore``, ``SqliteStore``, ``PostgresStore``, or that of a graph's runtime.
        namespace: a prefix of namespaces.
        task: what the agent is asked.
        field: the field of the value that is shown, of items that have it; default: all of it as JSON.
        most: at most so many.
        options: of ``search``: filter, offset.
    """
    return [
        {
            "id": f"{'.'.join(item.namespace)}/{item.key}",  # no label holds a full stop
            "text": json.dumps(item.value, ensure_ascii=False) if field is None else item.value[field],
            "score": item.score,
        }
        for item in store.search(namespace, query=task, limit=most, **options)
        if field is None or item.value.get(field)
    ]
