"""BFCL's classes and its checker of conversations, run in the sandbox: they are another's code, fetched, not shipped.

A process an attempt holds the official modules of the wheel (``multi_turn_checker`` and the classes that it calls) and
mpmath, which one of them needs. What a model says enters as calls that were read here: a name and values, written out
as literals, so that nothing of it but a call is ever evaluated.
"""

from __future__ import annotations

import keyword
import zipfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from evolvent.core.fetch import checked_package
from evolvent.envs.text._places import Place
from evolvent.sandbox import Guest, Limits, Sandbox

MPMATH = "mpmath==1.3.0", "a0b2b9fe80bbcd81a6647ff13108738cfb482d481d826cc0e02f5b35e5c88d2c"
LIMITS = Limits(wall=30.0, cpu=60.0)
_PLACE = Place(lambda: Sandbox("python"))
_HOME = "bfcl_eval/eval_checker/multi_turn_eval/"
_CLASSES = "gorilla_file_system long_context math_api message_api posting_api ticket_api trading_bot travel_booking"
_FILES = (
    "bfcl_eval/constants/executable_backend_config.py",
    f"{_HOME}multi_turn_checker.py",
    f"{_HOME}multi_turn_utils.py",
    *(f"{_HOME}func_source_code/{name}.py" for name in (*_CLASSES.split(), "vehicle_control")),
)
_ASKED = '''
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call


def execute(entry, calls):
    """What calls come to, on the state that those before have left."""
    long = "long_context" in entry["id"]
    given = calls, entry["initial_config"], entry["involved_classes"], "model", entry["id"], long
    return execute_multi_turn_func_call(*given)[0]


def judged(entry, said, gold):
    """The official verdict on the calls of each turn, each step of it; the kind of error, or nothing."""
    found = multi_turn_checker(said, gold, entry, "", "model")
    return "" if found["valid"] else str(found["error_type"])
'''


class Judge:
    """One conversation in the sandbox.

    Args:
        wheel: of ``bfcl-eval``.
        entry: the item as the wheel has it: ``id``, ``initial_config``, ``involved_classes``.
    """

    def __init__(self, wheel: Path, entry: Mapping[str, Any]) -> None:
        self._entry = {key: entry[key] for key in ("id", "initial_config", "involved_classes")}
        files = dict(_files(wheel)) | (dict(_mpmath(wheel.parent)) if "MathAPI" in entry["involved_classes"] else {})
        self._guest: Guest = _PLACE.enter(self).open(files, "asked", LIMITS)

    def execute(self, calls: Sequence[str]) -> list[str]:
        """The results of calls, in order.

        Raises:
            GuestError: the process ended, by a limit for example; ``judged``, too.
        """
        return self._guest.call("execute", self._entry, list(calls))

    def judged(self, said: Sequence[Sequence[Sequence[str]]], gold: Sequence[Sequence[str]]) -> str:
        """The official verdict: "" = valid, else the kind of error. By turn and step what was called; by turn gold."""
        return self._guest.call("judged", self._entry, [list(map(list, turn)) for turn in said], list(map(list, gold)))

    def close(self) -> None:
        """End the process."""
        self._guest.close()
        _PLACE.leave(self)


def as_text(call: Mapping[str, Any], known: Sequence[str]) -> str:
    """A call as the official checker evaluates it, of literals alone; one that nobody knows where it cannot be."""
    arguments: Mapping[str, Any] = call["arguments"]
    if call["name"] not in known or not all(key.isidentifier() and not keyword.iskeyword(key) for key in arguments):
        return "no_such_function()"
    return f"{call['name']}({','.join(f'{key}={value!r}' for key, value in arguments.items())})"


@lru_cache(maxsize=2)
def _files(wheel: Path) -> tuple[tuple[str, str | bytes], ...]:
    with zipfile.ZipFile(wheel) as archive:
        files = [(name, archive.read(name)) for name in _FILES]
    folders = {parent.as_posix() for name in _FILES for parent in Path(name).parents} - {"."}
    return (*files, *((f"{folder}/__init__.py", b"") for folder in sorted(folders)), ("asked.py", _ASKED))


@lru_cache(maxsize=2)
def _mpmath(place: Path) -> tuple[tuple[str, bytes], ...]:
    with zipfile.ZipFile(checked_package(*MPMATH, place)) as archive:
        names = [one for one in archive.namelist() if one.endswith(".py") and "/tests/" not in one]
        return tuple((name, archive.read(name)) for name in names)
