"""Numbers worked out by hand for values of experiences by their closeness."""

import pytest

from evolvent.formulas.values import closeness, kernel_mean


def test_closeness_is_a_square_above_its_gate():
    assert closeness([1.0, 0.9, 0.8, 0.2], 0.8).tolist() == pytest.approx([1.0, 0.25, 0.0, 0.0])


def test_experiences_count_by_closeness_and_outcomes_and_the_start_for_half_an_outcome():
    # (1 * 2 * 1.0 + .25 * 4 * 0 + .5 * .5) / (2 + 1 + .5)
    assert kernel_mean([1.0 * 2, 0.25 * 4], [1.0, 0.0], 0.5) == pytest.approx(2.25 / 3.5)
    assert kernel_mean([0.0, 0.0], [1.0, 0.0], 0.3) == pytest.approx(0.3)
    assert kernel_mean([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0], 0.5, prior=1.0).tolist() == pytest.approx([0.75, 0.25])
