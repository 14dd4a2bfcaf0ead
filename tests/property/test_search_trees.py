"""Whatever tree a search meets: visits add up, values are what was backed up, nothing stays under way, budgets hold."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.search import beam, bfs_v, cot_sc_tree, dfs_v, mcts_alpha, mcts_rollout, rap
from evolvent.search.budget import Budget
from evolvent.search.simulate import Puct, simulate
from search_toy import Written, search_of

SEARCHES = {m.__name__.rpartition(".")[2]: m for m in (beam, bfs_v, cot_sc_tree, dfs_v, mcts_alpha, mcts_rollout, rap)}
MORE = {
    "mcts_alpha": {"paths": 2, "simulations": 6, "parallel": 2, "sample": True},
    "mcts_rollout": {"paths": 3, "simulations": 12, "parallel": 3},
    "rap": {"paths": 3, "parallel": 2},
    "bfs_v": {"paths": 2},
    "dfs_v": {"paths": 2},
    "beam": {"keep": (3, 1)},
    "cot_sc_tree": {"paths": 4},
}


@st.composite
def worlds(draw, *, alike=False):
    """A random tree, up to three deep and four wide; with ``alike`` some nodes of a depth are one state."""
    edges, keys, todo = {}, {}, [("root", 0)]
    while todo:
        name, depth = todo.pop()
        width = draw(st.integers(1, 4)) if depth == 0 else draw(st.integers(0, 4)) if depth < 3 else 0
        if width:
            prior = np.array(draw(st.lists(st.floats(0.1, 1), min_size=width, max_size=width)))
            values = draw(st.lists(st.floats(-1, 1), min_size=width, max_size=width))
            edges[name] = {
                f"{name}.{i}": (p, v) for i, (p, v) in enumerate(zip(prior / prior.sum(), values, strict=True))
            }
            todo += [(child, depth + 1) for child in edges[name]]
    if alike and len(edges.get("root", {})) > 1:
        names = [name for name in edges if name.count(".") == 1] or list(edges["root"])
        twins = [n for n in names if sorted(edges.get(n, {})) or n not in edges][:2]
        if len(twins) == 2 and all(n in edges for n in twins):
            keys = dict.fromkeys(twins, "one state")
    return edges, keys


def stretched(edges, lengths):
    """The same tree with an only way of some length, 0 or more, ahead of every node but the root."""
    out = {}
    for i, (name, some) in enumerate(edges.items()):
        out[name] = {}
        for k, (child, one) in enumerate(some.items()):
            way = [*(f"{child}~{j}" for j in range(lengths[(i + k) % len(lengths)])), child]
            out[name][way[0]] = one
            out |= {a: {b: (1.0, one[1] + 0.01 * j)} for j, (a, b) in enumerate(pairwise(way))}
    return out


class Asked(Puct):
    """Is asked about an only child, too."""

    draws = True


@settings(max_examples=80, deadline=None)
@given(
    worlds(alike=True),
    st.lists(st.integers(0, 4), min_size=1, max_size=5),
    st.integers(1, 4),
    st.integers(1, 2),
    st.integers(1, 12),
    st.sampled_from([0, 3, 9, 40]),
    st.booleans(),
)
def test_an_only_way_is_gone_without_scores_and_nothing_changes(world, lengths, parallel, tasks, rounds, calls, to_end):
    grown = []
    for score in (Puct(), Asked()):
        space = Written(stretched(world[0], lengths), keys=world[1], tasks=tasks)
        search, paths = search_of(space, tasks, budget=Budget(calls=calls)), []
        for _ in range(rounds):
            paths += simulate(search, list(range(tasks)), score, parallel=parallel, to_end=to_end)
        check(search)
        columns = ("visits", "total", "taken", "pending", "state", "first", "value", "terminal")
        grown.append(
            (paths, space.asked, [getattr(search.tree, name)[: len(search.tree)].tolist() for name in columns])
        )
    assert grown[0] == grown[1]


def check(search, *, moved=False):
    """What must hold of any tree between simulations; ``moved``: some began below the root."""
    tree, n = search.tree, search.tree.n
    assert not tree.pending[:n].any()
    own = np.arange(n) == tree.state[:n]
    for node in np.flatnonzero(own):
        children = tree.children(int(node))
        through = tree.taken[children].sum()
        ended_here = tree.visits[node] - through
        assert ended_here >= 0 or moved
    # every state has the visits of the moves that lead to it; nothing else
    moves = np.zeros(n, np.int64)
    np.add.at(moves, tree.state[:n], tree.taken[:n])
    assert np.array_equal(moves[own], tree.visits[:n][own])
    assert not tree.visits[:n][~own].any()
    visited = own & (tree.visits[:n] > 0)
    assert np.allclose(tree.q(np.flatnonzero(visited)), tree.total[:n][visited] / tree.visits[:n][visited])


@settings(max_examples=60, deadline=None)
@given(worlds(), st.integers(1, 5), st.integers(1, 3), st.integers(1, 12))
def test_visits_and_values_add_up(world, parallel, tasks, rounds):
    search = search_of(Written(world[0], tasks=tasks), tasks)
    worths = np.zeros(tasks)
    for _ in range(rounds):
        paths = simulate(search, list(range(tasks)), Puct(), parallel=parallel)
        assert len(paths) == parallel * tasks
        for path in paths:  # an end whose reward is hidden is worth what it was judged to be
            worths[path[0]] += search.tree.value[path[-1]]
        check(search)
    assert search.tree.total[:tasks] == pytest.approx(worths)
    assert search.tree.visits[:tasks].tolist() == [rounds * parallel] * tasks


@settings(max_examples=60, deadline=None)
@given(worlds(alike=True), st.integers(1, 4), st.integers(1, 15))
def test_joined_states_share_what_follows_and_keep_their_own_moves(world, parallel, rounds):
    space = Written(world[0], keys=world[1])
    search = search_of(space)
    for _ in range(rounds):
        simulate(search, [0], Puct(), parallel=parallel)
        check(search)
    alike = [n for n, name in space.names.items() if name in world[1] and search.tree.entered[n]]
    assert len({int(search.tree.state[n]) for n in alike}) <= 1
    assert len({search.tree.q(n).item() for n in alike}) <= 1


@pytest.mark.parametrize("name", SEARCHES)
@settings(max_examples=25, deadline=None)
@given(worlds(), st.integers(1, 3), st.integers(0, 12), st.integers(0, 6), st.integers(1, 3))
def test_budgets_hold_and_every_task_has_an_answer(name, world, tasks, tokens, calls, cost):
    search = search_of(Written(world[0], tasks=tasks, cost=cost), tasks, widths=(4,), budget=Budget(tokens, calls))
    SEARCHES[name].run(search, SEARCHES[name].Config(**MORE[name]))
    check(search, moved=name == "mcts_alpha")
    meter = search.meter
    assert not tokens or (meter.tokens <= tokens).all()
    assert not calls or (meter.calls <= calls).all()
    for task in range(tasks):
        found = search.of(task)
        assert found
        assert all(p.task == task == search.tree.task[p.leaf] for p in found)
        assert all(p.ended == bool(search.tree.terminal[p.leaf]) for p in found)


@pytest.mark.parametrize("name", sorted(SEARCHES.keys() - {"cot_sc_tree"}))  # its draws follow one another
def test_a_batch_of_tasks_is_searched_as_each_alone(name):
    edges = {
        "root": {"A": (0.5, 0.1), "B": (0.5, 0.3)},
        "A": {"A1": (1.0, 0.9)},
        "B": {"B1": (0.4, 0.2), "B2": (0.6, 0.4)},
    }
    more = MORE[name] | ({"sample": False} if name == "mcts_alpha" else {})
    alone = search_of(Written(edges))
    SEARCHES[name].run(alone, SEARCHES[name].Config(**more))
    together = search_of(Written(edges, tasks=3), 3)
    SEARCHES[name].run(together, SEARCHES[name].Config(**more))
    for task in range(3):
        found = [(together.space.names[p.leaf], p.value) for p in together.of(task)]
        assert found == [(alone.space.names[p.leaf], p.value) for p in alone.of(0)]
