"""Returns over time, against slow references that follow one attempt at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.core.errors import BadInput
from evolvent.formulas import returns

SHAPE = (9, 4, 2)


def world(seed, shape=SHAPE):
    """Rewards, values, next values (arbitrary at the ends of attempts), flags, per-step discounts and traces."""
    rng = np.random.default_rng(seed)
    over = rng.random(shape) < 0.2
    cut = (rng.random(shape) < 0.2) & ~over
    value, after = rng.normal(size=shape), rng.normal(size=shape)
    inside = ~(over | cut)[:-1]
    after[:-1][inside] = value[1:][inside]  # going on: the next row's value; ending: the value of the last observation
    return {
        "r": rng.normal(size=shape),
        "v": value,
        "nv": after,
        "over": over,
        "cut": cut,
        "gamma": rng.uniform(0.5, 1, shape),
        "gae_lambda": rng.uniform(0, 1, shape),
    }


def slow_gae(w, at):
    """The definition: a sum of discounted errors up to the end of the attempt or of the array."""
    total, weight = 0.0, 1.0
    for t in range(at[0], SHAPE[0]):
        i = (t, *at[1:])
        following = 0.0 if w["over"][i] else w["nv"][i]
        total += weight * (w["r"][i] + w["gamma"][i] * following - w["v"][i])
        if w["over"][i] or w["cut"][i]:
            break
        weight *= w["gamma"][i] * w["gae_lambda"][i]
    return total


@pytest.mark.parametrize("seed", range(5))
def test_gae_follows_its_definition(seed):
    w = world(seed)
    got = returns.gae(
        w["r"],
        w["v"],
        w["nv"],
        gamma=w["gamma"],
        gae_lambda=w["gae_lambda"],
        terminated_T=w["over"],
        truncated_T=w["cut"],
    )
    assert got == pytest.approx(np.array([slow_gae(w, i) for i in np.ndindex(SHAPE)]).reshape(SHAPE))


@pytest.mark.parametrize("seed", range(3))
def test_gae_plus_value_is_the_lambda_return(seed):
    w = world(seed)
    flags = {"terminated_T": w["over"], "truncated_T": w["cut"], "gamma": w["gamma"], "gae_lambda": w["gae_lambda"]}
    assert returns.gae(w["r"], w["v"], w["nv"], **flags) + w["v"] == pytest.approx(
        returns.lambda_returns(w["r"], w["nv"], **flags)
    )


def test_trace_one_is_the_discounted_return_and_trace_zero_the_one_step_target():
    w = world(7)
    flags = {"terminated_T": w["over"], "truncated_T": w["cut"], "gamma": w["gamma"]}
    lam = returns.lambda_returns(w["r"], w["nv"], gae_lambda=1.0, **flags)
    assert lam == pytest.approx(returns.discounted(w["r"], next_value_T=w["nv"], **flags))
    one_step = w["r"] + np.where(w["over"], 0.0, w["gamma"] * w["nv"])
    assert returns.lambda_returns(w["r"], w["nv"], gae_lambda=0.0, **flags) == pytest.approx(one_step)


def test_termination_ends_and_truncation_bootstraps():
    r, nv = [0.0, 1.0, 0.0], [5.0, 7.0, 9.0]
    assert returns.discounted(r, gamma=0.5, next_value_T=nv).tolist() == [0.5 * (1 + 0.5 * 4.5), 1 + 0.5 * 4.5, 4.5]
    end = [0, 1, 0]
    assert returns.discounted(r, gamma=0.5, next_value_T=nv, terminated_T=end).tolist() == [0.5, 1, 4.5]
    assert returns.discounted(r, gamma=0.5, next_value_T=nv, truncated_T=end).tolist() == [2.25, 4.5, 4.5]
    # without values there is nothing to bootstrap from
    assert returns.discounted(r, gamma=0.5, truncated_T=end).tolist() == [0.5, 1, 0]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 8))
def test_attempts_in_one_column_do_not_touch_each_other(seed, at):
    """Whatever follows the end of an attempt, its own numbers stay as they are."""
    w = world(seed)
    w["over"][at], w["cut"][at] = True, False
    flags = {"terminated_T": w["over"], "truncated_T": w["cut"], "gamma": w["gamma"], "gae_lambda": w["gae_lambda"]}
    before = returns.gae(w["r"], w["v"], w["nv"], **flags)[: at + 1]
    for name in ("r", "v", "nv"):
        w[name][at + 1 :] += 100.0
    assert np.array_equal(before, returns.gae(w["r"], w["v"], w["nv"], **flags)[: at + 1])


def test_shapes():
    w = world(0)
    by_time = returns.discounted(w["r"], gamma=np.full(SHAPE[0], 0.9))
    assert by_time == pytest.approx(returns.discounted(w["r"], gamma=0.9))
    assert returns.discounted(np.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(BadInput, match="value_T does not fit"):
        returns.gae(np.zeros((3, 2)), np.zeros(2), np.zeros((3, 2)), gamma=1.0, gae_lambda=1.0)
    with pytest.raises(BadInput):
        returns.discounted(1.0)


def test_a_value_that_is_not_read_may_be_unknown():
    nan = np.nan
    assert returns.gae([1, 1], [0, 0], [0, nan], gamma=1, gae_lambda=1, terminated_T=[0, 1]).tolist() == [2, 1]
    assert returns.discounted([1, 1, 1], gamma=0.5, next_value_T=[nan, nan, 2]).tolist() == [2, 2, 2]
    cut = returns.discounted([1, 1, 1], truncated_T=[0, 1, 0], terminated_T=[0, 0, 1], next_value_T=[nan, 3, nan])
    assert cut.tolist() == [5, 4, 1]
    read = returns.gae([1, 1], [0, 0], [nan, 0], gamma=1, gae_lambda=1)
    assert np.isnan(read[0])  # an unknown value that is read is not passed over in silence
