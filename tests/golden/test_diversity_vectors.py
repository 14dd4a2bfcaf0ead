"""K* and what goes with it: closed forms, the published code's numbers, planted teams."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evolvent.core.errors import BadInput
from evolvent.formulas import diversity as d

S = np.array([[1, 0.9, 0.1, 0.2], [0.9, 1, 0.2, 0.1], [0.1, 0.2, 1, 0.5], [0.2, 0.1, 0.5, 1]])
E = np.array([[1, 0, 0, 0], [0.8, 0.6, 0, 0], [0.8, 0, 0.6, 0], [0.6, 0, 0, 0.8]])
EXACT = {"rel": 0, "abs": 1e-9}


def alike(n: int, cosine: float) -> np.ndarray:
    return np.full((n, n), cosine) + (1 - cosine) * np.eye(n)


def test_k_star_of_matrices():
    assert d.k_star_of_gram(S) == pytest.approx(2.857108736540417, **EXACT)
    assert math.log2(d.k_star_of_gram(S)) == pytest.approx(1.5145559437585, **EXACT)
    assert np.linalg.eigvalsh(S / 4)[::-1] == pytest.approx(
        [0.515138781887, 0.334861218113, 0.130901699437, 0.019098300563], **EXACT
    )
    for n in (4, 8):
        assert d.k_star_of_gram(np.eye(n)) == pytest.approx(n, **EXACT)
    for n in (1, 3, 16):
        assert d.k_star_of_gram(np.ones((n, n))) == pytest.approx(1, **EXACT)
    assert d.k_star([[1, 0], [-1, 0]]) == pytest.approx(1, **EXACT)
    assert d.k_star_of_gram(np.zeros((3, 3))) == 1


def test_k_star_of_embeddings_and_their_labels():
    assert d.k_star(E) == pytest.approx(2.320139151301756, **EXACT)
    assert math.log2(d.k_star(E)) == pytest.approx(1.2142113341773, **EXACT)
    assert d.k_star_without(E) == pytest.approx(
        [0.036423335727, 0.315167404792, 0.315167404792, 0.580908520408], **EXACT
    )
    by = d.k_star_by_label(E, [True, True, False, False])
    wanted = {"right": 1.384145488462, "wrong": 1.773680767701, "effective": 0.497305104611}
    assert by == pytest.approx({**wanted, "weighted": 1.657775456047}, **EXACT)
    assert d.k_star_by_label(E, [True, True, True, None])["effective"] == d.k_star(E[:3])
    none = d.k_star_by_label(E, [False] * 4)
    assert math.isnan(none["right"]) and math.isnan(none["effective"]) and none["wrong"] == d.k_star(E)
    assert d.k_star_by_label(E, [True, False, False, False])["right"] == pytest.approx(1, **EXACT)


def test_scale_counts_only_where_rows_are_not_renormalised():
    one = E * np.array([[3], [1], [1], [1]])
    assert d.k_star(3 * E, renormalise=False) == pytest.approx(2.320139151301756, **EXACT)
    assert d.k_star(one, renormalise=False) == pytest.approx(1.576124608299, **EXACT)
    assert d.k_star(one) == pytest.approx(2.320139151301756, **EXACT)


def test_two_at_half_carry_as_much_as_sixteen_at_nine_tenths():
    table = {
        2: (1.754765, 1.219591, 1.124015, 1.031980),
        4: (2.925727, 1.417338, 1.222764, 1.053805),
        8: (4.648990, 1.595173, 1.303193, 1.069511),
        16: (7.103526, 1.759463, 1.371834, 1.081661),
    }
    for n, wanted in table.items():
        got = [d.k_star_of_gram(alike(n, cosine)) for cosine in (0.5, 0.9, 0.95, 0.99)]
        assert got == pytest.approx(wanted, abs=5e-7)
    families = np.kron(np.eye(4), np.full((4, 4), 0.38)) + 0.6 + 0.02 * np.eye(16)
    assert d.k_star_of_gram(families) == pytest.approx(2.796173467646, **EXACT)


def test_near_clones_are_one_channel():
    rng = np.random.default_rng(0)
    base = np.zeros(64)
    base[0] = 1
    clones = base + 1e-3 * rng.standard_normal((4, 64))
    assert d.k_star(clones) == pytest.approx(1.0005, abs=5e-4)
    assert d.k_star(clones) < 1.01  # what the centred variant calls 2.9


@settings(deadline=None)
@given(hnp.arrays(np.float64, (4, 5), elements=st.floats(-1, 1)), st.integers(2, 8))
def test_k_star_lies_within_bounds_and_copies_add_nothing(vec: np.ndarray, copies: int):
    found = d.k_star(vec)
    assert 1 - 1e-9 <= found <= 4 + 1e-9
    assert d.k_star(np.tile(vec, (copies, 1))) == pytest.approx(found, abs=0.01)
    assert d.k_star(np.tile(vec[:1], (copies, 1))) == pytest.approx(1, abs=1e-9)
    assert d.k_star(vec[::-1]) == pytest.approx(found, abs=1e-9)


def joint(n: int, copied: float = 0.0, skill: float = 0.7) -> np.ndarray:
    """P(Y, number that say 1) of a fair Y; with the chance ``copied`` all say what one of them drew."""
    k = np.arange(n + 1)
    of = np.array([math.comb(n, int(i)) for i in k])
    one = (1 - copied) * of * skill**k * (1 - skill) ** (n - k) + copied * (skill * (k == n) + (1 - skill) * (k == 0))
    return np.stack([one, one[::-1]]) / 2


def test_evidence_grows_with_independent_members_and_hardly_with_copies():
    wanted = {1: (0.118709, 0.118709), 2: (0.218872, 0.124246), 4: (0.380566, 0.136446)}
    wanted |= {8: (0.601510, 0.164096), 16: (0.827059, 0.189373)}
    for n, bits in wanted.items():
        got = [d.mutual_information(joint(n, copied)) for copied in (0, 0.9)]
        assert got == pytest.approx(bits, abs=5e-7)
    chain = [0.0, *(d.mutual_information(joint(n)) for n in range(1, 6))]
    assert [b - a for a, b in pairwise(chain)] == pytest.approx(
        [0.118709, 0.100163, 0.086454, 0.075241, 0.065967], abs=1e-6
    )
    assert d.mutual_information(joint(400)) <= 1 + 1e-9  # H(Y): the number of agents is not in it


def test_fano_saturation_and_design_effect():
    assert d.fano_error(0.5, 4) == pytest.approx(0.07439, abs=5e-6)
    assert d.fano_error(0.3, 2) == pytest.approx(0.053239, abs=5e-7)
    assert d.fano_missing(d.fano_error(0.5, 4), 4) == pytest.approx(0.5, abs=1e-9)
    assert d.fano_missing(0.75, 4) == pytest.approx(2, **EXACT)
    assert d.saturation([1, 1.76, 2, 4, 8], 0.3) == pytest.approx([0.2592, 0.4102, 0.4512, 0.6988, 0.9093], abs=5e-5)
    assert d.effective_size(16, 0.9) == pytest.approx(1.1034, abs=5e-5)
    assert d.effective_size(16, 0.5) == pytest.approx(1.8824, abs=5e-5)
    k = np.array([1, 1.2, 1.8, 2.5, 4, 7])
    assert d.fit_saturation(k, 0.4 + 0.5 * d.saturation(k, 0.7)) == pytest.approx((0.4, 0.5, 0.7), abs=0.01)
    with pytest.raises(BadInput, match="three arms"):
        d.fit_saturation([1, 1, 2], [0.1, 0.2, 0.3])


def majority(n: int, copied: float, rng: np.random.Generator, questions: int = 40_000) -> float:
    right = rng.random((questions, n)) < 0.7
    together = rng.random(questions) < copied
    right[together] = right[together, :1]
    return float(d.vote(right.astype(int), right).mean())


def test_a_vote_of_two_is_their_mean_and_of_more_the_closed_form():
    rng = np.random.default_rng(1)
    wanted = {2: (0.7, 0.7), 4: (0.784, 0.7084), 8: (0.873964, 0.717396), 16: (0.949987, 0.724999)}
    for n, (alone, copied) in wanted.items():
        assert majority(n, 0, rng) == pytest.approx(alone, abs=0.01)
        assert majority(n, 0.9, rng) == pytest.approx(copied, abs=0.01)


@settings(deadline=None)
@given(hnp.arrays(np.int64, (6, 2), elements=st.integers(-1, 3)), st.data())
def test_two_agents_score_exactly_their_mean(answer: np.ndarray, data: st.DataObject):
    gold = data.draw(hnp.arrays(np.int64, (6, 1), elements=st.integers(0, 3)))
    answer = np.abs(answer)  # an agent without an answer has no vote: then the other one decides
    right = answer == gold
    assert d.vote(answer, right) == pytest.approx(right.mean(1))


def test_a_vote_counts_answers_not_agents_that_are_right():
    answer = [[0, 1, 1, -1], [0, 1, 2, -1], [-1, -1, -1, -1], [3, -1, -1, -1]]
    right = [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert d.vote(answer, right) == pytest.approx([0, 1 / 3, 0, 1])


def test_error_correlation():
    right = np.array([[1, 1, 0, 1], [0, 0, 1, 1], [1, 1, 0, 1], [0, 0, 1, 1]])
    found = d.error_correlation(right)
    assert found[:3, :3] == pytest.approx(np.array([[1, 1, -1], [1, 1, -1], [-1, -1, 1]]))
    assert np.isnan(found[3]).all()


def test_k_star_and_evidence_order_planted_teams_alike():
    """Members copy their family's draw in .95, .8, .5 or 0 of the questions: K* of the answers and bits both grow."""
    rng, channels, bits = np.random.default_rng(0), [], []
    for copied in (0.95, 0.8, 0.5, 0.0):
        gold = rng.integers(0, 4, 3000)
        own = np.where(rng.random((3000, 4)) < 0.6, gold[:, None], rng.integers(0, 4, (3000, 4)))
        answer = np.where(rng.random((3000, 1)) < copied, own[:, :1], own)
        channels.append(np.mean([d.k_star(np.eye(4)[row]) for row in answer]))
        bits.append(d.mutual_information(joint_of(answer, gold)))
    assert channels == sorted(channels) and bits == sorted(bits)


def joint_of(answer: np.ndarray, gold: np.ndarray) -> np.ndarray:
    pattern = answer @ 4 ** np.arange(answer.shape[1])
    counts = np.zeros((4, 256))
    np.add.at(counts, (gold, pattern), 1)
    return counts


def test_malformed():
    with pytest.raises(BadInput, match="square matrix"):
        d.k_star_of_gram(np.ones((2, 3)))
    with pytest.raises(BadInput, match="square matrix"):
        d.k_star([[math.nan, 1]])
    with pytest.raises(BadInput, match="two options"):
        d.fano_missing(0.2, 1)
