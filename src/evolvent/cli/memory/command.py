"""`evolvent memory`: look into a memory, mend it, move it."""

from __future__ import annotations

from evolvent.cli.memory import look, mend, move
from evolvent.core.errors import BadInput
from evolvent.core.words import parsed


def _main(words: list[str]) -> None:
    if words[:1] == ["undo"]:
        do = "evolvent memory rollback STORE --to TIME (just before the act), or restore STORE ID…"
        raise BadInput("there is no undo", got=" ".join(words), where="evolvent memory", do=do)
    commands = {**look.COMMANDS, **move.COMMANDS, **mend.COMMANDS}
    parsed(commands, words, "evolvent memory")


COMMANDS = {"memory": _main}
