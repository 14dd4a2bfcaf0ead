"""The ledger: addresses, None against 0.0, and projections worked out by hand."""

import numpy as np
import pytest

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Address, Ledger


def two_episodes() -> list[Episode]:
    a = Episode("t", id="a")
    a.recall("r1", ["m1", "m2"], omitted=["m9"])
    a.component("plan")
    a.act("x", agent="ann", token_ids=[1, 2])
    a.act("y", agent="bob", token_ids=[3])
    a.component("write")
    a.recall("r2", ["m2", "m3"])
    a.act("z", agent="ann")  # no tokens: an endpoint that gives none
    b = Episode("t", id="b")
    b.act("x", agent="bob", token_ids=[4, 5, 6, 7])
    return [a, b]


def test_addresses_in_order_of_occurrence():
    led = Ledger.for_episodes(two_episodes())
    assert [led.size(level) for level in ("token", "step", "agent", "memory", "component")] == [7, 4, 3, 3, 2]
    assert led.episode_index("step").tolist() == [0, 0, 0, 1]
    assert led.episode_index("token").dtype == np.int32
    assert led.units("token") == [0, 1, 2, 0, 1, 2, 3]
    assert led.units("agent") == ["ann", "bob", "bob"]
    assert led.units("memory") == ["m1", "m2", "m3"]  # omitted memories earn nothing, shown twice is one unit
    assert led.parent_index("token", "step").tolist() == [0, 0, 1, 3, 3, 3, 3]
    assert led.parent_index("token", "agent").tolist() == [0, 0, 1, 2, 2, 2, 2]


def test_none_is_not_zero():
    led = Ledger.for_episodes(two_episodes())
    assert led.get("step", episode=0, unit=1) is None
    assert np.isnan(led.values("memory")).all()
    led.set("step", [0.0, None, np.nan, 2.0])
    assert led.get("step", episode=0, unit=0) == 0.0
    assert led.get("step", episode=0, unit=1) is None
    assert [value for _, value in led.entries("step")] == [0.0, None, None, 2.0]
    assert next(iter(led.entries("step")))[0] == Address("step", 0, 0)
    assert led.project("step", "token").tolist()[:2] == [0.0, 0.0]
    assert np.isnan(led.values("token")[2])  # below an unscored step nothing is scored
    agents = led.project("step", "agent")
    assert agents[0] == 0.0 and np.isnan(agents[1]) and agents[2] == 2.0


def test_up_and_down_by_hand():
    led = Ledger.for_episodes(two_episodes())
    led.set("token", [1.0, 2.0, 4.0, 1.0, 1.0, 1.0, 1.0])
    up = led.project("token", "step")
    assert up[[0, 1, 3]].tolist() == [3.0, 4.0, 4.0] and np.isnan(up[2])
    assert led.project("step", "agent").tolist() == [3.0, 4.0, 4.0]
    memory = led.project("step", "memory")
    np.testing.assert_allclose(memory, [7 / 3] * 3)
    assert led.unassigned("memory").tolist() == [0.0, 4.0]  # the second episode showed no memory
    assert led.per_episode("memory").tolist() == pytest.approx([7.0, 4.0])
    assert led.total("memory") == pytest.approx(led.total("token")) == 11.0
    assert led.project("agent", "token").tolist() == [1.5, 1.5, 4.0, 1.0, 1.0, 1.0, 1.0]


def test_weights_share_out():
    led = Ledger.for_episodes(two_episodes())
    led.set("step", [6.0, 0.0, 0.0, 8.0])
    assert led.project("step", "memory", [1.0, 2.0, 3.0]).tolist() == [1.0, 2.0, 3.0]
    assert led.project("step", "token", [1, 0, 5, 1, 1, 0, 0]).tolist() == [6.0, 0.0, 0.0, 4.0, 4.0, 0.0, 0.0]


def test_weights_that_are_all_zero_mean_nobody():
    led = Ledger.for_episodes(two_episodes())
    led.set("step", [6.0, 1.0, 1.0, 8.0])
    assert np.isnan(led.project("step", "memory", [0, 0, 0])).all()
    assert led.unassigned("memory").tolist() == [8.0, 8.0]
    assert led.total("memory") == 16.0


def test_credit_of_a_step_without_tokens_stays_with_its_episode():
    led = Ledger.for_episodes(two_episodes())
    led.set("step", [1.0, 2.0, 4.0, 8.0])
    led.project("step", "token")
    assert led.unassigned("token").tolist() == [4.0, 0.0]
    assert led.per_episode("token").tolist() == [7.0, 8.0]
    back = led.project("token", "step")
    assert back[:2].tolist() == [1.0, 2.0] and np.isnan(back[2])
    assert led.total("step") == 15.0 and led.unassigned("step").tolist() == [4.0, 0.0]


def test_set_with_a_mask_keeps_the_rest_and_without_starts_afresh():
    led = Ledger.for_episodes(two_episodes())
    led.set("step", 1.0)
    led.set("step", 5.0, mask=[False, True, False, False])
    assert led.values("step").tolist() == [1.0, 5.0, 1.0, 1.0]
    led.project("step", "memory")
    led.set("memory", [1.0, 1.0, 1.0])
    assert led.unassigned("memory").tolist() == [0.0, 0.0] and led.total("memory") == 3.0


def test_get_by_name_and_by_index():
    led = Ledger.for_episodes(two_episodes())
    led.set("agent", [1.0, 2.0, 3.0])
    assert led.get("agent", episode=0, unit="bob") == 2.0
    assert led.get("agent", episode=1, unit="bob") == 3.0
    assert led.get("agent", episode=1, unit=0) == 3.0
    for bad in ("ann", 1, -1):
        with pytest.raises(BadInput, match="no such unit"):
            led.get("agent", episode=1, unit=bad)


def test_values_are_read_only_and_what_was_given_is_copied():
    led = Ledger.for_episodes(two_episodes())
    given = np.ones(4)
    led.set("step", given)
    given[:] = 9.0
    assert led.values("step").tolist() == [1.0] * 4
    with pytest.raises(ValueError, match="read-only"):
        led.values("step")[0] = 3.0


def test_no_episodes_and_empty_episodes():
    for episodes in ([], [Episode("t")], [Episode("t"), *two_episodes(), Episode("t")]):
        led = Ledger.for_episodes(episodes)
        led.set("step", 2.0)
        for target in ("token", "agent", "memory", "component"):
            led.project("step", target)
            assert led.total(target) == pytest.approx(2.0 * led.size("step"))
        assert len(led.per_episode("memory")) == len(episodes)


def test_an_episode_must_not_grow_under_its_ledger():
    episodes = two_episodes()
    led = Ledger.for_episodes(episodes)
    episodes[1].act("one more")
    with pytest.raises(BadInput, match="grew"):
        led.size("step")


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        (lambda led: led.set("turn", 1.0), "unknown level"),
        (lambda led: led.set("step", [1.0]), "wrong number"),
        (lambda led: led.set("step", float("inf")), "infinite"),
        (lambda led: led.set("step", "high"), "not numbers"),
        (lambda led: led.set("step", 1.0, mask=[1, 0, 0, 0]), "mask"),
        (lambda led: led.project("step", "turn"), "unknown level"),
        (lambda led: led.project("token", "step", [1.0] * 4), "takes no weights"),
        (lambda led: led.project("step", "memory", [1.0, -1.0, 1.0]), "negative"),
        (lambda led: led.project("step", "memory", [1.0, np.nan, 1.0]), "negative or NaN"),
        (lambda led: led.project("step", "memory", [1.0]), "wrong number"),
        (lambda led: led.parent_index("step", "memory"), "not nested"),
    ],
)
def test_refuses(verb, message):
    with pytest.raises(BadInput, match=message):
        verb(Ledger.for_episodes(two_episodes()))
