"""Run programs that a model wrote: no network, their own files, limits, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.sandbox.calls import Guest
from evolvent.sandbox.described import described
from evolvent.sandbox.jail import tree
from evolvent.sandbox.mechanisms import UNSAFE, Mechanism, choose
from evolvent.sandbox.process import Program, SandboxError, Server, Slot, verdict
from evolvent.sandbox.result import Confinement, Limits, Result
from evolvent.sandbox.settings import PROFILES

_FILES = 2000
_OPEN: weakref.WeakSet[Sandbox] = weakref.WeakSet()
_DEFAULT = Limits()


class Sandbox:
    """A place where programs run that nobody has read.

    ``profile`` ``"python"``: Python programs, which start no other programs; ``"tools"``: any program of /usr, e.g. a
    compiler, with processes; ``"browser"``: what Chromium needs beside that (``sandbox/browser.py``). ``mechanism``:
    ``"auto"`` takes the strongest that works here (``own+ns``, then ``own``).
    A sandbox keeps a fork server and ``warm`` places made ready; use it for many runs, and ``close`` it (or ``with``).

    Args:
        profile: what a command may be.
        mechanism: ``auto``, ``own`` (Landlock, seccomp and limits), ``own+ns`` (with namespaces and files in memory).
        warm: places kept ready.
        preload: modules of the standard library, or of ``packages``, that the fork server imports before it forks.
        packages: installed packages that programs may import; all others are hidden, with the data in them.
        read: more files and folders that programs may read.
        landlock_abi: use no newer Landlock than this; for tests.
        unsafe_no_sandbox: run programs **without any confinement**, with this user's rights; limits of time, memory and
            output stay. Every result and ``describe`` say so.

    Raises:
        NoSandbox: nothing here confines a program.
    """

    def __init__(
        self,
        profile: str = "python",
        mechanism: str = "auto",
        warm: int = 1,
        preload: Sequence[str] = (),
        *,
        packages: Sequence[str] = (),
        read: Sequence[str] = (),
        landlock_abi: int | None = None,
        unsafe_no_sandbox: bool = False,
    ) -> None:
        if profile not in PROFILES:
            raise BadInput("unknown profile", got=profile, expected=", ".join(PROFILES), where="Sandbox")
        if isinstance(packages, str) or isinstance(preload, str) or isinstance(read, str):
            raise BadInput("a text where a list is wanted", expected='e.g. ("numpy",)', where="Sandbox")
        chosen = choose(UNSAFE if unsafe_no_sandbox else mechanism, profile, landlock_abi)
        self.mechanism: Mechanism = chosen
        self.profile, self.warm = profile, max(0, warm)
        for name in preload:
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in packages:
                raise BadInput(
                    "not to be imported here",
                    got=name,
                    expected="the standard library, or one of packages",
                    where="preload=",
                    do=f'name it there, too: packages=("{top}",)',
                )
        self._given: dict[str, Any] = {"packages": packages, "preload": preload, "read": read}
        self._lock = threading.Lock()
        self._ready: deque[Slot] = deque()
        self._running: weakref.WeakSet[Program] = weakref.WeakSet()
        self._server: Server | None = None
        self._closed = False
        _OPEN.add(self)

    def run(
        self,
        files: Mapping[str, str | bytes],
        command: str | Sequence[str],
        limits: Limits = _DEFAULT,
        collect: Sequence[str] = (),
        *,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Run one program in a place of its own, and leave nothing of it.

        Args:
            files: relative name → content, put into its work folder, which is its current one.
            command: a program and its arguments, ``["python", "main.py"]`` (also ``-c CODE``); text is split at blanks.
            limits: what it may use.
            collect: patterns of relative names (``"out.txt"``, ``"*"``) of files to bring back.
            stdin: its standard input.
            env: more environment variables.

        Raises:
            BadInput: files or a command that cannot be.
            NoSandbox: nothing here confines a program.
        """
        return self._run(_Order(self, files, command, limits, collect, stdin, env))

    async def arun(
        self,
        files: Mapping[str, str | bytes],
        command: str | Sequence[str],
        limits: Limits = _DEFAULT,
        collect: Sequence[str] = (),
        *,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """``run`` beside other work of an event loop; a cancelled task ends its program."""
        order = _Order(self, files, command, limits, collect, stdin, env)
        work = asyncio.get_running_loop().run_in_executor(None, self._run, order)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            order.cancel()
            await asyncio.wait([work])
            raise

    def open(
        self, files: Mapping[str, str | bytes], module: str, limits: Limits = _DEFAULT, shared: Sequence[int] = ()
    ) -> Guest:
        """A confined process that imports ``module`` of ``files``, whose functions can be called; close it.

        ``limits.wall`` holds for each call, the others for its whole life. ``shared``: open files (sealed memory) that
        it finds as descriptors 4, 5, …

        Raises:
            GuestError: the module cannot be imported.
            BadInput, NoSandbox: as ``run``.
        """
        return Guest(self.program(files, limits), module, shared)

    def describe(self) -> Confinement:
        """What keeps programs inside here, and what is not covered."""
        return described(self.mechanism, self.profile)

    def close(self) -> None:
        """End what runs (its result says ``stopped``), and the fork server."""
        with self._lock:
            self._closed = True
            for program in list(self._running):
                program.stop()
            for slot in self._ready:
                slot.close()
            self._ready.clear()
            server, self._server = self._server, None
        if server is not None:  # whoever is about to start a program gets the lock meanwhile, and gives up
            server.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def program(self, files: Mapping[str, str | bytes], limits: Limits) -> Program:
        """A place with ``files`` in it, not started yet: what ``run`` and ``open_guest`` are made of."""
        content = _checked(files, limits)
        slot = self._slot()
        try:
            program = Program(slot, limits, content)
            with self._lock:
                if self._closed:
                    raise _closed()
                self._running.add(program)
            return program
        except BaseException as error:
            slot.close()
            if isinstance(error, OSError):
                raise SandboxError(
                    "the files could not be put into the sandbox", got=str(error), where="files"
                ) from error
            raise

    def _slot(self) -> Slot:
        with self._lock:
            if self._closed:
                raise _closed()
            if self._server is not None and not self._server.alive:
                self._ready.clear()
                self._server.close()
                self._server = None
            if self._server is None:
                self._server = Server(self.mechanism.settings(self.profile, **self._given))
            slot = self._ready.popleft() if self._ready else self._server.slot()
            while len(self._ready) < self.warm:
                self._ready.append(self._server.slot())
        return slot

    def _run(self, order: _Order) -> Result:
        program = self.program(order.files, order.limits)
        try:
            order.program = program
            program.start({"kind": order.kind, "argv": order.argv, "code": order.code, "env": order.env}, order.stdin)
            if order.cancelled or program.stopped.is_set():  # before it ran
                program.stop()
            program.wait()
            files, left, full = dict[str, bytes](), list[str](), ""
            if program.end:
                full = _full(program.slot.work, order.limits)
            if program.end and order.collect:
                most = min(order.limits.inodes, _FILES)
                files, left = tree.take(program.slot.work, order.collect, order.limits.disk, most)
        finally:
            error = program.finish()
        end = program.end
        if error or not end:
            status, limit, code, number = "harness", "", None, None
            error = error or "the slot did not report an end"
        else:
            (status, limit), (code, number) = verdict(program, full), program.exit
        return Result(
            status,
            code,
            number,
            *program.text,
            files,
            end.get("seconds", 0.0),
            end.get("cpu", 0.0),
            end.get("memory", 0),
            self.mechanism.name,
            limit=limit,
            refused=end.get("refused"),
            left=tuple(left),
            error=error,
        )

    def _forget(self) -> None:
        """In a forked child of this process: the server and its slots are the parent's."""
        self._lock = threading.Lock()
        self._ready.clear()
        self._running.clear()
        self._server = None


def _closed() -> BadInput:
    return BadInput("this sandbox is closed", where="Sandbox.run", do="make another one")


class _Order:
    """A checked request for a run."""

    def __init__(
        self,
        sandbox: Sandbox,
        files: Mapping[str, str | bytes],
        command: str | Sequence[str],
        limits: Limits,
        collect: Sequence[str],
        stdin: str | bytes,
        env: Mapping[str, str] | None,
    ) -> None:
        arguments = command.split() if isinstance(command, str) else list(command)
        if not arguments or not all(isinstance(word, str) and "\0" not in word for word in arguments):
            raise BadInput("no command", got=command, expected='e.g. ["python", "main.py"]', where="Sandbox.run")
        if isinstance(collect, str):
            raise BadInput(
                "collect is a text", got=collect, expected='patterns, e.g. ("out.txt",)', where="Sandbox.run"
            )
        self.files, self.limits, self.collect = files, limits, list(collect)
        self.stdin = _bytes(stdin)
        self.env = {str(name): str(value) for name, value in (env or {}).items()}
        for name, value in self.env.items():
            if not name or "=" in name or "\0" in name + value:
                raise BadInput(
                    "no usable environment variable",
                    got=f"{name!r}: {value!r}",
                    expected="a name without =, and text without \\0",
                    where="Sandbox.run",
                )
        self.kind, self.argv, self.code = _command(arguments, sandbox.profile, unsafe=not sandbox.mechanism.confines)
        self.program: Program | None = None
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
        if self.program is not None:
            self.program.stop()


def _command(arguments: list[str], profile: str, *, unsafe: bool) -> tuple[str, list[str], str]:
    """Kind, arguments and code of a command."""
    name = os.path.basename(arguments[0])
    rest = arguments[1:]
    while rest and rest[0] in ("-I", "-B", "-u", "-s", "-E", "-P", "-S"):
        rest = rest[1:]  # the fork server is started like that
    python = name in ("python", "python3", "python3.11", "python3.12", "python3.13")
    if python and rest and rest[0] == "-c" and len(rest) > 1:
        return "code", ["-c", *rest[2:]], rest[1]
    if python and rest and not rest[0].startswith("-"):
        return "file", rest, ""
    if profile == "python" and not unsafe:
        raise BadInput(
            "the python profile runs Python programs only",
            got=arguments,
            expected='["python", "main.py", …] or ["python", "-c", CODE]',
            where="Sandbox.run",
            do='for other programs use Sandbox(profile="tools")',
        )
    return "exec", arguments, ""


def _fits(part: str) -> bool:
    """Whether a file system takes it as a name: bytes count there, and what is no text has none."""
    try:
        return len(part.encode()) <= 200
    except UnicodeEncodeError:
        return False


def _checked(files: Mapping[str, str | bytes], limits: Limits) -> dict[str, bytes]:
    content: dict[str, bytes] = {}
    for name, value in files.items():
        parts = name.split("/") if isinstance(name, str) else []
        if (
            not parts
            or any(part in ("", ".", "..") or "\0" in part or not _fits(part) for part in parts)
            or len(parts) > 16
        ):
            raise BadInput("no usable file name", got=name, expected="relative, without ..", where="files")
        if not isinstance(value, str | bytes):
            raise BadInput(
                "no usable content", got=type(value).__name__, expected="text or bytes", where=f"files[{name!r}]"
            )
        content[name] = _bytes(value)
    for name in content:
        folders = name.split("/")[:-1]
        for n in range(1, len(folders) + 1):
            if (above := "/".join(folders[:n])) in content:
                raise BadInput("a name is that of a file and of a folder", got=(above, name), where="files")
    total = sum(len(value) for value in content.values())
    if total > limits.disk or len(content) > limits.inodes:
        raise BadInput(
            "more files than the limits allow",
            got=f"{total:,} bytes in {len(content)} files",
            expected=f"disk={limits.disk:,}, inodes={limits.inodes}",
            where="files",
        )
    return content


def _bytes(text: str | bytes) -> bytes:
    """Text as UTF-8; a lone surrogate, which a model may write, stays what it is: no UTF-8, as Python will say."""
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)


def _full(work: int, limits: Limits) -> str:
    """What a work folder in memory has no room left for, ``inodes`` or ``disk``; nothing of one that lies on disk."""
    space = os.statvfs(work)
    if space.f_blocks * space.f_frsize > 2 * limits.disk:
        return ""
    return "inodes" if space.f_ffree == 0 else "disk" if space.f_bavail == 0 else ""


def _after_fork() -> None:
    for sandbox in list(_OPEN):
        sandbox._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
