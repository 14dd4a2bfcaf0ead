"""What an episode is made of, as read: its nodes, and the memories that were used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KINDS = ("observation", "action", "tool", "recall", "component")
FINISH = ("", "stop", "length")
"""How a completion ended; empty = not known."""


@dataclass(frozen=True, slots=True)
class Node:
    """A view of one node: ``parent`` is -1 at a root, ``step`` the index of the decision (actions only).

    ``text`` is the observation, the action, the tool's result, the receipt of the recall or the component's name;
    ``data`` holds what else a tool call (name, arguments, outcome), a recall (shown, omitted, propensity) or
    an action that was chosen from a list (choices: the token ids of each) carries.
    """

    index: int
    kind: str
    parent: int
    agent: str
    text: str
    step: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """One memory in one recall: ``step`` is the first decision it could influence (``n_steps`` if none followed)."""

    receipt: str
    id: str
    step: int
    shown: bool
    propensity: float | None = None
