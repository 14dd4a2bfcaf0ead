"""Golden vectors of diversity (K*) and coalition values."""

import math

import numpy as np
import pytest

from evolvent.formulas import coalitions, diversity

E4 = [(1, 0, 0, 0), (0.8, 0.6, 0, 0), (0.8, 0, 0.6, 0), (0.6, 0, 0, 0.8)]
S4 = [[1, 0.9, 0.1, 0.2], [0.9, 1, 0.2, 0.1], [0.1, 0.2, 1, 0.5], [0.2, 0.1, 0.5, 1]]


def test_kstar_of_a_kernel():
    assert diversity.kstar_of_kernel(S4) == pytest.approx(2.857108736540417, abs=1e-12)
    for n in (4, 8):
        assert diversity.kstar_of_kernel(np.eye(n)) == pytest.approx(n)
        assert diversity.kstar_of_kernel(np.ones((n, n))) == pytest.approx(1)
    assert diversity.kstar([[1, 0], [-1, 0]]) == pytest.approx(1)


def test_kstar_of_embeddings():
    raw = {"renormalise_rows": False}
    assert diversity.kstar(E4) == pytest.approx(2.320139151301756, abs=1e-12)
    assert diversity.marginal_kstar(E4) == pytest.approx(
        [0.036423335727, 0.315167404792, 0.315167404792, 0.580908520408], abs=1e-10
    )
    assert diversity.kstar_by_outcome(E4, [1, 1, 0, 0]) == pytest.approx(
        (1.384145488462, 1.773680767701, 0.497305104611), abs=1e-10
    )
    assert diversity.weighted_kstar(E4, [1, 1, 0.3, 0.3]) == pytest.approx(1.657775456047, abs=1e-10)
    assert diversity.kstar(3 * np.array(E4), **raw) == pytest.approx(2.320139151301756)
    uneven = np.array(E4) * np.array([[3], [1], [1], [1]])
    assert diversity.kstar(uneven, **raw) == pytest.approx(1.576124608299, abs=1e-10)
    assert diversity.kstar(uneven) == pytest.approx(2.320139151301756)
    assert diversity.centred_kstar(E4) == pytest.approx(2.613867494238, abs=1e-10)


@pytest.mark.parametrize(
    ("n", "want"),
    [
        (2, (1.754765, 1.219591, 1.124015, 1.031980)),
        (4, (2.925727, 1.417338, 1.222764, 1.053805)),
        (8, (4.648990, 1.595173, 1.303193, 1.069511)),
        (16, (7.103526, 1.759463, 1.371834, 1.081661)),
    ],
)
def test_equicorrelated(n, want):
    for rho, value in zip((0.5, 0.9, 0.95, 0.99), want, strict=True):
        assert diversity.equicorrelated_kstar(n, rho) == pytest.approx(value, abs=1e-6)
        kernel = np.full((n, n), rho) + (1 - rho) * np.eye(n)
        assert diversity.kstar_of_kernel(kernel) == pytest.approx(value, abs=1e-6)


def test_families_and_clones():
    family = np.arange(16) // 4
    kernel = np.where(family[:, None] == family[None], 0.98, 0.6) + 0.02 * np.eye(16)
    assert diversity.kstar_of_kernel(kernel) == pytest.approx(2.796173467646, abs=1e-10)
    clones = np.ones(64) + 1e-3 * np.random.default_rng(0).normal(size=(4, 64))
    assert diversity.kstar(clones) < 1.001
    assert 2.8 < diversity.centred_kstar(clones) <= 3


def test_evidence_of_voters():
    rows = [
        (1, 0.118709, 0.118709, 0.7, 0.7),
        (2, 0.218872, 0.124246, 0.7, 0.7),
        (4, 0.380566, 0.136446, 0.784, 0.7084),
        (8, 0.601510, 0.164096, 0.873964, 0.717396),
        (16, 0.827059, 0.189373, 0.949987, 0.724999),
    ]
    for n, bits, bits_copied, majority, majority_copied in rows:
        assert diversity.voter_evidence(n, 0.7) == pytest.approx((bits, majority), abs=1e-6)
        assert diversity.voter_evidence(n, 0.7, 0.9) == pytest.approx((bits_copied, majority_copied), abs=1e-6)


def test_bounds():
    assert diversity.fano_error(0.5, 4) == pytest.approx(0.07439, abs=1e-5)
    assert diversity.fano_error(0.3, 2) == pytest.approx(0.053239, abs=1e-6)
    share = diversity.recoverable_share([1, 1.76, 2, 4, 8], 0.3)
    assert share == pytest.approx([0.2592, 0.4102, 0.4512, 0.6988, 0.9093], abs=5e-5)
    assert diversity.design_effect_size(16, 0.9) == pytest.approx(1.1034, abs=5e-5)
    assert diversity.design_effect_size(16, 0.5) == pytest.approx(1.8824, abs=5e-5)


def game(names, worth):
    return coalitions.tabulate(list(names), {frozenset(k): v for k, v in worth.items()})


THREE = game("123", {"": 0, "1": 10, "2": 20, "3": 0, "12": 50, "13": 40, "23": 30, "123": 90})
GLOVE = game("123", {"": 0, "1": 0, "2": 0, "3": 0, "12": 1, "13": 1, "23": 0, "123": 1})
SLOTS = game(
    "praf",
    {
        "": .216, "p": .236, "r": .300, "a": .420, "f": .212, "pr": .328, "pa": .448, "pf": .236, "ra": .640,
        "rf": .308, "af": .424, "pra": .704, "prf": .340, "paf": .456, "raf": .652, "praf": .720,
    },
)  # fmt: skip


def test_three_players():
    assert coalitions.shapley(THREE) == pytest.approx([35, 35, 20])
    assert coalitions.banzhaf(THREE) == pytest.approx([35, 35, 20])
    together = coalitions.interactions(THREE)
    assert (together[0, 1], together[0, 2], together[1, 2]) == pytest.approx((20, 30, 10))
    assert coalitions.leave_one_out(THREE) == pytest.approx([60, 50, 40])


def test_glove_game_tells_shapley_from_banzhaf():
    assert coalitions.shapley(GLOVE) == pytest.approx([2 / 3, 1 / 6, 1 / 6])
    assert coalitions.banzhaf(GLOVE) == pytest.approx([0.75, 0.25, 0.25])


def test_four_slots():
    assert coalitions.shapley(SLOTS) == pytest.approx([0.039333, 0.17, 0.288, 0.006667], abs=1e-6)
    assert coalitions.shapley(SLOTS).sum() == pytest.approx(0.504)
    assert coalitions.banzhaf(SLOTS) == pytest.approx([0.037, 0.168, 0.286, 0.007])
    together = coalitions.interactions(SLOTS)
    want = {(0, 1): 0.022, (0, 2): 0.022, (0, 3): 0.004, (1, 2): 0.148, (1, 3): 0.010, (2, 3): 0.006}
    assert {k: together[k] for k in want} == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize(
    ("permutations", "antithetic", "mean_error"),
    [(4, False, 0.0360), (16, False, 0.0180), (64, False, 0.0092), (4, True, 0.0062), (16, True, 0.0028)],
)
def test_sampled_orders_have_the_known_error(permutations, antithetic, mean_error):
    exact = coalitions.shapley(SLOTS)
    errors = [
        np.abs(
            coalitions.sampled_shapley(
                lambda s: SLOTS[sum(1 << i for i in s)], 4, permutations=permutations, seed=seed, antithetic=antithetic
            ).values
            - exact
        ).max()
        for seed in range(200)
    ]
    assert np.mean(errors) == pytest.approx(mean_error, rel=0.12)  # other orders than those of the table


def test_antithetic_orders_are_exact_without_triples():
    rng = np.random.default_rng(0)
    n, main, pair = 10, rng.normal(size=10), rng.normal(size=(10, 10))

    def worth(s):
        rows = sorted(s)
        return main[rows].sum() + sum(pair[i, j] for i in rows for j in rows if i < j)

    exact = coalitions.shapley([worth([i for i in range(n) if m >> i & 1]) for m in range(1 << n)])
    sampled = coalitions.sampled_shapley(worth, n, permutations=2, seed=3)
    assert sampled.values == pytest.approx(exact, abs=1e-10)
    assert sampled.values.sum() == pytest.approx(worth(range(n)), abs=1e-10)
    assert math.isnan(sampled.stderr[0])
