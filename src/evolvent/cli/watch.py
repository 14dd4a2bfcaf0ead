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
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.serve import client
from evolvent.serve.pytest_plugin import hashes

HELP = """\
usage: evolvent watch [--junit FILE] -- CMD [ARG ...]

Run a check; its output and exit code are those of CMD. The server of this machine (evolvent tokens new STORE NAME
--here, or EVOLVENT_SERVER and EVOLVENT_TOKEN) hears whether it passed, and pays the notes of the newest attempt in this
repository. Where there is no server, nothing is said and nothing else happens.

  --junit FILE   the report that CMD writes (JUnit XML), to compare test by test; of pytest the plug-in tells that

Example: evolvent watch -- make check
"""
_WITHIN_S = 2.0
_REPORT = 16 << 20  # bytes


def _watch(arguments: Sequence[str]) -> None:
    junit, command = _asked(list(arguments))
    run = secrets.token_hex(8)
    began = os.stat(junit).st_mtime_ns if junit and os.path.exists(junit) else 0
    code = _run(command, {**os.environ, "EVOLVENT_RUN": run})
    said: dict[str, Any] = {"command": shlex.join(command)[:4000], "code": code, "run": run, "key": f"watch:{run}"}
    tests = _tests(junit, began) if junit and code in (0, 1) else None
    client.tell("tests" if tests else "command", os.getcwd(), _WITHIN_S, **said, **(tests or {}))
    if code < 0:  # as the signal that ended it would end us
        with suppress(OSError):  # SIGKILL cannot be handled anyhow
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _asked(arguments: list[str]) -> tuple[str | None, list[str]]:
    if arguments[:1] in (["--help"], ["-h"]):
        sys.stdout.write(HELP)
        sys.exit(0)
    junit = None
    if arguments[:1] == ["--junit"] and len(arguments) > 1:
        junit, arguments = arguments[1], arguments[2:]
    if arguments[:1] != ["--"] or len(arguments) < 2:
        do, got = "evolvent watch -- pytest -q", " ".join(arguments) or "nothing"
        raise BadInput("which command?", got=got, expected="-- CMD", where="evolvent watch", do=do)
    return junit, arguments[1:]


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


def _tests(path: str, began: int) -> dict[str, Any] | None:
    """Which tests passed, by a report that was written since; None where it is none."""
    from xml.etree import ElementTree

    good, bad = list[str](), list[str]()
    try:
        state = os.stat(path)
        text = Path(path).read_bytes()[:_REPORT]
        if state.st_mtime_ns == began or b"<!DOCTYPE" in text or b"<!ENTITY" in text:
            return None
        for case in ElementTree.fromstring(text).iter("testcase"):
            if case.find("skipped") is None:
                name = f"{case.get('classname', '')}::{case.get('name', '')}"
                (good if case.find("failure") is None and case.find("error") is None else bad).append(name)
    except (OSError, ElementTree.ParseError):
        return None
    bad_names = [name[:300] for name in bad[:50]]
    return {"passed": hashes(good), "failed": hashes(bad), "names": bad_names} if good or bad else None


COMMANDS = {"watch": _watch}
