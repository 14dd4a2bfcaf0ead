"""`evolvent export FORMAT`: recorded decisions with their credit, or the trained model, for programs elsewhere."""

from __future__ import annotations

import inspect
import sys

from evolvent.cli.export.documents import atif, verifiers
from evolvent.cli.export.merged import merged
from evolvent.cli.export.pairs import pairs
from evolvent.cli.export.rows import jsonl, tinker, trl
from evolvent.cli.export.verl import verl
from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput

_FORMATS = {one.__name__: one for one in (verl, pairs, jsonl, trl, tinker, verifiers, atif, merged)}


def _main(arguments: list[str]) -> None:
    named = arguments[0] if arguments else "none"
    if named in ("-h", "--help"):
        said = {name: (inspect.getdoc(do) or "").split("\n")[0] for name, do in _FORMATS.items()}
        lines = (f"evolvent export {name:<9} DIR --out FILE   {what}\n" for name, what in said.items())
        sys.stdout.write("for example: evolvent export verl runs/grpo --out batch.npz\n\n" + "".join(lines))
        sys.stdout.write("Settings of one: evolvent export NAME --help; the rule: --rule NAME\n")
    elif named in _FORMATS:
        parsed(_FORMATS[named], arguments[1:], f"evolvent export {named}")
    else:
        expected = f"evolvent export {'|'.join(_FORMATS)} DIR --out FILE"
        raise BadInput("unknown format", got=named, expected=expected, where="evolvent export")


COMMANDS = {"export": _main}
