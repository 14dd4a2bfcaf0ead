"""The plume by hand, and what a reading says of it against scipy."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from evolvent.core.errors import BadInput
from evolvent.formulas import plume


def theta(*, strength, wind, direction, diffusivity, lifetime, at=(0.0, 0.0, 0.0)):
    return np.array([*at, strength, wind, direction, diffusivity, lifetime])[:, None]


@pytest.mark.parametrize(
    ("source", "place", "expected"),
    [
        # no wind: Q / (4 pi D d) = 1, lambda = sqrt(2 * 8) = 4
        ({"strength": 8 * math.pi, "wind": 0, "direction": 0, "diffusivity": 2, "lifetime": 8}, (0, 0, 1), 0.7788008),
        # wind 2 from the east, D 1, tau 3: lambda = sqrt(3 / 4); a step downwind, which is to the west: exp(1 - 1.1547)
        ({"strength": 4 * math.pi, "wind": 2, "direction": 0, "diffusivity": 1, "lifetime": 3}, (-1, 0, 0), 0.8566725),
        ({"strength": 4 * math.pi, "wind": 2, "direction": 0, "diffusivity": 1, "lifetime": 3}, (1, 0, 0), 0.1159381),
        # the same wind from the north
        (
            {"strength": 4 * math.pi, "wind": 2, "direction": math.pi / 2, "diffusivity": 1, "lifetime": 3},
            (0, -1, 0),
            0.8566725,
        ),
        ({"strength": 0, "wind": 2, "direction": 0, "diffusivity": 1, "lifetime": 3}, (0, -1, 0), 0.0),
    ],
)
def test_concentration_by_hand(source, place, expected):
    assert plume.concentration(np.array(place, float), theta(**source))[0] == pytest.approx(expected, abs=1e-6)


def test_what_a_reading_says():
    there, threshold, detects = np.array([0.0, 2e-3, 5e-3, 0.02, 0.1, 1.0]), 5e-3, 0.7
    silent = plume.log_likelihood(np.array(0.0), there, threshold, detects)
    assert silent == pytest.approx(np.log(0.7 * ndtr((threshold - there) / threshold) + 0.3), abs=2e-7)
    assert math.exp(silent[0]) == pytest.approx(0.7 * 0.8413447 + 0.3, abs=1e-6)  # clean air
    heard = plume.log_likelihood(np.array(0.03), there, threshold, detects)
    assert heard == pytest.approx(stats.norm.logpdf(0.03, there, 0.5 * there + 1e-4))
    both = plume.log_likelihood(np.array([0.0, 0.03]), there, threshold, detects)
    np.testing.assert_array_equal(both, [silent, heard])


@pytest.mark.parametrize(
    ("row", "value"), [("strength", -1.0), ("wind", -0.1), ("diffusivity", 0.0), ("lifetime", 0.0)]
)
def test_a_source_that_there_cannot_be(row, value):
    wrong = theta(strength=1, wind=1, direction=0, diffusivity=1, lifetime=1)
    wrong[plume.ROWS.index(row)] = value
    with pytest.raises(BadInput, match="no such source"):
        plume.concentration(np.zeros(3), wrong)
