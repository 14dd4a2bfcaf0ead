"""What a running program uses, read from /proc by its slot."""

from __future__ import annotations

import os
import resource
import time
from typing import Any, NamedTuple

from . import tree

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _OWN, _TIMES, _THREADS, _STARTED, _SPACE, _RSS = 0, slice(10, 12), slice(10, 14), 16, 18, 19, 20
"""Places in the fields that _stat returns; of space: bytes of addresses, none where a process gave its memory back."""
_DEAD = (b"Z", b"X")
_ENDED = (FileNotFoundError, ProcessLookupError)
"""What /proc says of a process that ends between two looks at it: no fault of anyone."""
_DISK_EVERY_S = 0.05


class Use(NamedTuple):
    """Of all processes of a program together."""

    memory: int  # bytes resident
    cpu: float  # seconds, with those of children that ended and were waited for
    processes: int
    threads: int
    own: dict[tuple[int, int], float]  # seconds of each process alone, by its number and start


def _stat(proc: int, where: str) -> tuple[bytes, list[int]] | None:
    """State and the 21 fields behind it, as integers, of /proc/PID or of one of its threads; ``None``: it has ended."""
    try:
        fd = os.open(f"{where}/stat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    state, *fields = text.rsplit(b")", 1)[1].split()[:22]
    return state, [int(word) for word in fields]


def _seen(proc: int, pid: int) -> tuple[str, list[int]] | None:
    """Where in /proc a process shows what it holds, and its fields; ``None``: it has ended.

    That is its first thread, or another one where the first has ended before them and shows nothing. Of one that is
    dead and waits to be asked for the place is empty.
    """
    if (found := _stat(proc, str(pid))) is None:
        return None
    state, fields = found
    if state not in _DEAD:
        return str(pid), fields
    for thread in _names(proc, f"{pid}/task") if fields[_THREADS] > 1 else ():
        living = _stat(proc, where := f"{pid}/task/{thread}")
        if living is not None and living[0] not in _DEAD:
            fields[_SPACE], fields[_RSS] = living[1][_SPACE], living[1][_RSS]
            return where, fields
    fields[_THREADS] = fields[_RSS] = 0
    return "", fields


def _names(proc: int, where: str) -> list[str]:
    """What a folder of /proc lists; nothing where its process has ended, before or while it was listed.

    Raises:
        OSError: it may not be read.
    """
    try:
        fd = os.open(where, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
    except _ENDED:
        return []
    try:
        return os.listdir(fd)
    except _ENDED:
        return []
    finally:
        os.close(fd)


def descendants(proc: int, root: int) -> list[int]:
    """Every process below ``root``, by the parents that /proc names."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(proc):
        if name.isdigit() and (about := _stat(proc, name)) is not None:
            children.setdefault(about[1][_PARENT], []).append(int(name))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def use(proc: int, pids: list[int]) -> Use:
    """What the processes use now."""
    memory = ticks = threads = processes = 0
    own: dict[tuple[int, int], float] = {}
    for pid in pids:
        if (seen := _seen(proc, pid)) is None:
            continue
        _, fields = seen
        processes += fields[_THREADS] > 0
        memory += fields[_RSS] * _PAGE
        ticks += sum(fields[_TIMES])
        threads += fields[_THREADS]
        own[pid, fields[_STARTED]] = sum(fields[_OWN]) / _TICKS
    return Use(memory, ticks / _TICKS, processes, threads, own)


def deleted_bytes(proc: int, pids: list[int], folder: int, most: int) -> int:
    """Bytes of files below the folder that have no name any more and that the processes hold open or mapped.

    How long a file is that is mapped alone nobody tells: it counts with ``most``, the limit of one file. What a process
    holds that lives and may not be read is ``tree.UNKNOWN``.
    """
    device = os.fstat(folder).st_dev
    below = os.fsencode(os.readlink(f"self/fd/{folder}", dir_fd=proc)) + b"/"
    sizes: dict[int, int] = {}
    mapped: set[int] = set()
    for pid in pids:
        if not (seen := _seen(proc, pid)) or not seen[0]:
            continue
        try:
            sizes |= _opened(proc, seen[0], device)
            mapped |= _mapped(proc, seen[0], below)
        except _ENDED:
            continue
        except OSError:  # of one that is about to end the kernel refuses it, too: that has no memory any more
            if (again := _seen(proc, pid)) and again[0] and again[1][_SPACE]:
                return tree.UNKNOWN
    return sum(sizes.values()) + most * len(mapped - sizes.keys())


def unknown(proc: int, pid: int, folder: int) -> bool:
    """Whether what a process holds cannot be measured, though it did nothing yet: the machine's doing."""
    return deleted_bytes(proc, [pid], folder, 0) >= tree.UNKNOWN


def _opened(proc: int, where: str, device: int) -> dict[int, int]:
    """Bytes, by inode, of the files without a name on a device that are open there."""
    sizes: dict[int, int] = {}
    for name in _names(proc, f"{where}/fd"):
        try:
            status = os.stat(f"{where}/fd/{name}", dir_fd=proc)
        except _ENDED:
            continue
        if status.st_nlink == 0 and status.st_dev == device:
            sizes[status.st_ino] = status.st_blocks * 512
    return sizes


def _mapped(proc: int, where: str, below: bytes) -> set[int]:
    """Inodes of the files without a name below a folder that are mapped there."""
    with open(os.open(f"{where}/maps", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc), "rb") as file:
        return {int(line.split(None, 5)[4]) for line in file if line.endswith(b" (deleted)\n") and below in line}


class Watch:
    """Peaks of a running program, and the first limit it passed."""

    def __init__(self, limits: dict[str, Any], proc: int, folder: int | None, pids: tuple[int, int]) -> None:
        """``folder`` where its disk must be measured; ``pids`` of the slot and of the program, as ``proc`` has them."""
        self.limits, self.proc, self.folder = limits, proc, folder
        self.slot, self.program = pids
        self.memory = self.processes = self.threads = 0
        self.cpu = 0.0
        self._own: dict[tuple[int, int], float] = {}
        self.started = time.monotonic()
        self._disk_at = 0.0

    def look(self, *, tools: bool) -> str | None:
        """The name of the limit that is exceeded now, or ``None``."""
        now, limits = time.monotonic() - self.started, self.limits
        if limits["wall"] is not None and now > limits["wall"]:
            return "wall"
        pids = descendants(self.proc, self.slot) if tools else [self.program]
        used = use(self.proc, pids)
        self.memory = max(self.memory, used.memory)
        self.processes, self.threads = max(self.processes, used.processes), max(self.threads, used.threads)
        if used.memory > limits["memory"] * 1.05:
            return "memory"
        self._own |= used.own
        # times of children that nobody waits for are in none of their parents: what was last seen of them counts
        waited = used.cpu + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        self.cpu = max(self.cpu, waited, sum(self._own.values()))
        if self.cpu > limits["cpu"]:
            return "cpu"
        if tools and used.processes > limits["processes"]:
            return "processes"
        if used.threads > limits["threads"] + (limits["processes"] if tools else 1):
            return "threads"
        if self.folder is not None and now - self._disk_at > _DISK_EVERY_S:
            self._disk_at = now
            return self.files(pids)
        return None

    def files(self, pids: list[int] | None = None) -> str | None:
        """The same of its files alone; at the end also what it wrote between two looks."""
        if self.folder is None:
            return None
        total, count = tree.size(self.folder, self.limits["disk"], self.limits["inodes"])
        total += deleted_bytes(self.proc, pids, self.folder, self.limits["file"]) if pids else 0
        return "inodes" if count > self.limits["inodes"] else "disk" if total > self.limits["disk"] else None
