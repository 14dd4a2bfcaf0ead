"""The steps that confine the calling process, in their order. A step that fails ends it before the program starts."""

from __future__ import annotations

import errno
import math
import os
import resource
import signal
from typing import Any

from . import kernel, seccomp
from .kernel import JailError, prctl
from .landlock import Ruleset

Rule = tuple[int, str, bool]
"""An open path, what is granted there, whether it is a folder."""


def user_tasks(uid: int) -> int:
    """Threads that the user has on this machine: RLIMIT_NPROC counts them all."""
    count = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                with open(f"/proc/{name}/stat", "rb") as file:
                    count += int(file.read().rsplit(b")", 1)[1].split()[17])
        except OSError:
            continue  # ended meanwhile
    return count


def grants(settings: dict[str, Any], rules: list[Rule], work: int) -> Ruleset | None:
    """The Landlock rules of a program whose work folder is open as ``work``; ``None`` where Landlock is not used."""
    if not settings["abi"]:
        return None
    ruleset = Ruleset(settings["abi"])
    for fd, mode, folder in rules:
        ruleset.allow(fd, mode, folder=folder)
    if settings["namespaces"]:  # Python lists the folders that lead to what is shown, to find modules
        root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        ruleset.allow(root, "l", folder=True)
        os.close(root)
    ruleset.allow(work, "rw" if settings["profile"] == "python" else "rwx", folder=True)
    return ruleset


def limit(limits: dict[str, Any], tasks: int, profile: str) -> None:
    """The kernel's limits of one process; ``tasks`` of the user that exist already are allowed on top.

    A browser reserves far more addresses than it fills: its memory is what the slot sees.
    """
    tools, browser = profile != "python", profile == "browser"
    cpu = max(1, math.ceil(limits["cpu"]))
    for name, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, limits["file"], limits["file"]),
        (resource.RLIMIT_NOFILE, files := 1024 if browser else 256 if tools else 64, files),
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_STACK, 8 << 20, 8 << 20),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        (resource.RLIMIT_RTPRIO, 0, 0),
        (resource.RLIMIT_NICE, 0, 0),
        *(() if browser else ((resource.RLIMIT_AS, limits["memory"], limits["memory"]),)),
    ):
        _lower(name, soft, hard)
    threads = limits["threads"] + (limits["processes"] if tools else 1)
    _lower(resource.RLIMIT_NPROC, tasks + threads, tasks + threads)


def _lower(name: int, soft: int, hard: int) -> None:
    most = resource.getrlimit(name)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(name, (soft, hard))


def confine(settings: dict[str, Any], limits: dict[str, Any], ruleset: Ruleset | None, given: dict[str, Any]) -> int:
    """Confine this process for good. Returns the listener for refused calls, or -1 where there is none.

    ``given``: ``uid`` to become or ``None``, ``parent`` (pid), ``tasks`` that the user has, the built ``filter``.

    Raises:
        OSError: the kernel refused a step; nothing may be run then.
    """
    uid = given["uid"]
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if settings["confined"]:
        kernel.LIBC.syscall(kernel.NUMBERS["keyctl"], 1, None, 0, 0, 0)  # an empty keyring
        kernel.drop_capabilities()
    limit(limits, given["tasks"], settings["profile"])
    prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # after the change of user, which undoes it
    if os.getppid() != given["parent"]:
        raise JailError(errno.ESRCH, "the slot is gone")
    if not settings["confined"]:
        return -1
    prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if ruleset is not None:
        ruleset.enter()
    try:
        return seccomp.install(given["filter"][True], os.getpid(), notify=True)
    except JailError as error:
        if error.errno not in (errno.EBUSY, errno.EINVAL, errno.EACCES):
            raise
    return seccomp.install(given["filter"][False], os.getpid(), notify=False)


def filters(settings: dict[str, Any], uid: int | None) -> dict[bool, bytes]:
    """The system call filters with and without a listener."""
    inside = bool(settings["namespaces"])
    kind = {
        "tools": settings["profile"] != "python",
        "browser": settings["profile"] == "browser",
        "scoped": inside or settings["abi"] >= 6,
        "truncation": inside or settings["abi"] >= 3,
        "groups": inside,
        "owner": not inside and uid is None,
    }
    return {notify: seccomp.build(seccomp.Filter(notify=notify, **kind)) for notify in (True, False)}
