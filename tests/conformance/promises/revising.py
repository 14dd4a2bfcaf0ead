"""Promises of a memory: outcomes that turned out otherwise, or that say nothing after all."""

from __future__ import annotations

from dataclasses import replace

from evolvent.core.errors import BadInput
from evolvent.memory.items import Recall
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

from .credit import OPEN, Factory, close_to, make, refused


def _family(memory: Memory) -> list[Recall]:
    """Receipts that showed a family of memories, none settled yet."""
    for i in range(6):
        memory.remember(f"task {i} of flights", f"lesson {i}", polarity="success", parents=[f"m{i}"] if i else ())
    return [memory.recall(f"task {i % 6} of flights", k=1 + i % 3) for i in range(12)]


def _stood(memory: Memory) -> list[tuple]:
    return [(item.id, item.value, item.n, item.n_omitted) for item in memory.items(None)]


def _state_of(memory: Memory) -> list[tuple]:
    """By memory, what each outcome that counts made of its value, as ``explain`` tells it."""
    stories = [(item.id, memory.explain(item.id).to_dict()["history"]) for item in memory.items(None)]
    return sorted((id_, e["receipt"], e["rule"], *e["now"]) for id_, story in stories for e in story if e["counts"])


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
                rehearsed = wrong.revise(others[i], rewards[i], "reverted", dry_run=True)
                done = wrong.revise(others[i], rewards[i], "reverted")
                assert rehearsed == replace(done, act=None) and bool(done.act) is bool(done.values) is news
            assert _stood(wrong) == _stood(right) != before, f"{name}: not what it would have been"
            assert _state_of(wrong) == _state_of(right), f"{name}: explained otherwise"
            assert verify(wrong) == [] and wrong.rebuild_values() == 0
            explained = wrong.explain(others[2]).to_dict()
            assert [o["counts"] for o in explained["outcomes"]] == [False, True]
            assert {c["counts"] for c in explained["changes"]} == {False, True}
            assert wrong.settle(others[2], 1.0 - rewards[2], source="judge"), "a retry of the first was not known again"
            wrong.rollback(at, "before the revisions")
            assert _stood(wrong) == before and verify(wrong) == []


def a_revision_keeps_the_rest_of_the_story(factory: Factory) -> None:
    """Who said it, what was done and written and how much it counts hold for the new reward, too, unless said anew."""
    story = {"action": "do one thing then stop", "weight": 0.5, "source": "tests"}
    for name in ("memlift", "memq"):
        fields = {"gate": -1.0, "margin": 2.0, "omit": 0.0} if name == "memlift" else OPEN
        with (
            make(factory, preset(name, **fields), name=f"{name}-a") as right,
            make(factory, preset(name, **fields), name=f"{name}-b") as wrong,
        ):
            for memory in (right, wrong):
                memory.remember("task one", "do one thing then stop")
                memory.remember("task one more", "nothing of the sort")
            recalled, other = right.recall("task one", k=2), wrong.recall("task one", k=2)
            right.settle(recalled, 0.0, **story, child=right.remember("task two", "made from it", parents=recalled))
            wrong.settle(other, 1.0, **story, child=wrong.remember("task two", "made from it", parents=other))
            wrong.revise(other, 0.0, "reverted")
            assert _stood(wrong) == _stood(right), f"{name}: not what it would have been"
            outcome = wrong.explain(other).to_dict()["outcomes"][-1]
            assert {part: outcome[part] for part in story} == story, outcome
            assert wrong.revise(other, 0.0, "said once more").nothing
            wrong.revise(other, 0.0, "by a person", source="human", weight=1.0)
            right.revise(recalled, 0.0, "all of it", weight=1.0)
            assert wrong.explain(other).to_dict()["outcomes"][-1]["source"] == "human"
            assert _stood(wrong) == _stood(right) and verify(wrong) == [] and wrong.rebuild_values() == 0


def a_revision_keeps_the_parts(factory: Factory) -> None:
    """Parts stand as they were given; under another reward of the whole each of them has that."""
    parts = [("do one thing then stop", 1.0), ("call the office twice", 0.0)]
    policy = preset("memlift", gate=-1.0, hide=0.0)
    with make(factory, policy, name="a") as right, make(factory, policy, name="b") as wrong:
        for memory in (right, wrong):
            memory.remember_many([{"key": "task one", "body": text} for text, _ in parts])
        recalled, other = right.recall("task one", k=2), wrong.recall("task one", k=2)
        right.settle(recalled, None, parts=parts, weight=0.5)
        wrong.settle(other, None, parts=parts)
        wrong.revise(other, 0.5, "only half sure", weight=0.5)
        assert _stood(wrong) == _stood(right)
        assert [r for _, r in wrong.explain(other).to_dict()["outcomes"][-1]["parts"]] == [1.0, 0.0]
        wrong.revise(other, 0.0, "reverted")
        right.revise(recalled, None, "reverted", parts=[(text, 0.0) for text, _ in parts])
        assert _stood(wrong) == _stood(right) and all(item.value < item.start for item in wrong.items())
        now = wrong.explain(other).to_dict()["outcomes"][-1]["parts"]
        assert [tuple(part) for part in now] == [(text, 0.0) for text, _ in parts]
        assert verify(wrong) == [] and wrong.rebuild_values() == 0


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
        memory.settle(r, 1.0)  # the report of then, once more from a queue
        assert (memory.get(a).value, memory.get(a).n) == (start, 0), "a retry brought back what was voided"
        for reward, source in ((0.0, "env"), (1.0, "tests")):
            with refused("another outcome for a receipt whose outcome was voided", code="settled_already"):
                memory.settle(r, reward, source=source)
        assert memory.revise(r, None, "once more", valid=False).nothing
        memory.revise(r, 1.0, "they were right after all")
        assert (memory.get(a).value, memory.get(a).n) == (settled, 1), "what was taken back could not be said again"
        memory.settle(other, 1.0)
        memory.shown(other, other.ids)
        with refused("showing less of a settled receipt"):
            memory.shown(other, [])
        assert verify(memory) == []


def what_was_voided_comes_back_where_it_stood(factory: Factory) -> None:
    """A revision of a voided outcome takes its place, with its action, parts and weight, whatever came meanwhile.

    Of memlift, whose steps depend on how many outcomes there were, what came before the outcome was voided.
    """
    parts = [("do one thing then stop", 1.0), ("call the office twice", 0.0)]
    for name in ("memlift", "memrl"):
        fields = {"gate": -1.0, "margin": 2.0, "omit": 0.0} if name == "memlift" else OPEN
        with (
            make(factory, preset(name, **fields), name=f"{name}-a") as right,
            make(factory, preset(name, **fields), name=f"{name}-b") as wrong,
        ):
            for memory in (right, wrong):
                memory.remember_many([{"key": "task one", "body": text} for text, _ in parts])
            (recalled, late), (other, later) = (m.recall_many(["task one"] * 2, k=2) for m in (right, wrong))
            right.settle(recalled, None, parts=parts, weight=0.5)
            right.settle(late, 1.0)
            wrong.settle(other, None, parts=parts, weight=0.5)
            if name == "memlift":
                wrong.settle(later, 1.0)
            wrong.revise(other, None, "the judge had crashed", valid=False)
            if name == "memrl":
                wrong.settle(later, 1.0)
            assert _stood(wrong) != _stood(right)
            wrong.revise(other, 0.5, "it had not")  # its parts come back, too
            assert _stood(wrong) == _stood(right), f"{name}: not what it would have been"
            assert verify(wrong) == [] and wrong.rebuild_values() == 0


def after_a_rollback_one_outcome_of_a_receipt_counts(factory: Factory) -> None:
    """A revision or a void that a rollback took back: the next one replaces the outcome that counts now."""
    with make(factory, preset("memrl", gate=-1.0)) as memory:
        a = memory.remember("task one", "body")
        for valid in (False, True):
            r = memory.recall("task one", k=1)
            memory.settle(r, 1.0)
            settled, at = (memory.get(a).value, memory.get(a).n), memory.recall("task one", k=1)
            memory.revise(r, 0.0 if valid else None, "too early", valid=valid)
            memory.rollback(at, "it was not")
            assert (memory.get(a).value, memory.get(a).n) == settled
            assert memory.revise(r, 1.0, "told once more").nothing
            memory.revise(r, None, "now really", valid=False)
            assert memory.get(a).n == settled[1] - 1
            memory.revise(r, 1.0, "after all")
            assert (memory.get(a).value, memory.get(a).n) == settled
            assert verify(memory) == [] and memory.rebuild_values() == 0
            with refused("showing less of a receipt that was settled", code="settled_already"):
                memory.shown(r, [])


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
            memory.revise(r, 0.0, "it was the whole answer", weight=1.0)
            close_to(memory.get(a).value, memory.get(b).value, f"{name}: a whole step")
            assert verify(memory) == []
