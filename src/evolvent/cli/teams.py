"""`evolvent teams channels`: what the answers of several agents have in common, and what a vote gains by it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.evaluate.live import Live
from evolvent.memory import embedders
from evolvent.runs.language.rows import json_lines
from evolvent.teams.channels import measure
from evolvent.teams.table import FIELDS, read
from evolvent.teams.telling import page_of, tables, words


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


def _main(arguments: Sequence[str]) -> None:
    commands = {"channels": channels}
    named = arguments[0] if arguments else "none"
    if named in ("-h", "--help"):
        sys.stdout.write("for example: evolvent teams channels answers.jsonl\n\n")
        sys.stdout.write("evolvent teams channels FILE   do a team's agents differ, and what does a vote gain by it\n")
    elif named in commands:
        parsed(commands[named], arguments[1:], f"evolvent teams {named}")
    else:
        raise BadInput("unknown command", got=named, expected=" or ".join(commands), where="evolvent teams")


COMMANDS = {"teams": _main}
