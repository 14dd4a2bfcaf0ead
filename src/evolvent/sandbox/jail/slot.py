"""A slot: a process outside the confinement that makes a place for one program, runs it, and cleans up after it.

It watches the limits (also while the harness is busy or stopped), answers refused system calls, kills every process
that the program left, and removes its files; also when the harness dies, whose end of the socket then closes.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
import socket
import stat
import time
from typing import Any

from . import guest, namespaces, seccomp, tree
from .confine import Rule, confine, filters, grants, user_tasks
from .kernel import PR_SET_CHILD_SUBREAPER, JailError, prctl, syscall
from .watch import Watch, descendants, unknown

TICK_S, TICK_SCAN_S, TICK_BROWSER_S = 0.02, 0.05, 0.25
KILL_S = 10.0
_HIGH = 100


class Slot:
    """State of one slot. ``link`` is its socket to the harness."""

    def __init__(self, link: socket.socket, settings: dict[str, Any], rules: list[Rule], open_fds: list[int]) -> None:
        self.link, self.settings, self.rules, self.open_fds = link, settings, rules, open_fds
        self.tools = settings["profile"] != "python"
        self.inside = bool(settings["namespaces"])
        self.uid = _some_uid(settings["uids"])
        self.refused: dict[str, int] = {}
        self.folder = ""

    def prepare(self) -> None:
        """Make the place, and hand its work folder to the harness."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # else a program could end the slot, and its own bad result
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        os.setsid()
        s = self.settings
        if self.inside:
            size, inodes = s["limits"]["disk"], s["limits"]["inodes"]
            # compilers look up where they are in /proc; without Landlock its files could be read
            proc_stays = s["profile"] == "browser" or (self.tools and s["abi"] > 0)
            self.work, self.proc, self.outer = namespaces.build(
                s["root"], s["visible"], s["hidden"], size, inodes, proc_stays=proc_stays
            )
            if s["profile"] == "browser" and self.proc == self.outer:
                raise JailError(errno.EPERM, "a /proc of its own is refused, and Chromium does not start without one")
        else:
            self.folder = os.path.join(s["base"], os.urandom(8).hex())
            os.mkdir(self.folder, 0o700)
            self.work = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self.proc = self.outer = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if self.uid is not None:
            os.fchown(self.work, self.uid, self.uid)
        self.filter = filters(s, self.uid) if s["confined"] else {}
        counted = not self.inside and self.uid is None
        self.tasks = user_tasks(os.getuid()) + 64 if counted else 2
        path = namespaces.WORK if self.inside else self.folder
        self.say({"ready": path, "uid": self.uid}, [self.work])

    def say(self, message: dict[str, Any], fds: list[int] | None = None) -> None:
        """One message to the harness; one that has gone does not matter."""
        with contextlib.suppress(OSError):  # its end is closed: the next read says so
            socket.send_fds(self.link, [json.dumps(message).encode()], fds or [])

    def serve(self) -> None:
        """Wait for a program, run it, report, and clean up."""
        data, fds, _, _ = socket.recv_fds(self.link, 1 << 16, 64)
        if data == b"go":
            config = json.loads(os.pread(fds[0], os.fstat(fds[0]).st_size, 0))
            self._run(config, fds[1:])
            while self.link.recv(1 << 16):
                pass  # the harness brings files back, and then closes its end

    def clean(self) -> None:
        """Nothing is left on disk."""
        if self.folder:
            os.chdir("/")
            tree.clear(self.work)
            os.rmdir(self.folder)

    def _run(self, config: dict[str, Any], fds: list[int]) -> None:
        limits = config["limits"]
        if self.inside and (limits["disk"], limits["inodes"]) != tuple(
            self.settings["limits"][name] for name in ("disk", "inodes")
        ):
            namespaces.resize(limits["disk"], limits["inodes"])
        mine, its = socket.socketpair()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(config, fds, its, parent)
        its.close()
        for fd in fds:
            os.close(fd)
        pidfd = syscall("pidfd_open", pid, 0)
        said = mine.recv(4096)
        hello: dict[str, Any] = json.loads(said) if said else {"error": "it died while it was being confined"}
        if not self.inside and "error" not in hello and unknown(self.proc, hello["inner"], self.work):
            hello["error"] = "/proc does not show here what a program holds open, so that its disk cannot be limited"
        if "error" in hello:
            self._end_all(pid)
            self.say({"error": hello["error"]})
            return
        listener = self._listener(pidfd, hello["listener"])
        self.say({"running": hello["outer"], "listener": listener >= 0})
        measured = None if self.inside else self.work
        watch = Watch(limits, self.proc, measured, (int(os.readlink("self", dir_fd=self.proc)), hello["inner"]))
        mine.send(b"go")
        mine.close()
        exceeded = self._watch(watch, pid, pidfd, listener) or watch.files()
        seconds = time.monotonic() - watch.started
        status = self._end_all(pid)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.say(
            {
                "end": status,
                "limit": exceeded,
                "seconds": seconds,
                "cpu": max(watch.cpu, used.ru_utime + used.ru_stime),
                "memory": max(watch.memory, used.ru_maxrss * 1024),
                "processes": watch.processes,
                "threads": watch.threads,
                "refused": self.refused if listener >= 0 else None,
            }
        )

    def _become(self, config: dict[str, Any], fds: list[int], ctl: socket.socket, parent: int) -> None:
        """In the child: confine it, report to the slot, and start the program."""
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.setsid()
            os.fchdir(self.work)
            pids = {"outer": os.readlink("self", dir_fd=self.outer), "inner": os.readlink("self", dir_fd=self.proc)}
            _die_first(self.proc)
            ruleset = grants(self.settings, self.rules, self.work) if self.settings["confined"] else None
            line = _high(ctl.detach())
            if ruleset is not None:
                ruleset.fd = _high(ruleset.fd)
            for target, fd in enumerate([_high(fd) for fd in fds]):
                if self.uid is not None and stat.S_ISFIFO(os.fstat(fd).st_mode):
                    os.fchown(fd, self.uid, self.uid)  # it may open /dev/stdout by name
                os.dup2(fd, target)
                os.close(fd)
            staying: list[int] = sorted({line, *self.open_fds, *([] if ruleset is None else [ruleset.fd])})
            for low, high in zip([len(fds), *(fd + 1 for fd in staying)], [*staying, 4096], strict=True):
                os.closerange(low, high)
            given = {"uid": self.uid, "parent": parent, "tasks": self.tasks, "filter": self.filter}
            listener = confine(self.settings, config["limits"], ruleset, given)
            hello = {"listener": listener, **{name: int(pid) for name, pid in pids.items()}}
            os.write(line, json.dumps(hello).encode())
            if os.read(line, 2) != b"go":
                os._exit(111)
            if listener >= 0:
                os.close(listener)
            os.close(line)
        except BaseException as error:  # noqa: BLE001 - nothing may run that is not confined
            os.write(line if "line" in locals() else ctl.fileno(), json.dumps({"error": f"{error}"}).encode())
            os._exit(111)
        guest.start(config)

    def _listener(self, pidfd: int, number: int) -> int:
        if number < 0:
            return -1
        try:
            return syscall("pidfd_getfd", pidfd, number, 0)
        except JailError:
            return -1  # tracing is restricted here: refused calls say "no such call", and are not counted

    def _watch(self, watch: Watch, pid: int, pidfd: int, listener: int) -> str | None:
        """Until the program ends, passes a limit (its name is returned), or the harness says so or dies (``stop``)."""
        poll = select.poll()
        orphans = _deaths() if self.tools else -1
        for fd in (pidfd, self.link.fileno(), listener, orphans):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        tick = TICK_SCAN_S if self.tools and not self.inside else TICK_S
        if self.settings["profile"] == "browser":  # no page has its files, and its maps are long
            tick = TICK_BROWSER_S
        looked = 0.0
        while True:
            events = dict(poll.poll(1000 * tick))
            if pidfd in events:
                return None
            if orphans in events:
                os.read(orphans, 1 << 16)
                _bury(pid)
            if self.link.fileno() in events:
                self.link.recv(1 << 16)
                return "stop"
            if listener in events:
                if events[listener] & select.POLLIN:
                    seccomp.answer_one(listener, self.refused)
                else:
                    poll.unregister(listener)
            now = time.monotonic()
            if now - looked >= tick:
                looked = now
                exceeded = watch.look(tools=self.tools)
                if exceeded:
                    return exceeded

    def _end_all(self, pid: int) -> int:
        """Kill whatever the program started, wait for all of it, and return the program's own wait status."""
        status, started = 0, time.monotonic()
        while True:
            self._kill(pid)
            while True:
                try:
                    found, how = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    return status
                if not found:
                    break
                if found == pid:
                    status = how
            if time.monotonic() - started > KILL_S:
                raise JailError(0, "a process of the program could not be killed")
            time.sleep(0.0005)

    def _kill(self, pid: int) -> None:
        try:
            if self.inside:
                os.kill(-1, signal.SIGKILL)  # from process 1 of a namespace: all the others in it
                return
            os.killpg(pid, signal.SIGKILL)
            if self.tools or not self.settings["confined"]:
                own = int(os.readlink("self", dir_fd=self.proc))
                for other in descendants(self.proc, own):
                    os.kill(other, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it is gone


def run(link: socket.socket, settings: dict[str, Any], rules: list[Rule], open_fds: list[int]) -> None:
    """The whole life of a slot; never returns."""
    slot = Slot(link, settings, rules, open_fds)
    code = 0
    try:
        slot.prepare()
        slot.serve()
    except BaseException as error:  # noqa: BLE001 - the harness must hear of it
        slot.say({"error": f"{type(error).__name__}: {error}"})
        code = 1
    try:
        slot.clean()
    except OSError as error:
        slot.say({"error": f"files of the program could not be removed: {error}"})
        code = 1
    os._exit(code)


def _some_uid(range_: list[int] | None) -> int | None:
    """A user nobody else is: what a run counts and kills is its own alone."""
    if range_ is None:
        return None
    return range_[0] + int.from_bytes(os.urandom(8), "little") % range_[1]


def _deaths() -> int:
    """A pipe that can be read when a child has died."""
    reading, tell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    return reading


def _bury(pid: int) -> None:
    """Wait for children that died, but for ``pid``: processes whose parents left them fill the limit otherwise."""
    while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and dead.si_pid != pid:
        os.waitpid(dead.si_pid, 0)


def _die_first(proc: int) -> None:
    """When the machine runs out of memory, the program is killed before anything else."""
    try:
        fd = os.open("self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        os.write(fd, b"1000")
        os.close(fd)
    except OSError:
        pass  # /proc is read-only in some containers


def _high(fd: int) -> int:
    import fcntl

    found = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    os.close(fd)
    return found
