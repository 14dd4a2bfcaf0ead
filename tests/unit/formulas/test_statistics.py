"""Statistics against closed forms, exact enumeration and published table values."""

import itertools
import math

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.formulas import statistics


def test_what_rliable_gives():
    """rliable 1.2.0 on the same numbers, runs × tasks there, tasks × runs here."""
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(10, 5)), rng.normal(size=(10, 5)), rng.normal(size=(7, 4))
    iqms = [float(statistics.iqm(x)) for x in (a, b, c)]
    assert iqms == pytest.approx([0.08256228487421022, -0.002159449670268274, 0.13614474074727045], abs=1e-12)
    p, lo, hi = statistics.probability_of_improvement(a.T, b.T + 0.3, n=8000)
    assert p == pytest.approx(0.438) and (lo, hi) == pytest.approx((0.330, 0.550), abs=0.01)


def test_iqm_drops_a_quarter_at_each_end():
    assert statistics.iqm([1, 2, 3, 100]) == 2.5
    assert statistics.iqm([5.0]) == 5
    assert statistics.iqm(range(7)) == pytest.approx(3)  # int(7/4) = 1 at each end
    assert statistics.iqm([[0, 1, 2, 50], [4, 3, 2, -90]], axis=1).tolist() == [1.5, 2.5]
    with pytest.raises(BadInput):
        statistics.iqm([])


def test_wilson_against_its_equation():
    # ends of the interval solve (p - x)² = z² x (1 - x) / n
    z = 1.959963984540054
    for successes, n in ((3, 10), (21, 24), (1, 200), (0, 5), (5, 5)):
        lo, hi = statistics.wilson(successes, n)
        for x in (lo, hi):
            assert (successes / n - x) ** 2 == pytest.approx(z**2 * x * (1 - x) / n, abs=1e-12)
        assert lo <= successes / n <= hi
    assert statistics.wilson(0, 0) == (0, 1)
    assert statistics.wilson(0, 5)[0] == 0
    assert statistics.wilson(5, 5)[1] == 1
    with pytest.raises(BadInput):
        statistics.wilson(3, 2)


def test_student_quantiles_against_the_tables():
    for df, want in ((1, 12.7062047), (2, 4.3026527), (3, 3.1824463), (4, 2.7764451), (9, 2.2621572), (30, 2.0422725)):
        assert statistics.student_quantile(0.975, df) == pytest.approx(want, abs=1e-6)
    assert statistics.student_quantile(0.995, 5) == pytest.approx(4.0321430, abs=1e-6)
    assert statistics.student_quantile(0.975, 100_000) == pytest.approx(1.959988, abs=1e-5)
    # the finite sums and the expansion agree where one takes over
    assert statistics.student_quantile(0.975, 500) == pytest.approx(1.9647198, abs=1e-6)
    assert statistics.student_quantile(0.975, 501) == pytest.approx(1.9647102, abs=1e-6)
    lo, hi = statistics.student_interval([1, 2, 3])
    assert (lo, hi) == pytest.approx((2 - 4.3026527 / math.sqrt(3), 2 + 4.3026527 / math.sqrt(3)))
    assert all(math.isnan(x) for x in statistics.student_interval([1.0]))


def test_mcnemar_against_enumeration():
    for only_a, only_b in itertools.product(range(5), range(5)):
        a = [1] * only_a + [0] * only_b + [1, 0, 1]
        b = [0] * only_a + [1] * only_b + [1, 0, 1]
        flips = [sum(f) for f in itertools.product((0, 1), repeat=only_a + only_b)]
        extreme = abs(only_a - only_b)
        p = np.mean([abs(2 * f - only_a - only_b) >= extreme for f in flips])
        assert statistics.mcnemar(a, b) == pytest.approx(p)
    assert statistics.mcnemar([1] * 3000 + [0] * 3000, [0] * 3000 + [1] * 3000) == 1.0
    assert 0 < statistics.mcnemar([1] * 1000, [0] * 1000) < 1e-300
    with pytest.raises(BadInput):
        statistics.mcnemar([1, 2], [0, 1])


def normal_interval(x, n):
    return x.mean() - 1.96 * x.std() / math.sqrt(n), x.mean() + 1.96 * x.std() / math.sqrt(n)


def test_bootstrap_of_a_mean_meets_the_normal_interval():
    x = np.random.default_rng(0).normal(size=400)
    got = statistics.stratified_bootstrap([x], n=4000, seed=1)
    assert got == pytest.approx(normal_interval(x, 400), abs=0.01)
    singles = statistics.clustered_bootstrap(x, list(range(400)), n=4000, seed=1)
    assert singles == pytest.approx(normal_interval(x, 400), abs=0.01)


def test_strata_remove_the_spread_between_tasks_and_clusters_keep_it():
    rng = np.random.default_rng(0)
    tasks = [rng.normal(10 * t, 1, size=50) for t in range(8)]
    pooled, labels = np.concatenate(tasks), np.repeat(np.arange(8), 50)
    within = math.sqrt(np.mean([t.var() for t in tasks]) / 400)
    lo, hi = statistics.stratified_bootstrap(tasks, n=3000)
    assert (hi - lo) / (2 * 1.96) == pytest.approx(within, rel=0.08)
    between = np.std([t.mean() for t in tasks]) / math.sqrt(8)
    lo, hi = statistics.clustered_bootstrap(pooled, labels.tolist(), n=3000)
    assert (hi - lo) / (2 * 1.96) == pytest.approx(between, rel=0.08)
    by_stat = statistics.clustered_bootstrap(pooled, labels.tolist(), np.mean, n=3000)
    assert by_stat == pytest.approx((lo, hi), rel=0.05)


def test_the_exact_bootstrap_distribution_of_two_clusters():
    """Two clusters: means 0, 1 and the pooled mean with probabilities 1/4, 1/4, 1/2."""
    assert statistics.clustered_bootstrap([0, 0, 1], ["a", "a", "b"], n=2000) == (0, 1)
    lo, hi = statistics.clustered_bootstrap([0, 0, 1], ["a", "a", "b"], n=2000, confidence=0.4)
    assert (lo, hi) == pytest.approx((1 / 3, 1 / 3))


def test_no_interval_is_nan_not_zero_width():
    assert all(math.isnan(x) for x in statistics.clustered_bootstrap([1, 2], ["s", "s"]))
    assert all(math.isnan(x) for x in statistics.stratified_bootstrap([[1], [2]]))
    p, lo, hi = statistics.probability_of_improvement([1], [0])
    assert p == 1
    assert math.isnan(lo) and math.isnan(hi)


def test_coverage_of_the_stratified_interval():
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(300):
        lo, hi = statistics.stratified_bootstrap([rng.normal(t, 1, 20) for t in range(3)], n=300, seed=trial)
        hits += lo <= 1 <= hi
    assert 0.89 < hits / 300 < 0.985


def test_probability_of_improvement():
    p, lo, hi = statistics.probability_of_improvement([3, 2, 1], [2, 1, 0])
    assert p == pytest.approx((1 + 1 + 1 + 0.5 + 1 + 1 + 0 + 0.5 + 1) / 9)
    assert lo <= p <= hi
    rng = np.random.default_rng(0)
    p, lo, hi = statistics.probability_of_improvement(rng.normal(1, 1, (2, 300)), rng.normal(0, 1, (2, 250)))
    truth = 0.5 * (1 + math.erf(1 / 2))  # P(N(1, 2) > 0)
    assert lo < truth < hi
    assert hi - lo < 0.08
    assert statistics.probability_of_improvement([1, 2], [1, 2])[0] == 0.5
    with pytest.raises(BadInput):
        statistics.probability_of_improvement([[1, 2]], [[1], [2]])


def test_paired_bootstrap_uses_the_pairing():
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 10, 200)
    a, b = hard + rng.normal(0.5, 1, 200), hard + rng.normal(0, 1, 200)
    gain, lo, hi = statistics.paired_bootstrap(a, b)
    assert gain == pytest.approx((a - b).mean())
    assert 0 < lo < gain < hi < 1
    assert statistics.paired_bootstrap(a, b, clusters=["one"] * 200)[0] == gain


def test_same_seed_same_interval():
    x = np.random.default_rng(0).random(30)
    assert statistics.stratified_bootstrap([x], statistics.iqm, seed=5) == statistics.stratified_bootstrap(
        [x], statistics.iqm, seed=5
    )


def _pairs(both, only_a, only_b, neither):
    return [1] * (both + only_a) + [0] * (only_b + neither), [1] * both + [0] * only_a + [1] * only_b + [0] * neither


def test_intervals_of_differences_against_newcombe():
    """Newcombe 1998: 56/70 against 48/80, method 10 of the one paper; 36, 12, 2, 0 pairs, method 10 of the other."""
    a, b = statistics.wilson(56, 70), statistics.wilson(48, 80)
    assert np.round(statistics.difference_interval(56 / 70, a, 48 / 80, b), 4).tolist() == [0.2, 0.0524, 0.3339]
    assert np.round(statistics.paired_rates_interval(*_pairs(36, 12, 2, 0)), 4).tolist() == [0.2, 0.0569, 0.3404]


def test_pairs_that_all_agree_have_an_interval_with_a_width():
    for outcome in ([0] * 8, [1] * 8):
        gain, lo, hi = statistics.paired_rates_interval(outcome, outcome)
        assert gain == 0 and -0.4 < lo < -0.2 and hi == -lo


def test_coverage_of_the_interval_of_paired_rates():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        u = rng.random(24)
        v = np.where(rng.random(24) < 0.5, u, rng.random(24))
        _, lo, hi = statistics.paired_rates_interval((u < 0.7).astype(int), (v < 0.4).astype(int))
        hits += lo <= 0.3 <= hi
    assert 0.92 <= hits / 400 <= 0.99
