"""The trees of a search report: lines as thick as states were visited, against the most visited one."""

import re
from pathlib import Path

import pytest

from evolvent.evaluate.pages.draw import draw
from evolvent.evaluate.pages.tree import FAR, FEW, NEAR
from evolvent.runs.account.trees import trees
from sample_search_run import deep_tree


def drawn(found):
    """Lines of ``trees.jsonl`` as the page shows them."""
    return draw(trees(found), Path())


@pytest.mark.parametrize("most", [4, 40, 4000])
def test_a_line_is_as_thick_as_its_state_was_visited_against_the_root(most):
    facts = {"value": 0.5, "tokens": 1, "taken": False, "right": None, "dead": False, "text": "x"}
    nodes = [{**facts, "parent": parent, "visits": visits} for parent, visits in ((-1, most), (0, most // 4), (0, 0))]
    page = drawn([{"search": "mcts_alpha", "question": "?", "left_out": 0, "nodes": nodes}])
    root, quarter, never = map(int, re.findall(r"--thick:(\d+)px", page))
    assert (root, never) == (8, 1) and never < quarter < root


def test_a_root_that_nobody_has_judged_has_no_value_and_no_colour():
    facts = {"tokens": 1, "taken": False, "right": None, "dead": False}
    nodes = [{**facts, "parent": -1, "text": "", "value": 0.0, "visits": 0}]
    nodes += [{**facts, "parent": 0, "text": "x", "value": -0.5, "visits": 0}]
    page = drawn([{"search": "beam", "question": "?", "left_out": 0, "nodes": nodes}])
    assert page.count("unjudged") == 1 and "-0.5 · 0×" in page and "0 · 0×" not in page.replace("-0.5 · 0×", "")
    nodes[0]["visits"] = 3
    assert "unjudged" not in drawn([{"search": "rap", "question": "?", "left_out": 0, "nodes": nodes}])


def nested(page):
    """How many states lie inside one another, at most."""
    deepest = at = 0
    stack = []
    for tag, kind in re.findall(r'<(/?div)(?: class="([a-z ]*))?', page):
        if tag == "div":
            stack.append("state" in kind.split())
            at += stack[-1]
        else:
            at -= stack.pop()
        deepest = max(deepest, at)
    return deepest


def test_an_only_way_stands_under_each_other_with_its_stretches_folded():
    page = drawn([deep_tree(200, 0)])
    assert nested(page) == 2 and page.count('class="leaf"') == 200
    # of 200 states the first, the wrong one in the middle and the end stay in sight
    assert re.findall(r"… (\d+) states", page) == ["98", "99"]
    outside = re.sub(r'<details class="way">.*?</details>', "", page)
    assert outside.count('class="leaf"') == 3 and "first wrong line" in outside and "✓ right" in outside


def test_a_short_only_way_is_shown_whole():
    assert 'class="way"' not in drawn([deep_tree(FEW + 2, 0)])
    assert 'class="way"' in drawn([deep_tree(2 * FEW + 6, 0)])


def test_what_branches_is_indented_only_so_far():
    page = drawn([deep_tree(120, 1)])
    assert nested(page) == 121 and page.count("another way from level") == 120 and 'class="way"' not in page
    kinds = re.findall(r'<div class="(state[a-z ]*)"', page)
    shallow = [kind for kind in kinds if "deep" not in kind]
    assert len(shallow) == 2 * NEAR + 1 and sum("deeper" not in kind for kind in kinds) == 2 * FAR + 1
    assert f"· level {NEAR + 1}<" in page and f"· level {NEAR}<" not in page and "· level 120<" in page


def test_every_state_is_drawn_once_in_the_order_of_its_way():
    for every in (0, 1, 3, 7):
        tree = deep_tree(60, every)
        found = re.findall(r"take mug (\d+)", drawn([tree]))
        assert found == [str(i) for i in range(1, 61)]
