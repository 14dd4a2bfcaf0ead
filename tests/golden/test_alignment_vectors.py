"""Which steps are shown: the vectors of TRAD's pick, window and history, and what they must keep."""

import numpy as np
import pytest

from evolvent.algos.trad.aligned import Hit, first_of_each, history, window

HITS = [Hit("t1", 4, 0.91), Hit("t1", 5, 0.90), Hit("t2", 2, 0.88), Hit("t3", 7, 0.86), Hit("t2", 0, 0.80)]


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (2, [("t2", 2), ("t1", 4)]),
        (3, [("t2", 2), ("t1", 4), ("t3", 7)]),
        (9, [("t2", 2), ("t1", 4), ("t3", 7)]),
        (1, [("t1", 4)]),
    ],
)
def test_the_first_hit_of_each_trajectory_in_the_order_of_steps(k, expected):
    order = np.random.default_rng(k).permutation(len(HITS))
    assert [hit[:2] for hit in first_of_each([HITS[i] for i in order], k)] == expected


def test_equal_cosines_are_decided_by_name_and_step_and_not_by_order():
    hits = [Hit("b", 1, 0.5), Hit("a", 3, 0.5), Hit("a", 2, 0.5)]
    assert first_of_each(hits, 1) == first_of_each(hits[::-1], 1) == [Hit("a", 2, 0.5)]
    assert first_of_each(hits, 2) == [Hit("b", 1, 0.5), Hit("a", 2, 0.5)]
    assert first_of_each([], 2) == []


@pytest.mark.parametrize(
    ("at", "length", "back", "forward", "expected"),
    [
        (0, 6, 1, 2, [(0, 0), (1, 1), (2, 2)]),
        (3, 6, 1, 2, [(2, -1), (3, 0), (4, 1), (5, 2)]),
        (5, 6, 1, 2, [(4, -1), (5, 0)]),
        (2, 3, 0, 2, [(2, 0)]),
    ],
)
def test_a_window_is_cut_at_the_ends_and_says_offsets(at, length, back, forward, expected):
    assert window(at, length, back, forward) == expected


@pytest.mark.parametrize(("now", "expected"), [(0, []), (2, [0, 1]), (7, [4, 5, 6])])
def test_the_history_ends_before_now(now, expected):
    assert history(now, 3) == expected
