"""Golden vectors of coalition values."""

import math

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.formulas import coalitions


def game(names, worth):
    return coalitions.tabulate(list(names), {frozenset(k): v for k, v in worth.items()})


THREE = game("123", {"": 0, "1": 10, "2": 20, "3": 0, "12": 50, "13": 40, "23": 30, "123": 90})
GLOVE = game("123", {"": 0, "1": 0, "2": 0, "3": 0, "12": 1, "13": 1, "23": 0, "123": 1})
SLOTS = game(
    "praf",
    {
        "": 0.216,
        "p": 0.236,
        "r": 0.300,
        "a": 0.420,
        "f": 0.212,
        "pr": 0.328,
        "pa": 0.448,
        "pf": 0.236,
        "ra": 0.640,
        "rf": 0.308,
        "af": 0.424,
        "pra": 0.704,
        "prf": 0.340,
        "paf": 0.456,
        "raf": 0.652,
        "praf": 0.720,
    },
)


def test_three_players():
    assert coalitions.shapley(THREE) == pytest.approx([35, 35, 20])
    assert coalitions.banzhaf(THREE) == pytest.approx([35, 35, 20])


def test_glove_game_tells_shapley_from_banzhaf():
    assert coalitions.shapley(GLOVE) == pytest.approx([2 / 3, 1 / 6, 1 / 6])
    assert coalitions.banzhaf(GLOVE) == pytest.approx([0.75, 0.25, 0.25])


def test_four_slots():
    assert coalitions.shapley(SLOTS) == pytest.approx([0.039333, 0.17, 0.288, 0.006667], abs=1e-6)
    assert coalitions.shapley(SLOTS).sum() == pytest.approx(0.504)
    assert coalitions.banzhaf(SLOTS) == pytest.approx([0.037, 0.168, 0.286, 0.007])
    pairs = [0.022, 0.022, 0.004, 0.148, 0.01, 0.006]
    assert coalitions.interactions(SLOTS)[np.triu_indices(4, 1)] == pytest.approx(pairs)


def test_interactions_leave_one_out_and_first_in():
    assert coalitions.interactions(THREE) == pytest.approx(np.array([[0, 20, 30], [20, 0, 10], [30, 10, 0]]))
    assert coalitions.leave_one_out(THREE) == pytest.approx([60, 50, 40])
    assert coalitions.first_in(THREE) == pytest.approx([10, 20, 0])


def test_what_coalitions_are_worth_if_values_add_up():
    """By hand from the values above: the three players, and p + a, r + a, r + a + f of the four slots."""
    assert coalitions.additive(THREE) == pytest.approx([0, 35, 35, 70, 20, 55, 55, 90])  # 12 was 50, 13 40, 23 30
    at = coalitions.additive(SLOTS)
    assert at[[0b0101, 0b0110, 0b1110]] == pytest.approx([0.543333, 0.674, 0.680667], abs=1e-6)
    assert at[[0, -1]] == pytest.approx(SLOTS[[0, -1]]), "none and all are as measured"
    per_task = np.stack([SLOTS, THREE[np.arange(16) % 8]], axis=1)
    assert coalitions.additive(per_task)[:, 0] == pytest.approx(at)


def measured(game, orders):
    return {mask: game[mask] for order in orders for mask in coalitions.coalitions_along(order)}


def test_all_coalitions_measured_are_all_orders():
    for game in (THREE, GLOVE, SLOTS):
        n = len(game).bit_length() - 1
        phi, orders = coalitions.shapley_of_measured(n, dict(enumerate(game)))
        assert phi == pytest.approx(coalitions.shapley(game)) and orders == math.factorial(n)


def test_an_order_and_its_reverse_are_exact_where_two_interact_at_most():
    rng = np.random.default_rng(0)
    main, pairs = rng.normal(size=10), np.triu(rng.normal(size=(10, 10)), 1)
    bits = (np.arange(1024)[:, None] >> np.arange(10)) & 1
    game = bits @ main + np.einsum("mi,ij,mj->m", bits, pairs, bits)
    phi, _ = coalitions.shapley_of_measured(10, measured(game, coalitions.antithetic_orders(10, 1, rng)))
    assert phi == pytest.approx(coalitions.shapley(game))


def test_drawn_orders_prefer_nobody():
    rng = np.random.default_rng(1)
    game = rng.normal(size=32)
    drawn = [measured(game, coalitions.antithetic_orders(5, 2, rng)) for _ in range(2000)]
    phi = np.array([coalitions.shapley_of_measured(5, one)[0] for one in drawn])
    assert phi.sum(axis=1) == pytest.approx(np.full(2000, game[-1] - game[0]))
    assert np.abs((phi.mean(axis=0) - coalitions.shapley(game)) / (phi.std(axis=0) / 2000**0.5)).max() < 4


def test_orders_that_share_coalitions_err_less_than_a_mean_over_the_drawn_ones():
    """16 orders of the four slots in antithetic pairs err by .0028 on average."""
    rng = np.random.default_rng(1)
    drawn = [measured(SLOTS, coalitions.antithetic_orders(4, 8, rng)) for _ in range(200)]
    errors = [coalitions.shapley_of_measured(4, one)[0] - coalitions.shapley(SLOTS) for one in drawn]
    assert np.abs(errors).max(axis=1).mean() < 0.0028


def test_no_whole_order_is_an_error():
    for worth in ({}, {0: 1.0}, {0: 0.0, 7: 1.0}, {0: 0.0, 1: 0.0, 6: 1.0, 7: 1.0}):
        with pytest.raises(BadInput, match="measured as a whole"):
            coalitions.shapley_of_measured(3, worth)
