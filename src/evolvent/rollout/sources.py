"""The file that a run's tasks come from: a copy and its checksum in the run folder, checked when it is used again."""

from __future__ import annotations

import hashlib
from pathlib import Path

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, read_object, shorten_home, write_atomic

NOTE = "source.json"


def pinned(folder: RunFolder, spec: str) -> str:
    """``spec`` as it is loaded from anywhere, the file it names as it was when the run began.

    The first time, that file is copied to ``task/`` in the run folder, with its path and SHA-256 in
    ``task/source.json``. From then on the file must be the same. Where it is gone, its copy is used.

    Args:
        folder: of the run.
        spec: of an environment; one that names no file, or another than the run's, is returned as it is.

    Raises:
        BadInput: no such file, or it has changed since the run began.
    """
    place = folder.path / "task"
    if not (place / NOTE).is_file():
        file = envs.source(spec)
        if file is None or (folder.path / "metrics.jsonl").exists():  # a run of an earlier version: nothing was kept
            return spec
        content = file.read_bytes()
        place.mkdir(exist_ok=True)
        (place / file.name).write_bytes(content)
        note = {"env": spec, "file": str(file), "sha256": hashlib.sha256(content).hexdigest()}
        write_atomic(place / NOTE, dump(shorten_home(note), indent=2) + "\n")
        return _spec(spec, file)
    note = read_object(place / NOTE, "the file of the run's tasks")
    if shorten_home(spec) != note["env"]:
        return spec
    file = Path(note["file"]).expanduser()
    copy = (place / file.name).resolve()
    there = next((one for one in (file, copy) if one.is_file()), None)
    if there is None or hashlib.sha256(there.read_bytes()).hexdigest() != note["sha256"]:
        what = "has changed since the run began" if there else "is gone"
        raise BadInput(
            f"the file of the tasks {what}", got=str(there or file),
            expected=f"SHA-256 {note['sha256'][:16]}…", where=str(place / NOTE),
            do=f"put back what it was (a copy: {copy}), or start a new run",
        )  # fmt: skip
    return _spec(spec, there)


def _spec(spec: str, file: Path) -> str:
    return f"{spec.partition(':')[0]}:variant={file}"
