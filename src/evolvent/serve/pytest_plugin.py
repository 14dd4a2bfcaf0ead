"""A pytest plug-in that tells the server of this machine which tests passed; without one it does nothing.

It never fails a run: what goes wrong in here is nobody's test.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from typing import Any

from evolvent.serve import client

_NAMES, _TESTS = 50, 16_000
_WITHIN_S = 2.0


def hashes(names: list[str]) -> str:
    """Eight hexadecimal digits a test, which is all that is compared."""
    return "".join(hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8] for name in names[:_TESTS])


class _Watching:
    """What became of each test."""

    def __init__(self) -> None:
        self.passed = dict[str, bool]()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test fails where any phase of it fails; one that was skipped says nothing."""
        if report.failed:
            self.passed[report.nodeid] = False
        elif report.when == "call" and report.passed:
            self.passed.setdefault(report.nodeid, True)

    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> None:
        """Tell, unless nothing ran or the run was broken off."""
        with suppress(Exception):
            if self.passed and int(exitstatus) in (0, 1):
                run = os.environ.get("EVOLVENT_RUN") or secrets.token_hex(8)
                good, bad = ([name for name, ok in self.passed.items() if ok is want] for want in (True, False))
                said = {"passed": hashes(good), "failed": hashes(bad), "names": [name[:300] for name in bad[:_NAMES]]}
                client.tell("tests", str(session.config.rootpath), _WITHIN_S, run=run, key=f"pytest:{run}", **said)


def pytest_configure(config: Any) -> None:
    """Watch where somebody listens; of several workers, the one that hears of all tests."""
    with suppress(Exception):
        if client.found() is not None and not hasattr(config, "workerinput"):
            config.pluginmanager.register(_Watching(), "evolvent-watching")
