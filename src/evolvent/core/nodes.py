"""What an episode is made of: its nodes, the memories that were used, how its attempts ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

KINDS = ("observation", "action", "tool", "recall", "component")
FINISH = ("", "stop", "length")
"""How a completion ended; empty = not known."""
USAGE = ("prompt", "cached", "completion", "seconds", "cost_usd")
"""What a decision takes: tokens of the prompt, how many were cached, tokens of the answer, seconds, dollars."""


@dataclass(frozen=True, slots=True)
class Node:
    """A view of one node: ``parent`` is -1 at a root, ``step`` the index of the decision (actions only).

    ``text`` is the observation, the action, the tool's result, the receipt of the recall or the component's name;
    ``data`` holds what else a tool call (name, arguments, outcome), a recall (shown, omitted, propensity), a component
    (implementation) or an action (usage; choices: the token ids of each action that was allowed) carries.
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
    """One memory in one recall: ``step`` is the first decision it could influence (``n_steps`` if none followed).

    What is neither ``shown`` nor ``dropped`` (handed out, and then without a place in the prompt) was left out.
    """

    receipt: str
    id: str
    step: int
    shown: bool
    propensity: float | None = None
    dropped: bool = False


@dataclass(slots=True)
class End:
    """How an attempt ended; ``Episode.end`` says what each field means."""

    terminated: bool = False
    truncated: bool = False
    success: bool | None = None
    source: str = ""
    valid: bool = True
    stop: str = ""
    answer: str | None = None
    final_choices: list[list[int]] = field(default_factory=list[list[int]])
    final_value: float | None = None


class Fork(NamedTuple):
    """Where the nodes of an attempt stand: those of attempt ``of`` up to ``after``, and its own, up to ``leaf``."""

    of: int | None = None
    """``None``: it shares nothing, it is the first."""
    after: int = -1
    leaf: int = -1
    """-1 while it has not ended."""
    seed: int | None = None
    rewards: Mapping[str, float] = {}
    """Kinds of reward of the attempt as a whole; of the first attempt they stand in ``rewards_by_kind``."""


V = TypeVar("V")


class OfEnd(Generic[V]):
    """An attribute of an episode that stands in the first of its ``ends``."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, record: Any, owner: type | None = None) -> V:
        return getattr(record.ends[0], self._name)

    def __set__(self, record: Any, value: V) -> None:
        setattr(record.ends[0], self._name, value)
