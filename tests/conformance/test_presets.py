"""The presets are what they claim to be, and become one another where their papers say so."""

from typing import Any

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.memory.memory import Memory
from evolvent.memory.policies import names, preset
from evolvent.memory.rule import _rule, rule_of
from evolvent.memory.rules import memq as memq_rule
from evolvent.memory.rules import memrl as memrl_rule

TRACES, STEPS = 300, 3


def _trace(memory, rng, steps=STEPS):
    """Recall, settle, remember with parents; returns receipts' ids, scores of the items and all values."""
    ids = [memory.remember(f"task {i} of kind {i % 3}", f"body {i}") for i in range(3)]
    seen = []
    for t in range(steps):
        r = memory.recall(f"task {rng.integers(3)} of kind {rng.integers(3)}", k=int(rng.integers(1, 4)))
        child = memory.remember(f"task {t} again", f"made {t}", parents=r) if rng.random() < 0.5 else None
        memory.settle(r, float(rng.integers(2)), child=child)
        seen.append((r.ids, [i.score for i in r.items]))
    return seen, [(i.id, i.value, i.n) for i in memory.items()], ids


def test_memq_with_gamma_0_is_memrl_on_random_traces(monkeypatch, request):
    same = {"gate": -1.0, "epsilon": 0.0, "q_init": "middle", "alpha": 0.3}
    monkeypatch.setattr(memq_rule, "rank", memrl_rule.rank)  # selections are to be equal, so that updates can be
    _rule.cache_clear()
    request.addfinalizer(_rule.cache_clear)
    with (
        Memory(policy=preset("memrl", **same), embedder="hash:32", scope="0") as memrl,
        Memory(policy=preset("memq", gamma=0.0, trace=0.7, **same), embedder="hash:32", scope="0") as memq,
    ):
        for number in range(TRACES):
            results = []
            for memory in (memrl, memq):
                # a scope of its own for every trace, in one store
                with memory.transaction():
                    fresh = _scope(memory, str(number))
                    results.append(_trace(fresh, np.random.default_rng(number)))
            (a, va, _), (b, vb, _) = results
            assert a == b, f"trace {number}: other selections"
            assert [v[1:] for v in va] == [v[1:] for v in vb], f"trace {number}: other values"


def _scope(memory, name):
    """Another scope on the same open connection."""
    from dataclasses import replace

    from evolvent.memory.opening import open_scope

    other = object.__new__(Memory)
    other.bank = replace(memory.bank, scope=name, scope_id=open_scope(memory.bank.store, name))
    return other


def test_memq_with_gamma_above_0_is_not_memrl():
    same = {"gate": -1.0, "epsilon": 0.0, "q_init": "middle"}
    a, b = (Memory(policy=preset(n, **same), embedder="hash:32") for n in ("memrl", "memq"))
    with a, b:
        assert _trace(a, np.random.default_rng(0), 20)[1] != _trace(b, np.random.default_rng(0), 20)[1]


@pytest.mark.parametrize("name", ["memrl", "memq", "memp"])
def test_weight_0_ranks_like_rag(name):
    rag, other = (
        Memory(policy=preset(n, gate=-1.0, epsilon=0.0, **fields), embedder="hash:32")
        for n, fields in (("rag", {}), (name, {} if name == "memp" else {"weight": 0.0}))
    )
    with rag, other:
        rng = np.random.default_rng(0)
        for i in range(40):
            for memory in (rag, other):
                memory.remember(f"task {i} kind {i % 5}", f"body {i}")
        for _ in range(100):
            task = f"task {rng.integers(40)} kind {rng.integers(5)}"
            a, b = rag.recall(task), other.recall(task)
            assert a.ids == b.ids
            rag.settle(a, 1.0), other.settle(b, float(rng.integers(2)))


@pytest.mark.parametrize("name", ["memrl", "memq"])
def test_alpha_0_leaves_values_alone(name):
    with Memory(policy=preset(name, gate=-1.0, alpha=0.0, epsilon=0.0, q_init="middle"), embedder="hash:32") as memory:
        _, values, _ = _trace(memory, np.random.default_rng(0), 50)
        assert {v for _, v, _ in values} == {0.5} and any(n for _, _, n in values)


@pytest.mark.parametrize("name", ["rag", "memp", "random", "none"])
def test_presets_without_learning_write_no_values(name):
    with Memory(policy=preset(name), embedder="hash:32") as memory:
        _, values, _ = _trace(memory, np.random.default_rng(0), 20)
        assert all(n == 0 for _, _, n in values)


def test_none_shows_nothing_and_random_shows_anything():
    with Memory(policy="none", embedder="hash:32") as memory:
        memory.remember("task", "body")
        assert memory.recall("task").items == ()
    with Memory(policy="random", embedder="hash:32") as memory:
        ids = {memory.remember(f"task {i}", f"body {i}") for i in range(10)}
        assert {i for _ in range(60) for i in memory.recall("other words").ids} == ids


def test_published_settings():
    policies: list[Any] = [preset(n) for n in ("memrl", "memq", "rag")]
    first, second, rag = policies
    assert (first.alpha, first.weight, first.epsilon, first.q_init) == (0.3, 0.5, 0.0, "middle")
    assert (second.alpha, second.weight, second.gamma, second.trace, second.q_init) == (0.3, 0.5, 0.5, 0.5, "low")
    assert (rag.gate, rag.epsilon) == (-1.0, 0.0)
    learning = {"memrl", "memq", "memlift", "neighbours", "evokernel", "memento"}
    assert {n for n in names() if rule_of(preset(n)).credit} == learning
    with Memory(policy="memrl", embedder="hash:32", reward_range=(-1, 1)) as memory:
        assert memory.get(memory.remember("a", "b")).value == 0.0


def test_unknown_names_get_the_closest():
    with pytest.raises(BadInput, match="memrl"):
        preset("memr1")
    with pytest.raises(BadInput, match="epsilon"):
        preset("memrl", epsilom=0.1)
