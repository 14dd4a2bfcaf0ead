"""`evolvent teams`: what the answers of several agents have in common, and a member as an MCP tool or an A2A agent."""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from evolvent.cli.listening import listen
from evolvent.core import outside
from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput, optional
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.evaluate.live import Live
from evolvent.memory import embedders
from evolvent.play.workflow import Member, Workflow
from evolvent.runs.language.rows import json_lines
from evolvent.teams.answers import TIMEOUT_S, Function
from evolvent.teams.channels import measure
from evolvent.teams.table import FIELDS, read
from evolvent.teams.telling import page_of, tables, words

_WHERE = "evolvent teams serve"
_LOOPBACK = ("127.0.0.1", "localhost")


def channels(
    file: Annotated[Path, Positional],
    *,
    embedder: str = embedders.DEFAULT,
    agents: tuple[str, ...] = (),
    seed: int = 0,
    html: Path | None = None,
    json: bool = False,
) -> None:
    """Whether a team's answers differ, and whether that pays: K*, error correlation, votes, the best two and three.

    Example: evolvent teams channels answers.jsonl --html channels.html

    Args:
        file: JSON lines {"question", "agent", "answer", "right"}; where known "text" (all that was said, for K*),
            "tokens", "logprob" (of the answer, or an object of answers) and "greedy" (true: the single call).
        embedder: for K* of the texts: all-MiniLM-L6-v2, hash, openai:MODEL@URL, a sentence-transformers model; none.
        agents: only these.
        seed: of the halves of the questions, and of teams that are drawn where there are too many.
        html: also write a page to this file.
        json: print JSON.
    """
    if not file.is_file():
        raise BadInput("there is no such file", got=str(file), expected="JSON lines", where="evolvent teams channels")
    if html is not None and ((html.exists() and html.samefile(file)) or not html.parent.is_dir()):
        raise BadInput("a page cannot be written there", got=str(html), expected="a new file", where="--html")
    answers = read(json_lines(file, FIELDS), str(file), agents)
    with Live(plain=json or None) as live:
        model = None if embedder == "none" else embedders.load(embedder)
        if model is not None and not json:
            live.status("embedding the answers")
        data = measure(answers, model, seed)
        if html is not None:
            write_atomic(html, page_of(data, file.name))
        if json:
            live.note(dump(data, indent=2))
            return
        for line in words(data):
            live.note(line)
        for table in tables(data):
            live.table(table.title, table.columns, table.rows)
        if html is not None:
            live.note(f"page → {html}")


def serve(
    member: Positional[str],
    *,
    protocol: Annotated[Literal["mcp", "a2a"], arg(name="as")],
    host: str = "127.0.0.1",
    port: int | None = None,
    model: str = "none",
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Serve a function, a member or a whole workflow, so that any MCP client or A2A agent can ask it.

    Example: evolvent teams serve solver.py:solve --as mcp

    Args:
        member: FILE:NAME of a function of a text that returns a text, async or not, or of a Workflow or Member. A tool
            of MCP may have other arguments, by their type hints.
        protocol: mcp speaks on standard input and output, or with --port over HTTP; a2a speaks over HTTP.
        host: who can reach it: this machine alone, or those that reach this address. Nobody is asked who they are.
        port: of HTTP; 0 = any that is free, which is printed.
        model: answers for a Workflow or Member.
        timeout_s: seconds for an answer.
    """
    with contextlib.ExitStack() as stack:
        # standard output is for the protocol alone: what the file prints goes to standard error
        with contextlib.redirect_stdout(sys.stderr):
            function, name, about = _function(member, model, stack)
        asked, at = Function(function, timeout_s), f"{host}:{port}"
        optional(protocol, "protocols", _WHERE)
        if protocol == "mcp":
            from evolvent.teams import over_mcp

            served = over_mcp.server(asked, function, name, about)
            if port is None:
                if isinstance(sys.stdout, io.TextIOWrapper):
                    sys.stdout.reconfigure(line_buffering=True)  # what the function prints leaves while it is diverted
                served.run("stdio")
                return
            listening, at = listen(host, port)
            app = served.streamable_http_app(stateless_http=True, host=host)
            address = f"mcp:http://{at}/mcp"
        else:
            from evolvent.teams import over_a2a

            listening, at = listen(host, port or 0)
            asked = Function(over_a2a.typed(function), timeout_s)
            app = over_a2a.app(asked, f"http://{at}/", [*_LOOPBACK, host], name, about)
            address = f"a2a:http://{at}"
        sys.stdout.write(f"{name} answers at {address}\n")
        sys.stdout.flush()
        uvicorn = optional("uvicorn", "protocols", _WHERE)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2, timeout_keep_alive=75)
        uvicorn.Server(config).run(sockets=[listening])


def _function(text: str, model: str, stack: contextlib.ExitStack) -> tuple[Any, str, str]:
    """The function, its name, and what it says of itself."""
    at = outside.pointer(text)
    if at is None:
        raise BadInput("no member", got=text, expected="FILE.py:NAME", where=_WHERE)
    _, name, found = outside.load(at, "a member", ("answer", "team"))
    if not isinstance(found, Workflow | Member):
        if not callable(found):
            expected = "a function of a text, a Workflow or a Member"
            raise BadInput("not a member", got=type(found).__name__, expected=expected, where=text)
        return found, name, inspect.getdoc(found) or f"Answers a text: {name}."
    from evolvent import models
    from evolvent.runs.opening import answering
    from evolvent.teams.members import asking

    if model == "none":
        do = "evolvent list models"
        raise BadInput("nobody answers for it", got="model none", expected="--model MODEL", where=_WHERE, do=do)
    loaded = stack.enter_context(contextlib.closing(models.load(model)))
    about = f"Answers a task: {getattr(found, 'profile', '') or ', '.join(getattr(found, 'names', ()))}".strip()
    return asking(found, *answering(loaded, 0.0)), name, about


def _main(arguments: Sequence[str]) -> None:
    commands = {"channels": channels, "serve": serve}
    named = arguments[0] if arguments else "none"
    if named in ("-h", "--help"):
        sys.stdout.write("for example: evolvent teams channels answers.jsonl\n\n")
        sys.stdout.write("evolvent teams channels FILE   do a team's agents differ, and what does a vote gain by it\n")
        sys.stdout.write("evolvent teams serve FILE:NAME --as mcp|a2a   a member as an MCP tool or an A2A agent\n")
        sys.stdout.write("Settings: evolvent teams COMMAND --help\n")
    elif named in commands:
        parsed(commands[named], arguments[1:], f"evolvent teams {named}")
    else:
        raise BadInput("unknown command", got=named, expected=" or ".join(commands), where="evolvent teams")


COMMANDS = {"teams": _main}
