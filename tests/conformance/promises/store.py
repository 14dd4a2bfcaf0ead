"""Promises of a memory: what is written, who sees it, and that it is all or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

from .credit import OPEN, close_to, make, refused

Factory = Callable[..., Memory]


# ------------------------------------------------------------------------------------------------ writing
def the_same_lesson_is_kept_once(factory: Factory) -> None:
    """Equal bodies under equal or nearly equal keys merge, with history; other bodies, kinds, polarities do not."""
    with make(factory) as memory:
        a = memory.remember("How many flights left Newark in May?", "SELECT 1")
        parent = a
        for _ in range(3):
            assert memory.remember("How many flights left Newark in May?", "SELECT 1", source="reviewer") == a
        assert memory.remember("how many flights left newark in may?", "SELECT 1", merge=0.8) == a, "near-duplicate key"
        assert memory.get(a).merged == 4 and len(memory.items()) == 1
        assert [x["verb"] for x in memory.explain(a).to_dict()["audit"]] == ["merge"] * 4
        others = [
            memory.remember("How many flights left Newark in May?", "SELECT 2"),
            memory.remember("How many flights left Newark in May?", "SELECT 1", kind="script"),
            memory.remember("How many flights left Newark in May?", "SELECT 1", polarity="failure"),
            memory.remember("How many flights left Newark in May?", "SELECT 1", merge=None),
            memory.remember("Something else entirely", "SELECT 1"),
        ]
        assert len({a, *others}) == 6, "different lessons were merged"
        later = memory.remember("another task", "made with its help", parents=[parent])
        assert memory.remember("another task", "made with its help", parents=[others[0]]) == later
        relations = {(p["id"], p["relation"]) for p in memory.explain(later).to_dict()["parents"]}
        assert relations == {(parent, "retrieved"), (others[0], "merged")}, relations


def a_better_body_supersedes_and_history_stays(factory: Factory) -> None:
    """The replaced memory leaves recall and keeps value, events and its place in the graph."""
    with make(factory) as memory:
        old = memory.remember("task one", "old")
        memory.settle(memory.recall("task one"), 0.0)
        new = memory.remember("task one", "new", supersedes=old)
        assert memory.recall("task one").ids == [new]
        kept = memory.get(old)
        assert kept.status == "superseded" and kept.superseded_by == new and kept.n == 1
        assert memory.explain(new).to_dict()["parents"] == [{"id": old, "relation": "revised"}]
        memory.settle(memory.recall("task one"), 1.0)
        assert memory.get(old).n == 1 and memory.get(old).value == kept.value, (
            "the replaced one earned from its successor"
        )
        with refused("superseding what is superseded"):
            memory.remember("task one", "newer", supersedes=old)


def archiving_keeps_everything_but_recall(factory: Factory) -> None:
    """Deleting is a status and a reason; the value history can still be read."""
    with make(factory) as memory:
        a, b = memory.remember("task one", "one"), memory.remember("task one", "two")
        memory.settle(memory.recall("task one"), 1.0)
        memory.archive(a, "wrong convention")
        memory.archive(a, "again")
        assert memory.recall("task one").ids == [b]
        assert memory.get(a).status == "archived" and memory.get(a).n == 1
        explained = memory.explain(a).to_dict()
        assert [x["reason"] for x in explained["audit"] if x["verb"] == "archive"] == ["wrong convention"]
        assert len(explained["history"]) == 1
        assert memory.remember("task one", "one") != a, "merged into an archived memory"


def provenance_has_no_cycles(factory: Factory) -> None:
    """Edges run from older to newer memories, also when a later write merges into an older memory."""
    with make(factory, preset("memq", **OPEN)) as memory:
        a = memory.remember("task one", "one")
        b = memory.remember("task two", "two", parents=[a, a])
        assert memory.remember("task one", "one", parents=[b]) == a
        assert memory.explain(a).to_dict()["parents"] == []
        assert memory.get(b).parents == (a,)
        memory.settle(memory.recall("task one"), 1.0)  # must end


def parents_are_what_was_shown(factory: Factory) -> None:
    """A memory made under a receipt descends from what the prompt held, not from what was retrieved."""
    with make(factory) as memory:
        for w in ("one", "two", "three"):
            memory.remember(f"task {w}", w)
        r = memory.recall("task one", k=3)
        memory.shown(r, r.ids[:2])
        child = memory.get(memory.remember("task four", "four", parents=r))
        assert set(child.parents) == set(r.ids[:2])
        assert memory.explain(child.id).to_dict()["made_in"] == r.id


def a_failed_write_writes_nothing(factory: Factory) -> None:
    """All rows of a batch or none; ids belong to their rows; a failed add raises."""
    with make(factory) as memory:
        rows = [{"key": f"task {i}", "body": f"body {i}"} for i in range(5)]
        with refused("a batch with an empty body"):
            memory.remember_many([*rows, {"key": "task", "body": " "}])
        with refused("a batch with an unknown field"):
            memory.remember_many([{"key": "k", "body": "b", "tags": []}])
        assert memory.items() == []
        ids = memory.remember_many([*rows, rows[2]])
        assert [memory.get(i).body for i in ids] == [*(r["body"] for r in rows), "body 2"] and ids[5] == ids[2]
        assert memory.recall("task 3").items[0].body == "body 3"


def texts_that_cannot_be_stored_are_refused(factory: Factory) -> None:
    """Empty, zero bytes, lone surrogates, far too long: refused before anything is written; all else round trips."""
    with make(factory) as memory:
        for bad in ("", "  \n", "a\x00b", "a\ud800b", "x" * 10_000_000):
            for key, body in ((bad, "body"), ("key", bad)):
                with refused(f"text {bad[:5]!r}"):
                    memory.remember(key, body)
            if bad[:1] != "a":  # what others asked is kept, see below
                with refused(f"task {bad[:5]!r}"):
                    memory.recall(bad)
        for bad in ("", "x" * 600, "a\x00", "a\ud800", 7):
            for verb in (
                lambda w: memory.remember("key", "body", kind=w),
                lambda w: memory.remember("key", "body", source=w),
                lambda w: memory.recall("key", stage=w),
                lambda w: memory.recall("key", kinds=[w]),
                lambda w: memory.settle(memory.recall("key"), 1.0, objective=w),
                lambda w: memory.settle(memory.recall("key"), 1.0, idempotency_key=w),
                lambda w: make(factory, name="b", scope=w),
            ):
                with refused(f"the word {bad!r:.9}"):
                    verb(bad)
        assert memory.items(None) == []
        text = "naïve 日本語 🚀 \u202e e\u0301 'quotes\" -- ; DROP TABLE memory; \r\n\t end"
        stored = memory.get(memory.remember(text, text))
        assert (stored.key, stored.body) == (text, text)
        assert memory.recall(text).items[0].key == text


def what_was_asked_and_done_is_kept_whatever_it_holds(factory: Factory) -> None:
    """A task or an action with what no store can hold loses no outcome: U+FFFD stands there, also in what is stored."""
    with make(factory) as memory:
        memory.remember("task one", "body")
        for bad, kept in (
            ("\ud800", "\ufffd"),
            ("a\udfffb", "a\ufffdb"),
            ("\udc80\udc80 one", "\ufffd\ufffd one"),
            ("task\x00one", "task\ufffdone"),
            ("\ud83d\ude80 one\ud83d", "🚀 one\ufffd"),
        ):
            named = [bad, kept]  # the name of a task is often the task
            first, second = memory.recall_many([bad, kept], attempts=named, task_ids=named)
            memory.search(bad)
            memory.settle(first, 1.0, action=bad)
            assert memory.settle(first, 1.0, action=bad) == memory.settle(first, 1.0, action=kept)
            memory.settle(second, None, parts=[(bad, 1.0), ("rest", 0.0)])
            memory.revise(second, 0.0, "why", action=bad)
            explained = [memory.explain(r).to_dict() for r in (first, second)]
            assert {one["query"] for one in explained} == {kept}, ascii(explained)
            assert [o["action"] for one in explained for o in one["outcomes"]] == [kept, f"{kept}\nrest", kept]
            assert explained[1]["outcomes"][0]["parts"] == ((kept, 1.0), ("rest", 0.0))
        assert memory.get("m1").n == 10 and verify(memory) == []


def secrets_are_masked(factory: Factory) -> None:
    """Keys and tokens do not reach the store, in keys, bodies, queries or actions."""
    secret = "sk-proj-" + "a1B2" * 8
    with make(factory) as memory:
        a = memory.remember(f"use {secret} to log in", f"password = '{'x9' * 8}' and {secret}")
        r = memory.recall(f"log in with {secret}")
        memory.settle(r, 1.0, action=f"curl -H 'Authorization: Bearer {'t0k' * 8}'")
        explained = json.dumps([memory.explain(a).to_dict(), memory.explain(r).to_dict()])
        for piece in (secret, "x9" * 8, "t0k" * 8):
            assert piece not in explained, "a secret was stored"
        assert "[secret]" in memory.get(a).body


# ------------------------------------------------------------------------------------------------ many keys
_ASKED = ("How many flights left Newark in May?", "How many seats did the flights have that left Boston in May?")


def _with_two_keys(memory: Memory) -> str:
    """A memory that was merged under a second, other question, among others."""
    first, second = memory.embedder.embed(_ASKED)
    assert 0.3 < float(first @ second) < 0.9, "the keys of this check are too near or too far"
    for i in range(6):
        memory.remember(f"windy hours at JFK in week {i}", f"SELECT {i}")
    a = memory.remember(_ASKED[0], "WHERE dep_time IS NOT NULL")
    assert memory.remember(_ASKED[1], "WHERE dep_time IS NOT NULL", merge=0.3) == a
    return a


def what_was_merged_is_found_by_all_its_keys(factory: Factory) -> None:
    """One memory under two questions: found by either as by its own, shown once, with one value; reopened as well."""
    policies = [preset(name, gate=-1.0) for name in ("memrl", "rag")]
    policies.append(preset("memlift", gate=-1.0, hide=0.0))
    with make(factory) as memory:
        a = _with_two_keys(memory)
        assert memory.remember(_ASKED[1], "WHERE dep_time IS NOT NULL") == a, "its second key is not known again"
        for task in _ASKED:
            memory.settle(memory.recall(task, k=2), 1.0)
        assert memory.get(a).n == 2 and len(memory.items(None)) == 7 and memory.health()["items"] == 7
        assert [key["key"] for key in memory.explain(a).to_dict()["keys"]] == list(_ASKED)
        assert set(memory.values_as_of(memory.recall(_ASKED[1]))) == {item.id for item in memory.items()}
    with make(factory) as memory:
        for policy in policies:
            for task in _ASKED:
                r = memory.recall(task, k=7, policy=policy)
                assert len(set(r.ids)) == len(r.ids) == 7, f"not each memory once: {r.ids}"
                found = {item.id: item for item in r.items}[a]
                close_to(found.similarity, 1.0, f"similarity to one of its keys under {r.policy}")
                close_to(found.relevance, 1.0, f"relevance to one of its keys under {r.policy}")
                explained = {row["id"]: row["similarity"] for row in memory.explain(r).to_dict()["pool"]}
                assert explained[a] == found.similarity
        assert sorted(memory.recall("any", k=9, policy="random").ids) == sorted(i.id for i in memory.items())
        assert verify(memory) == [] and memory.rebuild_values() == 0


def keys_leave_recall_with_their_memory(factory: Factory) -> None:
    """No key finds what was archived or replaced; a rollback takes back a key, and one to later brings it again."""

    def near(memory: Memory) -> list[str]:
        r = memory.recall(_ASKED[1], k=20, policy=preset("rag", gate=-1.0))
        return [item.id for item in r.items if item.similarity > 0.99]

    with make(factory) as memory:
        before = memory.recall(_ASKED[0])
        a = _with_two_keys(memory)
        at = memory.recall(_ASKED[0])
        b = memory.remember(_ASKED[0], "another lesson")
        assert memory.remember(_ASKED[1], "another lesson", merge=0.3) == b and near(memory) == [a, b]
        with_it = memory.recall(_ASKED[0])
        memory.rollback(at, "without the last lesson")
        assert near(memory) == [a]
        memory.rollback(with_it, "with it")
        assert near(memory) == [a, b]
        memory.archive(b, "wrong")
        assert near(memory) == [a]
        memory.restore([b], "right")
        key = memory.explain(b).to_dict()["keys"][1]["id"]
        memory.archive(key, "it does not belong to this question")
        assert near(memory) == [a] and b in memory.recall(_ASKED[0], k=20).ids
        memory.remember("another question", "a better lesson", supersedes=a)
        assert near(memory) == []
        memory.rollback(before, "without all of it")
        assert memory.recall(_ASKED[1], k=20).ids == [] and verify(memory) == []


def many_keys_take_no_place_from_others(factory: Factory) -> None:
    """A lesson said under hundreds of like questions is one memory: the others are still found."""
    with make(factory) as memory:
        others = {memory.remember(f"quiet hours at JFK in week {i}", f"SELECT {i}") for i in range(4)}
        words = [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]
        rows = [{"key": f"flights {w} of {w * 2} in May", "body": "the lesson", "merge": 0.0} for w in words]
        (a,) = set(memory.remember_many(rows))
        for name, fields in (("rag", {}), ("memlift", {"hide": 0.0}), ("random", {})):
            policy = preset(name, gate=-1.0, pool=5, **fields)
            r = memory.recall("flights ak of akak in May", k=5, policy=policy)
            assert sorted(r.ids) == sorted({a, *others}), f"{r.policy}: {r.ids}"
        drawn = [memory.recall("any", k=1, policy="random").ids[0] for _ in range(60)]
        assert drawn.count(a) < 35, f"a memory with many keys was drawn {drawn.count(a)} times of 60, not about 12"


# ------------------------------------------------------------------------------------------------ isolation
def scopes_do_not_see_each_other(factory: Factory) -> None:
    """Recall, ids, receipts, idempotency keys and values belong to one scope."""
    with make(factory, scope="ann") as ann, make(factory, scope="ben") as ben:
        a = ann.remember("task one", "ann's")
        assert ben.recall("task one").items == () and ben.items(None) == []
        b = ben.remember("task one", "ben's")
        assert ben.recall("task one").ids == [b] and ann.recall("task one").ids == [a]
        r = ann.recall("task one")
        with refused("another scope's receipt"):
            ben.settle(r, 1.0)
        with refused("another scope's memory"):
            ben.get(a)
        with refused("another scope's memory as a parent"):
            ben.remember("task two", "x", parents=[a])
        ann.settle(r, 1.0, idempotency_key="k")
        assert ben.settle(ben.recall("task one"), 0.0, idempotency_key="k")[0].id == b
        ann.meta_set("at", 1)
        assert ben.meta_get("at") is None and ann.meta_get("at") == 1
    with make(factory, scope="a") as one, make(factory, scope="a:b") as two:
        one.meta_set("b:c", "of a")
        assert two.meta_get("c") is None, "a name that holds a colon was read from another scope"
        two.meta_set("c", "of a:b")
        assert one.meta_get("b:c") == "of a" and two.meta_get("c") == "of a:b"


def another_embedder_is_refused(factory: Factory) -> None:
    """A store keeps its embedder and reward range; vectors must be finite, unit-able and of one length."""
    with make(factory) as memory:
        memory.remember("task one", "body")
    with refused("another embedder", StoreError):
        make(factory, embedder="hash:32")
    with refused("another reward range", StoreError):
        make(factory, reward_range=(-1.0, 1.0))
    with factory("a", policy="rag") as memory:
        assert memory.embedder.id == "hash:64" and memory.recall("task one").items

    class Broken:
        id, dim = "broken", 4
        made: np.ndarray = np.ones((1, 4))

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            return self.made

    broken = Broken()
    with make(factory, embedder=broken, name="b") as memory:
        bad = (np.full((1, 4), np.nan), np.full((1, 4), np.inf), np.zeros((1, 4)), np.ones((1, 5)), np.ones((2, 4)))
        for broken.made in (*bad, np.ones(4)):
            with refused(f"vectors {broken.made}", BadInput):
                memory.remember("key", "body")
        assert memory.items(None) == []
        broken.made = np.ones((1, 4))
        memory.remember("key", "body")


# ------------------------------------------------------------------------------------------------ durability
def a_store_reopens_as_it_was(factory: Factory) -> None:
    """Everything acknowledged is there; recalls go on where they were."""
    with make(factory, "memlift") as memory:
        for i in range(8):
            memory.remember(f"task {i}", f"body {i}")
            memory.settle(memory.recall(f"task {i}"), float(i % 2))
        memory.archive("m3", "no longer true")
        before, ids = memory.items(None), memory.recall("task 1", frozen=True).ids
    with make(factory, "memlift") as memory:
        assert memory.items(None) == before and memory.recall("task 1", frozen=True).ids == ids
        assert memory.remember("task new", "body new") == "m9"


def a_transaction_is_all_or_nothing(factory: Factory) -> None:
    """Grouped verbs commit together; a failed verb inside undoes only itself."""
    with make(factory) as memory:
        a = memory.remember("task one", "one")
        try:
            with memory.transaction():
                memory.settle(memory.recall("task one"), 1.0)
                memory.remember("task two", "two")
                memory.meta_set("position", 5)
                assert len(memory.recall("task two").items) == 2, "a transaction does not see itself"
                raise KeyError("the caller's own failure")
        except KeyError:
            pass
        assert (
            memory.get(a).n == 0 and memory.meta_get("position") is None and len(memory.recall("task two").items) == 1
        )
        with memory.transaction():
            memory.remember("task two", "two")
            with refused("a bad verb in a transaction"):
                memory.settle("r999", 1.0)
            memory.meta_set("position", 6)
        assert memory.meta_get("position") == 6 and len(memory.recall("task two").items) == 2


def arguments_of_another_kind_are_refused(factory: Factory) -> None:
    """Whatever is given for a sequence, a mapping, a name or a count: an error of ours, and nothing is written."""
    things: list[Any] = [None, 5, True, 1.5, "one text", b"x", {"a": 1}, [None], [[]], object(), 1 << 200, "\ud800"]
    with make(factory) as memory:
        memory.remember("task one", "one")
        r = memory.recall("task one")
        verbs: dict[str, Callable[[Any], object]] = {
            "recall_many": memory.recall_many,
            "settle_many": memory.settle_many,
            "remember_many": memory.remember_many,
            "kinds": lambda x: memory.recall("task", kinds=x),
            "shown": lambda x: memory.shown(r, x),
            "parents": lambda x: memory.remember("task", "body", parents=x),
            "quarantine": lambda x: memory.quarantine(x, "why"),
            "restore": lambda x: memory.restore(x, "why"),
            "status": memory.items,
            "objective": lambda x: memory.values_as_of(r, x),
            "keep": lambda x: memory.compact(keep=x),
            "scope": lambda x: memory.drop_scope(x, "why"),
            "credit": lambda x: memory.credit([] if isinstance(x, list | dict) else x),
            "meta_set": lambda x: memory.meta_set("name", {"a": x}),
        }
        before = memory.items(None)
        for name, verb in verbs.items():
            for thing in things:
                try:
                    verb(thing)  # some of them are no nonsense here
                except BadInput as error:
                    assert str(error).strip() and error.code, f"{name}: {error}"
        assert [(i.key, i.status, i.value) for i in memory.items(None)] == [(i.key, i.status, i.value) for i in before]
        assert verify(memory) == []
        for given in things[:5]:
            with refused(f"recall_many({given!r})"):
                memory.recall_many(given)
