"""Sharing out attempts: never more or less than there are, and the best there is, by trying all."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.core.errors import BadInput
from evolvent.formulas.budgets import allocate, allocate_greedily, knapsack_attempts, mixed_value
from evolvent.formulas.curricula import category_values, teaching, widest_groups

values = st.integers(1, 4).flatmap(
    lambda m: st.lists(st.lists(st.floats(-3, 3), min_size=m, max_size=m), min_size=1, max_size=4)
)


@settings(max_examples=150, deadline=None)
@given(values, st.integers(0, 3), st.data())
def test_no_allocation_is_better(rows, lowest, data):
    value = np.array(rows)
    n, m = value.shape
    total = n * lowest + data.draw(st.integers(0, n * (m - 1)))
    got = allocate(value, total, lowest=lowest)
    assert got.sum() == total
    assert got.min() >= lowest
    worth = [
        sum(value[i, j] for i, j in enumerate(extra))
        for extra in itertools.product(range(m), repeat=n)
        if sum(extra) == total - n * lowest
    ]
    assert value[np.arange(n), got - lowest].sum() == pytest.approx(max(worth))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=6), st.data())
def test_one_at_a_time_is_as_good_where_value_is_concave(rates, data):
    """Concave from two attempts on for mixed groups, so the greedy way loses nothing."""
    total = data.draw(st.integers(2 * len(rates), 9 * len(rates)))
    value = mixed_value(np.array(rates)[:, None], np.arange(2, 10))
    best, greedy = (f(value, total, lowest=2) for f in (allocate, allocate_greedily))
    assert greedy.sum() == best.sum() == total
    rows = np.arange(len(rates))
    assert value[rows, greedy - 2].sum() == pytest.approx(value[rows, best - 2].sum())


def test_hopeless_and_solved_tasks_get_the_least():
    assert knapsack_attempts([0.0, 0.3, 1.0], 30, lowest=2).tolist() == [2, 26, 2]


@pytest.mark.parametrize(("rates", "total"), [([0.5, 0.5], 3), ([0.5], 200), ([0.5, 1.2], 8), ([[0.5]], 8)])
def test_what_cannot_be_shared_out_is_refused(rates, total):
    with pytest.raises(BadInput, match=r"does not fit the bounds|not success rates"):
        knapsack_attempts(rates, total)


def test_groups_that_teach():
    ret, group = [1, 1, 0, 1, 0.2, 0.8], ["a", "a", "b", "b", "c", "c"]
    assert teaching(ret, group).tolist() == [False, False, True, True, True, True]
    assert widest_groups(ret, group, share=0.3).tolist() == [False, False, True, True, False, False]
    assert widest_groups(ret, group, share=0.6).tolist() == [False, False, True, True, True, True]
    assert widest_groups([1.0, 1.0], ["x", "x"], share=0.75).tolist() == [True, True]


def test_a_category_without_a_value_is_named():
    with pytest.raises(BadInput, match=r"unknown category(.|\n)*hard"):
        category_values({"easy": 0.0}, {"hard": [1.0]}, alpha=0.5)
