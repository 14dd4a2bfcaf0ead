"""Small functions to write: how they are asked for, what they compute, rules of the house (``program_tasks.toml``).

A rule of the house cannot be known from the question: the usual reading of it (``plain``) is right on some inputs only.
``rule`` says it in words. Functions without a rule (``EASY``; ``LONG`` of several lines) mean what they say.
"""

from __future__ import annotations

import random
import textwrap
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Draw = Callable[[random.Random], tuple[Any, ...]]


@dataclass(frozen=True)
class Kind:
    """A family of functions that differ in one constant, ``{n}`` in its texts."""

    name: str
    params: str
    asks: tuple[str, ...]
    """The question in several wordings."""
    constants: Iterable[int]
    plain: str
    """Body of the function as the question is usually read."""
    draw: Draw
    """Arguments of a call."""
    house: str = ""
    """Body of the function as the house means it; empty: as it is usually read."""
    rule: str = ""
    """What the house means, in words."""

    @property
    def head(self) -> str:
        """Its name with its parameters."""
        return f"{self.name}({self.params})"

    def source(self, n: int, *, plain: bool = False) -> str:
        """The program for the constant ``n``."""
        body = textwrap.dedent(self.plain if plain or not self.house else self.house).strip().replace("{n}", str(n))
        return f"def {self.head}:\n{textwrap.indent(body, '    ')}"

    def function(self, n: int, *, plain: bool = False) -> Callable[..., Any]:
        """That program, loaded out here: it is ours."""
        space: dict[str, Any] = {}
        exec(self.source(n, plain=plain), space)
        return space[self.name]


def _number(low: int, high: int) -> Draw:
    return lambda r: (r.randint(low, high),)


def _numbers(low: int, high: int, least: int = 3, most: int = 8) -> Draw:
    return lambda r: ([r.randint(low, high) for _ in range(r.randint(least, most))],)


_FOOD = "apple pear plum cherry fig lemon mango melon olive peach berry nut corn bean rice oat pea leek"
_WORDS = _FOOD.split()
_LONG = ("well-known", "sea-green", "ice-cold", "tea-time", "left-over", "north-west")


def _word(r: random.Random) -> tuple[str]:
    return ("".join(r.sample(r.choice(_WORDS) + r.choice(_WORDS), 4)) + r.choice(_WORDS),)


def _sentence(r: random.Random) -> tuple[str]:
    return (" ".join(r.choice((*_WORDS, *_LONG)) for _ in range(r.randint(3, 7))),)


def _prices(r: random.Random) -> tuple[int]:
    return (r.choice([r.randint(20, 3000), 100 * r.randint(1, 40)]),)


def _years_and_salary(r: random.Random) -> tuple[int, int]:
    return r.randint(0, 12), r.randint(10, 60) * 100


def _cents_and_guests(r: random.Random) -> tuple[int, int]:
    return r.randint(500, 9000), r.randint(1, 9)


def _results(r: random.Random) -> tuple[str]:
    return ("".join(r.choice("WDL") for _ in range(r.randint(2, 8))),)


def _draw(name: str, *bounds: int) -> Draw:
    ready: dict[str, Draw] = {
        "word": _word,
        "sentence": _sentence,
        "prices": _prices,
        "years_and_salary": _years_and_salary,
        "cents_and_guests": _cents_and_guests,
        "results": _results,
    }
    made: dict[str, Callable[..., Draw]] = {"number": _number, "numbers": _numbers}
    return made[name](*bounds) if bounds else ready[name]


def _kind(name: str, entry: dict[str, Any]) -> Kind:
    return Kind(
        name,
        asks=tuple(entry.pop("asks")),
        constants=range(*entry.pop("constants")),
        draw=_draw(*entry.pop("draw")),
        **entry,
    )


_ENTRIES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
HOUSE, EASY, LONG = (
    tuple(_kind(name, entry) for name, entry in _ENTRIES[group].items()) for group in ("house", "easy", "long")
)
BY_NAME = {kind.name: kind for kind in (*HOUSE, *EASY, *LONG)}
