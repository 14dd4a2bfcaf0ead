"""The payoff table: plays taken together, cells to be played again, what new members gain, numbers that are none."""

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.runs.population.payoffs import Payoffs, Plays


def plays(*returns):
    """Of two players, the second earning the opposite."""
    both = np.array([returns, [-one for one in returns]], float)
    return Plays(len(returns), tuple(both.mean(axis=1)), tuple(((both.T - both.mean(axis=1)) ** 2).sum(axis=0)))


def table(*rows):
    made = Payoffs(2)
    made.grow((len(rows), len(rows[0])))
    for i, row in enumerate(rows):
        for j, one in enumerate(row):
            made.add((i, j), one if isinstance(one, Plays) else Plays(0, (one, -one), (0.0, 0.0)))
    return made


def test_plays_of_several_times_are_as_if_they_were_of_one():
    once, twice = table([plays(1, 2, 4, -3, 0.5)]), table([plays(1, 2)])
    twice.add((0, 0), plays(4, -3, 0.5))
    assert twice.count[0, 0] == 5
    np.testing.assert_allclose(twice.mean, once.mean)
    np.testing.assert_allclose(twice.variance(), once.variance())
    assert once.variance()[0, 0, 0] == pytest.approx(np.var([1, 2, 4, -3, 0.5], ddof=1) / 5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_payoff_that_is_no_number_is_refused_and_not_taken_in(bad):
    made = table([1.0, 2.0])
    with pytest.raises(BadInput, match="not finite") as error:
        made.add((0, 1), Plays(3, (bad, 0.0), (0.0, 0.0)))
    assert "member 1 of player 1" in str(error.value)
    assert made.mean[0, 0, 1] == 2.0


def test_new_cells_are_not_known():
    made = table([1.0])
    made.grow((2, 2))
    assert made.unknown() == [(0, 1), (1, 0), (1, 1)]


def test_more_plays_go_where_the_mixture_and_the_spread_are():
    noisy, quiet = plays(-5, 5, -5, 5), plays(-1, 1, -1, 1)
    made, first = table([noisy, quiet], [quiet, noisy]), np.array([1.0, 0.0])
    again = made.uncertain([first, first], 4, 3)
    assert again.count((0, 0)) == 3  # it takes part in everything that is compared
    assert made.uncertain([first, first], 4, 60).count((1, 1)) == 0  # in nothing: a move there needs both to move
    assert made.uncertain([np.full(2, 0.5)] * 2, 4, 4) == [(0, 0), (0, 0), (1, 1), (1, 1)]
    assert table([1.0, 2.0]).uncertain([np.ones(1), np.full(2, 0.5)], 4, 3) == []  # exact


def test_what_new_members_gain_and_its_error():
    made = table([0.0, -1.0], [2.0, 5.0])
    gain, error = made.gain([np.ones(1), np.ones(1)])
    assert (gain, error) == (2.0 + 1.0, 0.0)
    drawn = table([plays(0, 0), plays(-1, -1)], [plays(1, 3), plays(5, 5)])
    gain, error = drawn.gain([np.ones(1), np.ones(1)])
    assert gain == 3.0
    assert error == pytest.approx(1.0)  # the standard error of (1, 3); the others do not vary
