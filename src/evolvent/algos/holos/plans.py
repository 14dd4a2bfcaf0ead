"""Plans: which parts a task has, and which needs which; made without knowing what agents there are.

A planner sees the task and the vocabulary of capabilities alone. Here it is a script that lays the questions of a task
along a shape: *chain* (each needs the one before), *fan* (the last needs all others), or a JSON file
``{"node": ["node that it needs", …]}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, cast

from evolvent.core.errors import BadInput, closest
from evolvent.core.protocols import Task

Shape = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Node:
    """A part of a task: its capability and question, the nodes that come before it, and the most that it may cost."""

    id: str
    capability: str
    question: Task
    inputs: tuple[str, ...]
    budget: int


def shape(plan: str, nodes: int) -> Shape:
    """The shape of that name with so many nodes, or that of a file, checked.

    Raises:
        BadInput: no such shape or file; what ``ordered`` refuses.
    """
    names = [f"n{i}" for i in range(1, nodes + 1)]
    found: Any = {name: names[max(i - 1, 0) : i] for i, name in enumerate(names)}
    if plan == "fan":
        found = {name: names[:-1] if name == names[-1] else [] for name in names}
    elif plan != "chain":
        try:
            found = json.loads(Path(plan).read_text("utf-8"))
        except (OSError, ValueError) as error:
            expected = 'chain, fan, or a JSON file {"node": ["node that it needs", …]}'
            raise BadInput("no such plan", got=plan, expected=expected, where="--plan") from error
        lists = isinstance(found, dict) and all(isinstance(x, list) for x in cast("dict[str, Any]", found).values())
        if not found or not lists:
            raise BadInput("not a plan", got=plan, expected='{"node": ["node that it needs", …]}', where="--plan")
    ordered(found)
    return found


def ordered(needs: Shape) -> list[str]:
    """The nodes, each after those that it needs (Kahn's order).

    Raises:
        BadInput: a cycle, which is named; a need that is no node; no end, or several.
    """
    for name, inputs in needs.items():
        for one in inputs:
            if one not in needs:
                raise BadInput(f"{name} needs what no node gives", got=one, expected=closest(one, needs), where="plan")
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        cycle = " needs ".join(map(str, reversed(error.args[1])))
        raise BadInput(
            "a plan has a cycle", got=cycle, expected="no node that waits for itself", where="plan"
        ) from None
    ends = set(needs) - {one for inputs in needs.values() for one in inputs}
    if len(ends) != 1:
        raise BadInput("a plan has one end", got=sorted(ends), expected="one node that no other needs", where="plan")
    return order


def plan(needs: Shape, questions: Sequence[Task], vocabulary: Sequence[str], price: int, budget: int) -> list[Node]:
    """The nodes of a task in order: a question each, whose kind is the capability that it takes.

    Raises:
        BadInput: a capability that is not in the vocabulary; nodes that cost more than the task may.
    """
    nodes = [
        Node(name, question.kind, question, tuple(needs[name]), price)
        for name, question in zip(ordered(needs), questions, strict=True)
    ]
    for node in nodes:
        if node.capability not in vocabulary:
            expected = closest(node.capability, vocabulary)
            raise BadInput("no such capability", got=node.capability, expected=expected, where=f"plan: {node.id}")
    if sum(node.budget for node in nodes) > budget:
        raise BadInput("a plan costs more than its task may", got=len(nodes) * price, expected=budget, where="plan")
    return nodes
