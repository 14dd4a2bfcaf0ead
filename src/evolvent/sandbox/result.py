"""Limits of a run, its result, and what a mechanism confines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from evolvent.core.errors import BadInput, EvolventError

MB = 1 << 20


class NoSandbox(EvolventError, RuntimeError):
    """Nothing on this machine confines a program; the program was not run."""


@dataclass(frozen=True)
class Limits:
    """What one program may use. Bytes and seconds; a limit that is passed ends the program."""

    wall: float = 10.0
    """Seconds on the clock."""
    cpu: float = 8.0
    """Seconds of processor time, of all its processes and threads together."""
    memory: int = 512 * MB
    """Bytes of address space of a process; resident bytes of all of them together. What the interpreter itself takes,
    some 13 MB, is let pass."""
    disk: int = 64 * MB
    """Bytes of all its files. They lie in memory where namespaces are used."""
    inodes: int = 2000
    """Files and folders."""
    file: int = 16 * MB
    """Bytes of one file."""
    output: int = MB
    """Bytes of standard output and standard error together."""
    processes: int = 16
    """Processes at once; the python profile starts none."""
    threads: int = 32
    """Threads at once, beside the main ones."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            whole = item.name not in ("wall", "cpu")
            good = isinstance(value, int | (int if whole else float)) and not isinstance(value, bool)
            if not good or not 0 < value < 1 << 50:
                raise BadInput(
                    f"limit {item.name} is no usable {'whole ' if whole else ''}number",
                    got=value,
                    expected="a number above 0 and below 2^50",
                    where="Limits",
                )


@dataclass(frozen=True)
class Result:
    """What a program did, as seen from outside: nothing in it was written by the program but its output and files."""

    status: str
    """``ok`` (exit code 0), ``failed`` (another), ``crashed`` (a signal); the limit that ended it: ``time``,
    ``memory``, ``processes``, ``disk``, ``output``; ``stopped`` by us; ``harness``: the sandbox failed, nothing can be
    learned."""
    exit_code: int | None
    """``None`` where a signal ended it."""
    signal: int | None
    """The signal that ended it."""
    stdout: str
    """UTF-8, what is none replaced; at most ``Limits.output`` bytes with ``stderr``."""
    stderr: str
    files: Mapping[str, bytes]
    """Files brought back (``collect``), by relative name; regular ones only."""
    seconds: float
    """On the clock, from the program's start to its end."""
    cpu_seconds: float
    """Of all its processes."""
    peak_memory: int
    """Resident bytes: the most that was seen of all processes together, or that the kernel counted of one."""
    mechanism: str
    """What confined it, or ``none (unsafe)``."""
    limit: str = ""
    """The field of ``Limits`` that was passed. Of ``memory``, ``disk``, ``file`` and ``threads`` the last line of its
    errors may be all that tells: the kernel refuses more, and the program ends by itself."""
    refused: Mapping[str, int] | None = None
    """System calls that were refused, with their counts; ``None`` where the kernel does not tell. Files: see stderr."""
    left: tuple[str, ...] = ()
    """Files that were asked for and not brought back: links, devices, unreadable, or more than the limits."""
    error: str = ""
    """What failed, where ``status`` is ``harness``."""

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself with exit code 0. This is no verdict about its work."""
        return self.status == "ok"


@dataclass(frozen=True)
class Confinement:
    """What a sandbox of this machine keeps inside, and what it does not."""

    mechanism: str
    """``own+ns``, ``own``, or ``none (unsafe)``."""
    profile: str
    landlock_abi: int
    """0 where Landlock is not used."""
    covered: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    """User, kernel and interpreter."""

    def __str__(self) -> str:
        lines = [f"sandbox {self.mechanism}, profile {self.profile}"]
        lines += [f"  {name}: {value}" for name, value in self.facts.items()]
        lines += ["  covered:", *(f"    {line}" for line in self.covered)]
        return "\n".join([*lines, "  NOT covered:", *(f"    {line}" for line in self.not_covered)])
