"""Searches on written trees: what they find, what they say when nothing is found, what they refuse."""

from dataclasses import replace

import numpy as np
import pytest

from evolvent.core.errors import BadInput, EnvError
from evolvent.search import (
    aggregate,
    beam,
    best_of_n,
    bfs_v,
    cot_sc_tree,
    dfs_v,
    dfsdt,
    mcts_alpha,
    mcts_rollout,
    rap,
    rstar,
    values,
)
from evolvent.search.budget import Budget, Meter
from evolvent.search.search import judged
from evolvent.search.simulate import Draws, Puct, simulate
from evolvent.search.tree import Tree
from search_toy import Written, named, search_of

# the move that looks best at first leads nowhere: only what lies two moves on tells
DEEP = {
    "root": {"near": (0.5, 0.6), "far": (0.5, 0.4)},
    "near": {"near1": (1.0, 0.1)},
    "far": {"far1": (1.0, 0.9)},
    "near1": {"near2": (1.0, 0.0)},
    "far1": {"far2": (1.0, 1.0)},
}


def test_simulations_see_what_a_greedy_value_does_not():
    greedy, ahead = search_of(Written(DEEP)), search_of(Written(DEEP))
    bfs_v.run(greedy)
    mcts_alpha.run(ahead, mcts_alpha.Config(simulations=20))
    assert greedy.space.names[greedy.of(0)[0].leaf] == "near2"
    assert ahead.space.names[ahead.of(0)[0].leaf] == "far2"


def test_a_reward_is_seen_only_by_those_that_may():
    rewards = {"near2": 1.0, "far2": 0.0}
    blind = search_of(Written(DEEP, rewards))
    oracle = search_of(Written(DEEP, rewards), verifier=values.reward)
    for search in (blind, oracle):
        rap.run(search, rap.Config(paths=4))
    assert {(blind.space.names[p.leaf], p.value) for p in blind.paths} == {("near2", 0.0), ("far2", 1.0)}
    assert {(oracle.space.names[p.leaf], p.value) for p in oracle.paths} == {("near2", 1.0), ("far2", 0.0)}


def test_an_oracle_without_a_reward_is_refused():
    with pytest.raises(EnvError, match="no reward is known"):
        rap.run(search_of(Written(DEEP), verifier=values.reward))


def test_virtual_loss_sends_simulations_apart():
    apart = search_of(Written({"root": {f"c{i}": (0.25, 0.5) for i in range(4)}}))
    paths = simulate(apart, [0], Puct(), parallel=4)
    assert sorted(path[-1] for path in paths) == apart.tree.children(0).tolist()
    together = search_of(Written({"root": {"a": (0.97, 0.9), "b": (0.03, 0.0)}}), virtual_loss=0.0)
    simulate(together, [0], Puct(init=0.1), parallel=1)
    assert len({path[-1] for path in simulate(together, [0], Puct(init=0.1), parallel=4)}) == 1
    assert not together.tree.pending[: together.tree.n].any()


def test_where_no_path_ends_the_best_unfinished_one_is_given_and_said():
    search = search_of(Written(DEEP), budget=Budget(tokens=3))
    bfs_v.run(search)
    (path,) = search.of(0)
    assert not path.ended
    assert search.space.names[path.leaf] == "near1"
    assert any("best unfinished one" in note for note in search.notes)


def test_states_without_moves_are_lost_and_said():
    search = search_of(Written(DEEP, dead=("near",)))
    mcts_rollout.run(search, mcts_rollout.Config(paths=2))
    assert search.tree.dead[named(search, "near")]
    assert {search.space.names[p.leaf] for p in search.of(0)} == {"far2"}
    assert any("counts as lost" in note for note in search.notes)
    lost = search_of(Written(DEEP, dead=("root",)))
    for run in (rap.run, bfs_v.run, mcts_alpha.run, beam.run, cot_sc_tree.run, mcts_rollout.run):
        run(lost)
    assert [(p.leaf, p.ended) for p in lost.of(0)] == [(0, False)]


def test_equal_children_are_all_tried():
    search = search_of(Written({"root": {f"c{i}": (0.25, 0.0) for i in range(4)}}))
    for _ in range(8):
        simulate(search, [0], Puct())
    assert search.tree.taken[search.tree.children(0)].tolist() == [2, 2, 2, 2]


def test_time_is_a_budget_too():
    ticks = iter(range(100))
    meter = Meter(1, Budget(seconds=3), clock=lambda: float(next(ticks)))
    assert [meter.left(0) for _ in range(4)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (lambda states: [np.nan] * len(states), "not finite"),
        (lambda states: [0.0] * (len(states) + 1), "another number of states"),
        (lambda states: 1 / 0, "the value of a search failed"),
        (lambda states: "much", "the value of a search failed"),
        (lambda states: [0.5 + 1j] * len(states), "complex numbers"),
    ],
)
def test_values_that_are_none(value, error):
    with pytest.raises(BadInput, match=error):
        search_of(Written(DEEP), value=value).expand([0])


@pytest.mark.parametrize(
    ("search", "wrong"),
    [
        (beam, {"keep": (2, 0)}),
        (best_of_n, {"parallel": 0}),
        (bfs_v, {"depth": 0}),
        (dfsdt, {"paths": 0}),
        (mcts_alpha, {"simulations": -1}),
        (mcts_rollout, {"parallel": -2}),
        (rap, {"c": -1.0}),
        (rstar, {"paths": -1}),
    ],
)
def test_numbers_that_could_not_be_searched_with_are_refused(search, wrong):
    with pytest.raises(BadInput, match="out of bounds"):
        search.Config(**wrong)


def test_judged_says_which_state():
    search = search_of(Written(DEEP))
    search.expand([0])
    states = [search.space.state(int(n)) for n in search.tree.children(0)]
    with pytest.raises(BadInput, match="inf for 'far'"):
        judged(lambda some: [0.0, np.inf], states)


def test_a_tree_refuses_what_would_break_it():
    tree = Tree(2)
    children = tree.add([0], [2], [0.5, 0.5], [1, 1])
    with pytest.raises(BadInput, match="children once"):
        tree.add([0], [1], [1.0], [1])
    with pytest.raises(BadInput, match="same task and depth"):
        tree.join(int(children[0]), 1)
    with pytest.raises(BadInput, match="finite"):
        tree.backup([[0]], [np.nan])
    with pytest.raises(BadInput, match="without a root"):
        Tree(0)


def test_aggregators_drop_what_could_not_be_read():
    assert aggregate.majority(["", None, "a", "b", "b"], [[]] * 5) == "b"
    assert aggregate.last_max([None, "a"], [[0.9], [0.1]]) == "a"
    assert aggregate.min_vote([], []) is None
    for worth in (0.0, -1.0, 0.5):  # nothing is distinguished by value: a vote is a vote
        assert aggregate.last_vote(["a", "b", "b", "c"], [[worth]] * 4) == "b"
        assert aggregate.min_vote(["a", "b", "b", "a"], [[worth]] * 4) == "a"
    with pytest.raises(BadInput, match="one finite score"):
        aggregate.last_vote(["a"], [[np.nan]])


@pytest.mark.parametrize("low", [0.0, -5.0])
def test_a_lost_state_is_not_the_best_one_where_all_values_are_negative(low):
    edges = {"root": dict.fromkeys("abc", (1 / 3, low))}
    edges |= {n: {n + m: (0.5, low) for m in "xy"} for n in "abc"}
    rewards = {n + m: low + (n + m == "by") for n in "abc" for m in "xy"}
    for by in (mcts_rollout, rap, rstar):
        search = search_of(Written(edges, rewards, dead=("a",)), verifier=values.reward)
        by.run(search, by.Config(paths=20))
        best = max(search.of(0), key=lambda path: path.value)
        assert search.space.names[best.leaf] == "by" and len(search.paths) > 12
        assert search.tree.taken[named(search, "a")] < 10  # it is tried, and then left alone


def test_simulations_under_way_part_where_all_values_are_negative():
    edges = {"root": dict.fromkeys("abcd", (0.25, -5.0))}
    search = search_of(Written(edges, dict.fromkeys("abcd", -5.0)), verifier=values.reward)
    mcts_rollout.run(search, mcts_rollout.Config(paths=8, parallel=4, simulations=8))
    assert [int(search.tree.taken[n]) for n in search.tree.children(0)] == [2, 2, 2, 2]


def test_of_equal_sums_the_more_frequent_answer_is_taken():
    assert aggregate.last_vote(["a", "b", "b"], [[-1.0], [-1.0], [-1.0]]) == "b"
    assert aggregate.min_vote(["a", "b", "b"], [[0.0], [0.0], [0.0]]) == "b"


def test_where_there_is_one_way_nothing_is_scored():
    chain = {"root": {"A": (0.6, 0.1), "B": (0.4, 0.2)}} | {
        f"{one}{'x' * i}": {f"{one}{'x' * (i + 1)}": (1.0, 0.5)} for one in "AB" for i in range(60)
    }
    facts = {}
    for draws in (False, True):
        scored = []

        class Counted(Puct):
            def __call__(self, tree, nodes, children, scored=scored):
                scored.extend(nodes.tolist())
                return super().__call__(tree, nodes, children)

        Counted.draws = draws
        search = search_of(Written(chain))
        paths = [simulate(search, [0], Counted(), parallel=2) for _ in range(80)]
        facts[draws] = len(scored), paths, search.space.asked
    assert facts[False][1:] == facts[True][1:]  # the same simulations, and the same calls of the model
    assert facts[False][0] == 160 and facts[True][0] > 3000  # at the root alone


@pytest.mark.parametrize("parallel", [1, 4])
def test_a_state_with_more_children_than_rounds_without_a_call_is_searched(parallel):
    wide = {"root": {f"c{i}": (1 / 150, 0.0) for i in range(150)}}
    wide |= {f"c{i}": {f"c{i}-{k}": (0.5, 1.0) for k in range(2)} for i in range(150)}
    search = search_of(Written(wide), widths=(150, 2), budget=Budget(calls=400))
    mcts_rollout.run(search, mcts_rollout.Config(simulations=10_000, parallel=parallel))
    assert len(search.of(0)) == 4 and all(path.ended for path in search.of(0))


@pytest.mark.parametrize("run", [bfs_v.run, beam.run, dfs_v.run, dfsdt.run])
def test_an_attempt_that_ends_at_the_greatest_depth_counts_and_nothing_is_asked_there(run):
    deep = {"root": {"a": (1.0, 0.5)}, "a": {"end": (0.6, 0.9), "on": (0.4, 0.1)}, "on": {"far": (1.0, 0.0)}}
    space = Written(deep)
    search = search_of(space)
    config = __import__(run.__module__, fromlist=["Config"]).Config(depth=2)
    run(search, config)
    assert [space.names[path.leaf] for path in search.paths] == ["end"] and "on" not in space.asked


def test_counts_of_simulations_and_paths_are_kept_however_many_are_under_way():
    search = search_of(Written(DEEP))
    mcts_alpha.run(search, mcts_alpha.Config(simulations=5, parallel=3))
    assert search.tree.visits[0] == 5
    search = search_of(Written(DEEP))
    mcts_rollout.run(search, mcts_rollout.Config(simulations=7, parallel=50, paths=100))
    assert search.tree.visits[0] == 7
    search = search_of(Written(DEEP))
    mcts_rollout.run(search, mcts_rollout.Config(simulations=1000, parallel=50, paths=3))
    assert len(search.paths) == 3


@pytest.mark.parametrize(
    ("run", "config"),
    [
        (rstar.run, rstar.Config(paths=6)),
        (cot_sc_tree.run, cot_sc_tree.Config(paths=6)),
        (mcts_alpha.run, mcts_alpha.Config(paths=3, sample=True)),
    ],
)
def test_what_is_drawn_in_a_task_does_not_depend_on_the_others(run, config):
    wide = {"root": {f"c{i}": (1 / 6, 0.0) for i in range(6)}} | {f"c{i}": {f"e{i}": (1.0, i / 6)} for i in range(6)}

    def ways(tasks, seeds):
        space = Written(wide, tasks=tasks)
        search = search_of(space, tasks)
        run(search, replace(config, seed=seeds))
        return [[space.names[path.leaf] for path in search.of(task)] for task in range(tasks)]

    together = ways(3, (5, 7, 9))
    assert together == [ways(1, (seed,))[0] for seed in (5, 7, 9)] and len({tuple(one) for one in together}) > 1
    with pytest.raises(BadInput, match="a seed for each task"):
        ways(3, (5, 7))


def test_uct_counts_the_visits_that_are_over():
    tree = Tree(1)
    (a, b) = tree.add([0], [2], np.array([0.5, 0.5]), np.array([1, 1])).tolist()
    for child, value in ((a, 0.9), (b, 0.2)):
        tree.begin(np.array([0, child]))
        tree.backup([[0, child]], [value])
    tree.begin(np.array([0]))  # the one that chooses now
    scores = rstar.Uct(2.0, Draws(0, "rstar", 1))(tree, np.array([0]), np.array([[a, b]]))
    assert scores[0] == pytest.approx(np.array([0.9, 0.2]) + 2.0 * np.sqrt(np.log(2.0)))


def test_a_vote_shifts_the_scores_of_what_could_be_read():
    steps = [[-0.9], [0.8], [0.1], [0.15]]
    assert aggregate.last_vote([None, "a", "b", "b"], steps) == "a"
