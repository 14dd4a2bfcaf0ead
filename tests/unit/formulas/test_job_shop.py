"""Job shops: published makespans of dispatch rules, bounds, and a check of schedules that finds what is wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from evolvent.core.errors import BadInput
from evolvent.core.seeding import rng
from evolvent.formulas.job_shop import RULES, Instance, Shops, dispatched, drawn, fault, makespan

# Fisher and Thompson 1963, 6 x 6; the optimum is 55
_ROWS = (
    "2 1 0 3 1 6 3 7 5 3 4 6, 1 8 2 5 4 10 5 10 0 10 3 4, 2 5 3 4 5 8 0 9 1 1 4 7, "
    "1 5 0 5 2 5 3 3 4 8 5 9, 2 9 1 3 4 5 5 4 0 3 3 1, 1 3 3 3 5 9 0 10 4 4 2 1"
)
_PAIRS = np.array([row.split() for row in _ROWS.split(", ")], np.int64).reshape(6, 6, 2)
FT06 = Instance("ft06", _PAIRS[..., 0], _PAIRS[..., 1], (55, 55))
# two jobs, two machines: job 0 on machine 0 then 1, job 1 on 1 then 0
TWO = Instance("two", np.array([[0, 1], [1, 0]]), np.array([[3, 2], [2, 4]]))


def test_rules_have_their_published_makespans():
    found = {name: makespan(FT06, dispatched(FT06, rule)[0]) for name, rule in RULES.items()}
    assert found == {"SPT": 88, "MWKR": 61, "MOPNR": 59, "FIFO": 65}


def test_a_schedule_by_hand():
    assert dispatched(TWO, RULES["SPT"])[0].tolist() == [[0, 3], [0, 3]]
    assert makespan(TWO, np.array([[0, 3], [0, 3]])) == 7


@pytest.mark.parametrize(
    ("starts", "said"),
    [
        ([[0, 2], [0, 3]], "job 0 starts on machine 1 at 2, before 3"),
        ([[0, 3], [0, 2]], "machine 0 is given to job 1 at 2 while job 0 is there until 3"),
        ([[-1, 3], [0, 3]], "job 0 starts on machine 0 at -1, before 0"),
        ([[0, 3]], "starts are int64 (1, 2), not integers (2, 2)"),
        ([[0.0, 3.0], [0.0, 3.0]], "starts are float64 (2, 2), not integers (2, 2)"),
    ],
)
def test_an_infeasible_schedule_is_found(starts, said):
    assert fault(TWO, np.array(starts)) == said
    with pytest.raises(BadInput, match="infeasible"):
        makespan(TWO, np.array(starts))


@given(arrays.arrays(np.int64, (3, 3), elements=st.integers(0, 20)), st.integers(0, 99))
def test_what_is_dispatched_is_feasible_and_the_bound_holds(duration, seed):
    """The bound never falls, ends at the makespan, and is none that a schedule of the problem goes below."""
    instance = Instance("x", np.random.default_rng(seed).random((3, 3)).argsort(axis=1), duration)
    best = min(makespan(instance, one) for one in dispatched(instance, drawn(rng(seed, "x")), 20))
    shops = Shops(instance.machine_JM[None], duration[None])
    bounds = [shops.bound(shops.completion())[0]]
    assert bounds[0] <= best
    for _ in range(9):
        shops.place(np.where(shops.open(), RULES["MWKR"](shops), -1).argmax(axis=1))
        bounds.append(shops.bound(shops.completion())[0])
    start = shops.start_BJM[0]
    assert bounds == sorted(bounds) and bounds[-1] == makespan(instance, start)
    assert fault(instance, start) == ""


@pytest.mark.parametrize(
    ("machine", "duration", "said"),
    [
        ([[0, 0], [1, 0]], [[1, 1], [1, 1]], "uses a machine twice"),
        ([[0, 2], [1, 0]], [[1, 1], [1, 1]], "no such machine"),
        ([[0, 1], [1, 0]], [[1, -1], [1, 1]], "negative duration"),
        ([[0, 1], [1, 0]], [[1, 1]], "wrong shape"),
    ],
)
def test_what_is_no_instance_is_refused(machine, duration, said):
    with pytest.raises(BadInput, match=said):
        Instance("x", np.array(machine), np.array(duration))
