"""Promises of a memory: memories and scopes that must go, another embedder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.maintenance.drop import drop_scope
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.store import schema

from .credit import CountingEmbedder, Factory, make, refused

# ------------------------------------------------------------------------------------------------ erasing
_SECRET = "Ann Lee of Elm Street 7 asked about her divorce"


def _everything(memory: Memory) -> str:
    """Every cell of every table, as text."""
    store = memory.bank.store
    return "\n".join(str(row) for table in schema.layout() for row in store.rows(f"SELECT * FROM {table.name}"))


def what_is_erased_is_gone(factory: Factory) -> None:
    """No table holds a word of it; a tombstone stays; the others keep their values, their graph and their texts."""
    with make(factory, preset("memlift", gate=-1.0, hide=0.0)) as memory:
        parent = memory.remember("task one", "one", polarity="success")
        r = memory.recall("task one")
        a = memory.remember(
            _SECRET, f"answer to {_SECRET}", polarity="success", parents=r, source="Ann Lee", kind="Ann"
        )
        assert (
            memory.remember(f"again: {_SECRET}", f"answer to {_SECRET}", polarity="success", kind="Ann", merge=0.0) == a
        )
        child = memory.remember("task two", "two", parents=[a], polarity="success")
        shared = memory.remember("task three", "three")
        receipts = [memory.recall(task, k=4) for task in (_SECRET, "task two", "task one", f"Dear all, {_SECRET}!")]
        for i, recalled in enumerate(receipts[:3]):
            memory.settle(recalled, i / 2, action=f"I wrote: answer to {_SECRET}" if i else "three")
        memory.archive(shared, f"because of: {_SECRET}")
        memory.restore([shared], "no")
        before = {item.id: (item.value, item.n) for item in memory.items(None)}
        rehearsed = memory.erase(a, "asked for in writing", dry_run=True)
        assert memory.get(a).body and rehearsed.act is None
        done = memory.erase(a, "asked for in writing")
        assert (
            done.statuses == rehearsed.statuses and done.removed == rehearsed.removed and done.removed["text_blob"] >= 3
        )
        for word in ("Elm Street", "divorce", "Ann"):
            assert word not in _everything(memory), f"{word!r} is still there"
        stone = memory.get(a)
        assert (stone.key, stone.body, stone.status, stone.n) == ("", "", "erased", 0)
        (line,) = memory.explain(a).to_dict()["audit"]
        assert (line["verb"], line["reason"]) == ("erase", "asked for in writing")
        assert [item.id for item in memory.items("erased")] == [a] and memory.get(child).parents == (a,)
        assert a in memory.get(a).id and stone.parents == (parent,)
        after = {item.id: (item.value, item.n) for item in memory.items(None)}
        assert {k: v for k, v in after.items() if k != a} == {k: v for k, v in before.items() if k != a}
        assert verify(memory) == [] and memory.rebuild_values() == 0
        assert a not in memory.values_as_of(receipts[0])
        for verb in (memory.restore, memory.quarantine, lambda ids, why: memory.archive(ids[0], why)):
            try:
                verb([a], "it comes back?")
            except BadInput as error:
                assert error.code == "erased", error
            else:
                raise AssertionError("what was erased was mended")
        memory.rollback(r, "it comes back?")
        assert memory.get(a).status == "erased" and memory.erase(a, "again").nothing
        memory.settle(receipts[3], 1.0)
        assert a not in memory.recall(_SECRET, k=9).ids and verify(memory) == []
        b = memory.remember(_SECRET, "said again")  # a new memory, not the old one
        assert b != a and memory.recall(_SECRET, k=9).items[0].id == b
        with refused("erasing inside a transaction"), memory.transaction():
            memory.erase(b, "why")
    with make(factory, preset("memlift", gate=-1.0, hide=0.0)) as memory:
        assert memory.recall(_SECRET, k=9).items[0].id == b and verify(memory) == []


def a_short_text_is_no_quote(factory: Factory) -> None:
    """Other rows that hold the word of a short one keep their texts; how many are emptied is known before and after."""
    with make(factory) as memory:
        short, name = memory.remember("say when", "ok"), memory.remember("谁住在榆树街？", "李安住在榆树街七号")
        for task, action in (
            ("is it ok?", "that looks ok"),
            ("say when", "ok"),
            ("谁来？", "我答：李安住在榆树街七号。"),
        ):
            memory.settle(memory.recall(task, k=3), 1.0, action=action)
        memory.archive("m1", "it is ok")
        rehearsed = memory.erase(short, "asked for", dry_run=True)
        done = memory.erase(short, "asked for")
        assert rehearsed.emptied == done.emptied == {"queries": 1, "actions": 1, "reasons": 0}
        texts = [memory.explain(f"r{i}").to_dict() for i in (1, 2, 3)]
        assert [row["query"] for row in texts] == ["is it ok?", "", "谁来？"]
        assert [row["outcomes"][0]["action"] for row in texts][:2] == ["that looks ok", ""]
        assert memory.erase(name, "asked for").emptied["actions"] == 1 and "榆树街" not in _everything(memory)
        assert verify(memory) == []


def a_text_that_others_say_stays_theirs(factory: Factory) -> None:
    """Erased under one memory, a key and a body stay where a living memory says the same."""
    with make(factory) as memory:
        a, b = (memory.remember("task one", "shared body", kind=kind) for kind in ("a", "b"))
        memory.settle(memory.recall("task one", k=2), 1.0)
        other = memory.get(b)
        memory.erase(a, "why")
        assert memory.get(b) == other and memory.recall("task one", k=2).ids == [b] and verify(memory) == []
        memory.erase(b, "why")
        assert "shared body" not in _everything(memory) and memory.recall("task one").ids == []


def events_get_no_number_twice(factory: Factory) -> None:
    """Voids and receipts name events by number: those of what was erased are not given again."""
    with make(factory) as memory:
        a = memory.remember("task one", "one")
        at = memory.recall("task one")
        memory.settle(memory.recall("task one"), 0.0)
        memory.rollback(at, "its events are void")
        b = memory.remember("task one", "two")
        memory.erase(a, "why")
        start = memory.get(b).value
        memory.settle(memory.recall("task one"), 1.0)
        assert memory.get(b).n == 1 and memory.get(b).value != start, "its event fell into an old void"
        assert memory.rebuild_values() == 0 and verify(memory) == []


def a_dropped_scope_gives_no_number_back(factory: Factory) -> None:
    """Who still holds a receipt or a memory of it meets nothing else, also where a scope of that name is made again."""
    with make(factory, name="b") as other, make(factory, name="b", scope="gone") as memory:
        other.remember("task one", "one")
        a, r = memory.remember("task one", "one"), memory.recall("task one")
        drop_scope(other.bank.store, "gone", "why")
    with make(factory, name="b", scope="gone") as memory:
        b, again = memory.remember("task one", "another"), memory.recall("task one")
        assert (a, r.id) != (b, again.id) and a != b and r.id != again.id
        for verb in (lambda: memory.settle(r, 1.0), lambda: memory.get(a)):
            with refused("what a dropped scope had"):
                verb()
        assert verify(memory) == []


def a_dropped_scope_is_gone(factory: Factory) -> None:
    """Its rows, texts, names and settings; another scope is what it was, and goes on."""
    with make(factory) as memory:
        a = memory.remember("task one", "said in both")
        memory.settle(memory.recall("task one"), 1.0)
        before = memory.items(None)
        with make(factory, scope=_SECRET) as tenant:
            tenant.remember("task one", "said in both")
            for i in range(3):
                tenant.settle(tenant.recall(f"{_SECRET} {i}"), 1.0, action=f"{_SECRET} said")
                tenant.remember(f"{_SECRET} {i}", f"{_SECRET}, {i}", parents=tenant.recall("task one"))
            tenant.meta_set("at", 7)
            tenant.rollback(tenant.recall("task one"), "why")
        with refused("an unknown scope"):
            drop_scope(memory.bank.store, "nobody", "why")
        with refused("another scope's end", code="other_scope"):
            memory.drop_scope(_SECRET, "the contract ended")
        removed = drop_scope(memory.bank.store, _SECRET, "the contract ended")
        assert removed["memory"] == 4 and removed["scope"] == 1
        for word in ("Elm Street", "divorce", "Ann"):
            assert word not in _everything(memory), f"{word!r} is still there"
        assert memory.items(None) == before and verify(memory) == []
        memory.settle(memory.recall("task one"), 0.0)
        memory.remember("task two", "two")
        assert memory.get(a).n == 2 and memory.rebuild_values() == 0 and verify(memory) == []
    with make(factory) as memory, make(factory, scope="open elsewhere") as stale:
        stale.remember("task", "body")
        assert len(stale.recall("task")) == 1
        drop_scope(memory.bank.store, "open elsewhere", "the contract ended")
        assert stale.search("task") == stale.items() == []
        writes = (lambda: stale.remember("task", "body"), lambda: stale.recall("task"), lambda: stale.meta_set("at", 1))
        for verb in (*writes, stale.health):
            try:
                verb()
            except StoreError as error:
                assert error.code == "unknown_scope", error
            else:
                raise AssertionError("a dropped scope was written, or has a health")
    with make(factory, scope=_SECRET) as tenant:
        assert tenant.items(None) == [] and tenant.meta_get("at") is None
        tenant.remember("task one", "again")
        assert len(tenant.recall("task one").items) == 1 and verify(tenant) == []


# ------------------------------------------------------------------------------------------------ another embedder
class _Stopped(Exception):
    """What stops an embedder in these checks."""


def the_embedder_of_a_store_can_be_changed(factory: Factory) -> None:
    """All keys of all scopes change over at once; until then the old one answers; what was stopped goes on."""
    policy = preset("memlift", gate=-1.0, hide=0.0)
    with make(factory, policy) as memory, make(factory, policy, scope="other") as other:
        for i in range(300):
            memory.remember(f"task {i} about {i % 7}", f"body {i}")
        memory.settle(memory.recall("task 3 about 3"), 1.0)
        a = other.remember("task of the other", "its body")
        receipt, items = memory.recall("task 5 about 5", k=3), memory.items(None)
        stopping = CountingEmbedder(32)
        embed, seen = stopping.embed, list[int]()

        def stops(texts: Sequence[str]) -> np.ndarray:
            if stopping.calls == 1:
                raise _Stopped
            assert memory.recall("task 5 about 5", k=3, frozen=True).ids == receipt.ids, "another answer meanwhile"
            return embed(texts)

        stopping.embed = stops  # type: ignore[method-assign]
        try:
            memory.reembed(stopping)
        except _Stopped:
            pass
        else:
            raise AssertionError("it was not stopped")
        assert memory.embedder.id == "hash:64" and memory.recall("task 5 about 5", k=3).ids == receipt.ids
        memory.remember("written meanwhile", "by the old embedder")
        counting = CountingEmbedder(32)
        made = memory.reembed(counting, progress=lambda done, total, _: seen.append(done))
        assert made == counting.texts and 0 < made < 300 and seen[-1] == 302, (made, counting.texts, seen)
        assert memory.embedder.id == "hash:32" and memory.items(None)[:300] == items
        assert memory.recall("task 5 about 5", k=1).items[0].similarity == 1.0
        assert {row[0] for row in memory.bank.store.rows("SELECT DISTINCT model FROM embedding")} == {"hash:32"}
        for verb in (lambda: other.recall("task"), lambda: other.remember("a key", "a body")):
            with refused("a verb with the old embedder", StoreError):
                verb()
        assert memory.reembed("hash:32") == 0 and verify(memory) == [] and memory.rebuild_values() == 0
        assert memory.explain(receipt).to_dict()["pool"]
        with refused("reembed inside a transaction"), memory.transaction():
            memory.reembed("hash:16")
    with factory("a", policy=policy, scope="other") as other:
        assert other.embedder.id == "hash:32" and other.recall("task of the other").ids == [a]


def an_embedder_binds_from_the_first_vector_on(factory: Factory) -> None:
    """What could not be loaded, or never embedded anything, is not the embedder of the store for ever."""

    class Missing:
        id, dim = "missing", 8

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            raise StoreError("not installed", got=len(texts), code="embedder_failed")

    with make(factory, embedder=Missing()) as first:
        with refused("to write without an embedder", StoreError):
            first.remember("task one", "body")
        with make(factory, embedder="hash:32", scope="other") as second:
            with refused("what the store had noted before", StoreError, "embedder_changed"):
                first.recall("task one")
            assert second.recall("task one").ids == [] and second.embedder.id == "hash:32"
        with refused("another one after the first vector, which was that of a task", StoreError, "other_embedder"):
            make(factory)
    with factory("a", policy="memrl") as again:
        assert again.embedder.id == "hash:32" and again.remember("task one", "body") == "m1" and verify(again) == []
