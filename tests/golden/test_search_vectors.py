"""Numbers worked out by hand for PUCT, simulations, breadth and depth first, aggregation and process labels."""

import numpy as np
import pytest

from evolvent.algos.openr import omega
from evolvent.formulas.process_supervision import attention, first_error, labels, samples_at, surprise
from evolvent.formulas.returns import lambda_returns
from evolvent.formulas.selection import annealed, mean_likelihoods, puct, puct_constant, uct, visit_policy
from evolvent.search import aggregate, bfs_v, dfs_v, rap
from evolvent.search.simulate import Puct, simulate
from search_toy import Written, named, search_of

TREE = {
    "root": {"A": (0.6, 0.2), "B": (0.4, 0.5)},
    "A": {"A1": (0.5, 0.1), "A2": (0.5, 0.9)},
    "B": {"B1": (1.0, 0.4)},
}


@pytest.mark.parametrize(
    ("n", "prior", "v", "init", "want"),
    [
        (4, 0.5, 0.3, 1.25, 0.695462),
        (4, 0.5, 0.3, 3, 1.248860),
        (0, 0.2, 0.1, 1.25, 0.890923),
        (0, 0.2, 0.1, 3, 1.997721),
    ],
)
def test_puct_with_a_constant_that_grows(n, prior, v, init, want):
    (score,) = puct([v], [prior], [n], puct_constant(10, init=init), parent=10)
    assert score == pytest.approx(want, abs=1e-6)


def test_uct_of_medss():
    assert uct([0.6, 0.1], [3, 0], 10, weight=2.0, fresh=5.0).tolist() == pytest.approx([2.352174, 5.0], abs=1e-6)


def test_samples_of_medss_get_fewer_by_depth():
    assert [samples_at(depth) for depth in range(5)] == [20, 10, 6, 5, 5]


def test_priors_are_likelihoods_a_token():
    got = mean_likelihoods([[-0.1, -0.2, -0.3], [-1, -0.5], [-0.05]])
    assert got.tolist() == pytest.approx([0.365126, 0.210659, 0.424215], abs=1e-6)


def test_schedules_of_exploration():
    assert [annealed(2.0, 0.2, x, "exponential") for x in (0.0, 0.5, 1.0)] == pytest.approx([2.0, 0.4**0.5, 0.2])
    assert [annealed(2.0, 0.2, x) for x in (0.0, 0.5, 2.0)] == pytest.approx([2.0, 1.1, 0.2])
    assert annealed(2.0, 0.2, 0.7, "constant") == 2.0


def test_a_trace_of_six_simulations():
    search = search_of(Written(TREE))
    search.expand([0])
    names = search.space.names
    want = [("B", 0.5), ("A", 0.2), ("A,A2", 0.9), ("A,A1", 0.1), ("B,B1", 0.4), ("A,A2", 0.9)]
    scores = [
        (0.2, 0.5),
        (2.000061, 1.100020),
        (1.472857, 1.348571),
        (1.589301, 1.539301),
        (1.300076, 1.700102),
        (1.406333, 1.344518),
    ]
    score = Puct(3.0)
    for (path, worth), at_root in zip(want, scores, strict=True):
        search.tree.begin(np.array([0]))  # as in a simulation that is choosing
        seen = score(search.tree, np.array([0]), search.tree.children(0)[None])[0]
        search.tree.abandon([0])
        assert seen.tolist() == pytest.approx(at_root, abs=1e-6)
        before = search.tree.total[0]
        (taken,) = simulate(search, [0], score)
        assert ",".join(names[n] for n in taken[1:]) == path
        assert search.tree.total[0] - before == pytest.approx(worth)
    facts = {
        name: (search.tree.visits[named(search, name)], search.tree.total[named(search, name)])
        for name in ("root", "A", "A1", "A2", "B", "B1")
    }
    want_end = {"root": (6, 3.0), "A": (4, 2.1), "A1": (1, 0.1), "A2": (2, 1.8), "B": (2, 0.9), "B1": (1, 0.4)}
    assert {k: (int(n), pytest.approx(w)) for k, (n, w) in facts.items()} == want_end
    assert search.space.asked == ["root", "A", "B"]  # lazy: what was met once has no children
    visits = search.tree.taken[search.tree.children(0)]
    assert visit_policy(visits, 1.0)[0] == pytest.approx(0.666667, abs=1e-6)
    assert visit_policy(visits, 0.5)[0] == pytest.approx(0.8, abs=1e-6)


def test_raps_paths_and_the_value_of_its_root():
    for paths, root in ((1, 0.4), (2, 0.65), (3, 0.733333), (4, 0.575)):
        search = search_of(Written(TREE))
        rap.run(search, rap.Config(paths=paths))
        assert search.tree.q(0) == pytest.approx(root, abs=1e-6)
    assert [search.space.names[p.leaf] for p in search.paths] == ["B1", "A2", "A2", "A1"]
    assert [p.value for p in search.paths] == [0.4, 0.9, 0.9, 0.1]


BROAD = {
    "root": {"A": (1.0, 0.2), "B": (1.0, 0.5), "C": (1.0, 0.4)},
    "A": {"A1": (1.0, 0.9)},
    "B": {"B1": (1.0, 0.3), "B2": (1.0, 0.6)},
    "C": {"C1": (1.0, 0.55), "C2": (1.0, 0.1)},
}


@pytest.mark.parametrize(("k", "want"), [(1, ["B2"]), (2, ["B2", "C1"])])
def test_breadth_first_loses_what_a_greedy_width_cuts_off(k, want):
    search = search_of(Written(BROAD))
    bfs_v.run(search, bfs_v.Config(paths=k))
    assert [search.space.names[p.leaf] for p in search.paths] == want


@pytest.mark.parametrize(("ratio", "n", "want"), [(0.7, 20, 7), (0.9, 50, 5), (0.7, 6, 2), (0.5, 4, 3)])
def test_depth_first_keeps_as_the_source_compares_floats(ratio, n, want):
    search = search_of(Written({"root": {f"c{i}": (1 / n, -i / n) for i in range(n)}}))
    search.expand([0])
    assert len(dfs_v.retained(search, 0, dfs_v.Config(prune_ratio=ratio))) == want


def test_scores_are_shifted():
    assert aggregate.shifted([-0.8, 0.4, 0.1, 0.6]).tolist() == pytest.approx(
        [0, 0.856531, 0.642398, 0.999286], abs=1e-6
    )


@pytest.mark.parametrize(
    ("name", "want"),
    [("majority", "5"), ("min_max", "9"), ("min_vote", "9"), ("last_max", "7"), ("last_vote", "7")],
)
def test_aggregators(name, want):
    steps = [[0.9, 0.2], [0.6, 0.8], [0.7, 0.5], [0.95, 0.79]]
    assert aggregate.AGGREGATORS[name](["5", "7", "5", "9"], steps) == want


@pytest.mark.parametrize(
    ("gamma", "lam", "want"),
    [
        (1.0, 0.95, [0.95575, 0.985, 1.0]),
        (1.0, 0.0, [0.4, 0.7, 1.0]),
        (1.0, 1.0, [1.0, 1.0, 1.0]),
        (0.9, 0.95, [0.775958, 0.8865, 1.0]),
    ],
)
def test_targets_of_a_value(gamma, lam, want):
    done = [False, False, True]
    got = lambda_returns([0, 0, 1.0], [0.4, 0.7, 0.0], gamma=gamma, gae_lambda=lam, terminated_T=done)
    assert got.tolist() == pytest.approx(want, abs=1e-6)


def test_omegaprm_looks_at_surprising_mistakes_first():
    got = surprise([0.9, 0.5, 0.5, 0.1], [100, 100, 300, 100])
    assert got.tolist() == pytest.approx([0.913578, 0.692362, 0.663790, 0.524713], abs=1e-6)
    q, u = surprise([0.75, 0.75, 0.25], [120, 400, 60]), attention(3, [2, 2, 1])
    assert (q[[0, 2]].tolist(), u[[0, 2]].tolist()) == (
        pytest.approx([0.819900, 0.587133], abs=1e-6),
        pytest.approx([0.072169, 0.108253], abs=1e-6),
    )
    assert (q + u).tolist() == pytest.approx([0.892068, 0.845092, 0.695386], abs=1e-6)


@pytest.mark.parametrize(
    ("n", "bad", "asked"), [(8, 5, [3, 5, 4]), (8, 0, [3, 1, 0]), (5, 4, [2, 3, 4]), (4, 4, [1, 2, 3])]
)
def test_the_first_error_is_found_by_bisection(n, bad, asked):
    seen = []

    def alive(i):
        seen.append(i)
        return i < bad

    assert (first_error(alive, n), seen) == (bad, asked)


@pytest.mark.parametrize(
    ("samples", "least", "counts"),
    [(16, 0, [16, 16, 16, 16]), (20, 5, [20, 5, 5, 5]), (20, 1, [20, 4, 2, 3])],  # published; MedS3; its schedule alone
)
def test_a_bisection_by_the_schedule_of_medss_takes_fewer_samples_below(samples, least, counts):
    # 8 steps, the sixth is wrong: the question, then the states behind 4, 6 and 5 steps
    config, asked = omega.Config(samples, least, searches=1), list[int]()
    asks = omega.question(0, lambda node: list(range(1, node + 1)), lambda node: node, config)
    node = next(asks)
    with pytest.raises(StopIteration) as done:
        while True:
            asked.append(node)
            alive = node <= 5
            node = asks.send(omega.Estimate(0.5 if alive else 0.0, [100 + node] if alive else [], [8] * (not node)))
    assert asked == [0, 4, 6, 5] and [config.samples_of(depth) for depth in asked] == counts
    assert done.value.value.samples == sum(counts) and done.value.value.errors == {8: 5}


def test_a_label_needs_more_than_half():
    assert labels([0.5, 0.51]).tolist() == [0.0, 1.0]
