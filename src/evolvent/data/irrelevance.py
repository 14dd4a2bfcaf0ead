"""Requests that no listed tool serves: rows whose tool was taken away, as in Hammer's 7,500.

A tool may do what the one that was taken away does; those whose words are much the same go with it. No list is empty:
where nothing else is left, others of the data are listed.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
import re
from collections.abc import Iterable, Sequence

from evolvent.data.asking import calls_in
from evolvent.data.rows import Row
from evolvent.data.schemas import Tool

ALIKE = 0.5
"""Share of words in common from which two tools are taken to do the same."""
_LEAST = 3
"""Tools that are listed at least, where the data has as many."""


def irrelevant(rows: Sequence[Row], share: float, tools: Sequence[Tool], draw: random.Random) -> list[Row]:
    """New rows without a right call, so many that they are ``share`` of all, as far as there are rows to make them of.

    Args:
        rows: of one split.
        share: from 0 to below 1.
        tools: what may be listed where nothing else is left.
        draw: chance.
    """
    fit = [row for row in rows if row.kind == "call" and not before(row)]
    wanted = min(round(share / (1 - share) * len(rows)), len(fit))
    made: list[Row] = []
    for row in draw.sample(fit, len(fit)):
        if len(made) < wanted and (one := without_its_tools(row, tools, draw)) is not None:
            made.append(one)
    return made


def without_its_tools(row: Row, tools: Sequence[Tool], draw: random.Random) -> Row | None:
    """The row without the tools that are called, and those like them; ``None`` where nothing else could be listed."""
    called = [tool for tool in row.tools if tool["name"] in {call["name"] for call in row.gold}]
    taken = {tool["name"] for tool in called}
    rest = [tool for tool in row.tools if tool["name"] not in taken and not _like(tool, called)]
    listed, missing = {tool["name"] for tool in rest}, min(_LEAST, len(row.tools)) - len(rest)
    if missing > 0:
        others = (one for one in draw.sample(tools, len(tools)) if one["name"] not in taken | listed)
        rest += itertools.islice((one for one in others if not _like(one, called)), missing)
    if not rest:
        return None
    return dataclasses.replace(
        row,
        id=f"{row.id}/irrelevant",
        tools=tuple(rest),
        gold=(),
        said="",
        kind="irrelevant",
        because="tool taken away",
    )


def before(row: Row) -> bool:
    """Whether functions were called earlier: a list without them would not be what the assistant saw."""
    return any(calls_in(message) for message in row.messages)


def alike(a: Tool, b: Tool) -> float:
    """Share of the words of two tools, names and descriptions, that they have in common."""
    one, other = words(f"{a['name']} {a['description']}"), words(f"{b['name']} {b['description']}")
    return len(one & other) / len(one | other) if one | other else 0.0


@functools.lru_cache(maxsize=8192)
def words(text: str) -> frozenset[str]:
    """The words of a text, parts of names too, without the shortest."""
    parts = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    return frozenset(word.lower().rstrip("s") for word in re.findall(r"[^\W_]+", parts) if len(word) > 2)


def _like(tool: Tool, others: Iterable[Tool]) -> bool:
    return any(alike(tool, other) >= ALIKE for other in others)
