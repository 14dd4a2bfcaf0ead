"""The dense twin: shapes are checked, and the two ways to end are distinguished."""

from dataclasses import replace

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.core.rollout import Rollout

T, B, A, D = 3, 2, 2, 4


def sample(**changes) -> Rollout:
    columns = {
        "obs_TBAD": np.zeros((T, B, A, D), np.float32),
        "action_TBA": np.zeros((T, B, A), np.int64),
        "reward_TBA": np.arange(T * B * A, dtype=np.float64).reshape(T, B, A),
        "terminated_TB": np.array([[False, False], [True, False], [False, False]]),
        "truncated_TB": np.array([[False, True], [False, False], [False, True]]),
        "value_TBA": np.arange(T * B * A, dtype=np.float32).reshape(T, B, A) + 100.0,
        "bootstrap_BA": np.full((B, A), 7.0),
        "final_value_TBA": np.full((T, B, A), 50.0),
    }
    return Rollout(**(columns | changes))


def test_shape_and_names():
    assert sample().shape == (T, B, A)
    assert sample().agents == ("agent0", "agent1")
    assert sample(agents=("red", "blue")).agents == ("red", "blue")
    assert sample().active_TBA.all()
    assert sample(action_TBA=np.zeros((T, B, A, 6))).shape == (T, B, A)  # continuous actions


def test_next_value_by_hand():
    next_TBA = sample().next_value_TBA
    np.testing.assert_array_equal(next_TBA[0, 0], [104.0, 105.0])  # goes on: the next row
    np.testing.assert_array_equal(next_TBA[0, 1], [50.0, 50.0])  # cut off: the last observation's value
    np.testing.assert_array_equal(next_TBA[1, 0], [0.0, 0.0])  # terminated: nothing follows
    np.testing.assert_array_equal(next_TBA[1, 1], [110.0, 111.0])
    np.testing.assert_array_equal(next_TBA[2, 0], [7.0, 7.0])  # after the last row: the bootstrap
    np.testing.assert_array_equal(next_TBA[2, 1], [50.0, 50.0])


def test_both_flags_at_once_is_an_end():
    flags = np.ones((T, B), bool)
    rollout = sample(terminated_TB=flags, truncated_TB=flags, bootstrap_BA=None, final_value_TBA=None)
    assert not rollout.next_value_TBA.any()


def test_next_value_refuses_to_guess():
    for column, message in [("value_TBA", "no values"), ("bootstrap_BA", "bootstrap_BA"), ("final_value_TBA", "final")]:
        with pytest.raises(BadInput, match=message):
            _ = sample(**{column: None}).next_value_TBA


def test_what_was_seen_last_is_in_the_order_of_the_ends():
    last = np.arange(3 * A * D, dtype=np.float32).reshape(3, A, D)  # ends: step 0 of copy 1, 1 of 0, 2 of 1
    rollout = sample(final_obs_EAD=last, last_obs_BAD=np.zeros((B, A, D)), final_state_ES=np.zeros((3, 7)))
    after = np.full((T, B, A, D), np.nan)
    after[rollout.done_TB] = rollout.final_obs_EAD
    np.testing.assert_array_equal(after[1, 0], last[1])
    np.testing.assert_array_equal(after[2, 1], last[2])


def test_named_parts_sum_to_the_reward_but_for_rounding():
    reward = sample().reward_TBA
    part = np.stack([1e4 + reward, np.full_like(reward, -1e4)], axis=-1).astype(np.float32)
    names = ("near", "cost")
    assert sample(part_TBAR=part, parts=names).parts == names
    with pytest.raises(BadInput, match="parts of the reward do not fit"):
        sample(part_TBAR=part, parts=("near", "near"))
    with pytest.raises(BadInput, match="parts of the reward do not fit"):
        sample(parts=names)
    part[1, 0, 1, 0] += 1.0
    with pytest.raises(BadInput, match=r"parts do not sum to the reward(?s:.*)\(1, 0, 1\)"):
        sample(part_TBAR=part, parts=names)
    mask = np.ones((T, B, A), bool)
    mask[1, 0, 1] = False
    assert sample(part_TBAR=part, parts=names, mask_TBA=mask).part_TBAR is part


def test_masked_steps_may_hold_anything():
    reward, mask = np.zeros((T, B, A)), np.ones((T, B, A), bool)
    reward[0, 0, 0] = np.nan
    with pytest.raises(BadInput, match="not finite"):
        sample(reward_TBA=reward)
    mask[0, 0, 0] = False
    assert np.isnan(sample(reward_TBA=reward, mask_TBA=mask).reward_TBA[0, 0, 0])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("obs_TBAD", np.zeros((T, B, A)), "wrong rank"),
        ("reward_TBA", np.zeros((T, B)), "reward_TBA has the wrong shape"),
        ("action_TBA", np.zeros((T, B)), "action_TBA has the wrong shape"),
        ("terminated_TB", np.zeros((T, B), int), "not bool"),
        ("bootstrap_BA", np.zeros((A, B, 1)), "bootstrap_BA has the wrong shape"),
        ("logp_TBA", np.zeros((T, B, A + 1)), "logp_TBA has the wrong shape"),
        ("last_obs_BAD", np.zeros((B, A, D + 1)), "last_obs_BAD has the wrong shape"),
        ("final_obs_EAD", np.zeros((2, A, D)), "final_obs_EAD has the wrong shape"),
        ("final_state_ES", np.zeros((4, 7)), "final_state_ES has the wrong shape"),
        ("agents", ("one",), "agents do not fit"),
        ("agents", ("one", "one"), "agents do not fit"),
    ],
)
def test_refuses(column, value, message):
    with pytest.raises(BadInput, match=message):
        replace(sample(), **{column: value})
