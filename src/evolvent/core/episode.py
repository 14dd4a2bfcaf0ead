"""``Episode``: the typed record of one attempt.

A graph of nodes (observations, decisions, tool calls, recalled memories, components run), written while it happens.
Decisions keep token ids and log-probabilities *as sampled*. Columns inside: no Python object per token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evolvent.core import episode_dict
from evolvent.core.nodes import MemoryUse as MemoryUse
from evolvent.core.nodes import Node as Node
from evolvent.core.recording import Recording


class Episode(Recording):
    """One attempt at a task, or several that share a beginning.

    ``core.record`` has its columns and how to read them, ``core.recording`` the verbs that write it.
    """

    def to_dict(self) -> dict[str, Any]:
        """Strict JSON types, a line of ``episodes.jsonl``."""
        return episode_dict.to_dict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], *, columns: Mapping[str, np.ndarray] | None = None) -> Episode:
        """The inverse of ``to_dict``; ``columns`` are its arrays, or longer ones, where the record counts tokens alone.

        Raises:
            BadInput: a newer schema, or a record that breaks a rule of building.
        """
        return episode_dict.from_dict(cls, record, columns)

    def __eq__(self, other: object) -> bool:
        """Equal records; NaN equals NaN."""
        if not isinstance(other, Episode):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        state = "open" if not self.ended else {True: "success", False: "failure", None: "ended"}[self.success]
        return f"Episode({self.task_id!r}, steps={self.n_steps}, reward={self.total_reward:g}, {state})"
