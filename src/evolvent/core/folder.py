"""The run folder: one directory that is the whole truth about a run, readable without this library.

``config.json`` is written at the start, ``metrics.jsonl`` and ``episodes.jsonl`` grow by whole lines that are flushed
one by one, ``summary.json`` appears atomically when the run has ended. A line that a killed process left half-written
is ignored by readers and cut off by the next writer. See ``docs/run-folder.md``.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, Self

from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import (
    LONE_SURROGATES,
    cut_torn_line,
    dump,
    expand_home,
    lines,
    lock,
    mask_secrets,
    read_object,
    shorten_home,
    write_atomic,
)
from evolvent.core.machine import provenance

if TYPE_CHECKING:
    from evolvent.core.episode import Episode

SCHEMA = 1
ERROR = "error.txt"
_STOPS = (signal.SIGINT, signal.SIGTERM)


class RunFolder:
    """A run folder, open for reading and appending; one process writes at a time.

    ``interrupt`` is polled by the loop of an algorithm after each task (see ``Interrupt``).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.interrupt = Interrupt()
        self._files: dict[str, IO[bytes]] = {}
        self._started = time.monotonic()
        self.step = 0
        """The last step that was logged."""
        self.last_t = 0.0
        """Seconds at its last line."""
        self._extension: dict[str, Any] = {}
        self.touched = False
        """Whether the run has begun, or gone on, in this process."""
        self._made: list[Path] = []
        self.watchers: list[Callable[[int, Mapping[str, Any]], None]] = []
        """Called with each line of the metrics, once it is written."""

    # ---------------------------------------------------------------------------------------------- make and open
    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        algo: str,
        config: Mapping[str, Any],
        env: str,
        seed: int,
        command: str | Sequence[str],
        kind: str = "",
        paper: str = "",
    ) -> RunFolder:
        """Make a new run folder and write its ``config.json``.

        ``config`` is every field of the effective configuration, as JSON values; ``command`` the command line, as text
        or as its arguments; ``kind`` that of the run, by its name (language, team, memory, …; ``""`` = of your own);
        ``paper`` the algorithm's, e.g. arXiv 2601.03192.

        Raises:
            BadInput: the folder holds something already, or cannot be made.
        """
        path = Path(path)
        check_free(path)
        made = [one for one in (path, *path.parents) if not one.exists()]
        line = command if isinstance(command, str) else " ".join(command)
        content = {
            "schema": SCHEMA,
            **({"kind": kind} if kind else {}),
            "algo": algo,
            **({"paper": paper} if paper else {}),
            "env": env,
            "seed": seed,
            "config": shorten_home(dict(config)),
            "command": shorten_home(line),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            **provenance(),
        }
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_atomic(path / "config.json", dump(content, indent=2) + "\n")
        except OSError as error:
            raise _cannot_be_made(error) from error
        folder = cls(path)
        folder._made = made
        return folder

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Open an existing run folder; time and step go on where its last line stands.

        Raises:
            BadInput: no such folder, no ``config.json``, or written by a newer schema.
        """
        path = Path(path)
        if not (path / "config.json").exists():
            raise _no_run(path)
        folder = cls(path)
        written = folder.manifest().get("schema")
        if written != SCHEMA:
            raise BadInput(
                "the run folder was written by another version",
                got=written,
                expected=SCHEMA,
                where=str(path / "config.json"),
                do='read it with the version of evolvent named under "versions" in that file',
            )
        for row in lines(path / "metrics.jsonl"):
            folder._resume_from(row)
        return folder

    @property
    def seconds(self) -> float:
        """Seconds that the run has taken so far, those before a resumption included."""
        return time.monotonic() - self._started

    def manifest(self) -> dict[str, Any]:
        """The content of ``config.json``: algo, env, seed, config, command, commit, versions, machine."""
        return read_object(self.path / "config.json", "a run folder made by `evolvent run`")

    @property
    def config(self) -> dict[str, Any]:
        """The effective configuration as JSON values, paths under the home folder made absolute again."""
        return expand_home(self.manifest()["config"])

    def remove(self) -> None:
        """Remove a new folder and the parents that were made for it; a folder that was there before is only emptied."""
        self.close()
        for one in self.path.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        for one in self._made:
            if not any(one.iterdir()):
                one.rmdir()

    # ---------------------------------------------------------------------------------------------- append
    def log(self, step: int, **values: Any) -> None:
        """Append one flushed line ``{"t": seconds, "step": step, …}`` to ``metrics.jsonl``; NaN becomes null."""
        self.step = step
        self._append("metrics.jsonl", {"t": round(time.monotonic() - self._started, 3), "step": step, **values})
        for watcher in self.watchers:
            watcher(step, values)

    def episode(self, episode: Episode, *, step: int | None = None) -> None:
        """Append one recorded episode to ``episodes.jsonl``; ``step`` defaults to the step last logged."""
        self._append("episodes.jsonl", {"step": self.step if step is None else step, **episode.to_dict()})

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``summary.json`` atomically: a reader sees the old file or the new one, never a part."""
        write_atomic(self.path / "summary.json", dump(dict(summary), indent=2) + "\n")

    def fail(self, error: BaseException) -> None:
        """Keep the error that ended the run, with its traceback, in ``error.txt``, until the run goes on."""
        trace = "".join(traceback.format_exception(error))
        write_atomic(self.path / ERROR, mask_secrets(shorten_home(f"{error}\n\n{trace}")))

    def extend(self, config: Mapping[str, Any], changed: Mapping[str, Any], command: str) -> None:
        """Give a resumed run another total; ``truncate`` writes it, once the run has begun again.

        ``config`` is every field of the new configuration, as JSON values; ``changed`` what differs,
        ``{field: [old, new]}``, kept under ``extended`` in ``config.json``;
        ``command`` the command line that asked for it.
        """
        manifest = self.manifest()
        entry = {"command": command, "changed": changed, "started": datetime.now(UTC).isoformat(timespec="seconds")}
        before: list[Any] = manifest.get("extended", [])
        self._extension = shorten_home({**manifest, "config": dict(config), "extended": [*before, entry]})

    def truncate(self, step: int) -> None:
        """Drop every line with a later step from both files: what a resumed run will write again.

        Raises:
            BadInput: another process is writing to them.
        """
        self.close()
        self.touched = True
        (self.path / ERROR).unlink(missing_ok=True)
        with ExitStack() as held:
            paths = [self.path / name for name in ("metrics.jsonl", "episodes.jsonl")]
            paths = [path for path in paths if path.exists()]
            for path in paths:
                lock(held.enter_context(path.open("ab")), path)
            if self._extension:  # the summary goes first: a kill in between leaves a run that has not ended
                (self.path / "summary.json").unlink(missing_ok=True)
                write_atomic(self.path / "config.json", dump(self._extension, indent=2) + "\n")
                self._extension = {}
            for path in paths:
                remaining = [dump(row) + "\n" for row in lines(path) if row.get("step", 0) <= step]
                write_atomic(path, "".join(remaining))
        self.step, self._started = 0, time.monotonic()
        for row in lines(self.path / "metrics.jsonl"):
            self._resume_from(row)

    @contextmanager
    def alone(self) -> Generator[None]:
        """Lock the folder against other processes; where folders cannot be locked, only its growing files are.

        Raises:
            BadInput: another one does. It is not disturbed.
        """
        with ExitStack() as held:
            with suppress(OSError):
                file = os.open(self.path, os.O_RDONLY)
                held.callback(os.close, file)
                lock(file, self.path)
            yield

    def close(self) -> None:
        """Close all files, even if one cannot write its last line; the next ``log`` opens them again."""
        with ExitStack() as stack:
            while self._files:
                stack.callback(self._files.popitem()[1].close)

    # ---------------------------------------------------------------------------------------------- read
    def read_metrics(self) -> list[dict[str, Any]]:
        """All complete lines of ``metrics.jsonl``."""
        return list(lines(self.path / "metrics.jsonl"))

    def read_episodes(self) -> Iterator[dict[str, Any]]:
        """The complete lines of ``episodes.jsonl`` as dictionaries, one at a time."""
        return lines(self.path / "episodes.jsonl")

    @property
    def error(self) -> str:
        """The error that ended the run, if one did and it has not gone on since; its first line says what it was."""
        path = self.path / ERROR
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def finished(self) -> bool:
        """Whether the run has ended and written its summary."""
        return (self.path / "summary.json").exists()

    def summary(self) -> dict[str, Any]:
        """The content of ``summary.json``.

        Raises:
            BadInput: the run has not ended.
        """
        return read_object(
            self.path / "summary.json", f"a run that has ended (evolvent run … --resume {shlex.quote(str(self.path))})"
        )

    def _resume_from(self, row: Mapping[str, Any]) -> None:
        self.step, self.last_t = int(row["step"]), float(row["t"])
        self._started = time.monotonic() - self.last_t

    def _append(self, name: str, row: Mapping[str, Any]) -> None:
        self.touched = True
        file = self._files.get(name)
        if file is None:
            path = self.path / name
            file = path.open("ab")
            lock(file, path)  # before the cut: what looks torn may be another process at work
            cut_torn_line(path)
            self._files[name] = file
        file.write((dump(row) + "\n").encode("utf-8", LONE_SURROGATES))
        file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_free(path: Path) -> None:
    """Refuse what cannot become a run folder, because something is there.

    Raises:
        BadInput: a file, or a folder that holds something or cannot be looked into.
    """
    try:
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return
    except OSError as error:
        raise _cannot_be_made(error) from error
    run = (path / "config.json").exists()
    what = (
        "there is a run in this folder" if run else "the run folder is not empty" if path.is_dir() else "not a folder"
    )
    do = f", or continue that run with --resume {shlex.quote(str(path))}" if run else ""
    raise BadInput(what, got=str(path), expected="a new or empty folder", where="--out", do=f"choose another --out{do}")


def _no_run(path: Path) -> BadInput:
    """What there is instead of a run; runs inside it are named."""
    inside = sorted(str(one.parent) for one in path.glob("*/config.json"))
    names = ", ".join(inside[:3]) + (f" and {len(inside) - 3} more" if len(inside) > 3 else "")
    what = "no such folder" if not path.exists() else "a folder of runs, not a run" if inside else "not a run folder"
    return BadInput(
        what,
        got=str(path),
        expected="a folder with config.json, as `evolvent run` makes it",
        do=f"name one of {names}" if inside else "`evolvent runs DIR` lists the runs in a folder",
    )


def _cannot_be_made(error: OSError) -> BadInput:
    expected = "a folder that can be written to"
    return BadInput(
        "the run folder cannot be made", got=str(error), expected=expected, where="--out", do="choose another --out"
    )


class Interrupted(KeyboardInterrupt):
    """Raised by a loop that has seen ``interrupt.requested``, after the task at hand is finished and saved.

    A Ctrl-C, too: no ``except Exception`` on its way stops it.
    """


class Interrupt:
    """Ctrl-C, or SIGTERM, as a request: the first one sets ``requested``, a second one raises KeyboardInterrupt.

    ``with folder.interrupt:`` installs the handler (main thread only) and restores the old one at the end; it may be
    entered again inside. The loop polls after each task: ``if folder.interrupt.requested: save(); raise Interrupted``.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: list[Any] = []

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        # the stream objects may be in the middle of a write: straight to standard error
        os.write(2, b"\nfinishing the task at hand; Ctrl-C again stops at once\n")

    def __enter__(self) -> Self:
        if not self._before:
            self.requested = False
        self._before.append({number: signal.signal(number, self._handle) for number in _STOPS})
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.pop().items():
            signal.signal(number, handler)
