"""What a mechanism keeps inside and what it does not, in words."""

from __future__ import annotations

import os
import platform
import sys

from evolvent.sandbox.mechanisms import Mechanism
from evolvent.sandbox.result import Confinement


def described(mechanism: Mechanism, profile: str) -> Confinement:
    """The confinement of a mechanism on this machine."""
    root = os.geteuid() == 0
    facts = {
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "landlock": f"ABI {mechanism.landlock}" if mechanism.landlock else "not used",
        "python": sys.executable,
    }
    if not mechanism.confines:
        facts["user"] = "root" if root else "this user"
        everything = "EVERYTHING: programs read, write, delete, connect and signal with this user's rights"
        limits = ("limits of wall time, processor time, memory, output and processes", "a clean environment")
        daemons = "processes that leave their session are killed only where they can be found"
        return Confinement(mechanism.name, profile, 0, limits, (everything, daemons), facts)
    inside, owned = mechanism.namespaces, not root
    facts["user"] = "another one for each run" if root else "this user, without any privilege"
    covered = [
        "files: only the work folder, the standard library, system libraries and what was named can be opened",
        f"no network and no {'connections to ' if profile == 'browser' else ''}local sockets; no messages, shared "
        "memory, keys or signals to other programs",
        "system calls: a list of those that are allowed; every other one is refused, of new kernels as well",
        "no privilege, no way to gain one (no_new_privs), no capability",
        "limits of Limits, kept by the kernel or by a watcher outside; the harness may be busy, stopped or dead",
        "after a run every process of it is killed and every file removed; so they are when the harness is killed",
        "its environment, memory and open files hold nothing of the harness",
    ]
    if inside:
        covered.append(
            "namespaces of its own for processes, mounts, network, messages; files in memory, limited exactly"
        )
    if profile == "browser":
        covered.append("pages: loaded from memory, of nobody's origin, every request refused; see sandbox/browser.py")
    missing = [
        "defects of the kernel itself; side channels of the processor; the load that it puts on processor and memory",
        "memory is limited by process at once, in sum by looking every 20 ms: many processes pass it for a moment",
        "what lies in its pipes and sockets is no process's memory: at most what its open files hold",
        "a lock on a library or on another file that it may read: other programs that ask for one wait for its end",
    ]
    if profile != "python":
        tick = 250 if profile == "browser" else 20 if inside else 50
        more = "" if inside or not owned else ", and 64 more: the kernel counts all that this user runs"
        missing += [
            "processor time of children that nobody waits for and that end between two looks",
            f"processes are counted every {tick} ms: a fork bomb has for a moment as many as the limits of processes "
            f"and threads allow together{more}",
        ]
    if inside and (profile == "browser" or (profile == "tools" and mechanism.landlock)):
        missing.append("the /proc of its own processes stands there: their numbers and links, and no file can be read")
    if profile == "browser":
        missing.append(
            "memory of the browser by looking every 250 ms alone; Chromium's own sandbox is off inside this one"
        )
    if not inside:
        missing += [
            "whether a file exists, its size and times, and where a link points: stat and readlink are not refused",
            "disk in sum is measured every 50 ms, so that more than the limit can be written in between",
            "what cannot be measured counts as over the limit of disk: a program that may be run and not read ends so",
            "the machine's name, and how busy it is",
            "when a file that it may read was read last: it moves that time, and the next run can see it",
        ]
    if not inside and owned:
        missing += [
            "the program has this user's number: one defect of the filter would reach this user's processes and files",
            "chmod and times of files are pretended: what a linker writes is executable only once it was brought back",
        ]
    if mechanism.landlock == 0:
        missing.append("no Landlock here: the mount namespace alone decides about files")
    elif mechanism.landlock < 6 and not inside:
        missing.append("this kernel's Landlock does not know signals: the system call filter alone refuses them")
    if platform.machine() != "x86_64":
        missing.append("our suite was never run by us on this processor: `evolvent sandbox check --attempts` runs it")
    return Confinement(mechanism.name, profile, mechanism.landlock, tuple(covered), tuple(missing), facts)
