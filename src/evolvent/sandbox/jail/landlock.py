"""Landlock: which files a process and its children may open. Everything not listed is denied.

ABI 1 (Linux 5.13) has files, 2 renames between folders, 3 truncation, 4 TCP, 5 ioctl of devices, 6 signals and abstract
sockets. It never covers: stat, readlink, chdir, chmod, extended attributes; what matters of that is refused by seccomp.
"""

from __future__ import annotations

import os
import struct

from .kernel import JailError, syscall

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # what may be granted for a path that is no folder
_ALL = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_NEWEST = 6


def abi() -> int:
    """The Landlock version of this kernel, 0 where it has none or it is switched off."""
    try:
        return syscall("landlock_create_ruleset", None, 0, 1)
    except JailError:
        return 0


class Ruleset:
    """Grants that a process takes upon itself with ``enter``; ``version`` pins an older ABI."""

    def __init__(self, version: int) -> None:
        self.full = _ALL.get(version, (1 << 16) - 1)
        net, scope = (3 if version >= 4 else 0), (3 if version >= _NEWEST else 0)
        size = 8 if version < 4 else 16 if version < _NEWEST else 24
        self.fd = syscall("landlock_create_ruleset", struct.pack("=QQQ", self.full, net, scope)[:size], size, 0)

    def allow(self, fd: int, mode: str, *, folder: bool) -> None:
        """Grant below the open ``fd``: ``l`` list, ``r`` read, ``rx`` read and execute, ``rw``, ``rwx``."""
        special = MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV
        access = {
            "l": READ_DIR,
            "r": READ_FILE | READ_DIR,
            "rx": READ_FILE | READ_DIR | EXECUTE,
            "rw": self.full & ~(EXECUTE | special),
            "rwx": self.full & ~special,
        }[mode] & self.full
        if not folder:
            access &= _FILE
        syscall("landlock_add_rule", self.fd, 1, struct.pack("=Qi", access, fd), 0)

    def enter(self) -> None:
        """From here on this process and its children are bound; needs no_new_privs."""
        syscall("landlock_restrict_self", self.fd, 0)
        os.close(self.fd)
