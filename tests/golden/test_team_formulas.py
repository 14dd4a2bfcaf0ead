"""Golden vectors of coalition values."""

import pytest

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
