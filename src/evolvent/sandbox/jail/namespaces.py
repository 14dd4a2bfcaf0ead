"""A kernel's own view for one program: processes, network, mounts, names and messages, and a work folder in memory."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterable

from .kernel import LIBC, JailError, checked, syscall

WORK = "/w"
ZERO, _ZEROS = "/dev/zero", "/dev/full"
"""What is mapped of the first is memory of no process once it is unmapped; the second reads as zeros, too, and has no
maps."""
_NS, _CGROUP, _UTS, _IPC, _USER, _PID, _NET = (
    0x20000,
    0x2000000,
    0x4000000,
    0x8000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE, _REMOUNT = 1, 2, 4, 8, 4096, 16384, 1 << 18, 32
_RECURSIVE, _AT_FDCWD, _DETACH = 0x8000, -100, 2


def fork() -> int:
    """A child in namespaces of its own (0 in it, process 1 there); for an ordinary user also a user namespace.

    Raises:
        JailError: the kernel refused.
    """
    uid, gid = os.geteuid(), os.getegid()
    flags = _NS | _CGROUP | _UTS | _IPC | _PID | _NET | (0 if uid == 0 else _USER)
    pid = syscall("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0 and uid != 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    return pid


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if word is None else word.encode() for word in (source, target, kind)]
    mounted = LIBC.mount(*encoded, ctypes.c_ulong(flags), None if data is None else data.encode())
    checked(mounted, f"mount {source} on {target}")


def _harden(path: str, attributes: int, *, recursive: bool) -> None:
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)
    syscall("mount_setattr", _AT_FDCWD, path.encode(), _RECURSIVE if recursive else 0, wanted, len(wanted))


def build(
    place: str, visible: Iterable[str], hidden: Iterable[str], size: int, inodes: int, *, proc_stays: bool = False
) -> tuple[int, int, int]:
    """A root of ``visible`` paths, read-only, over the empty folder ``place``; ``hidden`` folders in them look empty.

    ``proc_stays``: the program sees the /proc of its own processes, whose links it can read, and no file.

    Returns:
        Three open folders: the work folder, a /proc of these processes only (the machine's where the kernel refuses a
        new one), and the machine's /proc. The program sees none of them, but for ``proc_stays``.

    Raises:
        JailError: the kernel refused a step.
    """
    _mount(None, "/", None, _REC | _PRIVATE)
    proc = outer = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    _mount("tmpfs", place, "tmpfs", _NOSUID | _NODEV, "size=256k,nr_inodes=1000,mode=755")
    for path in visible:
        _show(place, path)
    for path in hidden:
        if os.path.isdir(place + path):
            _mount("tmpfs", place + path, "tmpfs", _NOSUID | _NODEV | _RDONLY, "size=4k,nr_inodes=2,mode=555")
    if not os.path.lexists(place + "/tmp"):  # else something below it is shown
        os.symlink(WORK[1:], place + "/tmp")
    os.symlink(".." + WORK, place + "/dev/shm")  # where locks between processes are made
    if proc_stays:
        for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
            os.symlink("../proc/self/" + target, f"{place}/dev/{name}")
    work = place + WORK
    os.mkdir(work)
    _mount("tmpfs", work, "tmpfs", _NOSUID | _NODEV, f"size={size},nr_inodes={inodes},mode=700")
    os.mkdir(place + "/proc")
    try:  # an ordinary user may do it only where the machine's own is still to be seen: before the old root goes
        _mount("proc", place + "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    except JailError:  # a container that masks its /proc: the outer one serves, which knows more processes
        proc_stays, mounted = False, False
    else:
        proc, mounted = os.open(place + "/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), True
    os.chdir(place)
    syscall("pivot_root", b".", b".")
    checked(LIBC.umount2(b".", _DETACH), "the old root stays mounted")
    if not proc_stays:
        if mounted:
            checked(LIBC.umount2(b"/proc", _DETACH), "/proc stays mounted")
        os.rmdir("/proc")
    _harden("/", _RDONLY | _NOSUID | _NODEV, recursive=False)
    LIBC.sethostname(b"sandbox", ctypes.c_size_t(7))
    os.chdir(WORK)
    return os.open(WORK, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), proc, outer


def resize(size: int, inodes: int) -> None:
    """The work folder for a program with other limits than the slot was made for."""
    _mount("tmpfs", WORK, "tmpfs", _REMOUNT | _NOSUID | _NODEV, f"size={size},nr_inodes={inodes}")


def _show(place: str, path: str) -> None:
    target = place + path
    if os.path.lexists(target):
        return  # below one that is shown already
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.mkdir(target)
    elif os.path.exists(path):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    else:
        return
    _mount(_ZEROS if path == ZERO else path, target, None, _BIND | _REC)
    _harden(target, _RDONLY | _NOSUID | (0 if path.startswith("/dev/") else _NODEV), recursive=True)
