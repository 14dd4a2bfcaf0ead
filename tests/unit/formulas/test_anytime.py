"""A test that may be looked at after every outcome: by hand, its limits, and what it finds."""

import math

import numpy as np
import pytest

from evolvent.formulas.anytime import Outcomes, less_than
from evolvent.memory import lift

UNIT = (0.0, 1.0)


def test_by_hand():
    """Two failures against two successes: 2 c (3/8)² / (1/2)^4, c = gap² / (gap² + variances) = .9."""
    gap, variance = 2.5 / 3 - 0.5 / 3, (0.5 / 3) * (2.5 / 3) / 4
    c = gap**2 / (gap**2 + 2 * variance)
    expected = math.log(2 * c * (3 / 8) ** 2 * 16)
    assert less_than(Outcomes(2, 0), Outcomes(2, 2)) == pytest.approx(expected)


def test_limits():
    for a, b in (((0, 0), (5, 5)), ((5, 0), (0, 0)), ((5, 3), (5, 3)), ((5, 4), (5, 1)), ((9, 0), (9, 0))):
        assert less_than(Outcomes(*a), Outcomes(*b)) == 0.0
    growing = [less_than(Outcomes(n, 0.1 * n), Outcomes(n, 0.6 * n)) for n in (10, 30, 100, 300)]
    assert growing == sorted(growing) and growing[-1] > 50


def test_it_is_below_the_exact_mixture_that_ville_bounds():
    """What is returned is at most 2 ∫∫_{p<q} L dπ / sup L, here by quadrature over Beta(½,½)."""
    x = np.sin((np.arange(2000) + 0.5) / 2000 * np.pi / 2) ** 2  # equal masses of Beta(½,½)
    for a, b in (((3, 0), (4, 3)), ((10, 1), (10, 6)), ((2, 0), (30, 9)), ((40, 10), (12, 8))):
        la = np.exp(a[1] * np.log(x) + (a[0] - a[1]) * np.log1p(-x))
        lb = np.exp(b[1] * np.log(x) + (b[0] - b[1]) * np.log1p(-x))
        below = la @ (np.cumsum(lb[::-1])[::-1] - lb / 2) / 2000**2
        p = (a[1] + b[1]) / (a[0] + b[0])
        top = p ** (a[1] + b[1]) * (1 - p) ** (a[0] + b[0] - a[1] - b[1])
        exact = math.log(2 * below / top)
        assert exact - 1.0 < less_than(Outcomes(*a), Outcomes(*b)) <= exact + 1e-3


def test_low_success_is_no_harm():
    """0 of 6 where nothing succeeds, beside others."""
    assert not lift.worse(Outcomes(6, 0), Outcomes(50, 1), 9)


def test_failing_where_others_succeed_is_harm():
    assert lift.worse(Outcomes(6, 0), Outcomes(30, 27), 9)
    assert not lift.worse(Outcomes(6, 0), Outcomes(1, 1), 9), "one success is no record"
    assert lift.fails(6, 0.0, UNIT) and not lift.fails(3, 0.0, UNIT) and not lift.fails(20, 3.0, UNIT)


def test_the_scale_of_rewards_does_not_matter():
    for lo, hi in ((0.0, 1.0), (-1.0, 1.0), (0.0, 100.0)):
        a = lift.outcomes(8, 8 * lo + 2 * (hi - lo), (lo, hi))
        assert a == (8, pytest.approx(2.0))
