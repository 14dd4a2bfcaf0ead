"""The world around a hostile program: secrets, victims and listeners, and how one sees that it got at them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evolvent.sandbox import Limits, Result, Sandbox
from evolvent.sandbox.jail import kernel
from evolvent.testing.sandbox.attempts import PRELUDE, Attempt

LIMITS = Limits(
    wall=30.0,
    cpu=1.5,
    memory=256 << 20,
    disk=32 << 20,
    inodes=500,
    file=8 << 20,
    output=100_000,
    processes=8,
    threads=16,
)
_SLEEP = "import os, sys, time; f = open(sys.argv[1]); time.sleep(3600)"
_OVER = 2.0  # memory of many processes is measured every 20 to 50 ms, on a machine that may be busy


@dataclass(frozen=True)
class Outcome:
    """What became of an attempt."""

    attempt: Attempt
    result: Result
    escaped: str
    """What got out; empty where nothing did."""


class World:
    """Secrets and victims on this machine. Make it before the sandbox, so that there is something to inherit."""

    def __init__(self) -> None:
        self.secret, self.mark = f"secret-{secrets.token_hex(12)}", f"evolvent-{secrets.token_hex(6)}"
        self._exit = contextlib.ExitStack()
        folder = Path(self._exit.enter_context(tempfile.TemporaryDirectory(prefix="evolvent-world-")))
        folder.chmod(0o755)
        self.home, self.library = folder / "home", folder / "library"
        for path in (self.home, self.library):
            path.mkdir()
            path.chmod(0o777)
        self.link = self.home / "link"
        self.link.symlink_to(self.secret)
        self._files()
        os.environ["EVOLVENT_SECRET"] = self.secret
        self._exit.callback(os.environ.pop, "EVOLVENT_SECRET", None)
        inherited = os.open(self.home / "secret", os.O_RDONLY)
        os.set_inheritable(inherited, True)
        self._exit.callback(os.close, inherited)
        self.victim, self.harness = self._process(), self._process()
        self.sockets, self.ports = {}, {}
        self._listen()
        self._messages()
        self.before = self._state()

    def addresses(self) -> dict[str, Any]:
        """What an attempt is given."""
        return {
            "secret_file": str(self.home / "secret"),
            "folder": str(self.home),
            "victim_file": str(self.home / "victim"),
            "link": str(self.link),
            "library": str(self.library / "lib.py"),
            "package": _package(),
            "mark": self.mark,
            "tmp": tempfile.gettempdir(),
            "victim": self.victim.pid,
            "harness": self.harness.pid,
            "shm": self.shm,
            "shm_key": self.shm_key,
            "nap": self.nap,
            "rooted": os.geteuid() == 0,
            **self.ports,
        }

    def try_out(self, attempt: Attempt, sandbox: Sandbox) -> Outcome:
        """Run one attempt, and look at the world."""
        code = PRELUDE + f"W = {self.addresses()!r}\n" + attempt.code
        collect = ("out.txt", "mine", "d/*") if attempt.group == "files" else ("out.txt",)
        limits = replace(LIMITS, wall=2.0) if attempt.ends == ("time",) else LIMITS
        result = sandbox.run({"attempt.py": code}, ["python", "attempt.py"], limits, collect=collect)
        escaped = self._verdict(attempt, result, sandbox)
        if escaped:
            self.mend()
        return Outcome(attempt, result, escaped)

    def mend(self) -> None:
        """Make whole what an attempt broke."""
        for process in (self.victim, self.harness):
            process.kill()
            process.wait()
        for path in (*self.home.iterdir(), *self.library.iterdir()):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        for place in (Path("/dev/shm"), Path(tempfile.gettempdir()), Path("/var/tmp")):
            (place / self.mark).unlink(missing_ok=True)
        self.link.symlink_to(self.secret)
        self._files()
        self.victim, self.harness = self._process(), self._process()
        subprocess.run(["ipcrm", "-M", str(self.shm_key)], capture_output=True, check=False)
        self.before = self._state()

    def close(self) -> None:
        """Take the world down."""
        for process in (self.victim, self.harness):
            process.kill()
            process.wait()
        self._exit.close()

    def _verdict(self, attempt: Attempt, result: Result, sandbox: Sandbox) -> str:
        output = (
            result.stdout
            + result.stderr
            + "".join(content.decode("utf-8", "replace") for content in result.files.values())
        )
        if result.status == "harness":
            return f"the harness failed: {result.error}"
        if self.secret in output:
            return "a secret came out"
        if attempt.sign == "reached" and "REACHED" in result.stdout:  # a traceback shows the code
            return "it was reached"
        state = self._state()
        if state != self.before:
            return "the world changed: " + ", ".join(key for key in state if state[key] != self.before.get(key))
        if left := leftovers(sandbox, self.nap):
            return f"left behind: {left}"
        if attempt.ends and result.status not in attempt.ends:
            return f"it ended as {result.status}, not as {' or '.join(attempt.ends)}"
        return _passed(result)

    def _files(self) -> None:
        for path, text in (
            (self.home / "secret", self.secret),
            (self.home / "victim", "whole"),
            (self.library / "lib.py", "x = 1\n" * 10),
        ):
            path.write_text(text)
            path.chmod(0o666)
            with contextlib.suppress(OSError):  # a file system without attributes
                os.setxattr(path, "user.secret", self.secret.encode())

    def _process(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-S", "-c", _SLEEP, str(self.home / "secret"), self.secret]
        return subprocess.Popen(command, cwd=self.home, env={"SECRET": self.secret}, start_new_session=True)

    def _listen(self) -> None:
        unix, dgram = str(self.library.parent / "unix"), str(self.library.parent / "dgram")
        for name, family, kind, address in (
            ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("unix", socket.AF_UNIX, socket.SOCK_STREAM, unix),
            ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self.mark),
            ("unix_dgram", socket.AF_UNIX, socket.SOCK_DGRAM, dgram),
        ):
            listener = self._exit.enter_context(socket.socket(family, kind))
            try:
                listener.bind(address)
            except OSError:
                self.ports[name] = 1  # no IPv6 here
                continue
            if kind == socket.SOCK_STREAM:
                listener.listen()
            listener.setblocking(False)
            self.sockets[name] = listener
            self.ports[name] = address if family == socket.AF_UNIX else listener.getsockname()[1]
        for path in (unix, dgram):
            os.chmod(path, 0o777)

    def _messages(self) -> None:
        libc, self.nap = kernel.LIBC, f"{7000 + secrets.randbelow(999)}.{secrets.randbelow(10**6)}"
        self.shm_key = 0x50000000 + secrets.randbelow(1 << 24)
        self.shm = libc.shmget(0, 4096, 0o1666)
        libc.shmat.restype = ctypes.c_void_p
        at = libc.shmat(self.shm, None, 0)
        if at and self.shm >= 0:
            ctypes.memmove(at, self.secret.encode(), len(self.secret))
            self._exit.callback(libc.shmctl, self.shm, 0, None)
        kernel.LIBC.syscall(kernel.NUMBERS["keyctl"], 1, None)  # a session keyring of our own, for the key
        arguments = (b"user", self.mark.encode(), self.secret.encode(), len(self.secret), -3)
        kernel.LIBC.syscall(kernel.NUMBERS["add_key"], *arguments)

    def _state(self) -> Mapping[str, object]:
        found: dict[str, object] = {}
        for place in (self.home, self.library):
            for path in place.iterdir():
                status = path.lstat()
                content = path.read_text() if stat.S_ISREG(status.st_mode) and status.st_mode & 0o400 else ""
                with contextlib.suppress(OSError):
                    found[f"attributes of {path.name}"] = sorted(os.listxattr(path, follow_symlinks=False))
                found[f"file {path.name}"] = (
                    status.st_mode,
                    status.st_uid,
                    int(status.st_mtime),
                    status.st_nlink,
                    content,
                )
        for place in ("/dev/shm", tempfile.gettempdir(), "/var/tmp", "/dev/mqueue"):
            found[place] = os.path.lexists(f"{place}/{self.mark}")
        for name, process in (("victim", self.victim), ("harness", self.harness)):
            found[f"process {name}"] = _condition(process)
        for name, listener in self.sockets.items():
            found[f"socket {name}"] = _hit(listener)
        with open("/proc/sysvipc/shm") as file:
            found["shared memory"] = any(line.split()[0] == str(self.shm_key) for line in file)
        return found


def leftovers(sandbox: Sandbox, nap: str = "") -> str:
    """Processes and files that a sandbox without warm places still has, after some time to die; empty where none."""
    found = ""
    for _ in range(100):
        server = sandbox._server
        alive = [] if server is None else _below(server.process.pid)
        sleeping = _sleeping(nap) if nap else []
        folders = [] if server is None else sorted(set(os.listdir(server.settings["base"])) - {"root"})
        found = f"processes {alive + sleeping}, folders {folders}" if alive or sleeping or folders else ""
        if not found:
            return ""
        time.sleep(0.02)
    return found


def _below(root: int) -> list[int]:
    from evolvent.sandbox.jail.watch import descendants

    proc = os.open("/proc", os.O_RDONLY)
    try:
        return descendants(proc, root)
    finally:
        os.close(proc)


def _sleeping(nap: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and nap.encode() in Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0"):
                found.append(int(name))
    return found


def _condition(process: subprocess.Popen[bytes]) -> object:
    """Whether a process lives and runs, its priority and its limits."""
    if process.poll() is not None:
        return "dead"
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[0] in "ZTt", fields[16], Path(f"/proc/{process.pid}/limits").read_text()
    except OSError:
        return "dead"


def _hit(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(10)
    except BlockingIOError:
        return False
    return True


def _passed(result: Result) -> str:
    """Which limit was passed by more than the watcher's interval allows."""
    if result.peak_memory > LIMITS.memory * _OVER:
        return f"it used {result.peak_memory >> 20} MB of memory"
    if len(result.stdout) + len(result.stderr) > 3 * LIMITS.output:  # what is no UTF-8 is replaced by three bytes
        return "it wrote more than it may"
    if result.seconds > LIMITS.wall + 2.0:
        return f"it ran for {result.seconds:.1f} s"
    if sum(map(len, result.files.values())) > LIMITS.disk:
        return "it brought back more than it may have"
    return ""


def _package() -> str:
    import numpy

    return numpy.__file__
