"""What members add, by hand: rock, paper, scissors join one after the other."""

import numpy as np
import pytest

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.credit import component_member
from evolvent.credit.component_member import Config

pytest.importorskip("scipy")
RPS = [[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]


def play(i, j, reward, **more):
    ep = Episode("game", id=f"{i}-{j}")
    ep.component("player 1", implementation=f"member {j}")
    ep.component("player 0", implementation=f"member {i}")
    ep.act("play", reward=reward)
    ep.end(terminated=True)
    return ep


def credited(table, index):
    """By member, of the first seat and of the second."""
    episodes = [play(i, j, reward) for i, row in enumerate(table) for j, reward in enumerate(row)]
    found = component_member.assign(episodes, Config(index)).values("component").reshape(*np.shape(table), 2)
    assert (np.diff(found[:, :, 1], axis=1) == 0).all()
    return found[:, 0, 1], found[0, :, 0]


def test_rock_paper_scissors_by_hand():
    # against all three: rock alone secures -1, rock and paper -1/3 (2 : 1), all 0; without any one: -1/3
    for own in credited(RPS, "joined"):
        np.testing.assert_allclose(own, [-1, 2 / 3, 1 / 3], atol=1e-9)
    for own in credited(RPS, "left_out"):
        np.testing.assert_allclose(own, [1 / 3] * 3, atol=1e-9)


def test_what_joined_sums_to_the_value_and_substitutes_are_not_missed():
    table = np.array(RPS)[[0, 1, 2, 2]]
    for own, value in zip(credited(table + 0.5, "joined"), (0.5, -0.5), strict=True):
        assert own.sum() == pytest.approx(value)
    left_out, _ = credited(table, "left_out")
    np.testing.assert_allclose(left_out[2:], 0.0, atol=1e-9)


def test_plays_of_the_same_members_are_averaged_and_pairs_that_never_met_are_refused():
    episodes = [play(0, 0, 3.0), play(0, 0, -1.0), play(1, 0, 0.5)]
    found = component_member.assign(episodes, Config("left_out"))
    assert found.get("component", episode=0, unit="player 0") == pytest.approx(0.5)
    assert found.get("component", episode=0, unit="player 1") == pytest.approx(-1.0)  # its only member: the value
    with pytest.raises(BadInput, match="never met"):
        component_member.assign([play(0, 0, 1.0), play(1, 1, 1.0)])
