"""`evolvent sandbox`: what this machine can confine, and one program run in it."""

from __future__ import annotations

import dataclasses
import platform
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional

from evolvent.cli import say
from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput, EvolventError
from evolvent.core.jsonfile import check_target, dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live
from evolvent.sandbox.result import Limits, NoSandbox


def check(*, attempts: bool = False, json: Path | None = None, plain: bool = False) -> None:
    """What confines programs on this machine, tried out, and what does not and why.

    Example: evolvent sandbox check

    Args:
        attempts: also run the whole suite of attempts to get out and to be judged right (minutes).
        json: also write what was found, with versions and machine, to this file.
        plain: plain text output even on a terminal.
    """
    from evolvent.sandbox import Sandbox
    from evolvent.sandbox.mechanisms import NAMES, candidates, problem
    from evolvent.sandbox.settings import PROFILES

    check_target(json, "--json")
    with Live(plain=True if plain else None) as live:
        rows, found = [], candidates()
        for mechanism in found:
            for profile in PROFILES:
                live.status(f"trying {mechanism.name}, {profile}")
                rows.append([mechanism.name, profile, problem(mechanism, profile) or "works"])
        if not found:
            rows = [[name, "", f"no: {platform.system()} {platform.machine()}"] for name in NAMES]
        rows += [[name, profile, _tried(live, name, start)] for name, profile, start in _NEEDED]
        live.table("sandbox", ["", "profile", ""], rows)
        result: dict[str, Any] = {"found": rows}
        try:
            with Sandbox() as sandbox:
                live.note(str(sandbox.describe()))
        except NoSandbox as error:
            live.note(f"! {error}")
            raise
        if attempts:
            # by name, as every command: the suite is no part of what a command needs
            result |= import_module("evolvent.testing.sandbox.suite").run(live.status)
        if json is not None:
            command = f"evolvent sandbox check{' --attempts' if attempts else ''}"
            write_atomic(json, dump({"command": command, "result": result, **provenance()}, indent=1) + "\n")
            live.note(f"result: {json}")
        if attempts:
            _tell(live, result)


def _compiler() -> str:
    """What compiles kernels; it has compiled one."""
    from evolvent.envs.text.kernels import Bench

    with closing(Bench()) as bench:
        return " ".join(bench.compiler.command)


def _browser() -> str:
    """What plays games; it was started."""
    from evolvent.sandbox.browser import Browser

    with Browser() as browser:
        version = browser.start()
        return f"{browser.path}, {version}"


_NEEDED = (("compiler", "tools", _compiler), ("browser", "browser", _browser))
"""What worlds need beside the sandbox. Found and tried as they do it: one on the path may lack its libraries."""


def _tried(live: Live, name: str, start: Callable[[], str]) -> str:
    live.status(f"trying a {name}")
    try:
        return f"works: {start()}"
    except EvolventError as error:  # the sandbox's own is raised below, with all that it says
        answer = f"no: {error.what}" + (f", got {error.got}" if error.got else "")
        return answer if isinstance(error, NoSandbox) or not error.do else f"{answer}; {error.do}"


def _tell(live: Live, result: dict[str, Any]) -> None:
    kinds = [kind for kind, why in result["kinds"].items() if not why]
    for name in ("attempts", "cheats"):
        rows = result[name]
        out = [row for row in rows if any(row.get(kind) for kind in kinds) and row.get("sign") != "honest"]
        got = [[row["group"], row["name"], *(row.get(kind) or "·" for kind in kinds)] for row in out]
        live.table(f"{name} that got out, of {len(rows)}", ["", "", *kinds], got)


@dataclasses.dataclass(frozen=True)
class Options:
    """How the program is confined and what comes back."""

    profile: str = ""
    """python, or tools (may start programs of /usr); default: by the file's name."""
    mechanism: str = "auto"
    """auto, own+ns or own."""
    packages: tuple[str, ...] = ()
    """Installed packages that it may import."""
    collect: Path | None = None
    """A new folder for the files that it leaves."""
    json: bool = False
    """Print the result as one JSON object."""
    unsafe_no_sandbox: bool = False
    """Run it without any confinement, with your rights."""


@dataclasses.dataclass(frozen=True)
class Asked(Limits):
    """Limits as they were typed: checked by the command, which tells of a wrong one as of everything else."""

    def __post_init__(self) -> None:
        pass


def run(
    file: Annotated[Path, Positional],
    arguments: Annotated[tuple[str, ...], Positional] = (),
    *,
    limits: OmitArgPrefixes[Asked] = Asked(),
    options: OmitArgPrefixes[Options] = Options(),
) -> None:
    """Run one program that nobody has read, and print what it did; exit code 1 where it did not end with 0.

    Example: evolvent sandbox run unread.py

    Args:
        file: a Python program (.py) or a shell script (.sh). Its standard input is this command's, unless a terminal.
        arguments: its arguments.
        limits: what it may use.
        options: how it is confined.
    """
    from evolvent.sandbox import Sandbox

    allowed = Limits(**dataclasses.asdict(limits))
    starter = {".py": "python", ".sh": "sh"}.get(file.suffix)
    if starter is None or not file.is_file():
        raise BadInput("no program", got=str(file), expected="a file .py or .sh", where="evolvent sandbox run")
    if options.collect is not None and options.collect.exists():
        raise BadInput("the folder is there already", got=str(options.collect), expected="a new one", where="--collect")
    profile = options.profile or ("python" if starter == "python" else "tools")
    stdin = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    unsafe = options.unsafe_no_sandbox
    chosen = {"packages": options.packages, "unsafe_no_sandbox": unsafe}
    with Sandbox(profile, options.mechanism, 0, **chosen) as sandbox:
        command = [starter, file.name, *arguments]
        wanted = ("*",) if options.collect is not None else ()
        result = sandbox.run({file.name: file.read_bytes()}, command, allowed, wanted, stdin=stdin)
    if options.collect is not None:
        _write(options.collect, result.files)
    facts = {name: value for name, value in dataclasses.asdict(result).items() if name != "files"}
    if options.json:
        say(dump(facts | {"files": sorted(result.files)}, ascii_only=True))
    else:
        with Live() as live:
            for name in ("stdout", "stderr"):
                text = facts.pop(name)
                for line in text.removesuffix("\n").split("\n") if text else ():
                    live.note(f"{name}: {line}")
            live.table(
                f"{file.name}: {result.status}", ["", ""], [[k, v] for k, v in facts.items() if v not in ("", None, ())]
            )
            if unsafe:
                live.note("! there was no sandbox: the program had your rights")
    if not result.ok:
        sys.exit(1)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Into a new folder: no link there leads elsewhere, and names come from listings, without dots."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _main(arguments: list[str]) -> None:
    parsed({"check": check, "run": run}, arguments, "evolvent sandbox")


COMMANDS = {"sandbox": _main}
