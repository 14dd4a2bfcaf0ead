"""Kinds of reward in the record: one layout, and a clear error for whatever does not fit it."""

import json

import numpy as np
import pytest

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.reward_kinds import keep_reward, reward_kinds, reward_total, rewards_of


def three_turns():
    ep = Episode("t", id="e")
    for _ in range(3):
        ep.act("x", reward=1.0)
    ep.end(terminated=True)
    return ep


def test_kept_read_and_written():
    ep = three_turns()
    keep_reward(ep, "format", np.array([1, 0, 1], dtype=np.float32))
    keep_reward(ep, "thrift", 0.5)
    keep_reward(ep, "format", [0.1, 0.2, 0.3])
    again = Episode.from_dict(json.loads(json.dumps(ep.to_dict())))
    for e in (ep, again):
        assert reward_kinds(e) == ["format", "thrift"]
        assert rewards_of(e, "format") == pytest.approx([0.1, 0.2, 0.3])
        assert (reward_total(e, "format"), reward_total(e, "thrift")) == (pytest.approx(0.6), 0.5)
        assert e.total_reward == 3.0
    assert again == ep


@pytest.mark.parametrize(
    "values", [[1.0, 2.0], [[1.0, 2.0, 3.0]], [1.0, np.nan, 0.0], [1.0, None, 0.0], "good", ["a", "b", "c"], np.inf, {}]
)
def test_what_does_not_fit_is_refused_when_kept_and_when_read(values):
    ep = three_turns()
    with pytest.raises(BadInput, match="'format' do not fit the episode"):
        keep_reward(ep, "format", values)
    assert reward_kinds(ep) == []
    ep.rewards_by_kind = {"format": values}
    with pytest.raises(BadInput, match="'format' do not fit the episode"):
        rewards_of(ep, "format")


def test_what_is_missing_is_named():
    ep = three_turns()
    keep_reward(ep, "thrift", 0.5)
    with pytest.raises(BadInput, match=r"'format', it has \['thrift'\]"):
        rewards_of(ep, "format")
    with pytest.raises(BadInput, match="one for every decision is needed"):
        rewards_of(ep, "thrift")


def test_one_decision_is_no_whole_attempt():
    """With one decision a list of one and a number differ still."""
    ep = Episode("t", id="e")
    ep.act("x")
    keep_reward(ep, "format", [0.25])
    assert rewards_of(ep, "format").tolist() == [0.25]
    assert ep.rewards_by_kind == {"format": [0.25]}
