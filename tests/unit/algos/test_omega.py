"""OmegaPRM: bisection asks for what the paper says, finds the first error, and chooses as worked out by hand."""

import numpy as np
import pytest

from evolvent.algos.openr import omega
from evolvent.core.errors import BadInput
from evolvent.search.budget import Budget
from search_toy import Written, search_of


def explored(n, bad, config=omega.Config(samples=4, searches=1)):
    """One question whose only wrong sample has ``n`` steps (nodes 1 … n) and errs at step ``bad``; 0-based."""
    asks = omega.question(0, lambda node: list(range(1, node + 1)), lambda node: node, config)
    seen, node = [], next(asks)
    try:
        while True:
            seen.append(node)
            alive = node <= bad  # the prefix up to step node - 1
            node = asks.send(
                omega.Estimate(0.5 if alive else 0.0, [100 + node] if alive else [], [n] if node == 0 else [])
            )
    except StopIteration as done:
        return [node - 1 for node in seen[1:]], done.value


@pytest.mark.parametrize(("n", "bad", "asked"), [(8, 5, [3, 5, 4]), (8, 0, [3, 1, 0]), (8, 7, [3, 5, 6])])
def test_bisection(n, bad, asked):
    seen, found = explored(n, bad)
    assert seen == asked and found.errors == {n: bad}
    assert found.estimates == 1 + len(asked) <= 1 + np.ceil(np.log2(n + 1))


def test_the_most_surprising_wrong_sample_is_taken_first():
    pool = omega._Pool(count_choices=False)
    pool.add(0, 0.75, [(10, 120), (11, 400)])
    pool.add(0, 0.75, [])  # its second estimate
    pool.add(1, 0.25, [(12, 60)])
    assert pool.scores().tolist() == pytest.approx([0.892068, 0.845092, 0.695386], abs=1e-6)
    assert pool.pop() == (0, 10) and pool.visits == {0: 2, 1: 1}
    counting = omega._Pool(count_choices=True)
    counting.add(0, 0.5, [(10, 1)])
    counting.pop()
    assert counting.visits == {0: 2} and not counting.waiting


def test_all_or_none_right_gives_the_root_alone():
    for mc in (0.0, 1.0):
        asks = omega.question(0, lambda node: [node], lambda node: node, omega.Config())
        next(asks)
        with pytest.raises(StopIteration) as done:
            asks.send(omega.Estimate(mc, [], [5, 6]))
        assert done.value.value.mc[0] == mc and done.value.value.estimates == 1


def chain_of(n, bad):
    """Steps 0 … n-1 one after another; a wrong turn at ``bad`` is never mended."""
    edges = {"root": {"g0": (0.5, 0.0), "b0": (0.5, 0.0)} if bad == 0 else {"g0": (1.0, 0.0)}}
    for i in range(n - 1):
        edges[f"g{i}"] = {f"g{i + 1}": (0.5, 0.0), **({f"b{i + 1}": (0.5, 0.0)} if i + 1 == bad else {})}
        if i >= bad:
            edges[f"b{i}"] = {f"b{i + 1}": (1.0, 0.0)}
    return edges


class Drawn(Written):
    """One move of those written, by lot."""

    def propose(self, nodes, widths, meter):
        draw = self.draw = getattr(self, "draw", np.random.default_rng(0))
        every = self.edges
        for node in nodes:
            some = list(every.get(self.names[node], {}).items())
            self.edges = {**every, self.names[node]: dict([some[draw.integers(len(some))]])} if some else every
        out = (
            super().propose(nodes, widths, meter)
            if len(nodes) == 1
            else [self._one(every, n, meter, draw) for n in nodes]
        )
        self.edges = every
        return out

    def _one(self, every, node, meter, draw):
        some = list(every.get(self.names[node], {}).items())
        self.edges = {**every, self.names[node]: dict([some[draw.integers(len(some))]])}
        (out,) = Written.propose(self, [node], [1], meter)
        self.edges = every
        return out


@pytest.mark.parametrize("bad", [0, 3, 6])
def test_over_a_tree_it_finds_where_it_went_wrong(bad):
    space = Drawn(chain_of(8, bad), rewards={"g7": 1.0, "b7": 0.0}, tasks=3)
    search = search_of(space, tasks=3, widths=(1,))
    for found in omega.run(search, omega.Config(samples=8, searches=2)):
        assert set(found.errors.values()) == {bad} and len(found.errors) == 2
        for node, mc in found.mc.items():
            assert (mc == 0.0) == space.names[node].startswith("b")


def test_a_budget_ends_it():
    space = Drawn(chain_of(8, 3), rewards={"g7": 1.0, "b7": 0.0})
    search = search_of(space, widths=(1,), budget=Budget(tokens=20))
    (found,) = omega.run(search, omega.Config(samples=4))
    assert int(search.meter.tokens[0]) <= 20 and found.estimates >= 1


def test_labels_by_depth_are_shares_of_the_samples_that_were_taken():
    space = Drawn(chain_of(8, 3), rewards={"g7": 1.0, "b7": 0.0})
    search = search_of(space, widths=(1,))
    (found,) = omega.run(search, omega.Config(samples=12, least=3, searches=2))
    depth = search.tree.depth
    estimated = [node for node in found.mc if not search.tree.terminal[node]]
    counts = {node: max(12 // (int(depth[node]) + 1), 3) for node in estimated}
    assert found.samples == sum(counts.values()) < 12 * found.estimates and len(estimated) == found.estimates
    assert all(found.mc[node] * counts[node] == pytest.approx(round(found.mc[node] * counts[node])) for node in counts)
    assert set(found.errors.values()) == {3}


@pytest.mark.parametrize(("samples", "least"), [(0, 0), (4, 5), (4, -1)])
def test_samples_that_cannot_be(samples, least):
    with pytest.raises(BadInput, match="samples of a state"):
        omega.Config(samples, least)


def test_no_bisection_begins_when_the_samples_are_spent():
    taken = {}
    for least in (0, 1):
        space = Drawn(chain_of(8, 6), rewards={"g7": 1.0, "b7": 0.0})
        (found,) = omega.run(search_of(space, widths=(1,)), omega.Config(samples=12, least=least, rollouts=30))
        taken[least] = len(found.errors)
    assert taken[1] > taken[0] == 1  # cheaper states below leave room for another
