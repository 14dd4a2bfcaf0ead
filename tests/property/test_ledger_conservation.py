"""Projecting a ledger between any two levels keeps every episode's total."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import episodes

from evolvent.core.ledger import LEVELS, Ledger

quick = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
credit = st.floats(-1e6, 1e6) | st.just(0.0) | st.just(float("nan"))


def _scored(draw, led, level):
    n = led.size(level)
    led.set(level, np.array(draw(st.lists(credit, min_size=n, max_size=n)), dtype=np.float64))
    # rounding is relative to what was added up, not to the sum
    return 1e-12 * (1.0 + np.nansum(np.abs(led.values(level))))


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(LEVELS, 2)))
@quick
@given(data=st.data())
def test_every_pair_of_levels_conserves(source, target, data):
    led = Ledger.for_episodes(data.draw(st.lists(episodes(6), max_size=3)))
    tolerance = _scored(data.draw, led, source)
    weights = None
    nested_up = {("token", "step"), ("token", "agent"), ("step", "agent")}
    if (source, target) not in nested_up and data.draw(st.booleans()):
        n = led.size(target)
        weights = data.draw(st.lists(st.floats(0, 1e3), min_size=n, max_size=n))
    before = led.per_episode(source)
    out = led.project(source, target, weights)
    np.testing.assert_array_equal(out, led.values(target))
    # NaN against NaN too: what was not scored is not scored, what was scored 0.0 is
    np.testing.assert_allclose(led.per_episode(target), before, rtol=1e-12, atol=tolerance)
    placed = np.bincount(led.episode_index(target), np.nan_to_num(out), len(before))
    np.testing.assert_allclose(placed + led.unassigned(target), np.nan_to_num(before), rtol=1e-12, atol=tolerance)
    assert led.total(target) == pytest.approx(led.total(source), rel=1e-12, abs=tolerance)


@quick
@given(data=st.data())
def test_chains_of_projections_conserve(data):
    led = Ledger.for_episodes(data.draw(st.lists(episodes(6), max_size=3)))
    level = data.draw(st.sampled_from(LEVELS))
    tolerance = _scored(data.draw, led, level)
    before = led.per_episode(level)
    for following in data.draw(st.lists(st.sampled_from(LEVELS), max_size=6)):
        led.project(level, following)
        level = following
    np.testing.assert_allclose(led.per_episode(level), before, rtol=1e-11, atol=10 * tolerance)


@quick
@given(data=st.data())
def test_down_and_up_again_is_the_identity_where_there_is_room(data):
    led = Ledger.for_episodes(data.draw(st.lists(episodes(6), max_size=3)))
    tolerance = _scored(data.draw, led, "step")
    before = led.values("step").copy()
    led.project("step", "token")
    after = led.project("token", "step")
    has_tokens = np.isin(np.arange(led.size("step")), led.parent_index("token", "step"))
    np.testing.assert_allclose(after[has_tokens], before[has_tokens], rtol=1e-12, atol=tolerance)
    assert np.isnan(after[~has_tokens]).all()


@quick
@given(data=st.data())
def test_none_and_zero_survive_the_edge(data):
    led = Ledger.for_episodes(data.draw(st.lists(episodes(6), max_size=3)))
    level = data.draw(st.sampled_from(LEVELS))
    assert all(value is None for _, value in led.entries(level))
    _scored(data.draw, led, level)
    for (address, value), inside in zip(led.entries(level), led.values(level), strict=True):
        assert (value is None) == np.isnan(inside)
        assert led.get(level, episode=address.episode, unit=address.unit) == value
