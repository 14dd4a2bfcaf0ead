"""`evolvent memory`: look into a memory, mend it, move it."""

from __future__ import annotations

from evolvent.cli.memory import blame, learn, lift, look, mend, move, skills
from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput

_GROUPS = (look, lift, blame, learn, skills, move, mend)


def _main(arguments: list[str]) -> None:
    if arguments[:1] == ["undo"]:
        do = "evolvent memory rollback STORE --to TIME (just before the act), or restore STORE ID…"
        raise BadInput("there is no undo", got=" ".join(arguments), where="evolvent memory", do=do)
    parsed({name: do for group in _GROUPS for name, do in group.COMMANDS.items()}, arguments, "evolvent memory")


COMMANDS = {"memory": _main}
