"""The arguments of a command line, read by their types; wrong ones are reported as every other error is."""

from __future__ import annotations

import functools
import io
import re
import shlex
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from typing import Any

_EXAMPLE = re.compile(r"^ *Example: (.*)\n(?: *\n)?", re.MULTILINE)


def parsed(command: Callable[..., Any] | Mapping[str, Callable[..., Any]], arguments: Sequence[str], prog: str) -> Any:
    """Call a command, or the one of several that the arguments name, with the rest of them.

    Its help opens with the example in its docstring, a line ``Example: …``; that of several with the first one's.

    Raises:
        BadInput: arguments that it does not take.
    """
    import tyro

    words = list(arguments)
    if {"-h", "--help"} & set(words[: words.index("--")] if "--" in words else words):
        _say_example(command if callable(command) else command.get(words[0], next(iter(command.values()))))
    with errors_reported(arguments, prog):  # while they are read alone: the command is called after it
        if callable(command):
            call: Any = tyro.cli(_later(command), args=list(arguments), prog=prog)
        else:
            later = {name: _later(one) for name, one in command.items()}
            call = tyro.extras.subcommand_cli_from_dict(later, args=list(arguments), prog=prog)
    return call()


@contextmanager
def errors_reported(arguments: Sequence[str], prog: str) -> Generator[None]:
    """What the parser refuses becomes ``BadInput``, without the boxes that it draws; what settings refuse stays."""
    from evolvent.core.errors import BadInput

    said = io.StringIO()
    try:
        with redirect_stderr(said):
            yield
    except SystemExit as stopped:
        if stopped.code != 2 or not said.getvalue():
            raise
        cause: BaseException | None = stopped
        while (cause := cause.__context__) is not None:
            if isinstance(cause, BadInput):  # of the settings themselves: the parser prints it on one line
                raise cause from None
        lines = [line.strip("│╭╮╰╯─┌┐└┘ ") for line in said.getvalue().splitlines()]
        # where only ASCII can be written a rule is made of minus signs
        title, *rest = [line for line in lines if line.strip("-")] or [""]
        rest = rest[: next((i for i, line in enumerate(rest) if line.startswith("For full helptext")), len(rest))]
        got = shlex.join(arguments) or "no arguments"
        what = f"{title[:1].lower()}{title[1:]}"
        raise BadInput(what, got=got, expected=" ".join(rest), where=prog, do=f"{prog} --help") from None


def _later(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that is called later: for the parser it looks the same."""

    @functools.wraps(command)
    def call(*given: Any, **named: Any) -> Any:
        return functools.partial(command, *given, **named)

    call.__doc__ = _EXAMPLE.sub("", command.__doc__ or "")  # it stands above
    return call


def _say_example(command: Callable[..., Any]) -> None:
    found = _EXAMPLE.search(command.__doc__ or "")
    if found is not None:
        sys.stdout.write(f"for example: {found[1]}\n\n")
