"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import platform

from .syscalls import AARCH64, X86_64

LIBC = ctypes.CDLL(None, use_errno=True)
MACHINE = platform.machine()
NUMBERS = {"x86_64": X86_64, "aarch64": AARCH64}.get(MACHINE, {})
"""Number of each system call by name, on this machine; empty where we have no table."""

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38


class JailError(OSError):
    """A step of the confinement that the kernel refused; nothing is run then."""


def syscall(name: str, *arguments: object) -> int:
    """The system call ``name``; integers, bytes and ``None`` as arguments.

    Raises:
        JailError: the kernel refused, or this machine has no such call.
    """
    if name not in NUMBERS:
        raise JailError(38, f"{name}: no number for {MACHINE}")
    values = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(int(a or 0)) for a in arguments]  # type: ignore[call-overload]
    found = LIBC.syscall(ctypes.c_long(NUMBERS[name]), *values)
    if found < 0:
        error = ctypes.get_errno()
        raise JailError(error, f"{name}: {os.strerror(error)}")
    return found


def prctl(option: int, value: int = 0) -> None:
    """``prctl(option, value)``.

    Raises:
        JailError: the kernel refused.
    """
    if LIBC.prctl(ctypes.c_int(option), ctypes.c_ulong(value), *(ctypes.c_ulong(0),) * 3) != 0:
        error = ctypes.get_errno()
        raise JailError(error, f"prctl {option}: {os.strerror(error)}")


def drop_capabilities() -> None:
    """No capability is left, in any set; also those that a user namespace gave."""
    for capability in range(64):
        if LIBC.prctl(ctypes.c_int(PR_CAPBSET_DROP), ctypes.c_ulong(capability), *(ctypes.c_ulong(0),) * 3) != 0:
            break  # past the last one, or no right to drop: then there is none to lose
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    if LIBC.syscall(ctypes.c_long(NUMBERS["capset"]), ctypes.byref(header), ctypes.byref(data)) != 0:
        error = ctypes.get_errno()
        raise JailError(error, f"capset: {os.strerror(error)}")
