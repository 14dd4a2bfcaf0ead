"""`evolvent watch -- CMD`: a check, whose outcome the server hears of."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput
from evolvent.serve import client

_WITHIN_S = 2.0
_REPORT = 16 << 20  # bytes


def watch(command: Annotated[tuple[str, ...], Positional, arg(metavar="-- CMD")], *, junit: Path | None = None) -> None:
    """Run a check; its output and exit code are those of the command. The server hears whether it passed.

    The server is that of `evolvent tokens new STORE NAME --here`, or of EVOLVENT_SERVER and EVOLVENT_TOKEN. It pays the
    notes of the newest attempt in this repository. Where there is none, nothing is said.

    Example: evolvent watch -- make check

    Args:
        command: what to run, behind `--`.
        junit: the report that the command writes (JUnit XML), to compare test by test; of pytest the plug-in tells.
    """
    if not command:
        raise BadInput("which command?", expected="-- CMD", where="evolvent watch", do="evolvent watch -- pytest -q")
    run, before = secrets.token_hex(8), _written(junit)
    code = _run(command, {**os.environ, "EVOLVENT_RUN": run})
    said: dict[str, Any] = {"command": shlex.join(command)[:4000], "code": code, "run": run, "key": f"watch:{run}"}
    tests = _tests(junit) if junit and code in (0, 1) and _written(junit) != before else None
    client.tell("tests" if tests else "command", os.getcwd(), _WITHIN_S, **said, **(tests or {}))
    if code < 0:  # as the signal that ended it would end us
        with suppress(OSError):  # SIGKILL cannot be handled anyhow
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _written(path: Path | None) -> int:
    return path.stat().st_mtime_ns if path and path.is_file() else 0


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """The exit code of a command that has this terminal; less than 0 where a signal ended it."""
    try:
        child = subprocess.Popen(command, env=environment)
    except OSError as error:  # as a shell would
        sys.stderr.write(f"evolvent watch: {command[0]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the child itself
    signal.signal(signal.SIGTERM, lambda number, _: child.send_signal(number))
    return child.wait()


def _tests(path: Path) -> dict[str, Any] | None:
    """Which tests passed, by a report; None where it is none."""
    from xml.etree import ElementTree

    passed = dict[str, bool]()
    try:
        text = path.read_bytes()
        if len(text) > _REPORT or b"<!DOCTYPE" in text or b"<!ENTITY" in text:
            return None
        for case in ElementTree.fromstring(text).iter("testcase"):
            if case.find("skipped") is None:
                name = f"{case.get('classname', '')}::{case.get('name', '')}"
                passed[name] = passed.get(name, True) and case.find("failure") is None and case.find("error") is None
    except (OSError, ElementTree.ParseError):
        return None
    return client.tests(passed) if passed else None


def _watch(arguments: Sequence[str]) -> None:
    parsed(watch, arguments, "evolvent watch")


COMMANDS = {"watch": _watch}
