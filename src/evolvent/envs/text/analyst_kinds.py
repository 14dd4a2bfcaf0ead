"""What the analyst is asked: kinds of question, their words, and the house's own meaning of them.

Every kind has one SQL template with ``{X}`` where its definitions differ. ``gold`` is the house's definition, ``wrong``
a plausible convention that is not the house's (what a mistaken reviewer hands over), ``drift`` the definition after the
house has changed its mind. Nothing here can be known beforehand; all of it can be learned from one right example.
"""

from __future__ import annotations

import itertools
import string
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evolvent.envs.text.analyst_data import Source

VARIANTS = ("gold", "wrong", "drift")
SHORT = 3
"""Wordings of a kind that resemble one another; those behind them are as people ask."""
Slots = Mapping[str, Mapping[str, str]]
"""By the letter in a template: the constants that may stand there, code: name."""


@dataclass(frozen=True)
class Kind:
    """One kind of question: an entry of ``analyst_*.toml``, which says what the fields are.

    ``places`` are the constants of the database; a kind uses those whose letters stand in its SQL.
    """

    name: str
    wordings: tuple[str, ...]
    free_wordings: tuple[str, ...]
    sql: str
    rules: tuple[str, str, str]
    """What stands for ``{X}`` in each of ``VARIANTS``."""
    meaning: str
    meaning_drift: str
    places: Slots = field(default_factory=dict, repr=False, compare=False)

    def numbers(self, words: str) -> range:
        """Numbers of the wordings that are "short", "free" or "any"."""
        short, every = len(self.wordings), len(self.wordings) + len(self.free_wordings)
        return {"short": range(short), "free": range(short, every), "any": range(every)}[words]

    @property
    def slots(self) -> tuple[str, ...]:
        """The constants of this kind: keys of ``places``."""
        used = {name for _, name, _, _ in string.Formatter().parse(self.sql) if name}
        return tuple(slot for slot in self.places if slot in used)

    def constants(self) -> Iterator[dict[str, str]]:
        """Every combination of constants, in a fixed order."""
        for values in itertools.product(*(self.places[slot] for slot in self.slots)):
            yield dict(zip(self.slots, values, strict=True))

    def query(self, variant: str, constants: Mapping[str, str]) -> str:
        """The SQL of ``variant`` ("gold", "wrong" or "drift") for these constants."""
        return self.sql.format(X=self.rules[VARIANTS.index(variant)], **constants)

    def question(self, wording: int, constants: Mapping[str, str]) -> str:
        """The question in words."""
        names = {slot + "n": self.places[slot][value] for slot, value in constants.items()}
        every = self.wordings + self.free_wordings
        return every[wording].format(**names)


def read_kinds(file: str, places: Slots) -> tuple[Kind, ...]:
    """The kinds of question that stand in ``file`` beside this module."""
    kinds = tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))
    return tuple(
        Kind(
            name,
            tuple(words[:SHORT]),
            tuple(words[SHORT:]),
            rules=(entry.pop("gold"), entry.pop("wrong"), entry.pop("drift")),
            places=places,
            **entry,
        )
        for name, entry in kinds.items()
        for words in [entry.pop("wordings")]
    )


@dataclass(frozen=True)
class Database:
    """One database, the head of its prompts, and what is asked about it."""

    source: Source
    instructions: str
    kinds: tuple[Kind, ...]

    def kind(self, name: str) -> Kind | None:
        """The kind of that name, if there is one."""
        return next((kind for kind in self.kinds if kind.name == name), None)
