"""Held-out success before and after learning, on the page of a language model: the same tasks are compared in pairs."""

from evolvent.evaluate.blocks import Comparison, Number
from evolvent.runs.language.account import _paired


def rows(when, *won, tasks=None, valid=()):
    return [
        {"phase": when, "task": f"t{i if tasks is None else tasks[i]}", "success": one, "valid": int(i not in valid)}
        for i, one in enumerate(won)
    ]


def against(name, own, other, rate=True):
    return Comparison(name, own=Number("score", own, rate=rate), other=Number(name, other, rate=rate))


def test_the_same_tasks_are_compared_in_pairs():
    heldout = rows("before", False, True, False, True) + rows("after", True, True, None, False, valid=(2,))
    found = [against("before learning", 0.5, 0.5), against("random play", 0.5, 0.1)]
    paired, other = _paired(found, heldout)
    assert paired.pairs == (("t0", 1, 0), ("t1", 1, 1), ("t2", 0, 0), ("t3", 0, 1)), "what broke is a failure"
    assert other is found[1]


def test_other_numbers_than_the_attempts_came_to_stay_as_they_are():
    heldout = rows("before", False, True) + rows("after", True, True)
    for found in (
        against("before learning", 0.9, 0.5),  # of sampled answers, say
        against("before learning", 1.0, 0.5, rate=False),  # returns
    ):
        assert _paired([found], heldout) == [found]
    twice = rows("before", False, True, tasks=[0, 0]) + rows("after", True, True, tasks=[0, 0])
    found = against("before learning", 1.0, 0.5)
    assert _paired([found], twice) == [found] and _paired([found], []) == [found]
