"""Our own versions of games are OpenSpiel's, state by state."""

import random
import sys
import time

import numpy as np
import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, MissingExtra
from evolvent.core.turns import GameEnv, uniform

pyspiel = pytest.importorskip("pyspiel")
OURS = {
    "kuhn": "kuhn_poker",
    "leduc": "leduc_poker",
    "connect_four": "connect_four",
    "matrix_game:rps": "matrix_rps",
    "matrix_game:matching_pennies": "matrix_mp",
    "matrix_game:prisoners_dilemma": "matrix_pd",
    "openspiel:[goofspiel(num_cards=4)]": "goofspiel(num_cards=4)",
    "openspiel:liars_dice": "liars_dice",
}


def assert_equal(env: GameEnv, seeds: np.ndarray) -> None:
    """Play random games and make the same moves in OpenSpiel."""
    game, rows = pyspiel.load_game(env.game.openspiel), range(env.n_envs)
    recall = game.get_type().provides_information_state_tensor
    states, returns_BP = [game.new_initial_state() for _ in rows], np.zeros((env.n_envs, env.game.players))
    frame = env.reset(seeds)
    for ply in range(env.game.max_steps + 1):
        returns_BP += frame.reward_BP
        for b, state in enumerate(states):
            for outcome, outcomes in env.chance(b):
                assert np.allclose(outcomes, state.chance_outcomes())
                state.apply_action(outcome)
            assert state.returns() == returns_BP[b].tolist()
            assert state.is_terminal() == frame.ended_B[b]
            players = range(2) if state.is_simultaneous_node() else [state.current_player()]
            assert frame.acts_BP[b].tolist() == [p in players and not state.is_terminal() for p in range(2)]
            for player in np.flatnonzero(frame.acts_BP[b]):
                tensor = state.information_state_tensor if recall else state.observation_tensor
                assert frame.info_BPD[b, player].tolist() == tensor(player)
                assert np.flatnonzero(frame.legal_BPN[b, player]).tolist() == state.legal_actions(player)
        if frame.ended_B.all():
            return
        draws_BPN = uniform(seeds[:, None, None], 1, ply, np.arange(frame.legal_BPN[0].size).reshape(2, -1))
        action_BP = (draws_BPN * frame.legal_BPN).argmax(axis=2)
        for b, state in enumerate(states):
            if state.is_simultaneous_node():
                state.apply_actions(action_BP[b].tolist())
            elif not state.is_terminal():
                state.apply_action(int(action_BP[b, state.current_player()]))
        frame = env.step(action_BP)
    raise AssertionError("a game has no end")


@pytest.mark.parametrize("games", [100, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", OURS)
def test_moves_information_and_rewards_are_those_of_openspiel(name: str, games: int) -> None:
    env = envs.load_game(name, min(games, 500))
    assert str(pyspiel.load_game(env.game.openspiel)) == str(pyspiel.load_game(OURS[name]))
    for first in range(0, games, env.n_envs):
        assert_equal(env, np.arange(first, first + env.n_envs))


def plies_a_second(name: str, seconds: float = 0.3) -> float:
    """Random play through the library from Python, one game after the other, with the information a learner needs."""
    game, draw, plies, start = pyspiel.load_game(name), random.Random(0), 0, time.process_time()
    while time.process_time() - start < seconds:
        state = game.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                outcomes, odds = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(draw.choices(outcomes, odds)[0])
                continue
            state.information_state_tensor(state.current_player())
            state.apply_action(draw.choice(state.legal_actions()))
            plies += 1
    return plies / (time.process_time() - start)


def our_plies_a_second(name: str, seconds: float = 0.3) -> float:
    env, generator, plies, games = envs.load_game(name, 1024), np.random.default_rng(0), 0, 0
    start = time.process_time()
    frame = env.reset(np.arange(1024))
    while time.process_time() - start < seconds:
        plies += int(frame.acts_BP.sum())
        frame = env.step((generator.random(frame.legal_BPN.shape, np.float32) * frame.legal_BPN).argmax(axis=2))
        games += 1024
        frame = env.reset(np.arange(games, games + 1024), frame.ended_B)
    return plies / (time.process_time() - start)


@pytest.mark.parametrize("name", ["kuhn", "leduc"])
def test_all_copies_at_once_are_faster_than_one_after_the_other(name):
    assert our_plies_a_second(name) > plies_a_second(OURS[name])


def test_a_game_that_cannot_be_played_is_reported(monkeypatch):
    for name, message in {
        "openspiel:kunh_poker": "kuhn_poker",
        "openspiel:coin_game": "without tensors",
        "openspiel:mfg_garnet": "mean-field",
        "openspiel:bridge_uncontested_bidding": "draws by itself",
        "openspiel:leduc_poker(playes=3)": "Unknown parameter 'playes'",
        "openspiel": "NAME:VARIANT",
    }.items():
        with pytest.raises(BadInput, match=message):
            envs.load_game(name, 1)
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(MissingExtra, match=r"(?s)open_spiel is not installed.*games"):
        envs.load_game("openspiel:kuhn_poker", 1)
