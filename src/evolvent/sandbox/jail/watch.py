"""What a running program uses, read from /proc by its slot."""

from __future__ import annotations

import os
import resource
import time
from typing import Any, NamedTuple

from . import tree

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _OWN, _TIMES, _THREADS, _STARTED, _RSS = 0, slice(10, 12), slice(10, 14), 16, 18, 20
"""Places in what _stat returns."""
_DISK_EVERY_S = 0.05


class Use(NamedTuple):
    """Of all processes of a program together."""

    memory: int  # bytes resident
    cpu: float  # seconds, with those of children that ended and were waited for
    processes: int
    threads: int
    own: dict[tuple[int, int], float]  # seconds of each process alone, by its number and start


def _stat(proc: int, pid: int | str) -> list[int] | None:
    """The 21 fields of /proc/PID/stat behind the state, as integers."""
    try:
        fd = os.open(f"{pid}/stat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    state, *words = text.rsplit(b")", 1)[1].split()[:22]
    fields = [int(word) for word in words]
    if state == b"Z" and fields[_THREADS] <= 1:  # it is dead, and waits to be asked for
        fields[_THREADS] = fields[_RSS] = 0
    return fields


def descendants(proc: int, root: int) -> list[int]:
    """Every process below ``root``, by the parents that /proc names."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(proc):
        if name.isdigit() and (fields := _stat(proc, name)) is not None:
            children.setdefault(fields[_PARENT], []).append(int(name))
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
        fields = _stat(proc, pid)
        if fields is None:
            continue
        processes += fields[_THREADS] > 0
        memory += fields[_RSS] * _PAGE
        ticks += sum(fields[_TIMES])
        threads += fields[_THREADS]
        own[pid, fields[_STARTED]] = sum(fields[_OWN]) / _TICKS
    return Use(memory, ticks / _TICKS, processes, threads, own)


def deleted_bytes(proc: int, pids: list[int], folder: int, most: int) -> int:
    """Bytes of files below the folder that have no name any more and that the processes hold open or mapped.

    How long a file is that is mapped alone nobody tells: it counts with ``most``, the limit of one file.
    """
    device = os.fstat(folder).st_dev
    below = os.fsencode(os.readlink(f"self/fd/{folder}", dir_fd=proc)) + b"/"
    sizes: dict[int, int] = {}
    mapped: set[int] = set()
    for pid in pids:
        try:
            opened = os.open(f"{pid}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
        except OSError:
            continue
        try:
            names = os.listdir(opened)
        finally:
            os.close(opened)
        for name in names:
            try:
                status = os.stat(f"{pid}/fd/{name}", dir_fd=proc)
            except OSError:
                continue
            if status.st_nlink == 0 and status.st_dev == device:
                sizes[status.st_ino] = status.st_blocks * 512
        try:
            with open(os.open(f"{pid}/maps", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc), "rb") as file:
                for line in file:
                    if line.endswith(b" (deleted)\n") and below in line:
                        mapped.add(int(line.split(None, 5)[4]))
        except OSError:
            continue
    return sum(sizes.values()) + most * len(mapped - sizes.keys())


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
