"""The tasks of a run are those with which it began: the file that they come from, and their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from evolvent import envs
from evolvent.core import sources
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import shorten_home

TASKS = "task"
"""Where the copy stands in the run folder."""


def pinned(folder: RunFolder, spec: str) -> str:
    """``spec`` as it is loaded from anywhere, the file it names as it was when the run began.

    The first time, that file is copied to ``task/`` in the run folder, with its path and SHA-256 in
    ``task/source.json``. From then on the file must be the same. Where it is gone, its copy is used. A spec that names
    no file, or another than the run's, is returned as it is.

    Raises:
        BadInput: no such file, or it has changed since the run began.
    """
    place = folder.path / TASKS
    noted = sources.note(place) if spec else None
    if noted is None:
        if not spec:
            return spec
        file = envs.source(spec)
        if file is None:
            return spec
        if (folder.path / "metrics.jsonl").exists():  # a run of an earlier version: nothing was kept
            return _as_before(spec)
        sources.save_copy(place, file, env=spec, **({"held_out": "prompts"} if _splits(spec) else {}))
        return envs.with_source(spec, file)
    if shorten_home(spec) != noted["env"]:
        return spec
    here = envs.with_source(spec, sources.original(place, "the file of the tasks"))
    return here if "held_out" in noted else _as_before(here)


def check_tasks(folder: RunFolder, rows: Sequence[Mapping[str, Any]], steps: Sequence[tuple[str, str]]) -> None:
    """Whether lines of the metrics are of these steps, each a phase and the id of a task, from the first one on.

    Raises:
        BadInput: a line is of another task: a file of tasks has changed, or an earlier version drew others.
    """
    for row, expected in zip_longest(rows, steps[: len(rows)]):
        if expected is None or (row["phase"], row["task"]) != expected:
            raise BadInput(
                "the tasks of this run are others now",
                got=f"step {row['step']}: {row['phase']} {row['task']}",
                expected="nothing more" if expected is None else " ".join(expected),
                where=str(folder.path),
                do="go on with the version that its config.json names, or start a new run; nothing was changed",
            )


def _splits(spec: str) -> bool:
    """Whether its tasks are prompts in a file, of which earlier versions held out other ones."""
    return spec.startswith("graded:")


def _as_before(spec: str) -> str:
    """Of a run of an earlier version: what it held out stays held out."""
    return f"{spec},by=row" if _splits(spec) else spec
