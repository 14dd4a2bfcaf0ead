"""A frozen model that writes programs, which are run and judged."""

from __future__ import annotations

import shlex

from evolvent.core.folder import RunFolder
from evolvent.runs.kind import Choice, Kind
from evolvent.runs.programs.account import account


def _instead(folder: RunFolder) -> str:
    command = ["evolvent", "run", str(folder.manifest()["algo"]), "--split", "heldout", "--memory", str(folder.path)]
    return f"what it learned, on other kernels: {shlex.join(command)}"


KIND = Kind(
    "programs",
    "programs: a frozen model writes programs that are run",
    account,
    instead=_instead,
    choices=(
        Choice(
            "a model that writes programs, and a way to run and judge them",
            "a memory of programs and lessons with a value for each stage; the model stays as it is",
            "evolvent run evokernel",
            "llama",
            "not measured yet",
            "no",
            "compiler, tests and clock judge, in a sandbox; a 1.5B model could use one plain lesson and not an "
            "intricate one; whether the values help has not been measured",
            "kernels.md",
        ),
    ),
)
