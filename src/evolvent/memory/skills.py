"""Memories as skills, and back: folders with a SKILL.md, the open format that several agents read (agentskills.io).

A skill is a folder whose SKILL.md begins with ``name`` and ``description`` between lines of ``---``; the rest is text
for the agent. Exported is one skill a kind of memory: its best lessons, each with its value, outcomes and measured
effect. What they say is data: it stands in fenced blocks. Imported are the lessons of such a skill one by one, and any
other skill as one memory under its description. Values do not travel: they were measured elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from evolvent.core.errors import BadInput, missing_extra
from evolvent.core.jsonfile import write_atomic
from evolvent.memory.items import Item
from evolvent.memory.memory import Memory
from evolvent.memory.text import MAX_KEY_CHARS, counted, short

FILE = "SKILL.md"
MAX_BYTES = 1 << 20
_NAME, _DESCRIPTION = 64, 1024  # characters that the format allows
_HEAD = re.compile(r"\A---[ \t]*\r?\n(.*?)\r?\n---[ \t]*\r?\n?(.*)\Z", re.S)
_LESSON = re.compile(r"<!-- evolvent (\{.*?\}) -->\s*\n(`{3,})text\n(.*?)\n\2[ \t]*(?:\n|\Z)", re.S)


@dataclass(frozen=True)
class Skill:
    """A skill as it is written: ``lessons`` are rows for ``Memory.remember_many``."""

    path: Path
    name: str
    lessons: tuple[Mapping[str, Any], ...]


def export_skills(
    memory: Memory, folder: Path, *, kinds: Sequence[str] | None = None, most: int = 20, least_outcomes: int = 1
) -> list[Path]:
    """Write the best-valued active memories of each kind as a skill, but none that is shown to harm; returns the files.

    Args:
        memory: where they are.
        folder: made where it is missing; a skill of the same name in it is replaced.
        kinds: of memories; default: all there are.
        most: lessons of a skill.
        least_outcomes: of a lesson; 0 takes what was never tried, too.

    Raises:
        BadInput: no memory of these kinds has so many outcomes.
    """
    measured = {row["id"]: row for row in memory.lift("item").to_dict()["items"]}
    harmful = {id_ for id_, row in measured.items() if row["named"] == "harms" or row["withheld"]}
    by_kind: dict[str, list[Item]] = {}
    for item in memory.items(kinds=kinds, order="value"):
        if item.n >= least_outcomes and item.id not in harmful:
            by_kind.setdefault(item.kind, []).append(item)
    if not by_kind:
        do = "settle recalls first; --least-outcomes 0 (least_outcomes=0) takes also what was never tried"
        got = "none" if kinds is None else f"none of kind {', '.join(kinds)}"
        expected = f"a memory with {counted(least_outcomes, 'outcome')}"
        raise BadInput("nothing to export", got=got, expected=expected, do=do, code="nothing_named")
    written = []
    for kind, items in sorted(by_kind.items()):
        best = sorted(items, key=lambda item: (-item.value, -item.n))[:most]
        home = folder / _slug(kind)
        home.mkdir(parents=True, exist_ok=True)
        write_atomic(home / FILE, _text(kind, best, measured))
        written.append(home / FILE)
    return written


def read_skills(folder: Path) -> list[Skill]:
    """The skills of a folder: its own SKILL.md, or those of the folders in it. Links are not followed.

    Raises:
        BadInput: no such folder, none in it, or one that is no skill: says which and why.
        MissingExtra: PyYAML, which reads the head of the file.
    """
    if not folder.is_dir():
        raise BadInput("there is no such folder", got=str(folder), where="skills", code="no_folder")
    paths = [folder / FILE] if (folder / FILE).is_file() else sorted(folder.glob(f"*/{FILE}"))
    paths = [path for path in paths if path.is_file() and not path.is_symlink() and not path.parent.is_symlink()]
    if not paths:
        expected = f"{FILE} in it, or in folders in it"
        raise BadInput("no skills in this folder", got=str(folder), expected=expected, where="skills", code="bad_skill")
    return [_skill(path) for path in paths]


def import_skills(memory: Memory, folder: Path, *, source: str = "skills") -> list[str]:
    """Remember the lessons of the skills of a folder, in one transaction; returns their ids. Twice is once.

    Errors are those of ``read_skills`` and ``Memory.remember_many``.
    """
    rows = [{**row, "source": source} for skill in read_skills(folder) for row in skill.lessons]
    return memory.remember_many(rows)


# ------------------------------------------------------------------------------------------------------------ to text
def _text(kind: str, items: Sequence[Item], measured: Mapping[str, Any]) -> str:
    questions = "; ".join(short(item.key, 80) for item in items[:5])
    worth = "the most valuable first, each with what it was worth"
    description = f"{counted(len(items), 'lesson')}, {worth}. Read it for tasks like: {questions}"
    head = {
        "name": _slug(kind),
        "description": description[:_DESCRIPTION],
        "metadata": {"evolvent": "1", "kind": kind, "lessons": str(len(items))},
    }
    lines = [
        "---",
        *(f"{key}: {_yaml(value)}" for key, value in head.items()),
        "---",
        "",
        f"# Lessons: {short(kind)}",
        "",
    ]
    for item in items:
        # JSON without a character that could end the comment
        about = json.dumps({"key": item.key, "kind": item.kind, "polarity": item.polarity, "metadata": item.metadata})
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", item.body)), default=0))
        label = "Avoid" if item.polarity == "failure" else "For"
        lines += [f"## {label}: {short(item.key, 200)}", "", _standing(item, measured.get(item.id)), ""]
        lines += [f"<!-- evolvent {about.replace('>', chr(92) + 'u003e')} -->", f"{fence}text", item.body, fence, ""]
    return "\n".join(lines)


def _yaml(value: Any) -> str:
    # JSON is YAML, and quotes whatever a text may hold
    return json.dumps(value)


def _standing(item: Item, row: Mapping[str, Any] | None) -> str:
    said = f"Value {item.value:.2f} after {counted(item.n, 'outcome')}"
    if row is None or row["lo"] is None:
        return said + "; what it adds was not measured."
    lift, lo, hi = (100 * row[name] for name in ("lift", "lo", "hi"))
    return said + f"; adds {lift:+.0f} points [{lo:+.0f}, {hi:+.0f}]."


def _slug(kind: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-")[:_NAME].rstrip("-") or "lessons"


# ---------------------------------------------------------------------------------------------------------- from text
def _skill(path: Path) -> Skill:
    size = path.stat().st_size
    if size > MAX_BYTES:
        expected = f"{MAX_BYTES:,} at most"
        raise BadInput(
            "a skill that is too long", got=f"{size:,} bytes", expected=expected, where=str(path), code="too_long"
        )
    text = path.read_text("utf-8-sig", errors="replace")
    found = _HEAD.match(text)
    head = _head(found[1], path) if found else {}
    name, description = head.get("name"), head.get("description")
    if not (isinstance(name, str) and name.strip() and isinstance(description, str) and description.strip()):
        expected = "name and description between two lines of ---"
        raise BadInput("this is no skill", got=short(text, 60), expected=expected, where=str(path), code="bad_skill")
    assert found is not None
    own = head.get("metadata")
    if isinstance(own, dict) and "evolvent" in own:
        return Skill(path, name, tuple(_lessons(found[2], path)))
    row = {"key": short(description, MAX_KEY_CHARS), "body": found[2].strip() or description, "kind": "skill"}
    return Skill(path, name, ({**row, "metadata": {"skill": name}},))


def _head(text: str, path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        raise missing_extra("PyYAML", "memory", "reading a skill") from None
    try:
        head = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        got = " ".join(str(error).split())[:200]
        do = "put a text with a colon or a sign at its start in quotes"
        raise BadInput("the head of a skill is no YAML", got=got, where=str(path), do=do, code="bad_skill") from None
    return cast("dict[str, Any]", head) if isinstance(head, dict) else {}


def _lessons(text: str, path: Path) -> Iterator[dict[str, Any]]:
    for about, _, body in _LESSON.findall(text):
        try:
            row = json.loads(about)
            yield {name: row[name] for name in ("key", "kind", "polarity", "metadata")} | {"body": body}
        except (ValueError, KeyError, RecursionError):
            expected = "key, kind, polarity and metadata as JSON"
            raise BadInput(
                "a lesson was damaged", got=about[:80], expected=expected, where=str(path), code="bad_skill"
            ) from None
