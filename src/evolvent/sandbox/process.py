"""Our end of the fork server and of its slots."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evolvent.core.errors import EvolventError
from evolvent.sandbox.jail import tree
from evolvent.sandbox.result import Limits
from evolvent.sandbox.settings import ENVIRONMENT, command, hold

_START_S, _READY_S, _GRACE_S = 60.0, 60.0, 20.0
_SEALS = 0x000F  # no write, no growth, no shrinking, no other seals
_F_ADD_SEALS = 1033
_NO_MEMORY = ("std::bad_alloc", "Cannot allocate memory")
_NO_THREAD, _NOTHING_LEFT = "RuntimeError: can't start new thread", "Resource temporarily unavailable"
_STATUS = {"wall": "time", "cpu": "time", "threads": "processes", "inodes": "disk", "file": "disk"}


_LINKS: weakref.WeakSet[socket.socket] = weakref.WeakSet()
"""Our ends of all servers and slots: they must close when this process dies, so no child may keep a copy."""


class SandboxError(EvolventError, RuntimeError):
    """The sandbox itself failed; nothing can be said about the program."""


class Server:
    """A fork server. It ends when ``close`` is called or this process dies, however it dies."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self._held = hold(settings["base"])
        try:
            self._start()
        except BaseException:  # Ctrl-C as well
            self._drop()
            raise

    def _start(self) -> None:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _LINKS.add(ours)
        self.link = ours
        settings = self.settings
        with its, open(_sealed(json.dumps(settings).encode()), "rb") as settings_file:
            self.process = subprocess.Popen(
                command(its.fileno()),
                env=ENVIRONMENT,
                cwd="/",
                stdin=settings_file,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[its.fileno()],
                start_new_session=True,
            )
        ours.settimeout(_START_S)
        try:
            said = ours.recv(100)
        except (TimeoutError, OSError):
            said = b""
        if said != b"ready":
            self.process.kill()
            text = (self.process.communicate()[1] or b"").decode("utf-8", "replace")
            raise SandboxError("the fork server did not start", got=text[-2000:], where="sandbox")
        if self.process.stderr:
            self.process.stderr.close()

    def slot(self) -> Slot:
        """Ask for a slot; it is made ready meanwhile.

        Raises:
            SandboxError: the server is gone.
        """
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _LINKS.add(ours)
        with its:
            try:
                socket.send_fds(self.link, [b"slot"], [its.fileno()])
            except OSError as error:
                ours.close()
                raise SandboxError("the fork server is gone", got=str(error), where="sandbox") from error
        return Slot(ours)

    @property
    def alive(self) -> bool:
        """Whether the server runs."""
        return self.process.poll() is None

    def close(self) -> None:
        """Wait until its slots have cleaned up and it is gone."""
        self.link.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE_S)
        self._drop()

    def _drop(self) -> None:
        """The process and its folder, if they are still there."""
        if "process" in self.__dict__ and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if "link" in self.__dict__:
            self.link.close()
        shutil.rmtree(self.settings["base"], ignore_errors=True)  # it does so itself, unless it was killed
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)


class Slot:
    """Our end of a place for one program."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.work = -1
        self.path = ""
        self.uid: int | None = None

    def ready(self) -> None:
        """Wait until it is made.

        Raises:
            SandboxError: it could not be made.
        """
        if self.work >= 0:
            return
        self.link.settimeout(_READY_S)
        try:
            data, fds, _, _ = socket.recv_fds(self.link, 1 << 16, 1)
        except OSError as error:
            raise SandboxError("no place for a program could be made", got=str(error), where="sandbox") from error
        message: dict[str, Any] = json.loads(data) if data else {"error": "the fork server ended"}
        if "error" in message:
            raise SandboxError("no place for a program could be made", got=message["error"], where="sandbox")
        self.path, self.work = message["ready"], fds[0]
        self.uid = message["uid"]

    def close(self, *, wait: bool = False) -> str:
        """Have everything of the program killed and removed; with ``wait`` until it is. Returns what went wrong."""
        wrong = ""
        try:
            if wait:
                self.link.shutdown(socket.SHUT_WR)
                self.link.settimeout(_GRACE_S)
                while data := self.link.recv(1 << 16):
                    wrong = json.loads(data).get("error", wrong)
        except OSError as error:
            wrong = f"the slot does not end: {error}"
        self.link.close()
        if self.work >= 0:
            os.close(self.work)
            self.work = -1
        return wrong


class Program:
    """A program in a slot: its output, its end. ``serve`` programs also have a channel."""

    def __init__(self, slot: Slot, limits: Limits, files: Mapping[str, bytes]) -> None:
        self.slot, self.limits = slot, limits
        self.out, self.err = bytearray(), bytearray()
        self.running: dict[str, Any] = {}
        self.end: dict[str, Any] = {}
        self.error = self.limit = ""
        self.stopped = threading.Event()
        self._pipes: dict[int, bytearray] = {}
        slot.ready()
        tree.put(slot.work, files, slot.uid)

    def start(self, config: dict[str, Any], stdin: bytes, shared: Sequence[int] = ()) -> None:
        """Hand the program over; ``shared`` file descriptors are its numbers 3, 4, …"""
        env = {**ENVIRONMENT, "HOME": self.slot.path, "TMPDIR": self.slot.path, **config.pop("env", {})}
        config = {"limits": asdict(self.limits) | config.pop("limits", {}), "env": env, **config}
        out, out_its = os.pipe2(os.O_CLOEXEC)
        err, err_its = os.pipe2(os.O_CLOEXEC)
        self._pipes = {out: self.out, err: self.err}
        given = [_sealed(json.dumps(config).encode()), _sealed(stdin) if stdin else os.open(os.devnull, os.O_RDONLY)]
        try:
            for fd in self._pipes:
                os.set_blocking(fd, False)
            self.slot.link.settimeout(None)
            socket.send_fds(self.slot.link, [b"go"], [*given, out_its, err_its, *shared])
        finally:
            for fd in (*given, out_its, err_its):
                os.close(fd)
        self.started = time.monotonic()

    def stop(self) -> None:
        """End the program now; may be called from another thread."""
        self.stopped.set()
        with contextlib.suppress(OSError):  # it has ended by itself
            self.slot.link.send(b"stop")

    def wait(self, until: float | None = None, also: int = -1) -> None:
        """Read its output until it ends, ``until`` (monotonic time) has come, or the descriptor ``also`` has data."""
        with selectors.DefaultSelector() as selector:
            for fd in (self.slot.link.fileno(), *self._pipes, *([also] if also >= 0 else [])):
                selector.register(fd, selectors.EVENT_READ)
            while not self.end and not self.error:
                left = 1.0 if until is None else min(1.0, until - time.monotonic())
                for key, _ in selector.select(max(0.0, left)):
                    if key.fd == also:
                        return
                    if key.fd == self.slot.link.fileno():
                        self._message()
                    elif not self._read(key.fd):
                        selector.unregister(key.fd)
                if left <= 0:
                    return
                wall = self.limits.wall if until is None else float("inf")
                if time.monotonic() - self.started > wall + _GRACE_S:
                    self.error = "the slot did not end the program in time"
        for fd in self._pipes if self.end else ():  # every process that could write is dead
            while self._read(fd):
                pass

    @property
    def text(self) -> tuple[str, str]:
        """Its output and its errors so far; what is no UTF-8 is replaced."""
        return self.out.decode("utf-8", "replace"), self.err.decode("utf-8", "replace")

    @property
    def exit(self) -> tuple[int | None, int | None]:
        """Exit code and signal of a program that has ended; one of them is ``None``."""
        code = os.waitstatus_to_exitcode(self.end["end"])
        return (code, None) if code >= 0 else (None, -code)

    def finish(self) -> str:
        """Close everything; returns what went wrong on our side."""
        for fd in self._pipes:
            os.close(fd)
        self._pipes = {}
        return self.slot.close(wait=True) or self.error

    def _message(self) -> None:
        try:
            data = self.slot.link.recv(1 << 16)
        except OSError as error:
            data = json.dumps({"error": str(error)}).encode()
        message = json.loads(data) if data else {"error": "the slot ended without a word"}
        if "running" in message:
            self.running = message
        elif "end" in message:
            self.end = message
        else:
            self.error = message.get("error", "the slot said nothing we know")

    def _read(self, fd: int) -> bool:
        """Whether the pipe gave something."""
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        room = self.limits.output - len(self.out) - len(self.err)
        self._pipes[fd] += data[:room]
        if len(data) > room and not self.limit:
            self.limit = "output"
            self.stop()
        return bool(data)


def _sealed(content: bytes) -> int:
    """An open file in memory that can be read and no longer changed."""
    fd = os.memfd_create("evolvent", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    fcntl.fcntl(fd, _F_ADD_SEALS, _SEALS)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def verdict(program: Program, full: str = "") -> tuple[str, str]:
    """Status of a program that has ended, and the limit that was passed; ``full``: of what its folder has no more."""
    end, limits, (code, number) = program.end, program.limits, program.exit
    if program.limit:
        return program.limit, program.limit
    if end["limit"] == "stop" or program.stopped.is_set():
        return "stopped", ""
    limit = end["limit"] or ""
    if (not limit and number == signal.SIGXCPU) or (number == signal.SIGKILL and end["cpu"] >= limits.cpu):
        limit = "cpu"
    elif not limit and number == signal.SIGXFSZ:
        limit = "file"
    elif not limit and code != 0:
        last = program.text[1].rstrip().rpartition("\n")[2]
        if full or "No space left on device" in last:
            limit = full or "disk"
        elif last.startswith("MemoryError") or any(word in last for word in _NO_MEMORY):
            limit = "memory"
        elif "File too large" in last:
            limit = "file"
        elif last == _NO_THREAD or (_NOTHING_LEFT in last and end["threads"] >= limits.threads):
            limit = "threads"
    if limit:
        return _STATUS.get(limit, limit), limit
    return ("crashed" if number else "ok" if code == 0 else "failed"), ""


def _after_fork() -> None:
    for link in list(_LINKS):
        link.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
