"""A game as arrays: what policies earn is what OpenSpiel says, and a mixture is one policy that earns the same."""

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.runs.population import response, tabular

pyspiel = pytest.importorskip("pyspiel")
GAMES = ["kuhn_poker", "kuhn_poker(players=3)", "leduc_poker", "matrix_rps", "goofspiel(num_cards=3,imp_info=True)"]
TWICE = "repeated_game(stage_game=matrix_rps(),num_repetitions=2,recall=1)"


def drawn(game, seed):
    """A random policy of every player."""
    rng = np.random.default_rng(seed)
    found = [np.where(legal, rng.gamma(0.5, size=legal.shape) + 1e-6, 0.0) for legal in game.legal]
    return [one / one.sum(axis=1, keepdims=True) for one in found]


def returns(game, policies):
    root = tabular.load(game.name).new_initial_state()
    table = pyspiel.TabularPolicy(tabular.as_openspiel(game, policies))
    return pyspiel.expected_returns(root, table, -1, True)


@pytest.mark.parametrize("name", GAMES)
def test_what_policies_earn_is_what_openspiel_computes(name):
    game = tabular.tree(name)
    policies = drawn(game, 0)
    ((_, exact),) = response.played(name, [{0: one} for one in policies], [((0,) * game.players, 0)], 0)
    np.testing.assert_allclose(exact.mean, returns(game, policies), atol=1e-12)


@pytest.mark.parametrize("name", GAMES)
def test_a_mixture_by_own_reach_earns_what_its_members_earn_in_the_mean(name):
    game, weight = tabular.tree(name), np.array([0.5, 0.2, 0.3])
    members, others = [drawn(game, seed) for seed in (1, 2, 3)], drawn(game, 4)
    mixed = tabular.mixed(game, 0, np.stack([one[0] for one in members]), weight)
    each = [returns(game, [one[0], *others[1:]]) for one in members]
    np.testing.assert_allclose(returns(game, [mixed, *others[1:]]), weight @ np.array(each), atol=1e-12)


def test_a_member_is_drawn_once_a_play_and_kept():
    game = tabular.tree(TWICE)
    always = [np.tile(np.eye(3)[move], (len(game.states[0]), 1)) for move in range(3)]
    mixed = tabular.mixed(game, 0, np.stack(always), np.full(3, 1 / 3))
    first = game.levels[0][0]
    np.testing.assert_allclose(mixed[first], 1 / 3)
    for state in game.levels[0][1]:  # drawn anew each step it would be 1/3 here, too
        np.testing.assert_allclose(mixed[state], np.eye(3)[(game.before[0][state] - 1) % 3])


def test_recorded_plays_keep_their_members():
    game = tabular.tree(TWICE)
    members = [[np.tile(np.eye(3)[move], (len(game.states[p]), 1)) for move in range(3)] for p in (0, 1)]
    for number in range(20):
        play = response.record(TWICE, members, [np.full(3, 1 / 3)] * 2, 0, number)
        moves = [[ply.action for ply in play.plies if ply.player == p] for p in (0, 1)]
        assert [set(own) for own in moves] == [{k} for k in play.meta["members"]]


@pytest.mark.parametrize("name", GAMES[:3])
def test_nash_conv_is_what_best_responses_gain(name):
    game = tabular.tree(name)
    policies = drawn(game, 5)
    gain = -sum(returns(game, policies))
    for p in range(game.players):
        best = tabular.best_response(game, p, policies)
        gain += returns(game, [best if q == p else one for q, one in enumerate(policies)])[p]
    assert tabular.nash_conv(game, policies) == pytest.approx(gain, abs=1e-9)


def test_plays_are_near_what_is_exact_and_do_not_depend_on_the_task():
    game = tabular.tree("leduc_poker")
    members = [dict(enumerate(both)) for both in zip(drawn(game, 0), drawn(game, 1), strict=True)]
    cells = [((0, 0), 4000), ((0, 1), 4000), ((1, 1), 4000)]
    together, exact = (
        response.played("leduc_poker", members, cells, 7),
        dict(response.played("leduc_poker", members, [(c, 0) for c, _ in cells], 7)),
    )
    alone = [response.played("leduc_poker", members, [cell], 7)[0] for cell in cells]
    assert together == alone
    for cell, plays in together:
        error = np.sqrt(np.array(plays.spread) / plays.count / (plays.count - 1))
        assert (np.abs(np.array(plays.mean) - exact[cell].mean) < 5 * error).all()


def test_a_policy_of_another_game_or_with_an_illegal_move_is_refused():
    game = tabular.tree("leduc_poker")
    with pytest.raises(BadInput, match="another game"):
        tabular.check_policy(game, 0, tabular.tree("kuhn_poker").uniform(0), "test")
    policy = game.uniform(0)
    at, move = np.argwhere(~game.legal[0])[0]
    policy[at] = np.eye(3)[move]
    with pytest.raises(BadInput, match="illegal move") as error:
        tabular.check_policy(game, 0, policy, "test")
    assert repr(game.states[0][at])[1:20] in str(error.value)
    policy[at] = np.nan
    with pytest.raises(BadInput):
        tabular.check_policy(game, 0, policy, "test")


def test_a_game_of_one_or_one_that_is_too_large_is_refused(monkeypatch):
    with pytest.raises(BadInput, match="2 players or more"):
        tabular.load("catch")
    with pytest.raises(BadInput, match="too large"):
        tabular.tree("chess")  # at once: nobody walks through it
    monkeypatch.setattr(tabular, "LIMIT", 50)
    with pytest.raises(BadInput, match="too large"):
        tabular.tree.__wrapped__("kuhn_poker")


def test_a_learned_response_earns_most_of_what_the_best_one_does(player=1):
    pytest.importorskip("torch")
    game = tabular.tree("kuhn_poker")
    against = [game.uniform(p) for p in (0, 1)]
    found = response.learned("ppo", "kuhn_poker", player, against, 1, 6144)
    tabular.check_policy(game, player, found, "test")
    best = tabular.best_response(game, player, against)
    earned = [returns(game, [one if p == player else against[p] for p in (0, 1)])[player] for one in (found, best)]
    before = returns(game, against)[player]
    assert earned[0] - before > 0.7 * (earned[1] - before)


def test_a_game_whose_players_move_at_once_is_not_learned():
    with pytest.raises(BadInput, match="--response exact"):
        tabular.tensors("matrix_rps", 0)
