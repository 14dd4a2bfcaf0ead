"""`evolvent run`: one run, or one run a seed and their comparison. Flags come from the system's dataclass."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from evolvent import catalogue, running
from evolvent.cli import help, say
from evolvent.core import config as configs
from evolvent.core.arguments import errors_reported
from evolvent.core.errors import BadInput, closest
from evolvent.evaluate.live import Live
from evolvent.running import Where


@dataclasses.dataclass(frozen=True)
class RunOptions(Where):
    """Where a run goes, and how it is shown."""

    plain: bool = False
    """Plain text output even on a terminal."""


def main(arguments: list[str]) -> None:
    """Start, or continue, what the arguments after `evolvent run` ask for."""
    if not arguments or arguments[0].startswith("-"):
        if arguments:
            say(f"for example: {help.example('memlift', catalogue.defaults_of('memlift'))}\n")
        say("usage: evolvent run ALGO [--field value ...]; `evolvent run ALGO --help` shows the fields")
        for title, group in catalogue.by_kind(catalogue.brought("algos")[0]).items():
            say("\n".join([f"\n{title}", *(f"  {entry.name:16} {entry.summary}" for entry in group)]))
        sys.exit(0 if arguments and arguments[0] in ("-h", "--help") else 2)
    name, *rest = arguments
    kind = catalogue.settings_of(name)
    if {"-h", "--help", "--help-all"} & set(rest):
        _explain(name, catalogue.defaults_of(name), whole="--help-all" in rest)
    running.check_env(kind, _given("--env", rest) or "")  # before what the system runs with is imported
    found = catalogue.system(name)
    resumed = _given("--resume", rest)
    stored = running.stored_config(found, None if resumed is None else Path(resumed))
    default = found.settings() if stored is None else stored
    with found.faults():  # its settings may check what they are given
        options, config = _parse(found.Config, name, rest, default)
    if "--seeds" in rest and not options.seeds:  # as of an empty variable: not one run of seed 0 instead
        raise BadInput("--seeds without seeds", expected="--seeds 0 1 2", where=name, do="leave it out for one run")
    with Live(plain=True if options.plain else None) as live:
        running.start(found, config, options, shlex.join(["evolvent", "run", *arguments]), live)


def _explain(name: str, default: Any, *, whole: bool) -> None:
    """Print the settings of a system, or those that matter first, and end."""
    say(f"for example: {help.example(name, default)}\n")
    names = help.shown(default, RunOptions(), sys.maxsize if whole else help.MOST)
    config, options = (help.with_shown(one, names) for one in (default, RunOptions()))
    try:
        _parse(config, name, ["--help"], config(), options)
    except SystemExit:
        if not whole:
            count = len(configs.flat(default)) + len(dataclasses.fields(RunOptions))
            say(help.others(name, count - len(names)))
        raise


def _parse(
    kind: type, name: str, arguments: Sequence[str], default: Any, options: type = RunOptions
) -> tuple[RunOptions, Any]:
    """Options and configuration from the command line; those of a resumed run are the defaults."""
    hidden = tyro.conf.OmitArgPrefixes
    parsed: Any
    unknown: list[str]
    with errors_reported(arguments, f"evolvent run {name}"):
        parsed, unknown = tyro.cli(
            dataclasses.make_dataclass(
                "Run",
                [
                    ("config", Annotated[kind, hidden], dataclasses.field(default_factory=lambda: default)),
                    ("run", Annotated[options, hidden], dataclasses.field(default_factory=options)),
                ],
            ),
            args=list(arguments),
            prog=f"evolvent run {name}",
            description=(sys.modules[kind.__module__].__doc__ or "").strip(),
            return_unknown_args=True,
        )
    if unknown:
        fields = [*configs.flat(default), *(field.name for field in dataclasses.fields(RunOptions))]
        raise BadInput(
            "unknown option",
            got=" ".join(unknown),
            expected=closest(unknown[0].partition("=")[0], map(configs.flag, fields)),
            where=name,
            do=f"`evolvent run {name} --help-all` says what each is for",
        )
    return parsed.run, parsed.config


def _given(flag: str, arguments: Sequence[str]) -> str | None:
    """The value of a flag."""
    for i, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == flag and (equals or i + 1 < len(arguments)):
            return value if equals else arguments[i + 1]
    return None


COMMANDS = {"run": main}
