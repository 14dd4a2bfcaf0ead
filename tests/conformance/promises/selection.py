"""Promises of a memory: what is selected, explored and left out, and that all of it is written down."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from evolvent.memory.items import Recall
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

from .credit import LIFT, close_to, make, refused

Factory = Callable[..., Memory]


def the_gate_may_leave_nothing(factory: Factory) -> None:
    """Irrelevant memories are not shown to fill k; the result has one type."""
    with make(factory, preset("memrl", gate=0.5)) as memory:
        empty = memory.recall("anything")
        memory.remember("alpha beta gamma", "body")
        far = memory.recall("completely other words here")
        assert isinstance(empty, Recall) and empty.items == far.items == () and far.pool_size == 0
        assert memory.settle(far, 1.0) == []
        assert len(memory.recall("alpha beta gamma").items) == 1


def k_counts_memories(factory: Factory) -> None:
    """Many memories under one key share the k places."""
    with make(factory) as memory:
        ids = [memory.remember("one key", f"body {i}") for i in range(12)]
        r = memory.recall("one key", k=5)
        assert r.ids == ids[:5], f"ties go to the older memory: {r.ids}"
        assert all(math.isfinite(i.score) for i in r.items), "equal similarities and values broke the scores"
        assert len(memory.recall("one key", k=40).items) == 12


def exploration_stays_inside_the_gate_and_is_logged(factory: Factory) -> None:
    """Epsilon-greedy draws from the pool only; every candidate has its probability in the receipt."""
    with make(factory, preset("memrl", gate=0.2, pool=4, k=2, epsilon=0.5)) as memory:
        for i in range(6):
            memory.remember(f"alpha beta gamma {i}", f"near {i}")
            memory.remember(f"unrelated words number {i}", f"far {i}")
        explored = 0
        for _ in range(40):
            r = memory.recall("alpha beta gamma")
            explored += r.explored
            assert all(i.body.startswith("near") for i in r.items), "explored outside the gate"
            p = sum(i["propensity"] for i in memory.explain(r).to_dict()["pool"])
            close_to(p, 2.0, "propensities sum to k")
        assert 8 <= explored <= 32, f"explored {explored} of 40 at epsilon .5"
        assert not memory.recall("alpha beta gamma", frozen=True).explored


def nothing_is_left_out_where_nobody_settles(factory: Factory) -> None:
    """After a hundred recalls without an outcome every selected memory is shown, and known to be; until one comes."""
    with make(factory, preset("memlift", **LIFT)) as memory:
        memory.remember("task one", "body")
        second = memory.remember("task one again", "companion")
        last = memory.recall("task one")
        for round_ in range(2):
            memory.settle(last, 1.0)
            receipts = memory.recall_many(["task one"] * 160)
            last, begun, over = receipts[-1], receipts[:99], receipts[100:]
            assert any(r.omitted for r in begun), f"round {round_}: nothing was measured"
            assert not any(r.omitted for r in over), f"round {round_}: left out, and nobody says what came of it"
            explained = [i for i in memory.explain(last).to_dict()["pool"] if i["id"] == second]
            assert [i["propensity"] for i in explained] == [1.0]
            explained = [i for i in memory.explain(begun[0]).to_dict()["pool"] if i["id"] == second]
            assert 0.0 < explained[0]["propensity"] < 1.0
        changes = {change.id: change for change in memory.settle(last, 0.0)}
        assert changes[second].rule == "shown" and verify(memory) == [] and memory.rebuild_values() == 0


def omission_is_logged_anneals_and_stops_when_frozen(factory: Factory) -> None:
    """Memories are left out with a logged probability that falls with evidence; both sides keep statistics."""
    with make(factory, preset("memlift", **LIFT, prior_n0=1e6, strength=1e6)) as memory:  # one order for ever
        ids = [memory.remember("task one", "body"), memory.remember("task one", "companion")]
        rates: list[float] = []
        left_out = dict.fromkeys(ids, 0)
        for t in range(80):
            r = memory.recall("task one")
            rates.append(max(1.0 - i.propensity for i in r.items + r.omitted))
            for item in r.omitted:
                assert item.propensity < 1.0, "left out without a chance of it in the receipt"
                left_out[item.id] += 1
            rules = {c.id: c.rule for c in memory.settle(r, float(t % 4 > 0))}
            assert rules == {i.id: "shown" for i in r.items} | {i.id: "omitted" for i in r.omitted}
        assert rates[0] == 0.0, "left out before there was any outcome"
        assert abs(rates[1] - 0.4) < 1e-9 and rates[-1] < 0.3 and sum(left_out.values()) >= 8, (rates, left_out)
        for id_ in ids:
            explained = memory.explain(id_).to_dict()["values"][0]
            assert explained["n"] + explained["n_omitted"] == 80 and explained["n_omitted"] == left_out[id_]
        assert all(not memory.recall("task one", frozen=True).omitted for _ in range(20))
        with refused("showing what was left out"):
            while not (r := memory.recall("task one")).omitted:
                pass
            memory.shown(r, [r.omitted[0].id])


def omission_separates_a_useful_memory_from_its_companion(factory: Factory) -> None:
    """Always recalled together, one lifts success from .4 to .9, one does nothing: values tie, effects do not."""
    for order in (
        ("useful", "useless"),
        ("useless", "useful"),
    ):  # of equals the newest comes first, and is never left out
        policy = preset("memlift", **{**LIFT, "omit": 0.3, "omit_n0": 1e9, "prior_n0": 1e6, "strength": 1e6})
        with make(factory, policy, name=order[0]) as memory:
            ids = {body: memory.remember("task", body, merge=None) for body in order}
            rng = np.random.default_rng(1)
            for _ in range(300):
                r = memory.recall("task")
                memory.settle(r, float(rng.random() < (0.9 if ids["useful"] in r.ids else 0.4)))
            result = memory.get(ids[order[0]]).lift or 0.0
            assert result > 0.25 if order[0] == "useful" else abs(result) < 0.2, (order, result)


def notes_under_one_key_are_not_rivals(factory: Factory) -> None:
    """Facts that never failed are all shown, and a correction comes before what failed."""
    with make(factory, preset("memlift", gate=-1.0)) as memory:
        facts = list[str]()
        for i in range(5):
            facts.append(memory.remember("user preferences", f"fact {i}", merge=None))
            memory.settle(memory.recall("user preferences", k=5), 1.0)
        assert sorted(memory.recall("user preferences", k=5).ids) == facts
        old = memory.remember("task one", "gross")
        for _ in range(3):
            memory.settle(memory.recall("task one", k=1), 0.0)
        new = memory.remember("task one", "net", source="reviewer")
        assert memory.recall("task one", k=1).ids == [new] and old not in memory.recall("task one", k=1).ids
        assert verify(memory) == [] and memory.rebuild_values() == 0


def starving_settings_are_refused(factory: Factory) -> None:
    """Start at the reward of failure without exploration: what was never tried can never win."""
    with refused("q_init 0 with rewards 0 and 1"):
        make(factory, preset("memrl", q_init=0.0))
    with refused("q_init above success"):
        make(factory, preset("memrl", q_init=2.0))
    for allowed in (
        preset("memrl", q_init=0.0, epsilon=0.1),
        preset("memrl", q_init="high"),
        preset("rag", q_init=0.0),
    ):
        make(factory, allowed, name="b").close()
    make(factory, preset("memrl", q_init=0.0), name="c", reward_range=(-1.0, 1.0)).close()


def a_receipt_tells_its_effective_settings(factory: Factory) -> None:
    """No threshold is shadowed by a default: what ran is in the receipt."""
    with make(factory) as memory:
        memory.remember("task one", "body")
        for gate in (-1.0, 0.37):
            explained = memory.explain(memory.recall("task one", policy=preset("memrl", gate=gate))).to_dict()
            assert (
                explained["params"]["gate"] == gate
                and explained["params"]["alpha"] == 0.3
                and explained["policy"] == "memrl"
            )


def the_same_calls_give_the_same_receipts(factory: Factory) -> None:
    """Two stores, one sequence of calls and one seed: equal ids, items, omissions and values. Another seed differs."""
    runs = []
    for name, seed in (("x", 3), ("y", 3), ("z", 4)):
        with make(factory, preset("memlift", **LIFT), name=name, seed=seed) as memory:
            trace: list[object] = [memory.remember(f"task {i}", f"body {i}") for i in range(6)]
            for t in range(30):
                r = memory.recall(f"task {t % 6}")
                trace += [r, memory.settle(r, float(t % 2))]
            runs.append(trace)
    assert runs[0] == runs[1], "the same seed gave another run"
    assert runs[0] != runs[2], "the seed has no effect"


def coverage_is_reported(factory: Factory) -> None:
    """Learning that is switched off in practice is seen in health()."""
    with make(factory) as memory:
        for i in range(4):
            memory.remember(f"task {i}", f"body {i}")
        memory.settle(memory.recall("task 0", k=1), 1.0)
        health = memory.health()
        assert (health["items"], health["coverage"], health["updates_per_item"]) == (4, 0.25, 0.25), health
        assert health["never_shown"] == 3 and health["settled"] == 1 and health["nonzero"] == 0.25
