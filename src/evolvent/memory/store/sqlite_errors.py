"""What SQLite says, in words that say what to do."""

from __future__ import annotations

import errno
import os
import sqlite3

from evolvent.core.errors import StoreError
from evolvent.memory.store.engine import BUSY_TIMEOUT_S, GONE, damaged

ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the latter where a damaged name is in SQLite's message
HANDLES = 4  # of the operating system: the file, its log, the log's index, and the turn

# the operating system refused a write for another reason than a full disk: nothing is wrong with what is there
_NOT_WRITTEN = tuple(
    f"SQLITE_IOERR_{what}" for what in ("WRITE", "FSYNC", "DIR_FSYNC", "TRUNCATE", "SHMSIZE", "SHMOPEN", "DELETE")
)
# it does not answer: that is no word on what the file holds (where a read ends in EIO, SQLite says "malformed")
_NOT_READ = tuple(f"SQLITE_IOERR_{what}" for what in ("READ", "FSTAT", "SEEK", "ACCESS", "SHMMAP", "MMAP", "VNODE"))
_CUT = ("SQLITE_IOERR_SHORT_READ", "SQLITE_IOERR_DATA")
_DAMAGED = (
    "not a database",
    "malformed",
    "corrupt",
    "disk i/o",
    "could not decode",
    "can't decode",
    "no such table",
    "no such column",
)


def _no_handles_left() -> bool:
    """Whether this process could not open the files of one more memory."""
    opened: list[int] = []
    try:
        while len(opened) < HANDLES:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    finally:
        for handle in opened:
            os.close(handle)
    return False


def explained(error: Exception, doing: str, path: str) -> StoreError:
    """The error to raise for one of ``ERRORS``, met while ``doing`` something."""
    text, name = str(error), getattr(error, "sqlite_errorname", "")
    lower = text.lower()
    if "closed database" in lower:
        return StoreError("the memory is closed", got=text, where=path, code="closed", do="open it again: Memory(path)")
    if "locked" in lower or "busy" in lower:
        got, do = f"{text} after {BUSY_TIMEOUT_S:g} s", "look for a process that holds a long transaction() open"
        return StoreError("another process kept the memory locked", got=got, where=path, do=do, code="locked")
    if "full" in lower:
        do = "make room; the transaction was undone, what was acknowledged before is intact"
        return StoreError("the disk is full", got=text, where=path, do=do, code="disk_full")
    if "readonly" in lower or "read-only" in lower:
        do = "check the permissions of the folder"
        return StoreError("the memory cannot be written", got=text, where=path, do=do, code="read_only")
    if "unable to open" in lower and _no_handles_left():
        do = "close memories that are not in use (one a scope stays open), or raise the limit: ulimit -n"
        expected = f"{HANDLES} free file handles for every open memory"
        return StoreError(
            "the process may open no more files", got=text, expected=expected, where=path, do=do, code="too_many_files"
        )
    if "unable to open" in lower:
        do = "check the path and its permissions; SQLite writes its log beside the file, so the folder must be writable"
        return StoreError("the memory cannot be opened", got=text, where=path, do=do, code="cannot_be_opened")
    if name in _NOT_WRITTEN:
        do = "look for a quota, a limit on the size of files or a failing disk; what was acknowledged before is intact"
        return StoreError(
            "the disk does not take what is written", got=f"{text} ({name})", where=path, do=do, code="not_written"
        )
    if name in _NOT_READ:
        do = "look for a failing disk or a network share that is away, and open the memory again when it is back"
        return StoreError("the disk does not answer", got=f"{text} ({name})", where=path, do=do, code="not_read")
    other = name.startswith("SQLITE_IOERR_") and name not in _CUT  # no memory, no temporary folder, no locks, …
    if "not a database" in lower and _is_foreign(path):
        do = "give the path of a memory, or of a run folder with one"
        return StoreError("this file is not an Evolvent memory", got=text, where=path, do=do, code="not_a_memory")
    if any(word in lower for word in _DAMAGED) and not other:
        return damaged(text, path)
    if name == "SQLITE_CONSTRAINT_FOREIGNKEY":
        return StoreError(GONE, got=text, where=path, code="unknown_scope", do="open the memory again")
    return StoreError(f"{doing} the memory failed", got=text, where=path, code="failed")


def _is_foreign(path: str) -> bool:
    """Whether a file was never SQLite's: neither its first word nor the zeros that it reserves further on."""
    try:
        with open(path, "rb") as file:
            head = file.read(92)
    except OSError:
        return False
    return not head.startswith(b"SQLite format 3") and bytes(20) not in head
