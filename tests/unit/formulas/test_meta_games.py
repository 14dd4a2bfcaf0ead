"""Mixtures of meta-games: by hand, by their definition, and beside OpenSpiel's alpha-rank."""

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.formulas import meta_games

pytest.importorskip("scipy")
RPS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def zero_sum(own):
    return np.stack([own, -np.asarray(own)])


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("solver", ["nash", "uniform", "replicator", "projected", "alpha_rank"])
def test_rock_paper_scissors_is_played_uniformly(solver):
    for x in meta_games.SOLVERS[solver](zero_sum(RPS)):
        np.testing.assert_allclose(x, 1 / 3, atol=1e-6)


def test_nash_of_a_biased_game_by_hand():
    # max min of [[3, 0], [0, 1]]: both rows earn alike against (y, 1 - y) at 3 y = 1 - y
    x, y = meta_games.nash(zero_sum([[3.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(x, [0.25, 0.75], atol=1e-9)
    np.testing.assert_allclose(y, [0.25, 0.75], atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_nobody_gains_against_nash(seed):
    payoff = zero_sum(drawn(seed, 7, 5))
    found = meta_games.nash(payoff)
    value = meta_games.values(payoff, found)
    for p in (0, 1):
        assert meta_games.deviations(payoff, found, p).max() <= value[p] + 1e-9


def gain(payoff, mix):
    return sum((meta_games.deviations(payoff, mix, p) - meta_games.values(payoff, mix)[p]).max() for p in (0, 1))


def test_replicator_comes_near_nash_and_projection_keeps_everybody():
    payoff = zero_sum(drawn(1, 4, 4))
    assert gain(payoff, meta_games.replicator(payoff)) < 0.1 * gain(payoff, meta_games.uniform(payoff))
    assert min(x.min() for x in meta_games.projected(payoff)) >= 0.01 / 4 - 1e-12


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 2, 3, 2)])
def test_alpha_rank_is_that_of_openspiel(shape):
    alpharank = pytest.importorskip("open_spiel.python.egt.alpharank")
    payoff = drawn(2, *shape)
    payoff[:, 0] = payoff[:, 1]  # ties, too
    share = alpharank.compute(list(payoff), use_inf_alpha=True, inf_alpha_eps=0.01)[2].reshape(shape[1:])
    for p, x in enumerate(meta_games.alpha_rank(payoff)):
        np.testing.assert_allclose(x, share.sum(axis=tuple(q for q in range(len(shape) - 1) if q != p)), atol=1e-8)


def test_deviations_of_three_players_by_enumeration():
    payoff, mix = drawn(3, 3, 2, 3, 2), (np.array([0.3, 0.7]), np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.4]))
    by_hand = [sum(mix[0][i] * mix[2][k] * payoff[1, i, j, k] for i in range(2) for k in range(2)) for j in range(3)]
    np.testing.assert_allclose(meta_games.deviations(payoff, mix, 1), by_hand)


def test_rectified_answers_only_what_a_member_beats():
    third = np.full(3, 1 / 3)
    rock, paper, scissors = meta_games.rectified(zero_sum(RPS), [third, third], 0)
    np.testing.assert_allclose([rock, paper, scissors], [[0, 0, 1], [1, 0, 0], [0, 1, 0]], atol=1e-12)
    beaten_by_all = meta_games.rectified(zero_sum(np.zeros((2, 2))), [np.array([1.0, 0.0]), np.full(2, 0.5)], 0)
    np.testing.assert_allclose(beaten_by_all, [[0.5, 0.5]])


@pytest.mark.parametrize("payoff", [drawn(0, 3, 2, 2, 2), drawn(0, 2, 3, 3)])
def test_nash_is_of_zero_sum_games_of_two(payoff):
    with pytest.raises(BadInput, match="alpha_rank"):
        meta_games.nash(payoff)


def test_alpha_rank_says_what_is_too_large():
    with pytest.raises(BadInput, match="2500"):
        meta_games.alpha_rank(np.zeros((2, 51, 50)))
