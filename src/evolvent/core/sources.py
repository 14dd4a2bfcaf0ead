"""A file of the user's that a run depends on: a copy and its checksum in the run folder, checked when used again."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import dump, read_object, shorten_home, write_atomic

NOTE = "source.json"


def save_copy(place: Path, file: Path, **facts: object) -> None:
    """Copy ``file`` into the folder ``place`` and note where it was, its SHA-256, and further ``facts``."""
    content = file.read_bytes()
    place.mkdir(exist_ok=True)
    (place / file.name).write_bytes(content)
    noted = {**facts, "file": str(file), "sha256": hashlib.sha256(content).hexdigest()}
    write_atomic(place / NOTE, dump(shorten_home(noted), indent=2) + "\n")


def renew(place: Path, step: int, given: Path | None = None) -> None:
    """Accept a file that was changed: copy it as it is now. The copy used until ``step`` stays, named in the note.

    ``given``: the file that is used now, where it may be another than the one noted in ``place``.
    """
    noted = note(place)
    file = given or (Path(noted["file"]).expanduser() if noted else place)
    if noted is None or not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() == noted["sha256"]:
        return
    copy = f"{file.stem}-{noted['sha256'][:8]}{file.suffix}"
    (place / Path(noted["file"]).name).replace(place / copy)
    before = [*noted.get("before", []), {"copy": copy, "sha256": noted["sha256"], "until_step": step}]
    facts = {key: value for key, value in noted.items() if key not in ("file", "sha256")}
    save_copy(place, file, **{**facts, "before": before})


def note(place: Path) -> dict[str, Any] | None:
    """What was noted in ``place``; ``None`` where nothing was noted."""
    return read_object(place / NOTE, "the file that a run was started with") if (place / NOTE).is_file() else None


def original(place: Path, what: str, given: Path | None = None) -> Path:
    """The file as it was when the run began: where it was, or, where it is gone, its copy in ``place``.

    ``what`` it is, for errors ("the file of the tasks"); ``given``: the file that is used now, where it may be another.

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
            f"{what} {happened}",
            got=str(there or file),
            expected=f"SHA-256 {noted['sha256'][:16]}…",
            where=str(place / NOTE),
            do=f"put back what it was (a copy: {copy}), or start a new run",
        )
    return there
