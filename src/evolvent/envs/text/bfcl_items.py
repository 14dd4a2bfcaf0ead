"""The items of the Berkeley Function-Calling Leaderboard: single-turn Python, read from the wheel ``bfcl-eval``.

The wheel (release 2026.3.23, Apache-2.0, 1.9 MB) is downloaded into the cache as a file and never installed, nor is
anything of it shipped. Of its categories those of Java and JavaScript, of several turns, of memory and of web search
are left out.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from evolvent.core.errors import EnvError
from evolvent.core.fetch import cache_dir, checked_package
from evolvent.envs.text._text import flat
from evolvent.formulas.call_match import first_accepted, match_accepted

RELEASE = "bfcl-eval==2026.3.23"
SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
REFUSE, CALL = ("irrelevance", "live_irrelevance"), ("live_relevance",)
"""Categories without gold: right is no call, and any call."""
CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
)


@dataclass(frozen=True)
class Item:
    """One item: what is said, the functions there are, and the accepted values of each gold call."""

    name: str
    category: str
    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]]
    gold: Sequence[Mapping[str, Any]]

    @property
    def question(self) -> str:
        """What is said: the user's words alone, or all of it with who said it."""
        if len(self.messages) == 1:
            return self.messages[0]["content"].strip()
        return "\n".join(f"{one['role']}: {one['content'].strip()}" for one in self.messages)

    @property
    def group(self) -> str:
        """Items of one group are in one split: those of the same words."""
        return flat(self.question)

    @property
    def answer(self) -> list[dict[str, Any]] | None:
        """Right calls; ``None`` where any call is right, or where gold asks for what its own functions do not take."""
        calls = first_accepted(self.gold, self.tools)
        accepted = self.category in REFUSE or match_accepted(calls, self.gold, self.tools).right
        return calls if accepted and self.category not in CALL else None


def items(folder: str | Path = "") -> dict[str, list[Item]]:
    """All items by category.

    Args:
        folder: where the wheel lies or is downloaded to; default: ``data/bfcl`` in the cache.

    Raises:
        EvolventError: no network, or another file than the release that is known here.
    """
    return _read(wheel(folder))


def wheel(folder: str | Path = "") -> Path:
    """The wheel, downloaded unless it is there; ``folder`` and errors as ``items``."""
    place = Path(folder).expanduser() if folder else cache_dir() / "data" / "bfcl"
    return checked_package(RELEASE, SHA256, place)


@lru_cache(maxsize=2)
def _read(path: Path) -> dict[str, list[Item]]:
    with zipfile.ZipFile(path) as archive:
        return {category: _category(archive, category) for category in CATEGORIES}


def _category(archive: zipfile.ZipFile, category: str) -> list[Item]:
    known = {} if category in (*REFUSE, *CALL) else _gold(archive, category)
    found = rows(archive, f"bfcl_eval/data/BFCL_v4_{category}.json")
    made = [Item(row["id"], category, row["question"][0], row["function"], known.get(row["id"], [])) for row in found]
    if known and len(made) != len(known):
        raise EnvError("items without gold", got=len(known), expected=len(made), where=f"{RELEASE}, {category}")
    return made


def _gold(archive: zipfile.ZipFile, category: str) -> dict[str, Any]:
    found = rows(archive, f"bfcl_eval/data/possible_answer/BFCL_v4_{category}.json")
    return {row["id"]: row["ground_truth"] for row in found}


def rows(archive: zipfile.ZipFile, path: str) -> list[dict[str, Any]]:
    """The lines of a file of the wheel, each a JSON object."""
    return [json.loads(line) for line in archive.read(path).decode("utf-8").splitlines()]
