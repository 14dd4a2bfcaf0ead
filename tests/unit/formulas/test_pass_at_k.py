"""pass@k against all sets of k attempts, and unbiased where the plain power is not."""

import math
from itertools import combinations

import pytest

from evolvent.core.errors import BadInput
from evolvent.formulas.pass_at_k import pass_at_k


@pytest.mark.parametrize("n", range(1, 8))
def test_it_is_the_share_of_sets_that_hold_a_success(n):
    for c in range(n + 1):
        right = [i < c for i in range(n)]
        for k in range(1, n + 1):
            sets = list(combinations(right, k))
            assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, sets)) / len(sets), abs=1e-12)


def test_golden_values():
    assert pass_at_k(10, 3, 1) == pytest.approx(0.3)
    assert pass_at_k(10, 3, 5) == pytest.approx(1 - 21 / 252)
    assert pass_at_k(200, 1, 100) == pytest.approx(0.5)
    assert pass_at_k(10_000, 1, 5_000) == pytest.approx(0.5), "no overflow"


def test_its_mean_over_binomial_successes_is_the_chance_itself():
    n, p, k = 6, 0.2, 3
    weights = [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    mean = sum(w * pass_at_k(n, c, k) for c, w in enumerate(weights))
    biased = sum(w * (1 - (1 - c / n) ** k) for c, w in enumerate(weights))
    assert mean == pytest.approx(1 - (1 - p) ** k, abs=1e-12) and abs(biased - mean) > 0.01


@pytest.mark.parametrize("bad", [(3, 1, 4), (3, 1, 0), (3, 4, 1), (3, -1, 1), (0, 0, 1)])
def test_other_numbers_are_refused(bad):
    with pytest.raises(BadInput, match="pass@k"):
        pass_at_k(*bad)
