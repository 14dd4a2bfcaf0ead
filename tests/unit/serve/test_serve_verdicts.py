"""What follows from evidence: by rank, by the run before, and whatever the order in which it is looked at."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.serve.verdicts import IDLE_S, LAPSE_S, Evidence, Verdict, passed, resolve

A, B, C = "aaaaaaaa", "bbbbbbbb", "cccccccc"


def run_of(id_, good="", bad="", run="", at=0.0):
    return Evidence(id_, "a1", "tests", "tests", "ci", None, run, {"passed": good, "failed": bad}, at)


def ran(id_, code, command="make check", kind="command", run=""):
    source = "tests" if kind == "command" else "proxy"
    return Evidence(id_, "a1", kind, source, "ci", None, run, {"command": command, "code": code})


def person(id_, reward, who="ann", at=0.0):
    return Evidence(id_, "a1", "person", "human", who, reward, at=at)


def git(id_, kind, of="c1", at=0.0):
    reward = False if kind == "reverted" else None
    return Evidence(id_, "a1", kind, "env", "ci", reward, detail={"commit": f"x{id_}", "of": of}, at=at)


def says(own, before=(), quiet=0.0):
    found = resolve(own, before, 0.0, quiet)
    return (found.reward, found.weight) if found.state == "settled" else found.state


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ([run_of(1, good=A, bad=B)], [run_of(9, good=A + B)], (True, 1.0)),  # failing → passing
        ([run_of(1, good=A + B)], [run_of(9, good=A + B)], (True, 0.5)),  # nothing was at stake
        ([run_of(1, good=A + B)], [run_of(9, good=A, bad=B)], (False, 1.0)),
        ([run_of(1, good=A, bad=B)], [run_of(9, good=A, bad=B)], "open"),  # it was so before
        ([run_of(1, good=A, bad=B)], [run_of(9, good=B, bad=A)], (False, 1.0)),  # one for another
        ([run_of(1, bad=A + B)], [run_of(9, good=A, bad=B)], (True, 0.5)),
        ([run_of(1, good=A, bad=B)], [run_of(9, good=A)], "open"),  # what failed was deleted, or not run
        ([run_of(1, bad=A + B)], [run_of(9, good=A)], (True, 0.5)),
        ([run_of(1, good=A)], [run_of(9, bad=C)], "open"),  # a new test that fails from the start
        ([run_of(1, good=A)], [run_of(8, bad=C), run_of(9, good=C)], (True, 1.0)),  # written first, then made to pass
        ([], [run_of(9, good=A)], (True, 0.5)),
        ([], [run_of(9, bad=A)], "open"),
        ([], [run_of(8, bad=A), run_of(9, good=A)], (True, 1.0)),
        ([], [run_of(8, good=A), run_of(9, bad=A)], (False, 1.0)),
        ([run_of(1, bad=A), run_of(2, good=B)], [run_of(9, good=A)], (True, 1.0)),  # two runs before tell of all tests
        ([ran(1, 1)], [ran(9, 0)], (True, 1.0)),
        ([ran(1, 0)], [ran(9, 2)], (False, 1.0)),
        ([ran(1, 1, "make a")], [ran(9, 0, "make b")], "open"),
    ],
)
def test_a_run_says_something_beside_the_run_before(before, now, said):
    assert says(now, before) == said


def test_the_tests_of_a_run_count_and_not_its_exit_code():
    own = [run_of(1, good=A, bad=B, run="r"), ran(2, 1, run="r"), run_of(3, good=A, bad=B, run="s"), ran(4, 0, run="s")]
    assert says(own) == "open"


@pytest.mark.parametrize("code", [-9, 124, 126, 127, 130, 137])
def test_an_exit_code_that_tells_nothing_about_the_work(code):
    assert passed("make check", code) is None and says([ran(1, 0), ran(2, code)]) == (True, 0.5)


def test_pytest_says_by_its_exit_code_that_no_test_was_judged():
    for command in ("pytest -q", "python -m pytest", ".venv/bin/py.test 'a b'", "uv run pytest 'unfinished"):
        assert [passed(command, code) for code in range(6)] == [True, False, None, None, None, None]
    assert passed("make pytest-all", 2) is False


def test_the_highest_rank_decides_and_in_it_the_newest():
    own = [run_of(1, good=A), person(2, False), run_of(3, good=A), ran(4, 0, kind="exit")]
    assert says(own) == (False, 1.0)
    assert says([*own, person(5, True, at=90.0)]) == (True, 1.0)
    assert says([*own, person(5, None)]) == (None, 1.0)  # cannot tell: no outcome, whatever tests say


def test_a_revert_revises_and_a_revert_of_it_brings_back():
    fixed = [ran(1, 1), ran(2, 0)]
    assert says(fixed) == (True, 1.0)
    assert says([*fixed, git(3, "reverted")]) == (False, 1.0)
    assert says([*fixed, git(3, "reverted"), git(4, "reapplied")]) == (True, 1.0)
    assert says([*fixed, git(3, "reverted"), git(4, "reapplied"), git(5, "reverted")]) == (False, 1.0)
    assert says([*fixed, git(3, "reverted"), git(4, "reapplied", of="another")]) == (False, 1.0)


def test_two_that_count_alike_and_contradict_each_other_at_once_wait_for_a_person():
    assert says([person(1, True, "ann", 10.0), person(2, False, "bob", 30.0)]) == "conflict"
    assert says([person(1, True, "ann", 10.0), person(2, False, "ann", 30.0)]) == (False, 1.0)  # thought again
    assert says([person(1, True, "ann", 10.0), person(2, False, "bob", 99.0)]) == (False, 1.0)
    unsure = [person(1, True, "ann", 10.0), person(2, None, "ann", 20.0), person(3, False, "bob", 30.0)]
    assert says(unsure) == (False, 1.0)


def test_what_an_agent_ran_itself_counts_a_quarter_and_late():
    own = [ran(1, 1, kind="exit"), ran(2, 0, kind="exit")]
    assert says(own) == "waiting" and says(own, quiet=IDLE_S) == (True, 0.25)
    assert says([*own, ran(3, 1), ran(4, 0)]) == (True, 1.0)


def test_when_nobody_says_anything_it_is_no_outcome():
    assert says([]) == "open" and says([ran(1, 1)], quiet=LAPSE_S) == (None, 1.0)


EVIDENCE = st.lists(
    st.one_of(
        st.builds(lambda g, b: ("tests", g, b), st.sampled_from(["", A, A + B]), st.sampled_from(["", C])),
        st.tuples(st.just("command"), st.integers(0, 3)),
        st.tuples(st.just("exit"), st.integers(0, 3)),
        st.tuples(st.just("person"), st.sampled_from([True, False, None]), st.sampled_from(["ann", "bob"])),
        st.sampled_from([("reverted",), ("reapplied",)]),
        st.just(("claim",)),
    ),
    max_size=12,
)


def built(rows):
    made = []
    for id_, (kind, *more) in enumerate(rows, 1):
        if kind == "tests":
            made.append(run_of(id_, *more, at=7.0 * id_))
        elif kind in ("command", "exit"):
            made.append(ran(id_, *more, kind=kind))
        elif kind == "person":
            made.append(person(id_, *more, at=7.0 * id_))
        elif kind == "claim":
            made.append(Evidence(id_, "a1", "claim", "proxy", "agent", True))
        else:
            made.append(git(id_, kind, at=7.0 * id_))
    return made


@given(EVIDENCE, EVIDENCE, st.randoms(), st.sampled_from([0.0, IDLE_S, LAPSE_S]))
@settings(max_examples=200, deadline=None)
def test_the_order_in_which_it_is_looked_at_and_how_often_changes_nothing(before, own, draw, now):
    earlier = [one for one in built(before) if one.kind in ("tests", "command", "exit")]
    said, shuffled = built(own), built(own) + random.Random(0).sample(built(own), len(own))
    draw.shuffle(shuffled)
    assert resolve(shuffled, draw.sample(earlier, len(earlier)), 0.0, now) == resolve(said, earlier, 0.0, now)


@given(EVIDENCE, st.sampled_from([0.0, IDLE_S, LAPSE_S]))
@settings(max_examples=200, deadline=None)
def test_a_claim_of_the_model_moves_nothing(own, now):
    said = built(own)
    with_claims = [*said, *(Evidence(100 + i, "a1", "claim", "proxy", "agent", True) for i in range(3))]
    silent = [one for one in said if one.kind != "claim"]
    found, without = resolve(with_claims, (), 0.0, now), resolve(silent, (), 0.0, now)
    if without == Verdict():
        assert found.state == "open" and found.reward is None
    else:
        assert found == without
