"""Writers of one file take turns: the next one waits at the door, all others wait for its place.

SQLite has no queue: a writer that finds the file locked sleeps up to 0.1 s and looks again, while whoever has just
committed comes back without sleeping. Among many processes some then wait for seconds and the disk idles. Here one
process at a time holds the turn, looks for the lock every fraction of a millisecond, and hands the turn on when it has
the lock; a writer that comes back has to take the turn like all others.

The turn is a lock (``flock``) on the write-ahead log, which SQLite itself never locks and which stays while a
connection is open: no file of our own, and a process that dies gives it back. It is a courtesy, not a guard: where
there is no such lock, or nobody gives it back in time, writers do without, and SQLite alone decides who writes.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# commits in a row, and for how long, before a writer queues again: its caches are warm, the next writer's are not
_IN_A_ROW, _IN_A_ROW_S = 32, 0.04
_AT_THE_DOOR_S = (0.0003, 0.005)  # looks rarer and rarer at a lock that is held for long
_IN_THE_QUEUE_S = (0.001, 0.006)
_PATIENCE_S = 5.0  # then without a turn: somebody was stopped while it had it


class Turn:
    """The place of one connection in the queue for the write lock of its file.

    Args:
        wal: the write-ahead log of the file; without it (in memory) there is nobody to queue with.
    """

    def __init__(self, wal: str) -> None:
        self._wal, self._fd, self._left, self._until = wal, -1, 0, 0.0

    def begin(self, db: sqlite3.Connection, timeout_s: float) -> None:
        """``BEGIN IMMEDIATE``, in turn.

        Raises:
            sqlite3.OperationalError: the lock was not to be had within ``timeout_s``, or the file cannot be written.
        """
        now = time.monotonic()
        deadline, mine = now + timeout_s, False
        db.execute("PRAGMA busy_timeout=0")  # SQLite would sleep for longer and longer
        try:
            if self._left > 0 and now < self._until:
                self._left -= 1
                try:
                    db.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if "locked" not in str(error):
                        raise
            mine = self._take(min(deadline, now + _PATIENCE_S))
            pause, longest = _AT_THE_DOOR_S
            while True:
                try:
                    db.execute("BEGIN IMMEDIATE")
                    self._left, self._until = _IN_A_ROW - 1, time.monotonic() + _IN_A_ROW_S
                    return
                except sqlite3.OperationalError as error:
                    if "locked" not in str(error) or time.monotonic() >= deadline:
                        raise
                time.sleep(pause)
                pause = min(longest, 1.1 * pause)
        finally:
            if mine:
                self._give()
            db.execute(f"PRAGMA busy_timeout={int(1000 * timeout_s)}")

    def _take(self, until: float) -> bool:
        if fcntl is None:
            return False
        if self._fd < 0:
            try:
                self._fd = os.open(self._wal, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:  # no log yet (a new file, a memory without one), or not ours to open
                return False
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() >= until:
                    return False
                time.sleep(random.uniform(*_IN_THE_QUEUE_S))
            except OSError:  # a file system without such locks
                self.close()
                return False

    def _give(self) -> None:
        assert fcntl is not None
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Leave the queue for good."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
