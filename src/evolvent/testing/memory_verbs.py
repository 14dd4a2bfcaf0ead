"""Checks of ``check_memory``: reading without a receipt, many at once, page by page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.testing.memory_credit import LIFT, make, refused

Factory = Callable[..., Memory]
_TASKS = [f"task {word} of the {part}" for word in ("one", "two", "three") for part in ("east", "west")]


def _fill(memory: Memory) -> None:
    memory.remember_many([{"key": task, "body": f"lesson {i}"} for i, task in enumerate(_TASKS)])
    for i, task in enumerate(_TASKS):
        memory.settle(memory.recall(task), float(i % 2))


def a_recall_is_the_sequence_of_its_items(factory: Factory) -> None:
    """It iterates, counts, is indexed, and is false when nothing was found."""
    with make(factory) as memory:
        assert not memory.recall("anything")
        _fill(memory)
        r = memory.recall(_TASKS[0], k=3)
        assert tuple(r) == r.items == r[:3] and len(r) == 3 and r[0] is r.items[0] and r


def a_search_shows_what_a_frozen_recall_shows(factory: Factory) -> None:
    """The same items under every rule, and no trace: no receipt, no vector, no value."""
    with make(factory, preset("memlift", **LIFT)) as memory:
        _fill(memory)
        for policy in ("memrl", preset("memlift", gate=-1.0, margin=2.0), "rag", "memq"):
            before = memory.health()["recalls"]
            found = [memory.search(task, k=3, policy=policy) for task in [*_TASKS, "never asked"]]
            assert memory.health()["recalls"] == before, "a search left a receipt"
            recalled = [memory.recall(t, k=3, policy=policy, frozen=True) for t in [*_TASKS, "never asked"]]
            assert found == [list(r) for r in recalled], policy
        assert memory.rebuild_values() == 0 and len(memory.search("any", k=4, policy="random")) == 4


def a_search_waits_for_no_writer(factory: Factory) -> None:
    """While another connection holds the write lock, a search answers, from what is committed."""
    with make(factory) as memory, make(factory) as writer:
        _fill(memory)
        expected = memory.search(_TASKS[0])
        with writer.transaction():
            writer.remember(_TASKS[0], "not committed yet")
            assert memory.search(_TASKS[0]) == expected
        assert "not committed yet" in [item.body for item in memory.search(_TASKS[0], k=9)]


def many_recalls_are_those_one_by_one(factory: Factory) -> None:
    """A batch gives the receipts that single calls give: items, omissions, exploration, scores; all or none."""
    policies = [preset("memlift", **LIFT), preset("memrl", gate=-1.0, epsilon=0.5), "rag", "random"]
    with make(factory, name="a") as one, make(factory, name="b") as many:
        for memory in (one, many):
            _fill(memory)
        for policy in policies:
            tasks = [*_TASKS, "never asked", _TASKS[0]]
            got = many.recall_many(tasks, k=3, policy=policy)
            assert got == [one.recall(task, k=3, policy=policy) for task in tasks], policy
            told = [memory.explain(r).to_dict()["pool"] for memory in (one, many) for r in got]
            assert told[: len(got)] == told[len(got) :]
        before = many.health()["recalls"]
        with refused("an empty task among others"):
            many.recall_many(["task one", " "])
        with refused("one text for many"):
            many.recall_many("task one")
        assert many.recall_many([]) == [] and many.health()["recalls"] == before


def items_come_page_by_page(factory: Factory) -> None:
    """Pages join to the whole, each memory once, also of a status; an unknown status is an error."""
    with make(factory) as memory:
        _fill(memory)
        memory.remember(_TASKS[1], "lesson 0", merge=0.0)  # one more key of another
        memory.archive("m2", "not needed")
        for status in ("active", "archived", None):
            whole, pages = memory.items(status), []
            while page := memory.items(status, limit=2, after=pages[-1].id if pages else None):
                assert len(page) <= 2
                pages += page
            assert pages == whole and (status == "archived") == (len(whole) == 1)
        wrong: list[dict[str, Any]] = [{"status": "deleted"}, {"limit": 0}, {"limit": True}, {"after": "r1"}]
        for bad in wrong:
            with refused(f"items({bad})"):
                memory.items(**bad)


CHECKS = (
    a_recall_is_the_sequence_of_its_items,
    a_search_shows_what_a_frozen_recall_shows,
    a_search_waits_for_no_writer,
    many_recalls_are_those_one_by_one,
    items_come_page_by_page,
)
