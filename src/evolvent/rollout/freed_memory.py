"""Passes over a rollout ask for the same large blocks again and again: keep them, do not return them to the system.

By default the allocator of glibc hands freed blocks back, and every pass pays for fresh pages: 10 % of a pass of the
joint policy with 27 agents, 17 % with 3.
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # numbers of glibc's malloc.h
_LARGEST_MMAP_THRESHOLD = 32 * 2**20


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, up to the most it ever used; ``False`` where glibc does not allocate."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return False
    kept = libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    return bool(kept and libc.mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD))
