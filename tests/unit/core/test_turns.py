"""Draws, choices and matches of games in turns."""

import numpy as np
import pytest

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.core.game import CHANCE, decode_game, encode_game, episodes
from evolvent.core.match import play_match
from evolvent.core.turns import GameSpec, choose, seed_below, uniform, uniform_policy


def always(move):
    return lambda info_BD, legal_BN, player: np.eye(legal_BN.shape[1])[np.full(len(info_BD), move)]


def test_draws_are_uniform_and_no_two_streams_are_alike():
    seeds = np.arange(20_000)
    streams = [uniform(seeds, *path) for path in [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]]
    for draws in streams:
        assert draws.min() >= 0
        assert draws.max() < 1
        assert np.abs(np.histogram(draws, 10, (0, 1))[0] - 2_000).max() < 200
    assert np.abs(np.corrcoef(streams) - np.eye(len(streams))).max() < 0.03
    assert np.abs(np.corrcoef(streams[0][1:], streams[0][:-1])[0, 1]) < 0.03
    assert seed_below(seeds, 3).min() >= 0
    assert len(set(seed_below(seeds, 3).tolist())) == len(seeds)


def test_draws_are_the_same_on_every_machine():
    assert seed_below(np.array([0, 7]), 0, 5).tolist() == [1348776638197860176, 1681284575596431587]


def test_moves_come_as_often_as_their_probabilities_say():
    env = envs.load_game("leduc", 20_000)
    frame, rows = env.reset(np.arange(20_000)), np.arange(20_000)
    odds = np.array([0, 0.3, 0.7])
    moves, p_MN = choose(
        lambda info, legal, player: np.tile(odds, (len(info), 1)), env, frame, 0, rows, uniform(rows, 1)
    )
    assert np.bincount(moves, minlength=3) / 20_000 == pytest.approx(odds, abs=0.01)
    assert p_MN.tolist() == np.tile(odds, (20_000, 1)).tolist()


def test_a_game_does_not_depend_on_those_beside_it():
    games = {}
    for copies in (1, 3, 40):
        match = play_match(envs.load_game("leduc", copies), [uniform_policy] * 2, range(40), record=True)
        games[copies] = match.games, match.returns_MP.tolist(), match.plies
    assert games[1] == games[3] == games[40]
    some = play_match(envs.load_game("leduc", 4), [uniform_policy] * 2, [30, 8], record=True)
    assert some.games == [games[1][0][30], games[1][0][8]]


def test_a_match_is_recorded_as_it_was_played():
    match = play_match(envs.load_game("kuhn", 8), [always(0), always(1)], range(8), names=("a", "b"), record=True)
    for game, paid in zip(match.games, match.returns_MP.tolist(), strict=True):
        assert decode_game(encode_game(game)) == game
        assert [ply.player for ply in game.plies] == [CHANCE, CHANCE, 0, 1, 0]
        assert [ply.text for ply in game.plies[2:]] == ["pass", "bet", "pass"]
        assert game.plies[2].probs == (1, 0)
        assert game.plies[4].knows.endswith("; pass bet")
        assert list(game.returns) == paid == [-1, 1]
        assert [episode.total_reward for episode in episodes(game)] == paid
    assert match.plies == 24


def test_moves_at_once_are_one_turn_of_the_record():
    match = play_match(envs.load_game("matrix_game:rps,repeats=2", 2), [always(0), always(1)], [5], record=True)
    assert [(ply.player, ply.turn, ply.rewards) for ply in match.games[0].plies] == [
        (0, 0, ()),
        (1, 0, (-1, 1)),
        (0, 1, ()),
        (1, 1, (-1, 1)),
    ]


def test_no_games_are_no_match():
    match = play_match(envs.load_game("kuhn", 2), [uniform_policy] * 2, [])
    assert match.returns_MP.shape == (0, 2)
    assert match.plies == 0


@pytest.mark.parametrize(
    ("policies", "names", "message"),
    [
        ([uniform_policy], (), "number of policies than players(?s:.*)1(?s:.*)2, one a player"),
        ([uniform_policy] * 3, (), "number of policies than players"),
        ([uniform_policy] * 2, ("a",), "number of names than players"),
        (
            [always(0), uniform_policy],
            (),
            r"illegal move with probability 1(?s:.*)move 0(?s:.*)1 \(call\), 2 \(raise\)(?s:.*)card ",
        ),
        ([lambda info, legal, player: legal * 1.0, uniform_policy], (), "no probabilities(?s:.*)sum 1(?s:.*)card "),
        ([lambda info, legal, player: legal * np.nan, uniform_policy], (), "no probabilities"),
        ([lambda info, legal, player: legal[:, 1:] / 2, uniform_policy], (), "another shape"),
    ],
)
def test_what_is_wrong_with_policies_is_reported(policies, names, message):
    with pytest.raises(BadInput, match=message):
        play_match(envs.load_game("leduc", 2), policies, [0, 1], names=names)


def test_sides_hold_every_player_once():
    assert GameSpec(2, 2, 1, 1, True, True).sides == ((0,), (1,))
    with pytest.raises(BadInput, match="each of players 0 to 2 once"):
        GameSpec(3, 2, 1, 1, True, True, sides=((0, 1), (1, 2)))
