"""What a hostile program tries: each attempt is code that runs inside, and what shows from outside that it got out.

They stand in ``attempt_texts/GROUP.txt``, each below a line ``## NAME [SIGN …]``. Numbers of calls are x86-64's.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Attempt(NamedTuple):
    """One attempt. ``code`` sees ``W``, the addresses of the world around it, and the helpers of ``PRELUDE``."""

    name: str
    group: str
    code: str
    sign: str
    """How an escape shows: ``secret`` (a secret of the world is in the output or a collected file), ``reached`` (it
    printed REACHED), ``world`` (the world changed or was hit), ``limits`` (it used more than it may), ``alive`` (a
    process lives on)."""
    tools: bool = False
    """Needs the profile that starts processes."""
    control: bool = True
    """Whether it may be run without a sandbox, to see that it gets out then."""
    open_in: tuple[str, ...] = ()
    """Mechanisms that do not claim to stop it: ``describe`` says so."""
    ends: tuple[str, ...] = ()
    """How it must end, where that is what is tried; empty: any way but ``harness``."""


PRELUDE = """
import ctypes, errno, mmap, os, re, signal, socket, struct, sys, threading, time
C = ctypes.CDLL(None, use_errno=True)
C.syscall.restype = ctypes.c_long
def call(number, *args):
    kinds = {bytes: ctypes.c_char_p, int: ctypes.c_long}
    values = [kinds[type(a)](a) if type(a) in kinds else a for a in args]
    found = C.syscall(ctypes.c_long(number), *values)
    if found < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found
def reached(*what): print("REACHED", *what, flush=True)
def show(path): print(open(path, errors="replace").read()[:100000])
"""

_HEAD = re.compile(r"## (.+) \[(\w+)(.*)\]")


def attempts(folder: Path) -> list[Attempt]:
    """Those of a folder of text files; the name of a file is their group."""
    found: list[Attempt] = []
    for path in sorted(folder.glob("*.txt")):
        for part in re.split(r"^(?=## )", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            head, _, code = part.partition("\n")
            match = _HEAD.fullmatch(head)
            if match is None:
                raise ValueError(f"{path.name}: {head!r} is no head of an attempt")
            name, sign, words = match[1], match[2], match[3].split()
            lists = {w.partition("=")[0]: tuple(w.partition("=")[2].split(",")) for w in words if "=" in w}
            found.append(
                Attempt(
                    name,
                    path.stem,
                    code.strip("\n"),
                    sign,
                    tools="tools" in words,
                    control="only-inside" not in words,
                    open_in=lists.get("open-in", ()),
                    ends=lists.get("ends", ()),
                )
            )
    return found


ATTEMPTS = attempts(Path(__file__).parent / "attempt_texts")
"""All of them."""
