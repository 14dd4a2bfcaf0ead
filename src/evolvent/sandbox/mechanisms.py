"""Which mechanism works on this machine: each is tried with attempts of its own before a program is trusted to it."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.sandbox import settings
from evolvent.sandbox.jail import kernel
from evolvent.sandbox.jail.landlock import abi
from evolvent.sandbox.process import Program, SandboxError, Server
from evolvent.sandbox.result import Limits, NoSandbox

UNSAFE = "none (unsafe)"
NAMES = ("own+ns", "own")
_WHAT_TO_DO = (
    "use Linux 5.13 or newer (x86-64 or aarch64; on Windows WSL2, on macOS a virtual machine); a program you trust "
    "runs without: `evolvent sandbox run --unsafe-no-sandbox`"
)
_PROBE = """
import ctypes, os, socket
kernel = ctypes.CDLL(None)
def check(value):
    if value < 0: raise OSError()
attempts = {
    "reads a file outside": lambda: open(CANARY).read(),
    "writes a file outside": lambda: open(CANARY, "a"),
    "makes a file outside": lambda: open(CANARY + ".new", "w"),
    "opens an internet socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "opens a local socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if BROWSER else socket.SOCK_STREAM),
    "makes a namespace": lambda: check(kernel.unshare(0x10000000)),
    "makes a session": os.setsid,
    "opens memory without a name": lambda: os.memfd_create("x"),
    "sees the harness's environment": lambda: os.environ["EVOLVENT_PROBE"],
    "mounts": lambda: check(kernel.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None)),
}
if os.getuid(): attempts["becomes root"] = lambda: os.setuid(0)
if not NAMESPACES: attempts["signals the harness"] = lambda: os.kill(HARNESS, 0)
if not TOOLS: attempts["starts a process"] = os.fork
for name, attempt in attempts.items():
    try: attempt()
    except (OSError, KeyError): continue
    print(name)
print("end", os.getuid())
"""


@dataclass(frozen=True)
class Mechanism:
    """How programs are confined; ``name`` is shown in results."""

    name: str
    namespaces: bool = False
    landlock: int = 0

    @property
    def confines(self) -> bool:
        """False for the unsafe one."""
        return self.name != UNSAFE

    def settings(
        self, profile: str, *, packages: Sequence[str] = (), preload: Sequence[str] = (), read: Sequence[str] = ()
    ) -> dict[str, Any]:
        """What a server is given."""
        if not self.confines:
            return settings.unconfined(preload, packages)
        return settings.settings(
            profile, namespaces=self.namespaces, landlock=self.landlock, packages=packages, preload=preload, read=read
        )


@cache
def problem(mechanism: Mechanism, profile: str) -> str:
    """Why a mechanism cannot be used here, after trying it; empty where it keeps everything inside that it must."""
    if mechanism.landlock == 0 and not mechanism.namespaces:
        return "this kernel has no Landlock (Linux 5.13 or newer, and not switched off)"
    with tempfile.TemporaryDirectory(prefix=settings.PROBE) as folder:
        canary = os.path.join(folder, "canary")
        with open(canary, "w") as file:
            file.write("seen")
        os.chmod(folder, 0o777)
        os.chmod(canary, 0o666)
        given = {
            "CANARY": canary,
            "HARNESS": os.getpid(),
            "NAMESPACES": mechanism.namespaces,
            "BROWSER": profile == "browser",
            "TOOLS": profile != "python",
        }
        code = "".join(f"{name} = {value!r}\n" for name, value in given.items()) + _PROBE
        os.environ["EVOLVENT_PROBE"] = "1"
        try:
            program = _trial(mechanism, profile, code)
        except SandboxError as error:
            return " ".join(str(error.got or error).split())
        finally:
            del os.environ["EVOLVENT_PROBE"]
    if program.error or not program.end:
        return program.error or "the trial program did not end"
    *escaped, end = program.out.decode().splitlines() or [""]
    root = end == "end 0"
    if escaped or not end.startswith("end ") or (root and os.geteuid() == 0):
        wrong = escaped or (["it stays root"] if root else [program.err.decode("utf-8", "replace")[-300:]])
        return f"a trial program was not kept inside: {', '.join(wrong)}"
    return ""


def _trial(mechanism: Mechanism, profile: str, code: str) -> Program:
    server = Server(mechanism.settings(profile))
    try:
        program = Program(server.slot(), Limits(wall=30.0, cpu=20.0), {})
        try:
            program.start({"kind": "code", "argv": ["-c"], "code": code}, b"")
            program.wait()
        finally:
            program.error = program.finish()
        return program
    finally:
        server.close()


def candidates(landlock_abi: int | None = None) -> list[Mechanism]:
    """What could be used on this kind of machine, strongest first."""
    if not sys.platform.startswith("linux") or not kernel.NUMBERS:
        return []
    newest = min(abi(), 7 if landlock_abi is None else landlock_abi, 7)
    return [Mechanism("own+ns", namespaces=True, landlock=newest), Mechanism("own", landlock=newest)]


def choose(name: str, profile: str, landlock_abi: int | None = None) -> Mechanism:
    """The mechanism of that name, or for ``auto`` the strongest that works.

    Raises:
        BadInput: an unknown name.
        NoSandbox: it does not work here, or nothing does.
    """
    if name == UNSAFE:
        return Mechanism(UNSAFE)
    if name not in ("auto", *NAMES):
        raise BadInput("unknown mechanism", got=name, expected=", ".join(("auto", *NAMES)), where="Sandbox")
    found = [m for m in candidates(landlock_abi) if name in ("auto", m.name)]
    wrong = []
    for mechanism in found:
        why = problem(mechanism, profile)
        if not why:
            return mechanism
        wrong.append(f"{mechanism.name}: {why}")
    raise NoSandbox(
        "nothing on this machine confines a program; model-written code was not run",
        got="; ".join(wrong) or f"{platform.system()} {platform.machine()}",
        expected="Landlock (Linux 5.13 or newer), or user namespaces",
        where="sandbox",
        do=_WHAT_TO_DO,
    )
