"""Seeds: stable across machines, independent of one another."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolvent.core.errors import BadInput
from evolvent.core.seeding import rng, seed_tree

paths = st.lists(st.integers() | st.text(max_size=5), max_size=4).map(tuple)


def test_golden():
    assert [seed_tree(0), seed_tree(0, "env", 3), seed_tree(1, "env", 3)] == [
        2805317915429149788,
        3589260794354647117,
        704454400621410609,
    ]


@given(st.integers(), paths, st.integers(), paths)
def test_different_paths_give_different_seeds(seed, path, other_seed, other):
    a, b = seed_tree(seed, *path), seed_tree(other_seed, *other)
    assert 0 <= a < 2**63
    assert (a == b) == ((seed, path) == (other_seed, other))


def test_parts_do_not_run_together():
    cases = [("ab",), ("a", "b"), ("1",), (1,), (), ("",), ("a", ""), ("", "a")]
    assert len({seed_tree(0, *path) for path in cases}) == len(cases)


def test_numpy_integers_are_integers():
    assert seed_tree(np.int64(3), np.int32(4)) == seed_tree(3, 4)


def test_generators_do_not_depend_on_call_order():
    first = rng(7, "a").random(3)
    rng(7, "b").random(100)
    np.testing.assert_array_equal(rng(7, "a").random(3), first)


def test_refuses_other_parts():
    for bad in (1.5, None, b"x"):
        with pytest.raises(BadInput, match="seed path"):
            seed_tree(0, bad)
