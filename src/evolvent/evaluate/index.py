"""The runs in a folder: what each is, what it came to, and whether it still goes on."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evolvent.core.errors import BadInput
from evolvent.core.folder import ERROR, RunFolder
from evolvent.core.jsonfile import lock, read_object
from evolvent.evaluate.blocks import Page, Text
from evolvent.evaluate.live import interval
from evolvent.evaluate.verdict import Verdict, of_run

State = Literal["running", "finished", "stopped", "failed", "broken"]
_DEPTH = 4
_FRESH_S = 120.0  # where locks cannot be seen: a run that wrote within this time goes on


@dataclass(frozen=True)
class Listed:
    """One run: ``path`` below the folder; ``trouble`` is the error that ended it, or what is wrong with its files.

    Of a broken folder nothing else is known.
    """

    path: str
    state: State
    algo: str = ""
    kind: str = ""
    """What kind of run it is, in words."""
    env: str = ""
    seed: int = 0
    started: str = ""
    seconds: float = 0.0
    value: float | None = None
    score: str = "–"
    verdict: Verdict | None = None
    trouble: str = ""


def runs(folder: Path, page_of: Callable[[RunFolder], Page]) -> list[Listed]:
    """The runs in ``folder`` and in folders inside it, the newest first; broken ones last.

    Raises:
        BadInput: no such folder, or no run in it.
    """
    if not folder.is_dir():
        raise BadInput("no such folder", got=str(folder), expected="a folder of runs", where="evolvent runs")
    found = [listed(path, folder, page_of) for path in find(folder)]
    if not found:
        raise BadInput(
            "no run in this folder",
            got=str(folder),
            expected="run folders, as `evolvent run` makes them",
            where="evolvent runs",
            do=f"evolvent run memlift --out {shlex.quote(str(folder / 'first'))}",
        )
    found.sort(key=lambda run: run.started, reverse=True)
    return found


def find(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """Run folders: those with ``config.json`` of a run, or with ``metrics.jsonl``."""
    if (folder / "metrics.jsonl").exists() or _is_run(folder / "config.json"):
        yield folder
    elif depth:
        for child in sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."):
            yield from find(child, depth - 1)


def _is_run(config: Path) -> bool:
    """Whether a ``config.json`` may be a run's; models have one, too."""
    try:
        return config.exists() and "model_type" not in read_object(config, "a run")
    except BadInput:
        return True  # cannot be read: named as broken


def listed(path: Path, root: Path, page_of: Callable[[RunFolder], Page]) -> Listed:
    """What the index says of one run folder."""
    name = path.relative_to(root).as_posix() if path != root else path.resolve().name
    try:
        return _listed(name, path, page_of)
    except BadInput as error:
        return Listed(name, "broken", trouble=str(error))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        return Listed(name, "broken", trouble=f"a part is missing or is something else: {error!r}")


def _listed(name: str, path: Path, page_of: Callable[[RunFolder], Page]) -> Listed:
    opened = RunFolder.open(path)
    manifest, page = opened.manifest(), page_of(opened)
    score = page.score
    return Listed(
        name,
        state_of(path),
        str(manifest["algo"]),
        page.kind,
        str(manifest["env"]),
        int(manifest["seed"]),
        str(manifest.get("started", "")),
        float((opened.summary().get("seconds") if opened.finished else None) or opened.last_t),
        None if score is None else score.value,
        "–" if score is None else interval(score.value, score.ci95, rate=score.rate),
        of_run(manifest, page, path, ended=opened.finished, step=max(0, opened.step)),
        next((text.lines[0] for text in page.of(Text) if text.tone == "bad"), "")
        if opened.finished
        else opened.error.partition("\n")[0],
    )


def state_of(path: Path) -> State:
    """Whether a run has ended, was ended by an error, is being written to, or was stopped."""
    if (path / "summary.json").exists():
        return "finished"
    if (path / ERROR).exists():
        return "failed"
    metrics = path / "metrics.jsonl"
    newest = metrics if metrics.exists() else path / "config.json"
    locked = _locked()
    if locked is not None and metrics.exists():
        return "running" if metrics.stat().st_ino in locked else "stopped"
    return "running" if time.time() - newest.stat().st_mtime < _FRESH_S else "stopped"


def _locked() -> set[int] | None:
    """Inodes of the files that processes hold locks on; ``None`` where the system does not tell.

    Whether it does shows in a lock of our own. To try the run's lock would be in the way of the run that wants it.
    """
    with tempfile.TemporaryFile() as own:
        lock(own, Path(tempfile.gettempdir()))
        try:
            locks = Path("/proc/locks").read_text(encoding="ascii")
        except OSError:
            return None
        found = {int(inode) for inode in re.findall(r"[0-9a-f]+:[0-9a-f]+:(\d+) ", locks)}
        return found if os.fstat(own.fileno()).st_ino in found else None
