"""Selection, values, baselines and omission lift: edge cases, invariances and closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.core.errors import BadInput
from evolvent.formulas import baselines, causal, selection, values

finite = st.floats(-1e6, 1e6, allow_nan=False)


def slow_blended(kept, k, weight):
    """Sort everything, as a reference; items are (id, sim, q)."""
    zs = selection.zscores([i[1] for i in kept])
    zq = selection.zscores([i[2] for i in kept])
    score = {i[0]: round((1 - weight) * a + weight * b, 9) for i, a, b in zip(kept, zs, zq, strict=True)}
    return [i[0] for i in sorted(kept, key=lambda i: (-score[i[0]], -i[1], i[0]))[:k]]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=25),
    st.integers(0, 5),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    st.randoms(use_true_random=False),
)
def test_blended_equals_sorting_everything_and_ignores_row_order(rows, k, weight, random):
    items = [(i, s / 4, q / 3) for i, (s, q) in enumerate(rows)]  # coarse grid: many ties
    want = slow_blended(items, k, weight)
    random.shuffle(items)
    ids, sim, q = np.array(items).reshape(-1, 3).T
    chosen, scores, _, _ = selection.blended(ids.astype(int), sim, q, k=k, weight=weight)
    assert ids[chosen].tolist() == want
    assert len(scores) == len(items)


def test_two_that_disagree_are_a_tie_which_the_last_bits_do_not_decide():
    rng = np.random.default_rng(0)  # one is nearer, the other has the higher value: z-scores of ±1 either way
    for near, far, low, high in np.sort(rng.random((200, 2, 2))).reshape(200, 4)[:, [1, 0, 2, 3]]:
        chosen, *_ = selection.blended([0, 1], np.array([far, near]), np.array([high, low]), k=1, weight=0.5)
        assert chosen.tolist() == [1]


def test_what_cannot_be_ranked_is_refused():
    for sim, q in (([0.5, math.nan], [0, 0]), ([0.5, 0.6], [0, math.nan])):
        with pytest.raises(BadInput, match="finite"):
            selection.blended([0, 1], np.array(sim), np.array(q), k=1, weight=0.5)


@given(st.lists(finite, min_size=1, max_size=30))
def test_zscores_are_bounded_and_centred(x):
    z = selection.zscores(x)
    assert np.abs(z).max() <= math.sqrt(len(x) - 1) + 1e-6
    assert abs(z.mean()) < 1e-6


def test_before_any_visit_the_prior_decides_later_the_value():
    assert selection.puct([0, 0], [0.2, 0.8], [0, 0], c=1.0) == pytest.approx([0.2, 0.8])
    late = selection.puct([0.6, 0.2], [0.2, 0.8], [5000, 4999], c=1.0)
    assert late.argmax() == 0


def test_softmax_edges():
    assert selection.softmax([1e9, 0]).tolist() == [1, 0]
    assert selection.softmax([0, -np.inf]).tolist() == [1, 0]
    assert selection.softmax([3, 3, 1], temperature=0).tolist() == [0.5, 0.5, 0]
    assert selection.softmax([[1, 1], [0, 0]], axis=0).sum(axis=0) == pytest.approx([1, 1])
    with pytest.raises(BadInput):
        selection.softmax([-np.inf, -np.inf])
    with pytest.raises(BadInput):
        selection.softmax([1.0], temperature=-1)


def test_sampling_returns_the_propensity_it_had():
    p = np.array([0.05, 0.45, 0.45, 0.05])
    rng = np.random.default_rng(0)
    draws = [selection.sample(p, rng) for _ in range(20_000)]
    assert all(propensity == p[i] for i, propensity in draws)
    assert np.bincount([i for i, _ in draws], minlength=4) / 20_000 == pytest.approx(p, abs=0.012)
    assert {selection.sample([0, 1, 0], rng)[0] for _ in range(50)} == {1}
    with pytest.raises(BadInput):
        selection.sample([0.5, 0.6], rng)


# ------------------------------------------------------------------------------------------------ values
def test_depths_are_shortest():
    parents = {"d": ["c", "a"], "c": ["b"], "b": ["a"]}
    assert values.ancestor_depths(parents, "d") == {"d": 0, "c": 1, "a": 1, "b": 2}
    assert values.ancestor_depths(parents, "d", 1) == {"d": 0, "c": 1, "a": 1}
    assert values.ancestor_depths({"x": ["x"]}, "x") == {"x": 0}


# ------------------------------------------------------------------------------------------------ baselines
def test_baselines_per_group_and_per_column():
    x = np.array([[1.0, 10], [2, 20], [6, 60], [5, 50]])
    group = ["a", "b", "a", "a"]
    assert baselines.group_mean(x, group).tolist() == [[4, 40], [2, 20], [4, 40], [4, 40]]
    assert baselines.leave_one_out(x, group, alone=-1).tolist() == [[5.5, 55], [-1, -1], [3, 30], [3.5, 35]]
    assert baselines.group_std(x[:, 0], group) == pytest.approx([np.std([1, 6, 5]), 0] + [np.std([1, 6, 5])] * 2)
    assert baselines.group_std([1.0, 3.0], ddof=1) == pytest.approx([math.sqrt(2)] * 2)
    with pytest.raises(BadInput):
        baselines.group_mean([1, 2], ["a"])


@given(st.lists(finite, min_size=2, max_size=8))
def test_leave_one_out_centres_like_the_mean_up_to_scale(x):
    g = len(x)
    a = np.array(x) - baselines.leave_one_out(x)
    b = np.array(x) - baselines.group_mean(x)
    assert a * (g - 1) / g == pytest.approx(b, abs=1e-6)


# ------------------------------------------------------------------------------------------------ omission
def test_omission_lift_by_hand():
    # 8 of 10 shown succeed, 1 of 4 omitted; m = 40 / 14
    m = 40 / 14
    shown, omitted, none = causal.ArmSums(8, 10, 10), causal.ArmSums(1, 4, 4), causal.ArmSums()
    assert causal.contrast(shown, omitted) == (pytest.approx(0.55), pytest.approx(m))
    lift, confidence = causal.omission_lift(shown, omitted, prior=0.1, strength=2.0)
    assert lift == pytest.approx((0.2 + m * 0.55) / (2 + m)) and confidence == pytest.approx(m / (2 + m))
    assert causal.omission_lift(shown, omitted, prior=0.1, strength=0.0) == (pytest.approx(0.55), 1.0)
    for arms in ((shown, none), (none, omitted), (none, none)):
        assert causal.omission_lift(*arms, prior=0.3, strength=0.0) == (0.3, 0.0)
    with pytest.raises(BadInput):
        causal.omission_lift(shown, omitted, prior=0, strength=-1)


@pytest.mark.parametrize("anneal", [False, True])
def test_omission_separates_a_useful_memory_from_its_companion(anneal):
    """The toy bundle: one memory lifts success from .4 to .9, its companion does nothing; both are candidates."""
    rng, trials, n = np.random.default_rng(0), 200, 300
    lifts = np.zeros((trials, 2))
    emas = np.zeros((trials, 2))
    for trial in range(trials):
        arms = [[causal.ArmSums(), causal.ArmSums()] for _ in range(2)]
        for t in range(n):
            keep = 1 - (0.4 / (1 + t / 50) + 0.05 if anneal else 0.2)
            shown = rng.random(2) < keep
            r = float(rng.random() < (0.9 if shown[0] else 0.4))
            for i in range(2):
                arm = 0 if shown[i] else 1
                arms[i][arm] = causal.push_outcome(arms[i][arm], r, keep if shown[i] else 1 - keep)
                if shown[i]:
                    emas[trial, i] = values.ema(emas[trial, i], r, 0.1)
        lifts[trial] = [causal.omission_lift(s, o, prior=0.0, strength=0.0)[0] for s, o in arms]
    assert lifts.mean(axis=0) == pytest.approx([0.5, 0.0], abs=0.03)
    assert emas[:, 0].mean() - emas[:, 1].mean() < 0.15  # shared credit hardly tells them apart


def test_inverse_propensity_removes_the_bias_of_a_drifting_rate():
    """The omission rate falls while tasks get harder: counting would credit the memory with the drift."""
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(300):
        s, o = causal.ArmSums(), causal.ArmSums()
        counted_s, counted_o = causal.ArmSums(), causal.ArmSums()
        for t in range(400):
            keep = 0.5 if t < 200 else 0.9
            r = float(rng.random() < (0.8 if t < 200 else 0.3))  # the memory has no effect at all
            if rng.random() < keep:
                s = causal.push_outcome(s, r, keep)
                counted_s = causal.push_outcome(counted_s, r, 1.0)
            else:
                o = causal.push_outcome(o, r, 1 - keep)
                counted_o = causal.push_outcome(counted_o, r, 1.0)
        gaps.append((causal.contrast(s, o)[0], causal.contrast(counted_s, counted_o)[0]))
    weighted, counted = np.mean(gaps, axis=0)
    assert abs(weighted) < 0.02
    assert counted < -0.1


def test_push_outcome_refuses_impossible_probabilities():
    for p in (0.0, 1.5, math.nan):
        with pytest.raises(BadInput):
            causal.push_outcome(causal.ArmSums(), 1.0, p)


# ------------------------------------------------------------------------------------------------ a rate that changes
def rate_by_sums(won, n, counts, shares, hazards):
    """The same by sums over a grid of both rates, for every place of the change."""
    grid = (np.arange(20_000) + 0.5) / 20_000

    def evidence(of):
        return np.mean(np.prod([(grid**x * (1 - grid) ** (1 - x)) ** c for c, x in of] or [np.ones_like(grid)], 0))

    outcomes = list(zip(counts, shares, strict=True))
    total = weights = 0.0
    for r in range(1, len(outcomes) + 1):
        same = np.prod([1 - h for h in hazards[: r - 1]]) * evidence(outcomes[:r])
        p = same * (hazards[r - 1] * evidence(outcomes[r:]) if r < len(outcomes) else 1.0)
        mean = (won + sum(c * x for c, x in outcomes[:r])) / (n + sum(c for c, _ in outcomes[:r]))
        total, weights = total + p * mean, weights + p
    return total / weights


@pytest.mark.parametrize(
    ("counts", "shares"),
    [
        ([1.0], [0.0]),
        ([1.0, 1.0], [0.0, 1.0]),
        ([1.0] * 8, [0.0, 0.0, *[1.0] * 6]),
        ([1.0, 0.25, 0.5, 0.9, 0.01], [0.3, 1.0, 0.0, 0.75, 1.0]),
    ],
)
@pytest.mark.parametrize("hazard", [0.02, 0.1, 0.5])
def test_a_rate_that_may_have_changed_is_what_sums_over_both_rates_give(counts, shares, hazard):
    for hazards in (
        [hazard] * len(counts),
        [hazard * c for c in counts],
        [hazard * (i % 2) for i in range(len(counts))],
    ):
        got = values.mean_since_change(2.0, 3.0, counts, shares, hazards)
        assert got == pytest.approx(rate_by_sums(2.0, 3.0, counts, shares, hazards), abs=1e-6)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), max_size=16), st.floats(0.0, 3.0))
def test_without_a_hazard_all_outcomes_count_alike_and_the_mean_is_always_between_its_ends(result, won):
    counts, shares = [c for c, _ in result], [x for _, x in result]
    plain = (won + sum(c * x for c, x in result)) / (3.0 + sum(counts))
    assert values.mean_since_change(won, 3.0, counts, shares, [0.0] * len(counts)) == pytest.approx(plain)
    assert -1e-9 <= values.mean_since_change(won, 3.0, counts, shares, [0.1] * len(counts)) <= 1.0 + 1e-9


def test_a_change_is_found_late_and_soon_and_nowhere_in_what_always_was_so():
    def mean(shares, won=3.0):
        return values.mean_since_change(won, 3.0, [1.0] * len(shares), shares, [0.1] * len(shares))

    assert mean([0.0] * 3 + [1.0] * 13) < mean([1.0] * 3 + [0.0] * 13)
    assert mean([0.0] * 2000 + [1.0] * 2000) < 0.2, "as many as one likes"
    assert mean([0.0] * 16) < 0.35, "sure of success at first, it has always failed"
    assert mean([1.0] * 16, won=0.0) > 0.65, "and the other way round"
