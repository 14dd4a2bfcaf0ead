"""`evolvent memory`: look into a memory, mend it, move it."""

from __future__ import annotations

from evolvent.cli.memory import blame, lift, look, mend, move, skills
from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput


def _main(arguments: list[str]) -> None:
    if arguments[:1] == ["undo"]:
        do = "evolvent memory rollback STORE --to TIME (just before the act), or restore STORE ID…"
        raise BadInput("there is no undo", got=" ".join(arguments), where="evolvent memory", do=do)
    commands = {**look.COMMANDS, **lift.COMMANDS, **move.COMMANDS, **mend.COMMANDS, **blame.COMMANDS, **skills.COMMANDS}
    parsed(commands, arguments, "evolvent memory")


COMMANDS = {"memory": _main}
