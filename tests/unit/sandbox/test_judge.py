"""No program writes its own verdict; values that cross are plain; the honest one is accepted."""

import math
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolvent.core.errors import BadInput
from evolvent.sandbox import Case, GuestError, Limits, Sandbox, judge
from evolvent.sandbox.jail.values import BadValue, dumps, loads, same
from evolvent.testing.sandbox.cheats import CHEATS, believed, judged
from evolvent.testing.sandbox.world import leftovers

HONEST = [c.name for c in CHEATS if c.sign == "honest"]


@pytest.fixture(scope="module", params=["own", "own+ns"])
def sandbox(request):
    with Sandbox(mechanism=request.param, warm=0) as sandbox:
        yield sandbox


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda c: f"{c.group}: {c.name}")
def test_only_the_honest_program_is_judged_right(sandbox, cheat):
    verdict = judged(cheat, sandbox)
    assert verdict.passed == (cheat.sign == "honest"), verdict
    assert verdict.valid and leftovers(sandbox) == ""


def test_a_judge_that_believes_the_program_accepts_many_cheats(sandbox):
    """So that each cheat that is refused above says something about the judge."""
    accepted = [c.name for c in CHEATS if c.group == "function" and c.sign == "cheat" and believed(c, sandbox).ok]
    assert {"exit 0 while it is imported", "equal to everything", "leave with 0 at exit"} <= set(accepted)
    assert len(accepted) >= 8, accepted


def test_the_verdict_says_what_happened(sandbox):
    program = """
def f(x):
    if x == 1: return 10
    if x == 2: raise KeyError('no')
    if x == 3: return object()
    if x == 4: exit()
    return x
"""
    cases = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), Case((1,), "the secret", hidden=True)]
    verdict = judge(program, cases, function="f", sandbox=sandbox)
    assert [o.status for o in verdict.outcomes] == ["wrong", "raised", "value", "exited", "right", "wrong"]
    assert verdict.share == 1 / 6 and not verdict.passed and verdict.mechanism == sandbox.mechanism.name
    text = verdict.feedback(most=9)
    assert "got 10, expected 1" in text and "KeyError: 'no'" in text and "secret" not in text
    assert not judge(program, [], function="f", sandbox=sandbox).passed


def test_a_call_without_an_end_speaks_for_the_others_where_nobody_waits(sandbox):
    program, limits = "import time\ndef f(x): time.sleep(100 if x == 2 else 0); return x", Limits(wall=0.5)
    cases = [(1, 1), (2, 2), (3, 3), Case((4,), 4, hidden=True)]
    facts = {
        patient: judge(program, cases, function="f", sandbox=sandbox, limits=limits, patient=patient)
        for patient in (True, False)
    }
    assert [o.status for o in facts[True].outcomes] == ["right", "time", "right", "right"]
    assert [o.status for o in facts[False].outcomes] == ["right", "time", "time", "right"]


def test_hidden_inputs_do_not_come_out_with_the_answer_to_a_shown_one(sandbox):
    program = "seen = []\ndef f(x):\n  seen.append(x)\n  raise ValueError(seen)"
    cases = [Case((77,), 0, hidden=True), Case((1,), 0), Case((88,), 0, hidden=True)]
    verdict = judge(program, cases, function="f", sandbox=sandbox)
    assert "1" in verdict.feedback() and "77" not in verdict.feedback() and "88" not in verdict.feedback()
    assert [o.case.inputs for o in verdict.outcomes] == [(77,), (1,), (88,)]


def test_checkers_tolerance_and_types(sandbox):
    def near(x, value):
        return judge(f"def f(): return {value}", [((), x)], function="f", sandbox=sandbox, tolerance=1e-6).passed

    assert near(1.0, "1.0000001") and not near(1.0, "1.001") and not near(1, "1.0") and not near(1, "True")
    assert near({"a": [1, (2.0,)]}, "{'a': [1, (2.0,)]}") and not near({"a": [1]}, "{'a': (1,)}")
    assert near(lambda got: sorted(got) == [1, 2], "[2, 1]") and not near(lambda got: sorted(got) == [1, 2], "3")
    assert near(float("nan"), "float('nan')") and near({1, 2}, "{2, 1}")
    for wrong in ([(object(), 1)], [(1, object())], [1], [((1,), 2, 3)]):
        with pytest.raises(BadInput):
            judge("", wrong, function="f", sandbox=sandbox)
    with pytest.raises(BadInput):
        judge({"other.py": ""}, [("", "")], sandbox=sandbox)
    with pytest.raises(BadInput, match="no program"):
        judge(None, [], sandbox=sandbox)
    for distance in (math.nan, 0.5, None):
        with pytest.raises(BadInput, match="True or False"):
            near(lambda got, said=distance: said, "1")


def test_a_case_may_have_a_tolerance_of_its_own(sandbox):
    near = [Case((2.0,), 1.5, tolerance=0.1), Case((2.0,), 1.5, hidden=True), Case((2.0,), 1.41421356)]
    found = judge("def f(x):\n    return x ** 0.5", near, function="f", sandbox=sandbox, tolerance=1e-6)
    assert [outcome.passed for outcome in found.outcomes] == [True, False, True]


@pytest.mark.parametrize(
    ("printed", "tolerance", "right"),
    [
        ("2 words 1.4142136", 1e-6, True),
        ("2.0000001 words 1.4142136", 1e-6, True),
        ("2 words 1.415", 1e-6, False),
        ("2 words 1.4142136", 0.0, False),
        ("2 words 1.4142135623730951", 0.0, True),
        ("2 words nan", 1e-6, False),
        ("2 words " + "1" * 100_000, 1e-6, False),
        ("2 word 1.4142136", 1e-6, False),
        ("2 words", 1e-6, False),
    ],
)
def test_numbers_that_a_whole_program_prints_are_near_enough(sandbox, printed, tolerance, right):
    cases = [Case(("",), "2 words 1.4142135623730951\n")]
    assert judge(f"print({printed!r})", cases, sandbox=sandbox, tolerance=tolerance).passed == right
    assert judge(f"print({printed!r})", [replace(cases[0], tolerance=tolerance)], sandbox=sandbox).passed == right


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_a_tolerance_that_is_none_is_refused(sandbox, wrong):
    with pytest.raises(BadInput, match="no tolerance"):
        judge("def f(): pass", [((), 1.0)], function="f", sandbox=sandbox, tolerance=wrong)
    with pytest.raises(BadInput, match="no tolerance"):
        judge("def f(): pass", [Case((), 1.0, tolerance=wrong)], function="f", sandbox=sandbox)


def test_no_finite_number_is_near_an_infinite_one(sandbox):
    def near(value, expected):
        program = f"def f(): return {value}"
        return judge(program, [((), expected)], function="f", sandbox=sandbox, tolerance=1e-6).passed

    assert near("float('inf')", math.inf) and near("[-1e999]", [-math.inf])
    assert not any(near(value, math.inf) for value in ("5.0", "1e308", "-float('inf')")) and not near("1e999", 1e308)


def test_an_integer_too_long_to_cross_is_said_to_be_that(sandbox):
    (outcome,) = judge("def f(): return 10**4300", [((), 1)], function="f", sandbox=sandbox).outcomes
    assert outcome.status == "value" and "more than 4300 digits" in outcome.detail
    assert judge("def f(x): return x + 1", [(10**4300 - 2, 10**4300 - 1)], function="f", sandbox=sandbox).passed
    for case in ((10**4300, 1), (1, -(10**4300))):
        with pytest.raises(BadInput, match=r"(?s)not made of plain values.*4300 digits"):
            judge("def f(x): return 1", [case], function="f", sandbox=sandbox)


def test_a_guest_keeps_its_state_and_ends_with_its_limits(sandbox):
    text = "n = 0\ndef up(by, more=0):\n  global n\n  n += by + more\n  print(n)\n  return n\nfrom time import sleep"
    program = {"m.py": text}
    with sandbox.open(program, "m", Limits(wall=0.5)) as guest:
        assert [guest.call("up", 1), guest.call("up", 1, more=2)] == [1, 4]
        assert guest.pid > 0 and time.clock_gettime_ns((~guest.pid << 3) | 2) > 0
        with pytest.raises(GuestError, match="AttributeError") as error:
            guest.call("nothing")
        assert error.value.kind == "raised" and guest.call("up", 1) == 5
        with pytest.raises(BadInput):
            guest.call("up", object())
        with pytest.raises(GuestError) as error:
            guest.call("sleep", 60)
        assert error.value.kind == "time"
        with pytest.raises(GuestError, match="has ended"):
            guest.call("up", 1)
    with pytest.raises(GuestError, match="could not be imported"):
        sandbox.open({"m.py": "1 / 0"}, "m")
    with pytest.raises(GuestError) as error:
        sandbox.open({"m.py": "x = bytearray(1 << 40)"}, "m")
    assert error.value.kind == "raised"
    assert leftovers(sandbox) == ""


def test_shared_memory_is_seen_on_both_sides(sandbox):
    import mmap
    import os

    fd = os.memfd_create("shared", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096)
    program = "import mmap\nm = mmap.mmap(4, 4096)\ndef double(): m[0] *= 2"
    with mmap.mmap(fd, 4096) as memory, sandbox.open({"m.py": program}, "m", shared=[fd]) as guest:
        memory[0] = 21
        guest.call("double")
        assert memory[0] == 42
    os.close(fd)


keys = st.text() | st.integers() | st.booleans() | st.floats() | st.tuples(st.floats(), st.complex_numbers())
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.sets(keys, max_size=3)
        | st.frozensets(st.integers(), max_size=3)
    ),
    max_leaves=10,
)


@given(plain)
def test_plain_values_cross_unchanged(value):
    assert same(loads(dumps(value)), value)


@given(plain, plain)
def test_equal_means_equal_values_of_equal_types(a, b):
    assert same(a, a) and same(a, b) == same(b, a)
    if same(a, b):
        assert type(a) is type(b)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,dtszbfc0123nulltrue', max_size=60).map(str.encode))
def test_any_line_is_a_value_or_refused(line):
    try:
        value = loads(line)
    except BadValue:
        return
    assert same(loads(dumps(value)), value)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100000,
        b'{"d":[["a",NaN]]}',
        b"1e999",
        b'{"t":1}',
        b'{"q":[]}',
        b'{"s":[[1]]}',
        b'{"s":[],"t":[]}',
        b'{"b":"zz"}',
        b'{"d":[[[],1]]}',
        b'{"d":[[1]]}',
        b'{"c":[1,2]}',
        b"9" * 5000,
        b"[" * 40 + b"]" * 40,
        b" " * (1 << 20) + b"1",
    ],
)
def test_what_is_no_value_is_refused(line):
    with pytest.raises(BadValue):
        loads(line)


NESTED = {
    "list": lambda v: [v],
    "tuple": lambda v: (v,),
    "dict": lambda v: {"a": v},
    "frozenset": lambda v: frozenset([v]),
}


@pytest.mark.parametrize("kind", NESTED)
def test_what_can_leave_can_be_read_and_the_other_way_round(kind):
    value, deep = 1.5 + 2j, 0
    while deep < 40:
        try:
            line = dumps(value)
        except BadValue:
            break
        assert same(loads(line), value)
        value, deep = NESTED[kind](value), deep + 1
    assert deep == 30


def chain(n):
    value = None
    for i in range(n):
        value = {"val": i, "next": value}
    return value


def test_chains_cross_in_both_directions_and_a_longer_one_is_refused_before_anything_runs(sandbox):
    program = (
        "def f(v):\n    if type(v) is dict: return 1 + f(v['next'])\n    if v is None: return 0\n"
        "    r = None\n    for i in range(v): r = {'val': i, 'next': r}\n    return r\n"
    )
    cases = [(chain(28), 28), (29, chain(29)), (14, chain(14)), (chain(14), 14), (30, 0), (29, chain(29))]
    found = judge(program, cases, function="f", sandbox=sandbox).outcomes
    assert [outcome.status for outcome in found] == ["right"] * 4 + ["value", "right"]
    assert "30 deep" in found[4].detail
    same_hash = {i * sys_modulus(): 0 for i in range(1, 200)}
    for case in ((chain(29), 29), (1, chain(30)), (same_hash, 1), ("x" * (1 << 20), 1), (1, "x" * (1 << 20))):
        with pytest.raises(BadInput, match=r"(?s)not made of plain values.*judge, inputs"):
            judge(program, [(1, chain(1)), case], function="f", sandbox=sandbox)


def test_keys_made_to_collide_are_refused():
    with pytest.raises(BadValue, match="hash"):
        loads(dumps({i * sys_modulus(): 0 for i in range(1, 200)}))
    assert math.isclose(len(loads(dumps(dict.fromkeys(range(200), 0)))), 200)


def sys_modulus():
    import sys

    return sys.hash_info.modulus
