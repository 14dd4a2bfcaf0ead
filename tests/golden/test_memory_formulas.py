"""Golden vectors of the memory formulas: small inputs with known outputs."""

import numpy as np
import pytest

from evolvent.formulas import cases, selection, soft, statistics, values


def test_scalar_updates():
    assert values.ema(0, 1, 0.3) == pytest.approx(0.3)
    assert values.ema(0.3, 1, 0.3) == pytest.approx(0.51)
    assert values.ema(0.51, -1, 0.3) == pytest.approx(0.057)
    q = 0.0
    for _ in range(10):
        q = values.ema(q, 1, 0.3)
    assert q == pytest.approx(0.9717524751, abs=1e-10)
    assert values.ema(np.array([0.0, 0.3]), np.array([1.0, 1.0]), 0.3) == pytest.approx([0.3, 0.51])


def test_zscores():
    assert selection.zscores([0.9, 0.6, 0.6]) == pytest.approx([1.4142135624, -0.7071067812, -0.7071067812])
    assert selection.zscores([0.5, 0.5]).tolist() == [0, 0]
    assert selection.zscores([0.7]).tolist() == [0]
    assert selection.zscores([]).tolist() == []
    assert selection.zscores([0] * 11 + [10]).max() == pytest.approx(3.3166247904)
    assert selection.zscores([0] * 11 + [10], clip=3).max() == 3


@pytest.mark.parametrize(
    ("weight", "selected", "scores"),
    [
        (0, "ab", (1.2174, 0.6445, -0.5013, -1.3606)),
        (0.25, "ba", (0.7861, 0.8134, -0.7059, -0.8935)),
        (0.5, "ba", (0.3549, 0.9822, -0.9106, -0.4265)),
        (0.75, "bd", (-0.0764, 1.1511, -1.1153, 0.0406)),
        (1, "bd", (-0.5077, 1.3200, -1.3200, 0.5077)),
    ],
)
def test_blended(weight, selected, scores):
    sim, q = np.array([0.82, 0.78, 0.70, 0.64]), np.array([0.0, 0.9, -0.4, 0.5])
    chosen, score, _, _ = selection.blended(range(4), sim, q, k=2, weight=weight)
    assert "".join("abcd"[i] for i in chosen) == selected
    assert score == pytest.approx(scores, abs=6e-5)


def test_blended_with_an_empty_pool():
    chosen, score, _, _ = selection.blended([], np.zeros(0), np.zeros(0), k=3, weight=0.5)
    assert chosen.size == score.size == 0


Q_DIAMOND = {"A": 0.0, "B": 0.2, "C": 0.4, "D": 0.6, "N": 0.0}
P_DIAMOND = {"D": ["B", "C"], "B": ["A"], "C": ["A"], "N": ["D", "B"]}


@pytest.mark.parametrize(
    ("q", "parents", "used", "new", "alpha", "gamma", "trace", "want"),
    [
        (
            {"A": 0.2, "B": 0.4, "C": 0.1, "N": 0.0},
            {"C": ["B"], "B": ["A"], "N": ["C"]},
            ["C"],
            "N",
            0.3,
            0.8,
            0.5,
            {"C": 0.27, "B": 0.108, "A": 0.0432},
        ),
        (Q_DIAMOND, P_DIAMOND, ["D"], "N", 0.5, 1.0, 0.5, {"D": 0.2, "B": 0.1, "C": 0.1, "A": 0.05}),
        (Q_DIAMOND, P_DIAMOND, ["D", "B"], "N", 0.5, 1.0, 0.5, {"D": 0.2, "B": 0.5, "C": 0.1, "A": 0.25}),
        (Q_DIAMOND, P_DIAMOND, ["D", "B"], "N", 0.5, 0.0, 0.9, {"D": 0.2, "B": 0.4}),
        ({"A": 0.5, "N": 0.5}, {"N": ["A"]}, ["A"], "N", 0.3, 0.5, 0.9, {"A": 0.225}),
        ({"A": 0.0, "B": 0.0, "N": 0.0}, {"A": ["B"], "B": ["A"]}, ["A"], "N", 0.5, 1.0, 0.5, {"A": 0.5, "B": 0.25}),
    ],
)
def test_credit_goes_back_along_provenance(q, parents, used, new, alpha, gamma, trace, want):
    """MemQ: what a memory misses of ``1 + gamma q[new]`` goes to it and, by depth, to what it was made from."""
    errors = {m: 1.0 + gamma * q[new] - q[m] for m in used}
    depths = {m: values.ancestor_depths(parents, m) for m in used}
    got = values.spread_back(errors, depths, alpha=alpha, decay=gamma * trace)
    assert {m: change for m, change in got.items() if change} == pytest.approx(want)


def test_softmax():
    for temperature, want in (
        (1, (0.506480, 0.307196, 0.186324)),
        (0.1, (0.993262, 0.006693, 0.000045)),
        (10, (0.350132, 0.333056, 0.316812)),
    ):
        assert selection.softmax([1, 0.5, 0], temperature) == pytest.approx(want, abs=1e-6)


def test_metrics():
    epochs = [[0, 1, 0, 1, 0], [1, 1, 0, 0, 0], [1, 0, 1, 1, 0]]
    lost = statistics.forgetting(epochs[0], epochs[1])
    assert lost == pytest.approx({"of_all": 0.2, "of_prev_success": 0.5, "of_current_fail": 1 / 3})


@pytest.mark.parametrize(
    ("temperature", "policy", "value"),
    [
        (1.0, (0.506480, 0.307196, 0.186324), 1.680270),
        (0.1, (0.993262, 0.006693, 0.000045), 1.000676),  # without the division in the exponent it would be .168027
        (10.0, (0.350132, 0.333056, 0.316812), 11.494454),
    ],
)
def test_soft_values_over_cases_in_the_consistent_form(temperature, policy, value):
    q, every = [1.0, 0.5, 0.0], np.ones(3)
    assert soft.soft_best_policy(q, every, temperature) == pytest.approx(policy, abs=1e-6)
    assert soft.soft_best_value(q, every, temperature) == pytest.approx(value, abs=1e-6)
    best = soft.soft_best_policy(q, every, temperature)
    assert soft.soft_value(best, q, every, temperature) == pytest.approx(value), "Q plus temperature times entropy"


def test_targets_losses_and_kernels_of_cases():
    ahead = soft.soft_best_value([1.0, 0.5, 0.0], np.ones(3), 0.1)
    assert soft.soft_targets([0.0], [ahead], [True], 0.9) == pytest.approx([0.9006084], abs=1e-6)
    assert cases.cross_entropy([0.8, 0.8, 0.5], [1, 0, 1]) == pytest.approx([0.223144, 1.609438, 0.693147], abs=1e-6)
    assert cases.kernel_value(np.exp([0.0, -1.0, -2.0]), [1.0, 0.0, 0.5]) == pytest.approx(0.710256, abs=1e-6)
    assert cases.kernel_value([], []) == 0.0


def test_a_logistic_model_finds_the_direction_and_its_fit_is_a_minimum():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 3))
    r = (rng.random(4000) < 1 / (1 + np.exp(-(2 * x[:, 0] - x[:, 1] + 0.5)))).astype(float)
    w = cases.fit_logistic(x, r, ridge=0.1)
    assert w == pytest.approx([2.0, -1.0, 0.0, 0.5], abs=0.2)

    def loss(v):
        return cases.cross_entropy(cases.logistic(x, v), r).sum() + 0.05 * (v[:-1] ** 2).sum()

    for d in range(4):
        for change in (-1e-3, 1e-3):
            assert loss(w) < loss(w + change * np.eye(4)[d])
    assert cases.fit_logistic(x, np.ones(4000), ridge=0.1)[:-1] == pytest.approx(0.0, abs=0.2), "one class: a constant"
