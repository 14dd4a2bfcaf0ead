"""The trees of a search report: lines as thick as states were visited, against the most visited one."""

import re

import pytest

from evolvent.evaluate.pages.report_search import drawn


@pytest.mark.parametrize("most", [4, 40, 4000])
def test_a_line_is_as_thick_as_its_state_was_visited_against_the_root(most):
    told = {"value": 0.5, "tokens": 1, "taken": False, "right": None, "dead": False, "text": "x"}
    nodes = [{**told, "parent": parent, "visits": visits} for parent, visits in ((-1, most), (0, most // 4), (0, 0))]
    page = drawn([{"search": "mcts_alpha", "question": "?", "left_out": 0, "nodes": nodes}])
    root, quarter, never = map(int, re.findall(r"border-left-width:(\d+)px", page))
    assert (root, never) == (8, 1) and never < quarter < root
