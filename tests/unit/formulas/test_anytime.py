"""A test that may be looked at after every outcome: by hand, its level under 400 looks, and what it still finds."""

import math

import numpy as np
import pytest

from evolvent.formulas.anytime import Outcomes, less_than
from evolvent.formulas.causal import ArmSums, push_outcome
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


def looks(p_with, p_without, *, seed, n, rate=0.2, n0=20.0, reward=None):
    """The first of ``n`` looks at which a memory counts as harmful under memlift's own omissions, or None."""
    rng, shown, omitted, left_out = np.random.default_rng(seed), ArmSums(), ArmSums(), 0
    for t in range(n):
        p = lift.omission_rate(left_out, rate=rate, n0=n0)
        draw = (lambda mean: float(rng.random() < mean)) if reward is None else (lambda mean: float(reward(rng, mean)))
        if rng.random() < p:
            omitted, left_out = push_outcome(omitted, draw(p_without), p), left_out + 1
        else:
            shown = push_outcome(shown, draw(p_with), 1.0 - p)
        a, b = lift.arm_outcomes(shown, UNIT), lift.arm_outcomes(omitted, UNIT)
        if lift.worse(a, b):
            return t + 1
    return None


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("p", [0.02, 0.1, 0.5, 0.9])
def test_a_memory_without_effect_is_hardly_ever_called_harmful_in_400_looks(p, rate):
    """Half a posterior spread, looked at as often, flagged 50 to 85 % of them."""
    flagged = sum(looks(p, p, seed=s, n=400, rate=rate) is not None for s in range(60))
    assert flagged <= 60 * lift.HARM_LEVEL


def test_nor_with_rewards_between_0_and_1():
    spread = lambda rng, mean: rng.beta(4 * mean, 4 * (1 - mean))  # noqa: E731
    assert sum(looks(0.3, 0.3, seed=s, n=400, reward=spread) is not None for s in range(60)) <= 3


@pytest.mark.parametrize(("p_with", "p_without"), [(0.6, 0.5), (0.3, 0.02), (0.4, 0.1)])
def test_one_that_helps_is_never_called_harmful(p_with, p_without):
    assert not any(looks(p_with, p_without, seed=s, n=400) for s in range(40))


@pytest.mark.parametrize(("p_with", "p_without", "within"), [(0.0, 0.9, 30), (0.1, 0.7, 80), (0.1, 0.4, 400)])
def test_harm_is_found(p_with, p_without, within):
    found = [looks(p_with, p_without, seed=s, n=within) is not None for s in range(40)]
    assert np.mean(found) > 0.7


def arms(shown, omitted):
    return tuple(ArmSums(sum(x), float(len(x)), float(len(x))) for x in (shown, omitted))


def test_low_success_is_no_harm():
    """0 of 6 where nothing succeeds, alone or beside others; and where outcomes without it are worse still."""
    assert not lift.worse(Outcomes(6, 0), Outcomes(50, 1), 9)
    assert not lift.harms(arms([0] * 60 + [1] * 20, [0] * 60), UNIT) and not lift.harms((ArmSums(), ArmSums()), UNIT)


def test_failing_where_others_succeed_is_harm():
    assert lift.worse(Outcomes(6, 0), Outcomes(30, 27), 9)
    assert not lift.worse(Outcomes(6, 0), Outcomes(1, 1), 9), "one success is no record"
    assert lift.fails(6, 0.0, UNIT) and not lift.fails(3, 0.0, UNIT) and not lift.fails(20, 3.0, UNIT)
    assert lift.harms(arms([0] * 12, [1] * 12), UNIT)


def test_the_scale_of_rewards_does_not_matter():
    for lo, hi in ((0.0, 1.0), (-1.0, 1.0), (0.0, 100.0)):
        a = lift.outcomes(8, 8 * lo + 2 * (hi - lo), (lo, hi))
        assert a == (8, pytest.approx(2.0))
        shown = ArmSums(6 * lo, 6.0, 6.0)
        assert lift.arm_outcomes(shown, (lo, hi)) == (6, pytest.approx(0.0))
