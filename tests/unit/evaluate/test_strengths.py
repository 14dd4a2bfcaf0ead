"""The grid of source and strength: its numbers, and the page that shows them."""

import numpy as np
import pytest

from evolvent.evaluate import strengths
from evolvent.evaluate.pages import strengths_page


def test_a_cell_and_the_area_under_a_curve():
    cell = strengths.cell(range(20))
    assert cell["iqm"] == pytest.approx(9.5) and cell["worst"] == pytest.approx(0.5) and cell["n"] == 20
    assert cell["ci95"][0] < 9.5 < cell["ci95"][1]
    row = strengths.row("obs", "gaussian", [0, 1, 3], [[4.0], [2.0], [0.0]])
    assert row["area"] == pytest.approx((3 * 1 + 1 * 2) / 3)
    assert [strengths.shade(one, [row]) for one in row["cells"]] == [0.0, 0.5, 1.0]
    flat = strengths.row("obs", "gaussian", [0, 1], [[4.0], [4.0]])
    assert flat["area"] == 4 and strengths.shade(flat["cells"][1], [flat]) == 0.0


def test_the_page_says_what_costs_most_and_escapes(tmp_path):
    rng = np.random.default_rng(0)
    at = [0.0, 0.1]
    rows = [
        strengths.row("obs", "adversary:policy", at, [rng.normal(100, 1, 20), rng.normal(10, 1, 20)]),
        strengths.row("reward", "gaussian", at, [rng.normal(100, 1, 20)] * 2),
    ]
    about = {"algo": "ppo", "env": "disrupt:[<b>]", "trained_on": "x", "seed": 0, "update": 3, "n": 20}
    page = strengths_page.write({**about, "strengths": at, "rows": rows}, tmp_path / "eval-x.html").read_text()
    assert "At a strength of 0.1 obs: adversary policy costs most" in page
    assert "shade5" in page and "shade0" in page and "<b>]" not in page and 'href="eval-x.json"' in page
    still = {**about, "strengths": at, "rows": rows[1:]}
    assert "no source costs more" in strengths_page.write(still, tmp_path / "y.html").read_text()
