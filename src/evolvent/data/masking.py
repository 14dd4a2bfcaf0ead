"""Names replaced by random ones, so that only descriptions say what a function does: Hammer (arXiv 2410.04587).

The names of functions and parameters, nested ones included, are drawn anew for every row and every copy of it; they
change in schemas (``required`` and defaults too), in the calls before and in the answer, and in descriptions where
they are written as names. A default that the answer uses becomes another value. ``unmask`` gives back the row, exactly.

Deviations from the released code, each for a fault of it: names are legal for endpoints and as identifiers, and
``alphabet="published"`` draws from the published characters, where a name may begin with a digit; no two names of a
row are equal, and none stands in the row before; booleans, lists and what an ``enum``, a format or a pattern bounds
are no defaults that change; "10" is not 10; a default changes only where the request names it as a whole word once at
most, and no other argument has that value; tools that stand there twice are dropped and not put back.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.data.defaults import other_defaults, with_default
from evolvent.data.renaming import (
    Alphabet,
    Fresh,
    Renaming,
    Scrub,
    every_name,
    flat,
    inverse,
    is_name,
    replacer,
    texts_of,
    tree_of,
)
from evolvent.data.rows import Row, all_text, values
from evolvent.data.schemas import Schema, Tool, each_part

_LENGTH = (5, 15)
"""Fewest and most letters of a function, as published."""


def mask(
    row: Row,
    draw: random.Random,
    *,
    parameters: bool = True,
    defaults: bool = True,
    scrub: Scrub = "marked",
    alphabet: Alphabet = "own",
) -> Row:
    """The row with random names; ``mask`` of it says what was done.

    Args:
        row: tools of different names, ``$ref`` in place.
        draw: chance.
        parameters: rename parameters, too.
        defaults: change defaults that the answer uses.
        scrub: names in descriptions and in what was said: "marked" replaces those that are written as names
            (``get_weather``, ``getWeather``, ``"city"`` in quotes, ``city=``), "all" every word of four letters and
            more that is one, "none" none.
        alphabet: "own" (letters, digits, underscore; first a letter) or "published".

    Raises:
        BadInput: a row that is masked already.
    """
    if row.mask:
        raise BadInput("the row is masked already", got=row.id, expected="a row as it was logged", where="mask")
    changed: list[dict[str, Any]] = []
    if defaults:
        row, changed = other_defaults(row, draw)
    taken = Fresh(draw, all_text(row), alphabet)
    functions = {tool["name"]: taken.name(_LENGTH) for tool in row.tools}
    trees = {tool["name"]: tree_of(tool["parameters"], taken) if parameters else {} for tool in row.tools}
    given = list(values(row))
    talk = {name: new for name, new in every_name(trees, functions).items() if is_name(name)}
    talk = {name: new for name, new in talk.items() if not any(name in value for value in given)}
    masked = Renaming(functions, trees, texts_of(trees, functions, scrub), replacer(talk, scrub)).row(row)
    order = draw.sample(range(len(row.tools)), len(row.tools))
    record = {"functions": functions, "parameters": trees, "defaults": changed, "order": order, "scrub": scrub}
    return dataclasses.replace(masked, tools=tuple(masked.tools[i] for i in order), mask=record)


def unmask(row: Row) -> Row:
    """The row before ``mask``."""
    if row.mask is None:
        return row
    record, tools = row.mask, list(row.tools)
    for place, i in enumerate(record["order"]):
        tools[i] = row.tools[place]
    functions = {new: old for old, new in record["functions"].items()}
    trees = {record["functions"][name]: inverse(tree) for name, tree in record["parameters"].items()}
    # no new name stood in the row before, so wherever one stands now it was put
    scrub: Scrub = "none" if record["scrub"] == "none" else "all"
    texts = texts_of(trees, functions, scrub, least=0)
    renamed = Renaming(functions, trees, texts, replacer(every_name(trees, functions), scrub, least=0))
    before = renamed.row(dataclasses.replace(row, tools=tuple(tools), mask=None))
    for one in reversed(record["defaults"]):
        before = with_default(before, one, back=True)
    return before


def swap(row: Row, draw: random.Random, others: Sequence[str] = ()) -> Row:
    """The row with the names of its functions exchanged, descriptions kept; of a single tool with one of ``others``."""
    names = [tool["name"] for tool in row.tools]
    if len(names) == 1:
        free = [name for name in others if name not in names]
        to = dict(zip(names, draw.sample(free, 1), strict=True)) if free else {}
    else:
        mixed = draw.sample(names, len(names))
        to = {name: mixed[(i + 1) % len(mixed)] for i, name in enumerate(mixed)}
    return Renaming(to, {}, {}, None).row(row)


def left(row: Row) -> list[str]:
    """Original names of four letters and more that stand in the descriptions of a masked row, as words of a language.

    Names that are written as names are none of them: ``scrub`` has replaced those.
    """
    if not row.mask:
        return []
    names = set(row.mask["functions"]) | {n for tree in row.mask["parameters"].values() for n in flat(tree)}
    words = set(re.findall(r"\w+", " ".join(text for tool in row.tools for text in _descriptions(tool))))
    return sorted(name for name in names if len(name) >= 4 and name in words)


def _descriptions(tool: Tool) -> Iterator[str]:
    yield tool["description"]
    below: list[Schema] = [tool["parameters"]]
    while below:
        schema = below.pop()
        yield schema.get("description") or ""
        each_part(schema, below.append)
