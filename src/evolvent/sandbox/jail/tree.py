"""A program's files from outside: put in, brought back, measured, removed. By file descriptor; no link is followed.

Everything below the folder was made by a program that may be hostile: links, pipes, devices, trees of any depth and
modes that nobody may read.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import stat
from collections.abc import Mapping, Sequence

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEP = 32
UNKNOWN = 1 << 60
"""Bytes that count for what cannot be measured: more than any limit."""
_MOVED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE)
"""What a name that was listed says when it was removed, or another thing was put in its place."""


def put(root: int, files: Mapping[str, bytes], uid: int | None) -> None:
    """Write ``files`` (relative name → content) below ``root``; they belong to ``uid`` and may be executed."""
    for name, content in files.items():
        *folders, last = name.split("/")
        at = os.dup(root)
        try:
            for folder in folders:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, 0o755, dir_fd=at)
                inner = os.open(folder, _FOLDER, dir_fd=at)
                os.close(at)
                at = inner
                _own(at, uid)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(last, flags, 0o755, dir_fd=at), "wb") as file:
                file.write(content)
                _own(file.fileno(), uid)
        finally:
            os.close(at)


def take(root: int, patterns: Sequence[str], most_bytes: int, most_files: int) -> tuple[dict[str, bytes], list[str]]:
    """Regular files below ``root`` whose relative name fits a pattern, and the names of those that were left behind.

    Left behind: what is no regular file, has two links, cannot be read, or exceeds ``most_bytes`` or ``most_files``.
    """
    found: dict[str, bytes] = {}
    left: list[str] = []
    seen = total = 0
    stack = [""]
    while stack:
        prefix = stack.pop()
        try:
            fd = _inner(root, prefix)  # when it is visited: all at once would take a descriptor each
        except OSError:
            if not prefix:
                raise
            left.append(prefix[:-1])
            continue
        try:
            # scandir of the inner folders reads a copy of fd, whose place it would share
            names = sorted(os.listdir(fd))[:most_files] if patterns else []
            for name in names:
                path, seen = prefix + name, seen + 1
                folder = _is_folder(fd, name)
                if folder and path.count("/") < _DEEP and seen < 10 * most_files:
                    stack.append(path + "/")
                elif not folder and any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns):
                    content = _content(fd, name, most_bytes - total) if len(found) < most_files else None
                    if content is None:
                        left.append(path)
                    else:
                        found[path] = content
                        total += len(content)
        except OSError:
            left.append(prefix)
        finally:
            os.close(fd)
    return found, left[:100]


def _inner(root: int, prefix: str) -> int:
    """The folder ``a/b/`` below ``root``, opened name by name: a link is followed nowhere on the way."""
    fd = os.dup(root)
    for name in prefix.split("/")[:-1]:
        try:
            inner = os.open(name, _FOLDER, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def size(root: int, most_bytes: int, most_files: int) -> tuple[int, int]:
    """Bytes on disk and entries below ``root``; stops counting where either exceeds its maximum.

    Bytes are ``UNKNOWN`` where something that is there cannot be looked at: as much may lie in it.
    """
    total = count = 0
    stack = [(fd := os.dup(root), os.listdir(fd))]
    try:
        # a folder stays open while what is below it is counted (it may be moved): only depth costs descriptors
        while stack and count <= most_files and total <= most_bytes:
            fd, names = stack[-1]
            if not names:
                os.close(stack.pop()[0])
                continue
            name = names.pop()
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                count, total = count + 1, total + status.st_blocks * 512
                if stat.S_ISDIR(status.st_mode):
                    stack.append((inner := _readable(name, fd), []))
                    stack[-1][1].extend(os.listdir(inner))
            except OSError as error:
                if error.errno not in _MOVED:
                    return UNKNOWN, count
            if len(stack) > 2 * _DEEP:
                count = most_files + 1
    finally:
        for fd, _ in stack:
            os.close(fd)
    return total, count


def _readable(name: str, at: int) -> int:
    """A folder, opened to list it. Where its mode forbids it and it is ours, it has another one for that moment."""
    try:
        return os.open(name, _FOLDER, dir_fd=at)
    except PermissionError:
        held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:  # by what is held and not by its name, where the program may have put a link meanwhile
        here, mode = f"/proc/self/fd/{held}", stat.S_IMODE(os.fstat(held).st_mode)
        os.chmod(here, mode | 0o700)
        try:
            return os.open(here, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            os.chmod(here, mode)
    finally:
        os.close(held)


def clear(root: int) -> None:
    """Remove everything below ``root``. Inner folders are moved up first, so that depth costs nothing.

    Raises:
        OSError: something cannot be removed.
    """
    names = os.listdir(root)
    number = 0
    while names:
        name = names.pop()
        if not _is_folder(root, name):
            os.unlink(name, dir_fd=root)
            continue
        os.chmod(name, 0o700, dir_fd=root)  # the program is dead: nobody swaps the folder for a link
        fd = os.open(name, _FOLDER, dir_fd=root)
        try:
            for inner in os.listdir(fd):
                if _is_folder(fd, inner):
                    os.chmod(inner, 0o700, dir_fd=fd)
                    number += 1
                    moved = f".cleared-{os.getpid()}-{number}-{os.urandom(6).hex()}"
                    os.rename(inner, moved, src_dir_fd=fd, dst_dir_fd=root)
                    names.append(moved)
                else:
                    os.unlink(inner, dir_fd=fd)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=root)


def _is_folder(at: int, name: str) -> bool:
    return stat.S_ISDIR(os.lstat(name, dir_fd=at).st_mode)


def _own(fd: int, uid: int | None) -> None:
    if uid is not None:
        os.fchown(fd, uid, uid)


def _content(at: int, name: str, most: int) -> bytes | None:
    try:
        fd = os.open(name, _OPEN, dir_fd=at)
    except OSError:
        return None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > most:
            return None
        content = file.read(most + 1)
    return content if len(content) <= most else None
