"""What a part is, and when it counts as changed."""

import functools
import subprocess
import sys

import pytest

from evolvent.teams.parts import Chosen, fingerprint, masks_of, parts_of

PROMPT = "Think."


def plan(task, depth=3):
    return [task, PROMPT, depth]


def made(word):
    def speak():
        return word

    return speak


def enclosing(log):
    def speak():
        return log

    return speak


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", "b"),
        (1, "1"),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 2}),
        (made("yes"), made("no")),
        (functools.partial(plan, depth=1), functools.partial(plan, depth=2)),
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x, y=1: x, lambda x, y=2: x),
        (len, print),
    ],
)
def test_what_differs_has_another_print(one, other):
    assert fingerprint(one)[0] != fingerprint(other)[0] and fingerprint(one)[1]


def test_the_same_has_the_same_print_in_another_process():
    values = "(plan, made('yes'), {'b': {1, 'x'}, 'a': (None, b'x')}, functools.partial(plan, depth=1))"
    code = f"import functools, test_teams_parts as t; plan, made = t.plan, t.made; print(t.fingerprint({values})[0])"
    command = [sys.executable, "-c", code]
    path = ":".join([*sys.path, __file__.rpartition("/")[0]])
    runs = [
        subprocess.run(command, env={"PYTHONPATH": path, "PYTHONHASHSEED": seed}, capture_output=True, text=True)
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout != "", runs[0].stderr


def test_what_changes_while_it_runs_does_not_count():
    log = []
    before = fingerprint(enclosing(log))
    log.append("said")
    assert fingerprint(enclosing(log)) == before and not before[1]


def test_labels_differ_and_are_short():
    (a, b, c) = parts_of({"a": (None, plan), "b": (made("x"), made("y")), "c": ("long " * 30, "long " * 31)})
    assert a.labels == ("none", "plan") and b.labels == ("speak (weak)", "speak (strong)")
    assert c.labels[0] != c.labels[1] and max(map(len, c.labels)) < 40


def test_what_was_asked_for_is_noted_however_it_is_asked():
    parts = parts_of({"a": (0, 1), "b": (0, 1), "c": (0, 1)})
    chosen = Chosen(parts, 0b101)
    assert "a" in chosen and len(chosen) == 3 and not chosen.read
    assert chosen["a"] == 1 and chosen.get("b") == 0 and chosen.get("z") is None and chosen.read == {"a", "b"}
    assert (lambda **given: given)(**chosen) == {"a": 1, "b": 0, "c": 1} and chosen.read == {"a", "b", "c"}


def test_configurations_hold_none_all_and_each_alone():
    import numpy as np

    assert masks_of(3, np.random.default_rng(0)) == list(range(8))
    masks = masks_of(12, np.random.default_rng(0))
    assert {0, 4095, *(1 << i for i in range(12)), *(4095 - (1 << i) for i in range(12))} <= {*masks}
    assert masks[0] == 0 and masks[-1] == 4095 and len(masks) < 120
