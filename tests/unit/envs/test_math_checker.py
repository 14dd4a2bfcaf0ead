"""Answers judged as mathematics: by a package that is asked within a time limit, and named where it is not there."""

import importlib.util
import sys
import threading
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from evolvent.core.errors import BadInput, MissingExtra
from evolvent.envs.text._math import LONGEST, SECONDS, checker


@pytest.fixture
def stub(monkeypatch):
    """A package of that name that reads whole numbers."""
    module, asked = ModuleType("math_verify"), []
    module.__spec__ = ModuleSpec("math_verify", None)

    def parse(text, *, parsing_timeout):
        asked.append((text, parsing_timeout))
        return [int(text)] if text.lstrip("-").isdigit() else []

    module.__dict__.update(parse=parse, verify=lambda gold, said, *, timeout_seconds: gold == said)
    monkeypatch.setitem(sys.modules, "math_verify", module)
    return asked


def test_the_extra_is_named_where_it_is_not_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"math-verify is not installed(.|\n)*'math'(.|\n)*own verifier"):
        checker("here")


def test_what_cannot_be_read_is_wrong_and_time_is_limited(stub):
    check = checker("here")
    assert check("9", "9") and not check("9", "19") and not check("9", "nine")
    assert {limit for _, limit in stub} == {SECONDS}
    assert not check("9", "9" * 5000) and max(len(text) for text, _ in stub) == LONGEST
    with pytest.raises(BadInput, match="no mathematics"):
        check("an apple", "9")


def test_another_thread_is_refused_because_time_could_not_be_limited_there(stub):
    check, found = checker("here"), []

    def ask():
        try:
            check("9", "9")
        except BadInput as error:
            found.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert "--workers 0" in found[0]


@pytest.mark.parametrize(
    ("right", "answer", "same"),
    [
        ("1000", "1,000", True),
        ("9", "9.0", True),
        ("9", "the answer is $9$", True),
        ("72", "\\boxed{72}", True),
        ("1/2", "0.5", True),
        ("9", "19", False),
        ("9", "no idea", False),
        ("9", "", False),
        ("9", "9**9**9**9", False),
    ],
)
def test_numbers_are_the_same_however_they_are_written(right, answer, same):
    pytest.importorskip("math_verify")
    assert checker("here")(right, answer) is same
