"""Promises of a memory: reading without a receipt, many at once, page by page; metadata, filters and expiry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import product
from typing import Any, cast
from unittest.mock import patch

from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

from .credit import LIFT, make, refused

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
        for policy in ("memrl", preset("memlift", gate=-1.0, hide=0.0), "rag", "memq"):
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
            explained = [memory.explain(r).to_dict()["pool"] for memory in (one, many) for r in got]
            assert explained[: len(got)] == explained[len(got) :]
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


# ------------------------------------------------------------------------------------------------ metadata
_ROWS = [
    {"repo": "x", "year": 2019, "tags": ["a", "b"], "done": True},
    {"repo": "y", "year": 2020, "tags": ["b"], "score": 0.5},
    {"repo": "x", "year": 2021.5, "tags": []},
    {"repo": "1", "year": "2021"},
    {},
    {"repo": "z", "done": False, "tags": "a"},
]
_FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [0, 1, 2, 3, 4, 5]),
    ({"repo": "x"}, [0, 2]),
    ({"repo": {"==": "x"}, "year": {">": 2019}}, [2]),
    ({"repo": {"in": ["x", "z", "nowhere"]}}, [0, 2, 5]),
    ({"repo": 1}, []),
    ({"year": {">=": 2019, "<": 2021}}, [0, 1]),
    ({"year": {"<=": "2021"}}, [3]),
    ({"year": 2020.0}, [1]),
    ({"tags": "a"}, [0, 5]),
    ({"tags": {"exists": True}}, [0, 1, 2, 5]),
    ({"tags": {"exists": False}}, [3, 4]),
    ({"tags": {"exists": False}, "year": {"exists": True}}, [3]),
    ({"repo": {"!=": "x"}}, [1, 3, 4, 5]),
    ({"tags": {"not in": ["a", 1]}, "repo": {"exists": True, "!=": "1"}}, [1, 2]),
    ({"done": True}, [0]),
    ({"done": {"in": [False, 1]}}, [5]),
    ({"score": {">": 0}}, [1]),
    ({"nothing": 1}, []),
    ({"or": [{"repo": "x"}, {"score": {">": 0}}]}, [0, 1, 2]),
    ({"or": [{"tags": {"exists": False}}, {"done": True}], "repo": {"!=": "1"}}, [0, 4]),
    ({"not": {"repo": "x", "tags": "a"}}, [1, 2, 3, 4, 5]),
    ({"and": [{"or": [{"repo": "x"}, {"repo": "y"}]}, {"not": {"tags": "b"}}]}, [2]),
]


def a_filter_leaves_what_it_says(factory: Factory) -> None:
    """Recall, search and list agree on every operator, before and after a reopening, and inside a transaction."""
    with make(factory, "rag") as memory:
        rows = [{"key": f"task {i}", "body": f"lesson {i}", "metadata": meta} for i, meta in enumerate(_ROWS)]
        ids = memory.remember_many(rows)
        assert [item.metadata for item in memory.items()] == _ROWS

        def check(at: list[str]) -> None:
            for given, places in _FILTERS:
                expected = {at[i] for i in places}
                found = memory.recall("task", k=9, filter=given)
                assert set(found.ids) == expected, (given, found.ids)
                assert all(item.metadata == memory.get(item.id).metadata for item in found)
                assert {item.id for item in memory.search("task", k=9, filter=given)} == expected
                assert [item.id for item in memory.items(filter=given)] == sorted(expected), given
                pages = memory.items(filter=given, limit=1)
                assert [item.id for item in pages] == sorted(expected)[:1]

        check(ids)
        with memory.transaction():
            memory.archive(ids[0], "to be written anew")
            again = memory.remember("task 0", "another", metadata=_ROWS[0])
            check([again, *ids[1:]])
            kept = memory.meta_get("nothing")
        assert kept is None
        try:
            with memory.transaction():
                memory.remember("task 0", "third", metadata={"repo": "x"})
                assert len(memory.search("task", k=9, filter={"repo": "x"})) == 3
                raise KeyError("the caller's own failure")
        except KeyError:
            pass
        memory.remember("task 0", "fourth", metadata={"repo": "q"})  # it takes the number of what was undone
        assert len(memory.search("task", k=9, filter={"repo": "x"})) == 2
    with make(factory, "rag") as memory:
        assert len(memory.search("task", k=9, filter={"repo": {"in": ["x", "q"]}})) == 3


def a_filter_empties_no_recall_that_has_matches(factory: Factory) -> None:
    """It works before the k, the pool and the margin are taken: a far match is found among hundreds of near ones."""
    policies = [
        preset("memrl", gate=-1.0),
        preset("memlift", gate=-1.0),
        preset("rag", gate=-1.0, pool=3),
        "random",
    ]
    with make(factory, "memrl") as memory:
        rows = [{"key": f"flights of May {i}", "body": f"b {i}", "metadata": {"user": "ann"}} for i in range(200)]
        far = memory.remember_many([*rows, {"key": "taxis", "body": "far", "metadata": {"user": "ben"}}])[-1]
        for policy in policies:
            r = memory.recall("flights of May 7", k=1, policy=policy, filter={"user": "ben"})
            assert r.ids == [far], policy
            explained = memory.explain(r).to_dict()
            assert explained["n_scanned"] == 1 and len(explained["pool"]) == 1
        memory.remember("flights of June", "far", metadata={"user": "ben"}, merge=0.0)
        assert memory.recall("flights of June", k=1, filter={"user": "ben"}).ids == [far], "found by its second key"
        assert memory.recall("flights of June", k=5, filter={"user": "carl"}).ids == []


def metadata_is_part_of_what_is_said(factory: Factory) -> None:
    """Equal bodies merge where the metadata are equal too; what cannot be stored is refused, secrets are masked."""
    secret = "sk-proj-" + "a1B2" * 8
    with make(factory) as memory:
        a = memory.remember("task one", "body", metadata={"b": 1, "a": [True, "x"]})
        assert memory.remember("task one", "body", metadata={"a": (True, "x"), "b": 1}) == a
        assert memory.remember("task one", "body", metadata={"b": 2}) != a != memory.remember("task one", "body")
        assert memory.get(memory.remember("task two", secret, metadata={"n": secret})).metadata == {"n": "[secret]"}
        named = memory.get(
            memory.remember("task three", "b", metadata={"password": "hunter2zz", "passed": "hunter2zz"})
        )
        assert named.metadata == {"password": "[secret]", "passed": "hunter2zz"} and named.masked == 1
        bad: list[Any] = [
            [1],
            "x",
            {"a": None},
            {"a": float("nan")},
            {"a": {"b": 1}},
            {"": 1},
            {1: 2},
            {"a": [[1]]},
            {"a": 1 << 63},
            {"a": "x" * 20_000},
            {"a": "ü" * 9_000},
            {"a": object()},
        ]
        for given in bad:
            with refused(f"metadata {given!r:.40}"):
                memory.remember("task", "never", metadata=given)
        wrong: list[Any] = [
            {"a": {"~": 1}},
            {"a": {">": True}},
            {"a": [1, 2]},
            {"a": None},
            {"a": {}},
            "a",
            {"a": {"in": 3}},
            {"a": {"exists": 1}},
            {"a": {">": float("nan")}},
        ]
        for given in wrong:
            for verb in (memory.items, lambda filter: memory.recall("task", filter=filter)):
                with refused(f"filter {given!r:.40}"):
                    verb(filter=given)


# ------------------------------------------------------------------------------------------------ expiry
def what_has_expired_leaves_recall(factory: Factory) -> None:
    """It is found until then, and afterwards listed as expired, with its value; compact archives it."""
    with make(factory) as memory, make(factory) as other:
        now = time.time()
        soon = datetime.fromtimestamp(now + 1000.0)
        kept = memory.remember("task one", "for good")
        a = memory.remember("task one", "for a while", expires=soon)
        assert memory.remember("task two", "for a while", merge=0.0, expires=timedelta(seconds=900)) == a
        b = memory.remember("task one", "short", expires=500)
        assert memory.remember("task one", "short", expires=2000) == b, "said again: it expires later"
        memory.settle(memory.recall("task one", k=9), 1.0)
        for verb in (memory, other):
            with _at(now + 999.0):
                assert set(verb.recall("task two", k=9).ids) == {kept, a, b} and verb.items("expired") == []
            with _at(now + 1001.0):
                for task in ("task one", "task two"):
                    assert set(verb.recall(task, k=9).ids) == {kept, b} == {i.id for i in verb.search(task, k=9)}
                assert [(i.id, i.status, i.n) for i in verb.items("expired")] == [(a, "expired", 1)]
                assert [i.id for i in verb.items()] == [kept, b] and verb.get(a).status == "expired"
                assert verb.health()["by_status"] == {"active": 2, "expired": 1}
                with refused("an update of what has expired", code="not_active"):
                    verb.update(a, "better words", body="too late")
        with _at(now + 1001.0):
            again = memory.remember("task one", "for a while")
            assert again != a and set(other.recall("task one", k=9).ids) == {kept, b, again}
            done = memory.compact(dry_run=True)
            assert (a, "active", "archived") in done.statuses and memory.get(a).status == "expired"
            memory.compact()
            assert memory.items("expired") == [] and [i.id for i in memory.items("archived")] == [a]
        assert a not in memory.recall("task one", k=9).ids, "archived, whatever the clock says"
        for bad in (-1, True, "tomorrow", float("nan"), float("inf"), 1e12):
            with refused(f"expires={bad}"):
                memory.remember("task", "never", expires=cast(float, bad))


# ------------------------------------------------------------------------------------------------ versions
def an_update_keeps_what_was_learned(factory: Factory) -> None:
    """A new version is found by all keys, has the value, and earns what receipts of the old one still bring."""
    with make(factory, preset("memrl", gate=-1.0, alpha=0.5)) as memory, make(factory) as other:
        parent = memory.remember("another task", "what it came from")
        a = memory.remember("task one", "old words", kind="rule", parents=[parent], metadata={"v": 1}, expires=1000)
        assert (
            memory.remember("question two", "old words", kind="rule", merge=0.0, metadata={"v": 1}, expires=1000) == a
        )
        memory.settle(memory.recall("task one", k=1), 1.0)
        stale = memory.recall("task one", k=1)
        before = memory.get(a)
        b = memory.update(a, "said better", body="new words", metadata={"v": 2})
        assert memory.update(b, "once more", body="new words") == b and len(memory.items(None)) == 3
        new, old = memory.get(b), memory.get(a)
        assert (new.value, new.n, new.uncertainty, new.start) == (before.value, 1, before.uncertainty, before.start)
        assert (new.body, new.kind, new.key, new.parents) == ("new words", "rule", "task one", (parent,))
        assert (new.metadata, new.expires_at) == ({"v": 2}, before.expires_at) and new.content_version == 2
        assert (old.status, old.superseded_by, old.body) == ("superseded", b, "old words")
        for task in ("task one", "question two"):
            found = {item.id: item for item in other.recall(task, k=9)}
            assert a not in found and found[b].similarity > 0.99 and found[b].n == 1
        memory.settle(stale, 0.0)
        assert memory.get(b).n == 2 and memory.get(b).value == memory.get(a).value != before.value
        r = memory.recall("task one", k=1)
        assert r.ids == [b] and memory.settle(r, 1.0)[0].q_before == memory.get(b).value - 0.5 * (1.0 - r[0].value)
        c = memory.update(b, "a better question", key="task three")
        explained = memory.explain(c).to_dict()
        assert memory.get(c).n == 3 == len(explained["history"]) and explained["versions"] == [a, b, c]
        assert (
            memory.search("task three", k=1)[0].id == c
            and memory.values_as_of(memory.recall("x"))[c] == memory.get(c).value
        )
        assert c in str(memory.explain(a)) and memory.rebuild_values() == 0 and verify(memory) == []
        for bad in (
            lambda: memory.update(a, "old"),
            lambda: memory.update(c, "empty", body=" "),
            lambda: memory.update(c, ""),
        ):
            with refused("an update of an old version, or to nothing"):
                bad()
        memory.rollback(stale, "as it was")
        assert memory.get(a).status == "active" and memory.get(a).n == 1 and other.recall("task one", k=1).ids == [a]
        assert verify(memory) == []


def one_version_is_in_recall(factory: Factory) -> None:
    """An older version that is restored takes the place of the newer one, and gives it back."""
    with make(factory) as memory:
        a = memory.remember("task one", "old words")
        b = memory.update(a, "said better", body="new words")
        c = memory.update(b, "better still", body="newest words")
        for back in (a, b, c):
            memory.restore([back], "it was right")
            states = {id_: memory.get(id_).status for id_ in (a, b, c)}
            assert [id_ for id_, status in states.items() if status == "active"] == [back], states
            assert memory.recall("task one", k=3).ids == [back] and memory.rebuild_values() == 0
        memory.quarantine([c], "wrong", descendants=False)
        memory.restore([c], "right after all", descendants=True)
        assert memory.recall("task one", k=3).ids == [c]
        memory.quarantine([a], "not to be trusted")
        assert memory.recall("task one", k=3).ids == []
        memory.restore([a], "it was", descendants=True)
        assert memory.recall("task one", k=3).ids == [c], "an old text came back"
        memory.archive(a, "no longer needed")
        assert memory.recall("task one", k=3).ids == [], "archived under its old id, and still in recall"
        assert verify(memory) == []


def what_comes_back_is_what_it_was(factory: Factory) -> None:
    """Taken out under whichever version, a memory comes back as the version that was in recall; so do descendants."""
    with make(factory) as memory:
        a = memory.remember("task one", "old words")
        b = memory.update(a, "said better", body="new words")
        c = memory.update(b, "better still", body="newest words")
        ids, before = (a, b, c), [memory.get(id_).status for id_ in (a, b, c)]
        ways: list[Any] = [
            memory.archive,
            lambda id_, why: memory.quarantine([id_], why),
            lambda id_, why: memory.quarantine([id_], why, descendants=False),
        ]
        for out in ways:
            for named, back in product(ids, ids):
                out(named, "not to be trusted")
                assert memory.recall("task one", k=3).ids == [], named
                memory.restore([named if memory.get(back).status == "superseded" else back], "looked at")
                assert [memory.get(id_).status for id_ in ids] == before, (named, back)
                assert memory.recall("task one", k=3).ids == [c] and verify(memory) == []
        child = memory.remember("task two", "made with it", parents=[c])
        better = memory.remember("task two", "a better one", supersedes=child)
        family = [*ids, child, better]
        before = [memory.get(id_).status for id_ in family]
        at = memory.recall("task one")
        assert memory.quarantine([a], "injected").statuses and memory.items() == []
        memory.restore([a], "looked at", descendants=True)
        assert [memory.get(id_).status for id_ in family] == before, "what was replaced came back into recall"
        memory.restore([b], "the words of May")
        memory.quarantine([c], "all of it")
        assert memory.recall("task one", k=3).ids == []
        memory.restore([c], "after all")
        assert memory.recall("task one", k=1).ids == [b], "not what was in recall"
        memory.rollback(at, "as it was")
        assert [memory.get(id_).status for id_ in ids] == ["superseded", "superseded", "active"]
        assert verify(memory) == []


def credit_of_an_update_reaches_it(factory: Factory) -> None:
    """What was made with its help pays the memory; erasing one version erases all."""
    with make(factory, preset("memq", gate=-1.0)) as memory:
        a = memory.remember("task one", "old words")
        b = memory.update(a, "said better", body="new words")
        child = memory.remember("task two", "made with its help", polarity="success", parents=[b])
        memory.settle(memory.recall("task two", k=1), 1.0)
        rules = {(event["rule"], event["depth"]) for event in memory.explain(b).to_dict()["history"]}
        assert rules == {("ancestor", 1)} and memory.get(b).value > memory.get(b).start
        r = memory.recall("task one", k=1)
        assert r.ids == [b] and child != b
        memory.erase(b, "asked for")
        assert [memory.get(id_).status for id_ in (a, b)] == ["erased", "erased"] and memory.rebuild_values() == 0


@contextmanager
def _at(now: float) -> Iterator[None]:
    """What is read of the clock meanwhile."""
    with patch("time.time", lambda: now):
        yield
