"""EvoKernel's rewards and normaliser, with numbers computed from its equations by hand."""

import pytest

from evolvent.formulas.refinement import Running, draft_reward, refine_reward
from evolvent.formulas.values import ema


def test_a_draft_earns_one_or_costs_one():
    assert (draft_reward(True), draft_reward(False)) == (1.0, -1.0)


@pytest.mark.parametrize(
    ("best", "latency", "reward"),
    [(10, 5, 0.6), (10, 10, 0.0), (10, 20, -0.6), (10, 9, 0.1049723757), (10, 0.5, 0.9950124688), (1000, 1, 0.999998)],
)
def test_a_refinement_earns_tanh_of_the_log_ratio_to_the_best(best, latency, reward):
    assert refine_reward(True, best, latency) == pytest.approx(reward, abs=1e-9)
    ratio = (best / latency) ** 2
    assert refine_reward(True, best, latency) == pytest.approx((ratio - 1) / (ratio + 1))
    assert refine_reward(False, best, latency) == -1.0


SEQUENCE = [  # latency or None, best before, r, mean, sd, rhat, value of the start point
    (8, 10, 0.219512, 0.219512, 0.0, 0.0, 0.0),
    (9, 8, -0.117241, 0.051135, 0.168377, -1.0, -0.2),
    (None, 8, -1.0, -0.299243, 0.514228, -1.362735, -0.432547),
    (4, 8, 0.6, -0.074432, 0.591559, 1.140092, -0.118019),
]


def test_the_running_normaliser_and_the_value_over_a_sequence():
    running, q, best = Running(), 0.0, 10.0
    for latency, before, r, mean, sd, rhat, value in SEQUENCE:
        assert best == before
        found = refine_reward(latency is not None, best, latency or 1.0)
        best = min(best, latency or best)
        running.push(found)
        q = ema(q, running.norm(found), 0.2)
        assert (found, running.mean, running.sd) == pytest.approx((r, mean, sd), abs=1e-6)
        assert (running.norm(found), q) == pytest.approx((rhat, value), abs=1e-6)


def test_without_spread_nothing_is_learned():
    running = Running()
    assert running.sd == 0.0 and running.norm(3.0) == 0.0
    for _ in range(3):
        running.push(0.5)
    assert running.norm(0.5) == 0.0
