"""The fork server: a warm interpreter that holds nothing, and makes a slot for each message.

It is started with a clean environment, and learns neither programs nor their inputs: those go to the slots. When the
harness closes its end or dies, it waits for the slots and removes their folder.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import time
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from . import namespaces, slot, tree
from .confine import Rule
from .kernel import PR_SET_CHILD_SUBREAPER, prctl
from .watch import descendants

_CLEAN_S = 12.0  # longer than a slot takes to kill what it started


def main() -> None:
    """``argv``: the file descriptor of the socket; standard input: the settings as JSON."""
    link, settings = socket.socket(fileno=int(sys.argv[1])), json.loads(sys.stdin.read())
    sys.argv[:] = [""]
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard) if hard > 0 else 4096, hard))
    os.umask(0o022)
    open_fds = _aliases(settings["aliases"], settings["path"])  # first: they have numbers of their own
    rules = _rules(settings)
    sys.meta_path.append(_Named(settings["packages"], settings["path"]))
    for name in settings["preload"]:
        importlib.import_module(name)
    sys.dont_write_bytecode = True
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # slots are reaped by the kernel
    with contextlib.suppress(ConnectionError):  # the harness has died
        link.send(b"ready")
        while True:
            data, fds, _, _ = socket.recv_fds(link, 4096, 4)
            if not data:
                break
            _slot(fds[0], link, settings, rules, open_fds)
    link.close()
    _end_slots()
    base = os.open(settings["base"], os.O_RDONLY | os.O_DIRECTORY)
    tree.clear(base)
    os.rmdir(settings["base"])


class _Named:
    """Finds the named packages in their folders; what lies beside them is not there."""

    def __init__(self, names: list[str], folders: list[str]) -> None:
        self.names, self.folders = frozenset(names), folders

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The package's place; what is inside of it Python finds itself."""
        if name not in self.names or path is not None:
            return None
        return PathFinder.find_spec(name, self.folders)


def _slot(fd: int, link: socket.socket, settings: dict[str, Any], rules: list[Rule], open_fds: list[int]) -> None:
    own = socket.socket(fileno=fd)
    try:
        pid = namespaces.fork() if settings["namespaces"] else os.fork()
    except OSError as error:
        own.send(json.dumps({"error": str(error)}).encode())
        pid = -1
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        link.close()
        slot.run(own, settings, rules, open_fds)
    own.close()


def _end_slots() -> None:
    """Wait until the slots have cleaned up; what is left of one that was killed is killed as well."""
    started, proc = time.monotonic(), os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    while True:
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return  # none is left
        if time.monotonic() - started > _CLEAN_S:
            for pid in descendants(proc, os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _rules(settings: dict[str, Any]) -> list[Rule]:
    """Open what the programs may read; a path that is not there is left out."""
    found: list[Rule] = []
    for path, mode in settings["rules"]:
        try:
            found.append((os.open(path, os.O_PATH | os.O_CLOEXEC), mode, os.path.isdir(path)))
        except FileNotFoundError:
            continue
    return found


def _aliases(folders: list[str], packages: list[str]) -> list[int]:
    """Library folders that the program's user cannot reach by path (below /root): reached by an open folder instead.

    The paths of ``sys.path``, of imported packages and of ``packages`` are changed to that.
    """
    opened: list[int] = []
    for folder in folders:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        high = 200 + len(opened)
        os.dup2(fd, high)
        os.close(fd)
        opened.append(high)
        here = f"/proc/self/fd/{high}"
        moved = [
            sys.path,
            packages,
            *(m.__path__ for m in list(sys.modules.values()) if isinstance(getattr(m, "__path__", 0), list)),
        ]
        for paths in moved:
            paths[:] = [here + p[len(folder) :] if p == folder or p.startswith(folder + "/") else p for p in paths]
    sys.path_importer_cache.clear()
    return opened
