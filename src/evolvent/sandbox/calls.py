"""Calling functions of a program that nobody has read: plain values in, plain values out."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from evolvent.core.errors import BadInput, EvolventError
from evolvent.sandbox.jail.values import MAX_BYTES, BadValue, dumps, loads
from evolvent.sandbox.process import Program, verdict

_CALL_ROOM = 200  # bytes of an answer around its value


class GuestError(EvolventError, RuntimeError):
    """A call gave no value. ``kind`` says why.

    ``raised``: the program's own exception (its name in ``got``, as the program tells it); ``value``: what it returned
    cannot cross; ``forged``: something else than one answer to this call stood on the channel; ``time``, ``memory`` and
    the other names of ``Result.status``: it was ended; ``exited``: it ended by itself; ``harness``: our fault.
    """

    def __init__(self, kind: str, what: str, *, unread: bool = False, **more: object) -> None:
        super().__init__(what, **more)  # type: ignore[arg-type]
        self.kind = kind
        self.unread = unread
        """Whether nothing of the program ran, because it could not be compiled."""


def request(ticket: str, function: str, arguments: Sequence[object], named: Mapping[str, object]) -> bytes:
    """The line that asks for a call.

    Raises:
        BadValue: arguments that cannot enter.
    """
    return dumps({"id": ticket, "fn": function, "args": list(arguments), "kwargs": dict(named)})


class Guest:
    """A confined process that has imported a module and answers calls. After any error but ``raised`` it is over.

    What comes back is the program's word: a plain value of exact built-in types, to be compared out here.
    ``limits.wall`` holds for each call, the other limits for the whole life.
    """

    def __init__(self, program: Program, module: str, shared: Sequence[int] = ()) -> None:
        if not module.isidentifier():
            program.finish()
            raise BadInput("no module name", got=module, expected="solution, for the file solution.py", where="open")
        self.limits, self.over, self._program = program.limits, "", program
        self._buffer, self._one = b"", threading.Lock()
        ours, its = socket.socketpair()
        self._channel = ours
        try:
            with its:
                config = {"kind": "serve", "argv": [module], "module": module, "limits": {"wall": None}}
                program.start(config, b"", (its.fileno(), *shared))
            ours.setblocking(False)
            self._answer("import", time.monotonic() + self.limits.wall)
        except BaseException:
            self.close()
            raise

    def call(self, function: str, *arguments: object, **named: object) -> Any:
        """The value that ``function`` of the module returns; calls of several threads wait for each other.

        Raises:
            GuestError: it gave none; see ``kind``.
            BadInput: arguments that cannot cross.
        """
        with self._one:
            return self._call(function, arguments, named)

    def _call(self, function: str, arguments: Sequence[object], named: Mapping[str, object]) -> Any:
        if self.over:
            raise GuestError(self.over, f"this program has ended: {self.over}", where="Guest.call")
        ticket = secrets.token_hex(8)
        try:
            line = request(ticket, function, arguments, named)
        except BadValue as error:
            raise BadInput("arguments that cannot enter", got=str(error), where=f"Guest.call {function}") from error
        until = time.monotonic() + self.limits.wall
        if self._buffer or self._read(wait=False):
            raise self._end("forged", "the program wrote to its channel without a call")
        self._send(line + b"\n", until)
        return self._answer(ticket, until)

    @property
    def pid(self) -> int:
        """Its process, as this machine counts: ``time.clock_gettime((~pid << 3) | 2)`` is its processor time."""
        if not self._program.running:
            self._program.wait(time.monotonic())
        return int(self._program.running.get("running", 0))

    @property
    def output(self) -> tuple[str, str]:
        """What it has written to standard output and standard error."""
        self._program.wait(time.monotonic())
        return self._program.text

    def close(self) -> None:
        """End it; nothing of it stays."""
        self.over = self.over or "closed"
        self._channel.close()
        if self._program.slot.work >= 0:
            self._program.stop()
            self._program.finish()

    def __enter__(self) -> Guest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, data: bytes, until: float) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._channel.send(view, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                if time.monotonic() > until:
                    raise self._end("time", "the call was not taken in time") from None
                time.sleep(0.001)
            except OSError:
                raise self._ended() from None

    def _read(self, *, wait: bool, until: float = 0.0) -> bool:
        """Whether more of the channel came."""
        if wait:
            self._program.wait(until, self._channel.fileno())
        try:
            data = self._channel.recv(1 << 16)
        except (BlockingIOError, ConnectionError):
            return False
        self._buffer += data
        return bool(data)

    def _answer(self, ticket: str, until: float) -> Any:
        while b"\n" not in self._buffer:
            if len(self._buffer) > MAX_BYTES + _CALL_ROOM:
                raise self._end("value", "an answer of more than 1 MB")
            if not self._read(wait=True, until=until):
                if self._program.end or self._program.error or self._program.limit:
                    raise self._ended()
                if time.monotonic() > until:
                    raise self._end("time", "no answer in time", got=f"{self.limits.wall} s")
                if self._closed():
                    self._program.wait(time.monotonic() + 0.5)
                    if self._program.end:
                        raise self._ended()
                    raise self._end("exited", "the program closed its channel")
        line, _, self._buffer = self._buffer.partition(b"\n")
        if self._buffer or self._read(wait=False):
            raise self._end("forged", "more than one answer to a call")
        try:
            message = loads(line)
        except BadValue as error:
            raise self._end("forged", "an answer that is none", got=str(error)) from error
        if type(message) is not dict or message.get("id") != ticket or len(message) != 2:
            raise self._end("forged", "an answer to another call")
        if "value" in message:
            return message["value"]
        failure = message.get("error")
        if not (type(failure) is list and len(failure) == 2 and all(type(word) is str for word in failure)):
            raise self._end("forged", "an answer without a value")
        name, text = failure
        if ticket == "import":
            why = name[:100] or "it does not compile"
            raise self._end("raised", f"the module could not be imported: {why}", got=text[:2000], unread=not name)
        kind = "value" if name == "BadValue" else "raised"
        raise GuestError(kind, f"the call raised {name[:100]}", got=text[:2000], where="Guest.call")

    def _closed(self) -> bool:
        try:
            return self._channel.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _ended(self) -> GuestError:
        """The program has ended, or was: with what."""
        program = self._program
        program.wait(time.monotonic() + 5.0)
        if program.error or not program.end:
            return self._end("harness", "the sandbox failed", got=program.error)
        status, _ = verdict(program)
        if status in ("ok", "failed"):
            return self._end("exited", "the program ended by itself", got=f"exit code {program.exit[0]}")
        return self._end(status, f"the program was ended: {status}")

    def _end(self, kind: str, what: str, **more: Any) -> GuestError:
        self.over = kind
        self.close()
        return GuestError(kind, what, where="Guest.call", **more)
