"""System calls that Python has no function for."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform

from .syscalls import AARCH64, X86_64

LIBC = ctypes.CDLL(None, use_errno=True)
MACHINE = platform.machine()
NUMBERS = {"x86_64": X86_64, "aarch64": AARCH64}.get(MACHINE, {})
"""Number of each system call by name, on this machine; empty where we have no table."""

PR_SET_PDEATHSIG, PR_CAPBSET_DROP = 1, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38


class JailError(OSError):
    """A step of the confinement that the kernel refused; nothing is run then."""


def checked(found: int, what: str) -> int:
    """What a function of the C library returned.

    Raises:
        JailError: the kernel refused ``what``.
    """
    if found < 0:
        error = ctypes.get_errno()
        raise JailError(error, f"{what}: {os.strerror(error)}")
    return found


def syscall(name: str, *arguments: object) -> int:
    """The system call ``name``; integers, bytes and ``None`` as arguments.

    Raises:
        JailError: the kernel refused, or this machine has no such call.
    """
    if name not in NUMBERS:
        raise JailError(38, f"{name}: no number for {MACHINE}")
    values = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(int(a or 0)) for a in arguments]  # type: ignore[call-overload]
    return checked(LIBC.syscall(ctypes.c_long(NUMBERS[name]), *values), name)


def prctl(option: int, value: int = 0) -> None:
    """``prctl(option, value)``.

    Raises:
        JailError: the kernel refused.
    """
    checked(LIBC.prctl(ctypes.c_int(option), ctypes.c_ulong(value), *(ctypes.c_ulong(0),) * 3), f"prctl {option}")


def drop_capabilities() -> None:
    """No capability is left, in any set; also those that a user namespace gave."""
    with contextlib.suppress(JailError):  # past the last one, or no right to drop: then there is none to lose
        for capability in range(64):
            prctl(PR_CAPBSET_DROP, capability)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    checked(LIBC.syscall(ctypes.c_long(NUMBERS["capset"]), ctypes.byref(header), ctypes.byref(data)), "capset")
