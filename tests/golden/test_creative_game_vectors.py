"""CreativeGame's proxy reward: the vectors of two readings of the paper, both forms of its gates, the signals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolvent.formulas.creative import (
    MOST,
    Signals,
    creative_reward,
    creativity,
    realisation,
    relative_novelty,
    runtime_score,
    structural_change,
)
from evolvent.formulas.values import ema


@pytest.mark.parametrize(
    ("realised", "structural", "novelty", "rating", "run", "cosmetic", "regression", "sanity", "ok", "full", "mended"),
    [
        (0.8, 0.6, 0.5, 7, 0.9, 0, 0, 0.9, True, 0.585714, 0.585714),
        (0.8, 0.6, 0.5, 7, 0.9, 0, 0, 0.9, False, 0.292857, 0.292857),
        (0.8, 0.6, 0.5, 7, 0.4, 0, 1, 0.5, False, 0.054464, -0.033036),
        (1, 1, 1, 10, 1, 0, 0, 1, True, MOST, MOST),
        (0, 0, 0, 3, 0, 1, 1, 1, True, -0.25, -0.25),
        (0, 0, 0, 3, 0, 1, 1, 0, False, -0.03125, -0.25),
    ],
)
def test_reward(realised, structural, novelty, rating, run, cosmetic, regression, sanity, ok, full, mended):
    x = Signals(structural, realised, novelty, creativity(rating), run, cosmetic, regression, sanity, ok)
    assert creative_reward(x, "all") == pytest.approx(full, abs=1e-6)
    assert creative_reward(x) == pytest.approx(mended, abs=1e-6)


@pytest.mark.parametrize(
    ("sanity", "ok", "all_", "positive"),
    [(0.9, True, 0.595, 0.595), (0.5, True, 0.14875, 0.12625), (0.5, False, 0.074375, 0.048125)],
)
def test_reward_with_a_share_of_cosmetic(sanity, ok, all_, positive):
    x = Signals(0.8, 0.6, 0.5, 0.7, 1.0, cosmetic=0.2, sanity=sanity, runtime_ok=ok)
    assert creative_reward(x, "all") == pytest.approx(all_) and creative_reward(x) == pytest.approx(positive)


SHARE = st.floats(0, 1)


@given(st.lists(SHARE, min_size=8, max_size=8))
def test_breaking_a_game_never_raises_the_mended_reward(values):
    def of(**more):
        return creative_reward(Signals(*values[:7], **more))

    assert of(sanity=0.0, runtime_ok=False) <= of(sanity=0.0) <= of(sanity=1.0)
    assert -0.25 - 1e-12 <= of(sanity=values[7]) <= MOST + 1e-12


def test_signals():
    assert runtime_score(2, 3) == pytest.approx(0.45) and runtime_score(9, 0) == 0.0
    assert [creativity(x) for x in (None, 1, 3, 10)] == [0.0, 0.0, 0.0, 1.0]
    assert realisation(["a", "b"], ["b", "c"]) == 0.5 and realisation([], []) == 1.0
    kept, removed_too = ["a", "b", "d"], ["a", "b", "c", "d"]  # of a, b, c: c was to go, d to come
    assert realisation("abd", kept, "c") == 1.0 and realisation("abd", removed_too, "c") == 0.75
    assert structural_change("abc", kept) == 0.5 and structural_change("abc", removed_too) == 0.25
    assert structural_change("ab", "bc") == pytest.approx(2 / 3)
    assert structural_change("ab", "ab", "a") == 0.5 and structural_change("", "") == 0.0
    assert relative_novelty("ab", []) == 1.0 and relative_novelty("ab", ["ab", "c"]) == pytest.approx(0.0)
    assert relative_novelty("ab", ["b"]) == pytest.approx(1 - 1 / 2**0.5)
    assert ema(0.5, 0.9, 0.3) == pytest.approx(0.62), "the memory of the paper is MemRL's"
