"""A file of the user's that a run depends on: a copy and its checksum in the run folder, checked when used again."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import dump, read_object, shorten_home, write_atomic

NOTE = "source.json"


def save_copy(place: Path, file: Path, **facts: str) -> None:
    """Copy ``file`` into the folder ``place`` and note where it was, its SHA-256, and further ``facts``."""
    content = file.read_bytes()
    place.mkdir(exist_ok=True)
    (place / file.name).write_bytes(content)
    note = {**facts, "file": str(file), "sha256": hashlib.sha256(content).hexdigest()}
    write_atomic(place / NOTE, dump(shorten_home(note), indent=2) + "\n")


def note(place: Path) -> dict[str, Any] | None:
    """What was noted in ``place``; ``None`` where nothing was kept."""
    return read_object(place / NOTE, "the file that a run was started with") if (place / NOTE).is_file() else None


def kept(place: Path, what: str, given: Path | None = None) -> Path:
    """The file as it was when the run began: where it was, or, where it is gone, its copy.

    Args:
        place: the folder that ``save_copy`` filled.
        what: the file is, for errors: "the file of the tasks".
        given: the file that is used now, where it may be another.

    Raises:
        BadInput: it has changed since the run began.
    """
    noted = note(place)
    assert noted is not None
    file = Path(noted["file"]).expanduser()
    copy = (place / file.name).resolve()
    there = given or next((one for one in (file, copy) if one.is_file()), None)
    if there is None or hashlib.sha256(there.read_bytes()).hexdigest() != noted["sha256"]:
        happened = "has changed since the run began" if there else "is gone"
        raise BadInput(
            f"{what} {happened}", got=str(there or file), expected=f"SHA-256 {noted['sha256'][:16]}…",
            where=str(place / NOTE), do=f"put back what it was (a copy: {copy}), or start a new run",
        )  # fmt: skip
    return there
