"""One sandbox for all copies of a world in this process."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from evolvent.sandbox import Sandbox


class Place:
    """A sandbox that its users share, made for the first of them and closed when the last has left.

    Args:
        make: makes it.
    """

    def __init__(self, make: Callable[[], Sandbox]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._users: weakref.WeakSet[object] = weakref.WeakSet()
        self._sandbox: Sandbox | None = None

    def enter(self, user: object) -> Sandbox:
        """The sandbox, which stays as long as ``user`` uses it."""
        with self._lock:
            self._users.add(user)
            if self._sandbox is None:
                self._sandbox = self._make()
            return self._sandbox

    def leave(self, user: object) -> None:
        """``user`` uses it no longer."""
        with self._lock:
            self._users.discard(user)
            if not self._users and self._sandbox is not None:
                self._sandbox.close()
                self._sandbox = None
