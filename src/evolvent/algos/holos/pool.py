"""Processes of agents: started when they are first needed, at most so many at a time, asked under a lease.

A process that is not in time is left to itself and another one takes its place; what it says afterwards is kept
(``Pool.late``), and it is killed in the end.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from evolvent.algos.holos import worker

START_S = 60.0  # before the clock of its first lease: a slow machine is not an agent that hangs


@dataclass(frozen=True)
class Said:
    """What an agent said under a lease, or what became of it instead."""

    agent: str
    lease: str
    how: Literal["answered", "crashed", "hung"]
    answer: str = ""


@dataclass(eq=False)
class _Process:
    agent: str
    popen: subprocess.Popen[bytes]
    rest: bytes = b""
    until: float = 0.0
    """When a process that was late is killed."""
    rows: list[Any] = field(default_factory=list[Any])

    @property
    def fd(self) -> int:
        assert self.popen.stdout is not None
        return self.popen.stdout.fileno()

    def read(self) -> bool:
        """Take what is there to read; False where nothing more will come."""
        found = os.read(self.fd, 1 << 16)
        *whole, self.rest = (self.rest + found).split(b"\n")
        try:
            self.rows += [json.loads(line) for line in whole]
        except ValueError:  # it speaks, but says nothing: as good as gone
            return False
        return bool(found)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.communicate()


class Pool:
    """Agents by name, each the file with its answers; ``failure``, ``rate`` and ``seed`` as of ``worker``.

    Args:
        active: processes at most; the one that was not used for longest goes dormant.
        lease_s: seconds until the market looks elsewhere.
    """

    def __init__(
        self, files: Mapping[str, Path], failure: str, rate: float, seed: int, *, active: int, lease_s: float
    ) -> None:
        self._files, self._active, self._lease_s = files, active, lease_s
        self._how = [failure, str(rate), str(seed), str(lease_s)]
        self._awake, self._left = dict[str, _Process](), list[_Process]()  # the newest last
        self._late = list[Said]()

    def ask(self, agent: str, lease: str, question: str) -> Said:
        """Wait for an agent's answer until its lease runs out."""
        process = self._wake(agent)
        if process is None:
            return Said(agent, lease, "hung")
        try:
            assert process.popen.stdin is not None
            process.popen.stdin.write(json.dumps({"lease": lease, "question": question}).encode() + b"\n")
            process.popen.stdin.flush()
        except BrokenPipeError:
            return self._gone(process, lease)
        ends = time.monotonic() + self._lease_s
        while (left := ends - time.monotonic()) > 0:
            if not self._listen(process, left):
                return self._gone(process, lease)
            found = [row for row in process.rows if row.get("lease") == lease]
            if found:
                process.rows.remove(found[0])
                return Said(agent, lease, "answered", str(found[0]["answer"]))
        del self._awake[agent]
        process.until = time.monotonic() + 2 * self._lease_s
        self._left.append(process)
        return Said(agent, lease, "hung")

    def late(self) -> list[Said]:
        """Answers that nobody waits for any more, each once."""
        for process in [*self._left, *self._awake.values()]:
            self._late += [Said(process.agent, row["lease"], "answered", str(row["answer"])) for row in process.rows]
            process.rows = []
        found, self._late = self._late, []
        return found

    def close(self) -> None:
        """End all of them."""
        for process in [*self._awake.values(), *self._left]:
            process.kill()
        self._awake, self._left = {}, []

    @property
    def awake(self) -> list[str]:
        """Agents that have a process now."""
        return list(self._awake)

    def _wake(self, agent: str) -> _Process | None:
        if agent in self._awake:
            self._awake[agent] = process = self._awake.pop(agent)
            return process
        while len(self._awake) >= self._active:
            self._awake.pop(next(iter(self._awake))).kill()
        command = [sys.executable, "-I", "-S", worker.__file__, str(self._files[agent]), *self._how]
        # a session of its own: Ctrl-C is for the market
        popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        process, ends = _Process(agent, popen), time.monotonic() + START_S
        while not process.rows:
            left = ends - time.monotonic()
            if left <= 0 or not self._listen(process, left):
                process.kill()
                return None
        process.rows.clear()
        self._awake[agent] = process
        return process

    def _listen(self, process: _Process, seconds: float) -> bool:
        """Read from a process, and from those that were late, until there is something; False where it is gone."""
        of = {one.fd: one for one in [process, *self._left]}
        ready = [of[fd] for fd in select.select(list(of), [], [], seconds)[0]]
        ended = [one for one in ready if not one.read()]
        for one in ended:
            one.until = 0.0
        for one in [one for one in self._left if one.until < time.monotonic()]:
            self._late += [Said(one.agent, row["lease"], "answered", str(row["answer"])) for row in one.rows]
            self._left.remove(one)
            one.kill()
        return process not in ended

    def _gone(self, process: _Process, lease: str) -> Said:
        del self._awake[process.agent]
        process.kill()
        return Said(process.agent, lease, "crashed")
