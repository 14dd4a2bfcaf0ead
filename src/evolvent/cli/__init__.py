"""The command line: one module a command. Flags come from the dataclass of a system."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from importlib import import_module

from evolvent import __version__
from evolvent.core.errors import BadInput, EvolventError
from evolvent.core.visible import visible

USAGE = f"""\
evolvent {__version__} - agents that get better from what happens to them

  evolvent demo                                 an agent learns from being corrected: seconds, no model, no download
  evolvent run ALGO|file.py [--env ENV] [--model MODEL] [--seed N | --seeds N ...] [--out DIR] [--resume DIR] [--...]
  evolvent list [algos|envs|models|credit|search]
                                                what to use for what you have; or all there is, one line each
  evolvent eval DIR [--episodes N] [--env ENV]  evaluate a run on held-out tasks, without learning
  evolvent compare DIR ... [--html FILE]        compare runs, with confidence intervals and paired tests
  evolvent runs DIR [--serve [PORT]]            the runs in a folder, on one page; --serve keeps it up to date
  evolvent credit DIR --rule NAME|file.py ...   credit of a run's recorded attempts, by any credit rule
  evolvent import FILE ... --out DIR            recorded attempts of another harness (--from atif, otel, openai, ...)
  evolvent data functions TOOLS LOG --out DIR   your tools and logged calls of functions, as rows to train and judge on
  evolvent data {{make,inspect,convert}} …        recorded attempts in an environment, to learn from: `evolvent run bc`
  evolvent check {{env,game,credit,advantage}} FILE   does yours keep its contract; is an advantage function biased
  evolvent check functions DIR                  do calls fit their schemas, what leaks, what was masked; --baselines
  evolvent teams channels FILE [--html PAGE]    do a team's agents differ, and what does a vote gain by it
  evolvent teams serve FILE:NAME --as mcp|a2a   a member of a team as an MCP tool or an A2A agent
  evolvent memory {{audit,explain,verify}} STORE  what a memory holds, which memories help or harm, and why
  evolvent memory {{lift,blame,skills}} STORE      whether it helps; what caused an outcome; lessons as SKILL.md
  evolvent memory {{rollback,quarantine,restore,compact}} STORE [--dry-run]   repair it; a dry run reports first
  evolvent memory {{export,import,migrate,digest}} STORE   move it to a file or another database, verified
  evolvent memory learn DIR --store FILE        lessons from recorded attempts, under review until you restore them
  evolvent export verl DIR --out FILE           recorded attempts with their advantages, for training with verl
  evolvent export pairs DIR --out FILE          siblings of recorded trees as prompt, chosen, rejected (for DPO)
  evolvent export {{jsonl,trl,tinker,verifiers,atif}} DIR --rule NAME --out FILE   decisions with credit, for others
  evolvent export merged DIR --out DIR          the trained model for transformers and vLLM; --gguf for llama.cpp
  evolvent serve STORE                          a memory over HTTP: recall, outcomes, lessons; docs/server.md
  evolvent tokens {{new,list,revoke}} STORE       who may use it, in which scopes
  evolvent sandbox {{check,run FILE}}             what this machine confines; one unread program, run in it

Start with `evolvent demo`. `evolvent run ALGO --help` shows the settings of an algorithm, `--help-all` every one.
"""

_COMMANDS = {
    "demo": "evolvent.cli.demo",
    "run": "evolvent.cli.run",
    "list": "evolvent.cli.lists",
    "eval": "evolvent.cli.evaluate",
    "compare": "evolvent.cli.evaluate",
    "runs": "evolvent.cli.runs",
    "credit": "evolvent.cli.credit",
    "import": "evolvent.cli.imports",
    "data": "evolvent.cli.data",
    "check": "evolvent.testing.command",
    "memory": "evolvent.cli.memory.command",
    "export": "evolvent.cli.export",
    "teams": "evolvent.cli.teams",
    "serve": "evolvent.cli.serve",
    "tokens": "evolvent.cli.serve",
    "sandbox": "evolvent.cli.sandbox",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point. Exit codes: 0 done, 1 defect, 2 a request that cannot be met, 130 Ctrl-C, 141 nobody reads."""
    args = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character shows a question mark
    # a scheduler's SIGTERM is a Ctrl-C: a run finishes its task and saves, workers and files are closed
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _command(args[0] if args else "help", args[1:])
    except KeyboardInterrupt as error:  # of a run it says how to go on
        _stop(str(error) or "stopped", 130)
    except EvolventError as error:
        if os.environ.get("EVOLVENT_TRACEBACK"):
            traceback.print_exception(error)
        _stop("\n".join([f"error: {error}", *getattr(error, "__notes__", ())]), 2)
    except BrokenPipeError:
        if not _nobody_reads():
            raise
        sys.exit(141)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        full = BadInput(
            "nothing more can be written",
            got=error.strerror,
            where=error.filename or os.getcwd(),
            expected="room on the disk",
            do="make room; what was written is whole",
        )
        _stop("\n".join([f"error: {full}", *getattr(error, "__notes__", ())]), 2)


def say(text: str) -> None:
    """A line on standard output."""
    print(text, flush=True)  # noqa: T201 - the command line speaks here


def _command(name: str, arguments: list[str]) -> None:
    if name in ("-h", "--help", "help"):
        say(USAGE)
        return
    if name in ("-V", "--version"):
        say(f"evolvent {__version__}")
        return
    if name not in _COMMANDS:
        from evolvent.core.errors import closest

        hint = closest(name, list(_COMMANDS))
        do = "in a checkout: `python -m benchmarks.speed NAME`" if name == "bench" else "see `evolvent --help`"
        raise BadInput("unknown command", got=name, expected=hint, where="evolvent", do=do)
    # one module a command, so that `evolvent --help` imports none of them
    import_module(_COMMANDS[name]).COMMANDS[name](arguments)


def _nobody_reads() -> bool:
    """Whether standard output was closed by its reader, as by ``| head``; if so nothing more is written to it."""
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _stop(text: str, code: int) -> None:
    print(visible(text), file=sys.stderr, flush=True)  # noqa: T201
    sys.exit(code)
