"""Golden vectors of measured effects (computed by an implementation of its own), and what holds for any rows."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolvent.core.errors import BadInput
from evolvent.formulas.effect import Estimate, Row, estimate, information_needed, named


def log(pairs, probability=0.8, tasks=None):
    return [Row(bool(a), probability, y, 1.0, tasks[i] if tasks else i) for i, (a, y) in enumerate(pairs)]


TWELVE = [(1, 1), (1, 0), (0, 0), (1, 1), (1, 1), (1, 1), (0, 1), (1, 0), (0, 0), (1, 1), (1, 1), (0, 0)]
FALLING = [
    *((1, 0.8, 1), (1, 0.8, 0), (0, 0.8, 1), (1, 0.809524, 0), (1, 0.809524, 1), (0, 0.809524, 0)),
    *((1, 0.818182, 0), (0, 0.1, 1), (0, 0.1, 1), (0, 0.1, 0)),
]
WEIGHTED = [(1, 1, 0.5), (1, 1, 1), (0, 0, 1), (1, 1, 1), (0, 1, 0.25), (1, 0, 1)]
SCALED = [(1, 0.5), (0, -0.25), (1, 1), (0, 0), (1, -0.5), (0, 0.25)]
HUNDREDS = [(1, i < 96) for i in range(160)] + [(0, i < 16) for i in range(40)]
# name: rows, (mean with, mean without, lift, information, V by rows, V by tasks, half, e_help, e_harm)
VECTORS = {
    "1": (
        log([(1, 1), (0, 0), (1, 0), (0, 1)]),
        (0.5, 0.5, 0, 0.64, 0.2048, 0.136533, 6.884419, 0.967520, 0.967520),
    ),
    "2": (log(TWELVE), (0.75, 0.25, 0.5, 1.92, 0.329143, 0.282764, 2.346238, 1.527604, 0.652800)),
    "3": (
        log(TWELVE, tasks=[0, 1, 2] * 4),
        (0.75, 0.25, 0.5, 1.92, 0.329143, 0.399600, 2.375005, 1.503259, 0.648251),
    ),
    "4": (
        [Row(bool(a), p, y, 1.0, i) for i, (a, p, y) in enumerate(FALLING)],
        (0.405576, 0.523691, -0.118115, 1.361345, 0.323367, 0.287437, 3.305721, 0.886769, 1.020846),
    ),
    "5": (
        [Row(bool(a), 1.0 if i == 1 else 0.9, y, w, i) for i, (a, y, w) in enumerate(WEIGHTED)],
        (0.6, 0.2, 0.4, 0.3375, 0.026973, 0.020047, 12.627610, 1.060295, 0.936777),
    ),
    "6": (
        log([(a, (y + 1) / 2) for a, y in SCALED], 0.5),
        (0.666667, 0.5, 0.166667, 1.5, 0.121094, 0.096875, 2.892398, 1.101713, 0.878836),
    ),
    "7": (log([(1, 0), (0, 0)] * 5, 0.5), (0, 0, 0, 2.5, 0, 0, 1.695849, 1, 1)),
    "9": (
        log([(1, 1), (0, 1), (1, 0), (1, 0), (0, 1), (0, 1)], tasks=[1, 1, 2, 2, 3, 3]),
        (0.333333, 1, -0.666667, 0.96, 0.1024, 0.136533, 4.532390, 0.749392, 1.338572),
    ),
    "10": (log(HUNDREDS), (0.6, 0.4, 0.2, 32, 7.847199, 7.718593, 0.277637, 6.768003, 0.180630)),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors(name):
    rows, expected = VECTORS[name]
    e = estimate(rows)
    got = (e.mean_with, e.mean_without, e.lift, e.information, e.v_rows, e.v_tasks, e.half, e.e_help, e.e_harm)
    assert got == pytest.approx(expected, abs=6e-7)
    assert e.speaks == (name == "10")
    assert (e.lo, e.hi) == pytest.approx(
        (max(-1, expected[2] - expected[6]), min(1, expected[2] + expected[6])), abs=1e-6
    )


def test_one_arm_alone_says_nothing():
    e = estimate(log([(1, 1), (1, 1), (1, 0)], 0.95))
    assert e == Estimate(3, 0, 3, e.information, e.newest)
    assert e.information == pytest.approx(0.1425) and (e.e_help, e.e_harm, e.lift) == (1.0, 1.0, None)


def test_how_many_more():
    assert information_needed(0.25, 0.05) == pytest.approx(1060.2753, abs=1e-4)
    assert information_needed(0.25, 0.1) == pytest.approx(237.0245, abs=1e-4)
    assert information_needed(0.09, 0.05) == pytest.approx(332.1990, abs=1e-4)
    e = estimate(log(HUNDREDS))
    assert e.spread == pytest.approx(0.245225, abs=1e-6)
    needed = information_needed(e.spread, 0.05)
    assert needed == pytest.approx(1036.397, abs=1e-3)
    assert math.ceil((needed - e.information) / e.newest) == 6278
    assert math.ceil((information_needed(e.spread, 0.1) - e.information) / e.newest) == 1250


def test_which_of_many_may_be_named():
    ones = {f"n{i}": 1.0 for i in range(16)}
    assert named({"a": 400, "b": 150, "c": 90, "d": 25} | ones) == ["a", "b", "c"]
    assert named({"a": 400, "b": 150, "c": 90, "d": 60} | ones) == ["a", "b", "c", "d"]
    assert named({}) == [] and named(ones) == []


rows_ = st.lists(
    st.builds(
        Row,
        st.booleans(),
        st.floats(0.01, 0.99),
        st.floats(0, 1),
        st.floats(0.05, 1),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(rows_, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(rows, random):
    mixed = list(rows)
    random.shuffle(mixed)
    one, other = estimate(rows), estimate(mixed)
    assert one == replace(other, newest=one.newest)  # to the last bit


@given(rows_)
def test_outcomes_turned_around_turn_the_lift_around(rows):
    one, other = estimate(rows), estimate([row._replace(outcome=1.0 - row.outcome) for row in rows])
    if one.lift is None:
        assert other.lift is None
        return
    assert other.lift == pytest.approx(-one.lift, abs=1e-9)
    assert (other.lo, other.hi) == pytest.approx((-one.hi, -one.lo), abs=1e-9)
    assert (other.e_help, other.e_harm) == pytest.approx((one.e_harm, one.e_help), rel=1e-6)
    assert -1 <= one.lo <= one.lift <= one.hi <= 1


@pytest.mark.parametrize("n", [200, 20_000])
def test_evidence_stays_finite(n):
    """All with it succeed and none without: evidence beyond what a float holds, and as little for the contrary."""
    e = estimate(log([(i % 2, i % 2) for i in range(n)], 0.5))
    assert e.e_help > 1e8 and math.isfinite(e.e_help) and 0 < e.e_harm < 0.1
    assert e.lo > 0


def test_an_e_value_has_no_step_where_its_formula_changes():
    near = [estimate(log([(1, 1)] * n + [(0, 0)] * n, 0.5)).e_harm for n in range(3740, 3770)]
    assert near == sorted(near, reverse=True) and max(near) / min(near) < 1.02


@pytest.mark.parametrize(
    "row",
    [
        Row(True, -0.5, 1.0),
        Row(True, 1.5, 1.0),
        Row(True, float("nan"), 1.0),
        Row(True, 0.5, 2.0),
        Row(True, 0.5, float("nan")),
        Row(True, 0.5, 1.0, 0.0),
        Row(True, 0.5, 1.0, -1.0),
        Row(True, 0.5, 1.0, 5.0),
    ],
)
def test_what_is_no_outcome_is_refused(row):
    with pytest.raises(BadInput, match="chance"):
        estimate([*[Row(False, 0.5, 0.0)] * 10, row])


def test_what_chance_did_not_decide_says_nothing():
    sure = [Row(True, 1.0, 1.0), Row(False, 0.0, 0.0)]
    rows = [Row(i % 2 == 0, 0.5, float(i % 3 == 0)) for i in range(30)]
    assert estimate([*rows, *sure * 20]) == estimate(rows) and estimate(sure * 20).lift is None
