"""`evolvent memory`: look into a memory, mend it, move it."""

from __future__ import annotations

import tyro

from evolvent.cli.memory import look, mend, move


def _main(words: list[str]) -> None:
    commands = {**look.COMMANDS, **move.COMMANDS, **mend.COMMANDS}
    tyro.extras.subcommand_cli_from_dict(commands, args=words, prog="evolvent memory")


COMMANDS = {"memory": _main}
