"""The optimal baseline: the worked numbers of the paper's example, and that nothing beats it."""

import numpy as np
import pytest

from evolvent.core.rollout import Rollout
from evolvent.credit import agent_counterfactual, agent_optimal_baseline
from evolvent.formulas.baselines import (
    gaussian_optimal_baseline,
    gaussian_score_norms,
    optimal_weights,
    score_norms,
)

PI, Q = np.array([0.8, 0.1, 0.1]), np.array([2.0, 1.0, 100.0])


def score_variance(policy_N, q_N, baseline):
    """Total variance of ``(Q(a) - b) grad log pi(a)`` for one softmax decision, a drawn from the policy."""
    estimate_NN = (q_N - baseline)[:, None] * (np.eye(len(policy_N)) - policy_N)
    return float(policy_N @ (estimate_NN**2).sum(axis=1) - ((policy_N @ estimate_NN) ** 2).sum())


def test_the_worked_example():
    best = float(optimal_weights(PI) @ Q)
    assert best == pytest.approx(43.653, abs=5e-4)
    assert float(PI @ Q) == pytest.approx(11.7)
    found = [score_variance(PI, Q, b) for b in (0.0, float(PI @ Q), best)]
    assert found == pytest.approx([1321.0, 1020.2, 673.1], abs=0.06)


def test_another_baseline_costs_its_distance_squared():
    rng = np.random.default_rng(0)
    for _ in range(20):
        policy, q = rng.dirichlet(np.ones(5)), rng.normal(size=5) * 10
        best = float(optimal_weights(policy, floor=0.0) @ q)
        for b in rng.normal(size=3) * 10:
            more = (b - best) ** 2 * float(policy @ score_norms(policy))
            assert score_variance(policy, q, b) == pytest.approx(score_variance(policy, q, best) + more)


def test_norms_are_those_of_the_gradients():
    policy = np.array([0.7, 0.2, 0.1])
    want = [float(((np.eye(3)[a] - policy) ** 2).sum()) for a in range(3)]
    assert score_norms(policy).tolist() == pytest.approx(want)
    mean, sd, a, h = np.array([0.3, -1.0]), np.array([0.5, 2.0]), np.array([0.9, 0.4]), 1e-6

    def logp(m, s):
        return float((-0.5 * ((a - m) / s) ** 2 - np.log(s)).sum())

    slopes = [(logp(mean + h * e, sd) - logp(mean - h * e, sd)) / (2 * h) for e in np.eye(2)]
    slopes += [(logp(mean, sd + h * e) - logp(mean, sd - h * e)) / (2 * h) for e in np.eye(2)]
    assert float(gaussian_score_norms(a, mean, sd)) == pytest.approx(float(np.square(slopes).sum()), rel=1e-6)


def test_gaussian_baseline_in_chunks_finds_the_best():
    rng = np.random.default_rng(1)
    mean, sd = rng.normal(size=(7, 3)), np.exp(0.3 * rng.normal(size=(7, 3)))
    sd[2, 1:] = 0.0  # an agent with one dimension only
    seen = []

    def q_of(rows, action):
        assert action.shape[1:] == (50_000, 3)
        seen.append(len(action))
        assert (action[..., 1] == mean[rows, None, 1])[sd[rows, 1] == 0.0].all()
        return action[..., 0] ** 2 + 3.0

    out = gaussian_optimal_baseline(q_of, mean, sd, rng, samples=50_000, chunk=150_000)
    assert seen == [3, 3, 1]
    # E[z^2] of the weights is what pulls the baseline above the plain mean of Q
    for m in (2,):
        a = mean[m, :1] + sd[m, :1] * np.random.default_rng(2).standard_normal((400_000, 1))
        w, q = gaussian_score_norms(a, mean[m, :1], sd[m, :1]), a[:, 0] ** 2 + 3.0
        assert out[m] == pytest.approx(float(w @ q / w.sum()), rel=0.03)
        assert out[m] > q.mean() + 0.2 * sd[m, 0] ** 2


def test_what_is_not_available_has_no_weight():
    x = optimal_weights([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [1.0 - 1e-9, 1e-9, 0.0]])
    assert x[:, 2].tolist() == [0.0, 0.0, 0.0]
    assert x[1].tolist() == [1.0, 0.0, 0.0]  # one choice only: nothing to learn, the policy's own mean
    assert x[2] == pytest.approx([1e-4, 1 - 1e-4, 0.0], abs=1e-6)  # of two choices each answers to the other
    assert x.sum(axis=1).tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_rules_by_hand():
    q = np.array([[[[1.0, 5.0]]], [[[2.0, -2.0]]]])
    policy = np.array([[[[0.75, 0.25]]], [[[0.5, 0.5]]]])
    r = Rollout(
        obs_TBAD=np.zeros((2, 1, 1, 1)),
        action_TBA=np.array([[[1]], [[0]]]),
        reward_TBA=np.array([[[3.0]], [[4.0]]]),
        terminated_TB=np.array([[False], [True]]),
        truncated_TB=np.zeros((2, 1), bool),
        value_TBA=np.zeros((2, 1, 1)),
    )
    more = {"q_TBAN": q, "policy_TBAN": policy}
    assert agent_counterfactual.assign(r, **more).values("step").ravel().tolist() == [5.0 - 2.0, 2.0 - 0.0]
    # two choices: weights are those of the other one
    config = agent_optimal_baseline.Config(target="q")
    best = agent_optimal_baseline.assign(r, config, **more).values("step").ravel()
    assert best.tolist() == pytest.approx([5.0 - (0.25 * 1.0 + 0.75 * 5.0), 2.0])
    config = agent_optimal_baseline.Config(gamma=0.5)
    ahead = agent_optimal_baseline.assign(r, config, **more).values("step").ravel()
    assert ahead.tolist() == pytest.approx([3.0 + 0.5 * 4.0 - 4.0, 4.0 - 0.0])
