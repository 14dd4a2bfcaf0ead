"""Every `--help` of the command line opens with an example, of that very command, that the parser takes."""

import contextlib
import functools
import shlex

import pytest

from evolvent.cli import _COMMANDS, export, main
from evolvent.cli.memory import command
from evolvent.core import arguments

OF_MEMORY = [name for group in command._GROUPS for name in group.COMMANDS]
EVERY = [
    *([name] for name in _COMMANDS),
    *(["memory", name] for name in OF_MEMORY),
    *(["export", name] for name in export._FORMATS),
    *(["sandbox", name] for name in ("check", "run")),
]


def nothing(call):
    """A command that reads its words and then does nothing."""
    return functools.wraps(call)(lambda *given, **named: lambda: None)


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_opens_with_an_example_that_is_understood(words, monkeypatch, capsys):
    with contextlib.suppress(SystemExit):
        main([*words, "--help"])
    first, blank, *rest = capsys.readouterr().out.splitlines()
    start = "for example: " + shlex.join(["evolvent", *words])
    assert first.startswith(start) and not blank and not any("Example:" in line for line in rest), first
    if words == ["run"]:  # the examples of systems: test_help_is_light.py
        return
    monkeypatch.setattr(arguments, "_later", nothing)
    main(shlex.split(first.removeprefix("for example: evolvent ")))
