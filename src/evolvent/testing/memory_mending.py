"""Checks of ``check_memory``: outcomes that were wrong, memories and scopes that must go, another embedder."""

from __future__ import annotations

from dataclasses import replace

from evolvent.cli.memory.verify import verify
from evolvent.core.errors import BadInput
from evolvent.memory.items import Recall
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.testing.memory_credit import OPEN, Factory, close_to, make, refused


def _family(memory: Memory) -> list[Recall]:
    """Receipts that showed a family of memories, none settled yet."""
    for i in range(6):
        memory.remember(f"task {i} of flights", f"lesson {i}", polarity="success", parents=[f"m{i}"] if i else ())
    return [memory.recall(f"task {i % 6} of flights", k=1 + i % 3) for i in range(12)]


def _stood(memory: Memory) -> list[tuple]:
    return [(item.id, item.value, item.n, item.n_omitted) for item in memory.items(None)]


def a_revised_outcome_gives_what_it_would_have_given(factory: Factory) -> None:
    """The values are those of a life in which it was right from the start; every copy of the history says the same."""
    rewards = [(7 * i % 10) / 10 for i in range(12)]
    for name in ("memlift", "memrl"):
        policy = preset(name, **{"gate": -1.0, **({"margin": 2.0} if name == "memlift" else {"epsilon": 0.0})})
        with make(factory, policy, name=f"{name}-a") as right, make(factory, policy, name=f"{name}-b") as wrong:
            receipts, others = _family(right), _family(wrong)
            assert [r.ids for r in receipts] == [r.ids for r in others]
            for i, reward in enumerate(rewards):
                right.settle(receipts[i], reward)
                wrong.settle(others[i], 1.0 - reward if i in (2, 3, 7) else reward, source="judge")
            before, at = _stood(wrong), wrong.recall("task 1 of flights")
            for i, news in ((7, True), (2, True), (3, True), (2, False)):
                told = wrong.revise(others[i], rewards[i], "reverted", dry_run=True)
                done = wrong.revise(others[i], rewards[i], "reverted")
                assert told == replace(done, act=None) and bool(done.act) is bool(done.values) is news
            assert _stood(wrong) == _stood(right) != before, f"{name}: not what it would have been"
            assert verify(wrong) == [] and wrong.rebuild_values() == 0
            told = wrong.explain(others[2]).to_dict()
            assert [o["counts"] for o in told["outcomes"]] == [False, True]
            assert {c["counts"] for c in told["changes"]} == {False, True}
            assert wrong.settle(others[2], 1.0 - rewards[2], source="judge"), "a retry of the first was not known again"
            wrong.rollback(at, "before the revisions")
            assert _stood(wrong) == before and verify(wrong) == []


def only_a_settled_outcome_is_revised(factory: Factory) -> None:
    """To invalid and on; what is not settled, or out of range, is refused by its code, and nothing changes."""
    with make(factory) as memory:
        a = memory.remember("task one", "body")
        r, other = memory.recall("task one"), memory.recall("task one")
        start = memory.get(a).value
        for code, bad in {
            "not_settled": lambda: memory.revise(r, 1.0, "why"),
            "unknown_receipt": lambda: memory.revise("r99", 1.0, "why"),
            "settled_already": lambda: (memory.settle(r, 1.0), memory.settle(r, 0.0)),
        }.items():
            try:
                bad()
            except BadInput as error:
                assert error.code == code and (code != "settled_already" or "revise" in error.do), error
            else:
                raise AssertionError(f"{code}: accepted")
        with refused("a reward out of range"):
            memory.revise(r, 2.0, "why")
        settled = memory.get(a).value
        assert settled != start
        memory.revise(r, None, "the tests were broken", valid=False)
        assert (memory.get(a).value, memory.get(a).n) == (start, 0) and verify(memory) == []
        memory.settle(r, 1.0, source="tests")
        assert (memory.get(a).value, memory.get(a).n) == (settled, 1)
        memory.settle(other, 1.0)
        memory.shown(other, other.ids)
        with refused("showing less of a settled receipt"):
            memory.shown(other, [])
        assert verify(memory) == []


def an_outcome_may_count_less(factory: Factory) -> None:
    """A weight scales the step and the evidence; it is kept, revised and repeated like the rest of the outcome."""
    for name in ("memlift", "memrl", "memq"):
        fields = {"gate": -1.0, "margin": 2.0, "omit": 0.0} if name == "memlift" else OPEN
        with make(factory, preset(name, **fields), name=name) as memory:
            a, b = memory.remember("task one", "one"), memory.remember("another thing", "two")
            start = memory.get(a).value
            r, whole = memory.recall("task one", k=1), memory.recall("another thing", k=1)
            assert (r.ids, whole.ids) == ([a], [b])
            for weight in (0.0, 1.5, -1.0, float("nan")):
                with refused(f"weight {weight}"):
                    memory.settle(r, 0.0, weight=weight)
            changes = memory.settle(r, 0.0, weight=0.25)
            memory.settle(whole, 0.0)
            close_to(
                memory.get(a).value - start, 0.25 * (memory.get(b).value - start), f"{name}: a quarter of the step"
            )
            assert (
                memory.settle(r, 0.0, weight=0.25) == changes
                and memory.explain(r).to_dict()["outcomes"][0]["weight"] == 0.25
            )
            with refused("the same outcome with another weight"):
                memory.settle(r, 0.0, weight=0.5)
            memory.revise(r, 0.0, "it was the whole answer")
            close_to(memory.get(a).value, memory.get(b).value, f"{name}: a whole step")
            assert verify(memory) == []


CHECKS = (
    a_revised_outcome_gives_what_it_would_have_given,
    only_a_settled_outcome_is_revised,
    an_outcome_may_count_less,
)
