"""One seat of a game for a learner: opponents are drawn once a game."""

import numpy as np
import pytest

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.core.match import play_match
from evolvent.core.turns import uniform_policy
from evolvent.envs.games._seat import Mixture, Seat
from evolvent.envs.games.connect_four import ConnectFour
from evolvent.testing.team_env import check_team_env, random_action

UNIFORM = Mixture([uniform_policy], [1])


def always(move: int):
    return lambda info_BD, legal_BN, player: np.eye(legal_BN.shape[1])[np.full(len(info_BD), move)]


def fold_or_pass(info_BD, legal_BN, player):
    """The first legal move."""
    return np.eye(legal_BN.shape[1])[legal_BN.argmax(axis=1)]


def seat(spec: str, player: int, mixture: Mixture, n_envs: int) -> Seat:
    env = envs.load_game(spec, n_envs)
    return Seat(env, player, {side: mixture for side in range(len(env.game.sides)) if side != player})


@pytest.mark.parametrize(
    ("spec", "player"),
    [
        ("kuhn", 0),
        ("kuhn", 1),
        ("leduc", 1),
        ("matrix_game:rps,repeats=3", 0),
        ("openspiel:kuhn_poker", 1),
        ("openspiel:[kuhn_poker(players=3)]", 2),
        ("openspiel:[goofspiel(num_cards=4)]", 1),
        ("tag:limit=7", 0),
        ("tag:limit=7", 1),
    ],
)
def test_a_seat_is_a_team_environment(spec, player):
    still = "matrix" in spec  # against a mixture of one, nothing is left to chance but what it draws
    check_team_env(lambda n: seat(spec, player, UNIFORM, n), n_envs=4, random_start=not still)


@pytest.mark.parametrize("player", [0, 1])
def test_an_opponent_stays_for_a_whole_game(player):
    thirds = Mixture([always(move) for move in range(3)], [1, 1, 1])
    env = seat("matrix_game:rps,repeats=2", player, thirds, 64)
    frame, games = env.reset(3), []
    for _ in range(40):
        frame = env.step(np.zeros((64, 1), np.int64))
        first_BA = frame.reward_BA.copy()
        assert not frame.done_B.any()
        frame = env.step(np.zeros((64, 1), np.int64))
        assert frame.terminated_B.all()
        # rock earns 0, -1 and 1 against rock, paper and scissors: equal in both rounds only if the opponent is the same
        assert np.array_equal(frame.reward_BA, first_BA)
        games += frame.info[f"opponent{1 - player}"].tolist()
        assert np.array_equal(np.array([0, -1, 1])[np.int64(games[-64:])], first_BA[:, 0])
    share = np.bincount(np.int64(games), minlength=3) / len(games)
    assert np.abs(share - 1 / 3).max() < 0.05


def test_weights_say_how_often_a_policy_plays():
    env = seat("kuhn", 0, Mixture([always(0), always(1), uniform_policy], [3, 0, 1]), 512)
    frame, who = env.reset(0), []
    for _ in range(20):
        frame = env.step(random_action(env.team, frame, np.random.default_rng(0)))
        who += frame.info["opponent1"][frame.done_B].tolist() if frame.done_B.any() else []
    assert np.bincount(np.int64(who), minlength=3) / len(who) == pytest.approx([0.75, 0, 0.25], abs=0.03)


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize("spec", ["leduc", "openspiel:[goofspiel(num_cards=4)]"])
def test_a_seat_earns_what_the_match_pays(spec, player):
    games = 2_000
    policies = [uniform_policy] * 2
    policies[player] = fold_or_pass
    paid = play_match(envs.load_game(spec, 500), policies, range(games)).returns_MP[:, player]
    env = seat(spec, player, UNIFORM, 500)
    frame, total_B, earned = env.reset(0), np.zeros(500), []
    while len(earned) < games:
        frame = env.step(frame.available_BAN.argmax(axis=2))
        total_B += frame.reward_BA[:, 0]
        earned += total_B[frame.done_B].tolist()
        total_B[frame.done_B] = 0
    error = np.sqrt((paid.var() + np.var(earned)) / games)
    assert np.mean(earned) == pytest.approx(paid.mean(), abs=4 * error)


def test_one_policy_plays_all_players_of_a_side(monkeypatch):
    env, seen = envs.load_game("tag:limit=4", 8), []
    step = env.step
    monkeypatch.setattr(
        env, "step", lambda action_BP, where_B: seen.append(action_BP.copy()) or step(action_BP, where_B)
    )
    prey = Seat(env, 1, {0: Mixture([always(1), always(2)], [1, 1])})
    frame = prey.reset(0)
    assert prey.team.agents == ("player3",)
    for _ in range(4):
        frame = prey.step(np.zeros((8, 1), np.int64))
    chase_TBP = np.stack(seen)[:, :, :3]
    assert (chase_TBP == chase_TBP[:1, :, :1]).all()
    assert set(chase_TBP.flat) == {1, 2}
    assert np.array_equal(frame.info["opponent0"] + 1, chase_TBP[0, :, 0])


@pytest.mark.parametrize(
    ("player", "opponents", "message"),
    [
        (2, {0: UNIFORM, 1: UNIFORM}, "another number of players"),
        (0, {}, "another number of players"),
        (0, {0: UNIFORM, 1: UNIFORM}, "one of 0 to 1, and a mixture for each of the others"),
    ],
)
def test_other_players_are_refused(player, opponents, message):
    with pytest.raises(BadInput, match=message):
        Seat(envs.load_game("kuhn", 2), player, opponents)


@pytest.mark.parametrize("weights", [[1], [1, -1], [0, 0], [1, np.nan]])
def test_weights_of_a_mixture_are_checked(weights):
    with pytest.raises(BadInput, match="2 numbers of at least 0"):
        Mixture([uniform_policy] * 2, weights)


def test_an_illegal_move_of_an_opponent_is_named_with_what_it_knew():
    env = seat("leduc", 1, Mixture([always(0)], [1]), 2)
    with pytest.raises(BadInput, match=r"(?s)plays an illegal move with probability 1.*move 0.*1 \(call\).*card [JQK]"):
        env.reset(0)


def test_a_seat_that_is_never_asked_is_reported():
    class Short(ConnectFour):
        def step(self, action_BP, where_B=None):
            super().step(action_BP, where_B)
            self._mover_B[:] = -1
            return self._show(np.zeros((self.n_envs, 2)))

    with pytest.raises(BadInput, match="a player without a choice"):
        Seat(Short(1), 1, {0: UNIFORM}).reset(0)
