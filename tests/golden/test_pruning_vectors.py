"""P3's difficulty, pace and diversity, SEC's bandit and Knapsack-RL's attempts, on numbers worked out apart."""

import itertools

import numpy as np
import pytest

from evolvent.algos.p3 import pruning
from evolvent.core.errors import BadInput
from evolvent.formulas import curricula
from evolvent.formulas.selection import softmax

SOLUTIONS = [[[0.9, 0.8], [0.5, 0.5, 0.5]], [[0.2], [0.9, 0.9]], [[0.99, 0.98], [0.97]]]
SOLUTIONS += [[[0.1, 0.4], [0.3, 0.3]], [[0.6], [0.7], [0.8]]]
DIFFICULTIES = [0.325736, 0.45, 0.022506, 0.75, 0.3]


def logs(solution):
    return [np.log(action) for action in solution]


def test_difficulty():
    assert [pruning.difficulty(logs(s)) for s in SOLUTIONS] == pytest.approx(DIFFICULTIES, abs=1e-6)
    assert pruning.difficulty([]) == np.inf and pruning.difficulty([[0.0], [-np.inf]]) == 0.5
    for wrong in ([[]], [[np.nan]], [[0.1]]):
        with pytest.raises(BadInput, match="log-probabilities"):
            pruning.difficulty(wrong)


def test_pace():
    f = np.array([pruning.difficulty(logs(s)) for s in SOLUTIONS])
    paces = [pruning.pace(e, 5) for e in range(5)]
    assert paces == [45.0, 55.0, 65.0, 75.0, 85.0]
    assert [np.percentile(f, p) for p in paces] == pytest.approx([0.320589, 0.350589, 0.400294, 0.45, 0.57], abs=1e-6)
    taken = [{f"x{i + 1}" for i in np.flatnonzero(pruning.eligible(f, p))} for p in paces]
    assert taken == [{"x3", "x5"}] + [{"x1", "x3", "x5"}] * 2 + [{"x1", "x2", "x3", "x5"}] * 2
    assert pruning.eligible([*f, np.inf], 45.0).tolist() == [False, False, True, False, True, False]
    assert not pruning.eligible([np.inf], 95.0).any()


def test_diversity_by_a_greedy_determinant():
    angle = np.array([0.0, 0.2, np.pi / 2, np.pi / 4])
    rows = np.array([0.9, 0.8, 0.5, 0.6])[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    kernel = [[0.81, 0.705648, 0, 0.381838], [0.705648, 0.64, 0.079468, 0.400076]]
    kernel += [[0, 0.079468, 0.25, 0.212132], [0.381838, 0.400076, 0.212132, 0.36]]
    assert rows @ rows.T == pytest.approx(np.array(kernel), abs=1e-6)
    for n in (2, 3):  # of rank 2
        chosen, gains = pruning.greedy_determinant(rows, n)
        assert chosen == [0, 2] and gains == pytest.approx([0.81, 0.25]) and np.prod(gains) == pytest.approx(0.2025)
    best = max(itertools.combinations(range(4), 2), key=lambda s: np.linalg.det((rows @ rows.T)[np.ix_(s, s)]))
    assert best == (0, 2)
    phi = np.array([[1, 0, 0], [0.8, 0.6, 0], [0, 0, 1], [0.6, 0, 0.8], [0, 1, 0]])
    rows = np.array([0.7, 0.9, 0.3, 0.6, 0.5])[:, None] * phi
    chosen, gains = pruning.greedy_determinant(rows, 3)
    assert chosen == [1, 3, 0] and gains == pytest.approx([0.81, 0.277056, 0.146694], abs=1e-6)
    assert np.prod(gains) == pytest.approx(np.linalg.det((rows @ rows.T)[np.ix_(chosen, chosen)]))
    assert np.prod(gains) == pytest.approx(0.03292, abs=1e-6)


def test_features_of_prompts():
    phi = pruning.unit_rows([[0.1, 0.2, 0.3], [0.2, 0.1, 0.4], [0.9, 0.8, 0.7]])
    assert (phi @ phi.T)[np.triu_indices(3, 1)] == pytest.approx([0.857403, -0.972005, -0.954322], abs=1e-6)
    assert pruning.rarest([[0.5, 0.1, 0.3], [0.2]], n=2).tolist() == [[0.1, 0.3], [0.2, 0.0]]


@pytest.mark.parametrize("alike", [False, True])
def test_a_selection_ends_with_its_pool_and_takes_none_twice(alike):
    rng = np.random.default_rng(0)
    x, quality = pruning.rarest(list(rng.random((70, 1 if alike else 9)) * (not alike))), rng.random(70)
    everything = pruning.diverse(x, quality, 1000)
    assert sorted(everything) == list(range(70)) and list(pruning.diverse(x, quality, 7)) == list(everything[:7])
    if alike:  # nothing but difficulty is left
        assert list(everything) == list(np.argsort(-quality, kind="stable"))
    assert list(pruning.diverse(x[:1], quality[:1], 3)) == [0] and not len(pruning.diverse(x[:0], [], 3))


def test_two_that_are_alike_do_not_both_come_first():
    x = np.array([[0.1, 0.2, 0.9], [0.1, 0.2, 0.9], [0.1, 0.8, 0.9], [0.3, 0.5, 0.6]])
    assert pruning.diverse(x, [0.9, 0.89, 0.3, 0.4], 2).tolist() == [0, 2]


def test_sec_values_and_shares_of_arms():
    q = dict.fromkeys("abc", 0.0)
    for credit, arm, wanted, shares in (
        ([0.2, -0.9, 0.7], "acc", [0.1, 0.0, 0.4], [0.274661, 0.224874, 0.500465]),
        ([-0.8, 0.4, 0.4, np.nan, 0.8], "bbccc", [0.1, 0.3, 0.4], [0.231806, 0.345815, 0.422379]),
    ):
        q = curricula.learning_gains(q, credit, arm, rate=0.5)
        assert list(q.values()) == pytest.approx(wanted)
        assert softmax(list(q.values()), 0.5) == pytest.approx(shares, abs=1e-6)
    rewards = np.array([1, 1, 0, 0, 0, 0, 0, 0])
    z = (rewards - rewards.mean()) / rewards.std()
    assert curricula.learning_gains({"x": 0.0}, z, ["x"] * 8, rate=1.0)["x"] == pytest.approx(0.866025, abs=1e-6)


def test_knapsack_attempts():
    worth = curricula.worth_of_attempts([8, 8, 64, 8, 8], [0.5, 0.05, 0.05, 0.9, 0.3])
    assert worth == pytest.approx([0.124023, 0.015188, 0.043432, 0.005126, 0.138516], abs=1e-6)
    p = np.array([0.05, 0.3, 0.9])
    n = curricula.attempts_by_knapsack(p, 24)
    assert n.tolist() == [12, 10, 2] and curricula.worth_of_attempts(n, p).sum() == pytest.approx(0.165208, abs=1e-6)
    assert curricula.worth_of_attempts(8, p).sum() == pytest.approx(0.158830, abs=1e-6)
    signal = [np.mean(1 - p**n - (1 - p) ** n) for n in (n, 8)]
    assert signal == pytest.approx([0.537129, 0.616133], abs=1e-6), "more worth, fewer gradients"
    assert curricula.attempts_by_knapsack([], 5).tolist() == []
    for wrong in (([0.5], 1), ([1.5], 9)):
        with pytest.raises(BadInput, match="distributed"):
            curricula.attempts_by_knapsack(*wrong)


def test_knapsack_attempts_are_those_of_the_dynamic_program():
    rng = np.random.default_rng(1)
    for _ in range(40):
        p, total = rng.random(rng.integers(1, 6)) ** 2, int(rng.integers(12, 40))
        best = {0: 0.0}
        for x in p:
            sizes = range(2, total + 1)
            spent = [(b + n, v + curricula.worth_of_attempts(n, x)) for b, v in best.items() for n in sizes]
            best = {}
            for b, v in spent:
                if b <= total:
                    best[b] = max(v, best.get(b, -1.0))
        n = curricula.attempts_by_knapsack(p, total)
        assert n.sum() == total and curricula.worth_of_attempts(n, p).sum() == pytest.approx(max(best.values()))
