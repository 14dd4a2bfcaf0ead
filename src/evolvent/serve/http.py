"""A store on a port: opened, embedded, listened to, and closed so that all that was acknowledged is on disk."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.memory import Memory
from evolvent.serve.app import Allowed
from evolvent.serve.attempts import Attempts
from evolvent.serve.lanes import Lanes
from evolvent.serve.problems import refused
from evolvent.serve.rest import ROOM, Threads
from evolvent.serve.stores import Cached, Opened, embed
from evolvent.serve.tokens import Token, Tokens

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADER_S = 10.0
_AT_ONCE = 32  # jobs in one commit
_WRITTEN, _READ = 64, 4  # scopes that stay open
_KEPT_S, _GRACE_S = 75, 15


@dataclass(frozen=True)
class Settings:
    """How the memories of a store are opened."""

    store: str
    scope: str = "default"
    policy: str = "memlift"
    embedder: str | None = None
    holdout: float = 0.0


class Deadlined(H11Protocol):
    """Closes connections that do not finish the header of a request in time; uvicorn itself waits for ever."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first header."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Go on waiting, unless a request is under way."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._end()
        elif self._deadline is None:
            self._begin()

    def on_response_complete(self) -> None:
        """What came behind the request may be half of the next one."""
        super().on_response_complete()
        if self.cycle.response_complete and self.conn.trailing_data[0]:
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for."""
        self._end()
        super().connection_lost(exc)

    def _begin(self) -> None:
        self._end()
        self._deadline = self.loop.call_later(HEADER_S, self.transport.close)

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


@contextmanager
def alone(store: str) -> Iterator[Callable[[str], None]]:
    """Hold the store for this process; a file beside it says where it is served, once that is told.

    Raises:
        BadInput: another process serves it.
    """
    if "://" in store:  # a server's advisory lock orders writers
        yield lambda _: None
        return
    path = Path(f"{store}.serving")
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # not a POSIX system
            pass
        except OSError as error:
            got = file.read() or "a process that is starting"
            do = "use that one, or stop it first"
            raise BadInput("the store is served already", got=got, where=str(path), do=do, code="served") from error

        def tell(address: str) -> None:
            file.write(f"{address} (process {os.getpid()})")
            file.flush()

        file.truncate()
        try:
            yield tell
        finally:
            file.truncate(0)


def threads(settings: Settings, key: bytes, attempts: Path) -> Threads:
    """The threads of a store; its embedder has embedded a word, so that what is missing is missed now.

    Args:
        settings: how its memories are opened.
        key: of handles.
        attempts: the file of its attempts.

    Raises:
        BadInput, StoreError: the store cannot be opened like this.
        MissingExtra, ModelError: the embedder cannot be loaded.
    """
    options = {"policy": settings.policy, "holdout": settings.holdout}
    with Memory(settings.store, scope=settings.scope, embedder=settings.embedder, **options) as memory:
        embedder = Cached(memory.embedder)
    embedder.embed(["one"])

    def opened(most: int) -> Opened:
        return Opened(lambda scope: Memory(settings.store, scope=scope, embedder=embedder, **options), most)

    writing, reading = opened(_WRITTEN), opened(_READ)
    return Threads(
        Lanes("writer", writing.write, ROOM, _AT_ONCE, writing.close),
        Lanes("reader", reading.read, ROOM, 1, reading.close),
        Lanes("embedding", embed, ROOM),
        embedder,
        key,
        Attempts(attempts),
    )


def by_token(tokens: Tokens) -> Allowed:
    """Only what tokens allow."""

    def allowed(text: str | None) -> Token:
        try:
            found = tokens.of(text) if text else None
        except (BadInput, OSError) as error:  # of the file, which is not for who asks
            raise StoreError("the tokens cannot be read", code="no_tokens") from error
        if found is None:
            do = "send the header Authorization: Bearer TOKEN; evolvent tokens new STORE makes one"
            raise refused("unauthorized", "no token" if text is None else "no token of this store", do=do)
        return found

    return allowed


def everybody(scope: str) -> Allowed:
    """Whoever asks may do all in one scope."""
    token = Token("local", (scope,))
    return lambda _: token


def run(served: ASGIApp, listening: socket.socket) -> None:
    """Serve until a signal; requests that are under way are answered first."""
    config = uvicorn.Config(
        served,
        http=Deadlined,
        loop="asyncio",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEPT_S,
        timeout_graceful_shutdown=_GRACE_S,
    )
    with suppress(KeyboardInterrupt):  # it was stopped well, and passes the signal on
        uvicorn.Server(config).run(sockets=[listening])
