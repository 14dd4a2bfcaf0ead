"""DSER's two states: the specification's vector."""

import pytest

from evolvent.formulas import two_state


def test_revised_answers_are_a_chain_of_two_states():
    p, q = 0.1, 0.05
    after = [two_state.right_after(n, p, q) for n in (1, 5, 10, 30)]
    assert after == pytest.approx([0.1, 0.370863, 0.535417, 0.661579], abs=1e-6)
    limit = two_state.right_after(10**4, p, q)
    votes = [two_state.majority(limit, n) for n in (1, 9, 33)]
    assert votes == pytest.approx([0.666667, 0.855154, 0.976519], abs=1e-6)
    assert two_state.right_after(7, 0.0, 0.0, 0.3) == 0.3
    assert two_state.revisions([False, False, True, True, False]) == (1, 2, 1, 2)
