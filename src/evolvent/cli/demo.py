"""`evolvent demo`: a small run of memlift that needs no model and no download; seconds."""

from __future__ import annotations

import os
import shlex
import sys
import time
import webbrowser
from pathlib import Path
from typing import Any

from evolvent import catalogue, running
from evolvent.core.arguments import parsed
from evolvent.core.config import with_fields
from evolvent.core.errors import install
from evolvent.core.folder import RunFolder, check_free
from evolvent.evaluate.live import Live

_BEFORE = """\
A shop asks how many of its orders are late, big, open or lost, and means its own thing by each word.
The agent is a script that writes SQL: it guesses like a stranger, unless its prompt shows how such a question was
answered. The memory is the real one (memlift, in an SQLite file); a reviewer corrects what went wrong, once.
"""
_AFTER = """\
Next:
  evolvent memory explain {store} m1
      one memory: what it was shown for, what came of it, who said so
  evolvent run memlift --env my.py:make --model my.py:answer --embedder hash
      your own world and agent; {source} is the one you just saw
      (evolvent check env my.py:make tries the world first; without --embedder hash texts are compared by
      meaning instead of words, which needs {memory})
  {llama} && evolvent run memlift
      the same with a language model on the CPU: 1.1 GB once, then {takes}"""


def demo(*, out: Path | None = None, open: bool = True, plain: bool = False) -> None:
    """Watch an agent learn from being corrected: 4 questions twice, 8 others before and after. No model, no download.

    Example: evolvent demo --open

    Args:
        out: run folder; default runs/demo-TIME.
        open: open the report in a browser, where there is a screen.
        plain: plain text output even on a terminal.
    """
    found = catalogue.system("memlift")
    config = with_fields(
        found.settings(), env="evolvent.demo:make", model="evolvent.demo:answer", embedder="hash", train=4, heldout=8
    )
    out = out or Path("runs") / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    check_free(out)
    where = running.Where(out=out)
    with Live(plain=True if plain else None) as live:
        live.note(_BEFORE)
        (path,) = running.start(found, config, where, f"evolvent demo --out {shlex.quote(str(where.out))}", live)
        live.note(_verdict(RunFolder.open(path).summary()))
        source = Path(sys.modules["evolvent.demo"].__file__ or "")
        live.note(
            "\n"
            + _AFTER.format(
                store=shlex.quote(str(path / "memory.db")),
                source=source,
                llama=install("llama"),
                memory=install("memory"),
                takes=catalogue.kinds()["memory"].choices[0].minutes,
            )
        )
    screen = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if open and screen and sys.stdout.isatty():
        webbrowser.open((path / "report.html").resolve().as_uri())


def _verdict(summary: dict[str, Any]) -> str:
    """What it came to, in words."""
    right = {phase["phase"]: f"{phase['successes']} of {phase['n']}" for phase in summary["phases"]}
    again, after = summary["passes"][-1], next(phase for phase in summary["phases"] if phase["phase"] == "after")
    both = f"{again['successes'] + after['successes']} of {again['n'] + after['n']}"
    return (
        f"\nBefore: {right['before']}. After {again['n']} corrections: {both}, the {again['n']} questions that were "
        f"corrected and {after['n']} about other cities. The same questions without the memory: {right['control']}."
    )


COMMANDS = {"demo": lambda arguments: parsed(demo, arguments, "evolvent demo")}
