"""Whether a memory harms, from outcomes with it and without it: its level under 400 looks, and what it finds."""

import math

import numpy as np
import pytest

from evolvent.formulas.causal import ArmSums, as_weighed, contrast, push_outcome, push_weighted
from evolvent.memory import events, lift

UNIT = (0.0, 1.0)


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
        if lift.harms((shown, omitted), UNIT):
            return t + 1
    return None


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("p", [0.02, 0.1, 0.5, 0.9])
def test_a_memory_without_effect_is_hardly_ever_called_harmful_in_400_looks(p, rate):
    """Half a posterior spread, looked at as often, flagged 50 to 85 % of them; the sixth is one of luck."""
    flagged = sum(looks(p, p, seed=s, n=400, rate=rate) is not None for s in range(60))
    assert flagged <= 6


def test_nor_with_rewards_between_0_and_1():
    spread = lambda rng, mean: rng.beta(4 * mean, 4 * (1 - mean))  # noqa: E731
    assert sum(looks(0.3, 0.3, seed=s, n=400, reward=spread) is not None for s in range(60)) <= 3


@pytest.mark.parametrize(("p_with", "p_without"), [(0.6, 0.5), (0.3, 0.02), (0.4, 0.1)])
def test_one_that_helps_is_never_called_harmful(p_with, p_without):
    assert not any(looks(p_with, p_without, seed=s, n=400) for s in range(40))


@pytest.mark.parametrize(("p_with", "p_without", "within"), [(0.0, 0.9, 100), (0.1, 0.7, 120), (0.2, 0.5, 400)])
def test_harm_is_found(p_with, p_without, within):
    found = [looks(p_with, p_without, seed=s, n=within) is not None for s in range(40)]
    assert np.mean(found) > 0.7


def arms(shown, omitted):
    return tuple(ArmSums(2.0 * sum(x), 2.0 * len(x), 4.0 * len(x)) for x in (shown, omitted))


def test_by_hand():
    """Twelve failures with it, twelve successes without it: half as many outcomes of variance 1/4, and a gap of 1."""
    n, gap = 6.0, 1.0
    u = n * 0.25 + 3.0
    above = 0.5 * math.erfc(-n * gap / math.sqrt(2.0 * u))
    e = 2.0 * math.sqrt(3.0 / u) * math.exp((n * gap) ** 2 / (2.0 * u)) * above
    found = lift.marginal(*arms([0] * 12, [1] * 12), UNIT)
    assert found.e_harm == pytest.approx(e) and e > 20 and found.harms
    assert not lift.harms(arms([0] * 9, [1] * 30), UNIT), "nine outcomes say nothing"
    assert not lift.harms(arms([0] * 60 + [1] * 20, [0] * 60), UNIT) and not lift.harms((ArmSums(), ArmSums()), UNIT)


def weighted(rows, weight):
    """The arms of a value after outcomes ``(reward, p, left out)`` of this weight."""
    value = events.Value(0.5)
    for reward, p, left_out in rows:
        rule, ipw = ("omitted", 1.0 / p) if left_out else ("shown", 1.0 / (1.0 - p))
        event = events.Event(1, "success", "solve", rule, 0.0, 1.0, ipw, 1.0, 0, reward, reward, 0.5, 0.5)
        value = events.apply(value, events.weighed(event, weight))
    return value.arms


def test_an_outcome_of_weight_a_quarter_is_a_quarter_of_the_evidence():
    """Under one probability by a quarter to some percent, under a falling one nearly; whole outcomes count as ever."""
    rng = np.random.default_rng(1)
    constant = [(float(rng.random() < 0.5), 0.3, rng.random() < 0.3) for _ in range(400)]
    rates = [lift.omission_rate(t / 4, rate=0.5, n0=20.0) for t in range(400)]
    falling = [(float(rng.random() < 0.5), p, rng.random() < p) for p in rates]
    for rows, near in ((constant, 0.1), (falling, 0.25)):
        whole, quarter = (contrast(*weighted(rows, w)) for w in (1.0, 0.25))
        assert quarter[0] == pytest.approx(whole[0])
        assert quarter[1] == pytest.approx(whole[1] / 4, rel=near)
    whole = weighted(constant, 1.0)
    sums = ArmSums(), ArmSums()
    for reward, p, left_out in constant:
        odds = p if left_out else 1.0 - p
        sums = tuple(push_weighted(arm, reward, 1.0 / odds) if i == left_out else arm for i, arm in enumerate(sums))
    assert whole == sums and as_weighed(*sums) == sums


def test_so_harm_takes_as_many_more():
    """Before, sixteen outcomes that count a sixteenth each were as good as sixteen whole ones."""
    rows = [(float(i % 2), 0.5, i % 2 == 1) for i in range(32)]
    assert lift.harms(weighted(rows, 1.0), UNIT) and not lift.harms(weighted(rows, 1 / 16), UNIT)
    assert lift.harms(weighted(rows * 16, 1 / 16), UNIT)
