"""Threads of the server: deadlines, refusals, turns of scopes, and commits in groups."""

import asyncio
import sqlite3
import threading

import numpy as np
import pytest

from evolvent.core.errors import BadInput, ModelError, StoreError
from evolvent.memory.embedders import Hashing
from evolvent.memory.memory import Memory
from evolvent.serve.lanes import Busy, Lanes
from evolvent.serve.stores import Cached, Opened

ROOM = {"a": 3, "b": 100}


class Held:
    """Work that waits until it is let go; remembers what it was given."""

    def __init__(self, at_once=1):
        self.go, self.begun, self.batches = threading.Event(), threading.Event(), []
        self.lanes = Lanes("test", self.work, ROOM, at_once)

    def work(self, scope, jobs):
        self.batches.append((scope, len(jobs)))
        self.begun.set()
        self.go.wait(30)
        for job in jobs:
            if job.begins():
                job.done.set_result(job.do())


@pytest.fixture
def held():
    made = Held(at_once=2)
    yield made
    made.go.set()
    made.lanes.close()


def test_what_waits_too_long_is_dropped_and_what_has_begun_is_answered(held):
    async def ask():
        first = asyncio.create_task(held.lanes.ask("a", "s", lambda: 1, 30))
        await asyncio.to_thread(held.begun.wait, 30)
        late = asyncio.create_task(held.lanes.ask("a", "s", lambda: 2, 0.01))
        with pytest.raises(Busy):
            await late
        held.go.set()
        return await first

    assert asyncio.run(ask()) == 1
    assert held.lanes.refused == 1


def test_a_full_lane_refuses_at_the_door_and_the_other_lane_does_not(held):
    async def ask():
        tasks = [asyncio.create_task(held.lanes.ask("a", "s", lambda: 1, 30))]
        await asyncio.to_thread(held.begun.wait, 30)
        tasks += [asyncio.create_task(held.lanes.ask("a", "s", lambda: 1, 30)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await held.lanes.ask("a", "s", lambda: 1, 30)
        tasks.append(asyncio.create_task(held.lanes.ask("b", "s", lambda: 2, 30)))
        await asyncio.sleep(0)
        assert held.lanes.waiting == 4
        held.go.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(ask()) == [1, 1, 1, 1, 2]


def test_what_would_be_late_is_refused_before_it_waits(held):
    held.lanes._mean_s = 1.0

    async def ask():
        first = asyncio.create_task(held.lanes.ask("b", "s", lambda: 1, 30))
        await asyncio.to_thread(held.begun.wait, 30)
        tasks = [first, *(asyncio.create_task(held.lanes.ask("b", "s", lambda: 1, 30)) for _ in range(4))]
        await asyncio.sleep(0)
        with pytest.raises(Busy) as refused:
            await held.lanes.ask("b", "s", lambda: 1, 3)
        assert refused.value.wait_s == 4.0
        held.go.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())


def test_scopes_take_turns(held):
    async def ask():
        tasks = [asyncio.create_task(held.lanes.ask("b", "first", lambda: 0, 30))]
        await asyncio.to_thread(held.begun.wait, 30)
        tasks += [asyncio.create_task(held.lanes.ask("b", "many", lambda: 0, 30)) for _ in range(5)]
        tasks += [asyncio.create_task(held.lanes.ask("b", "one", lambda: 0, 30))]
        await asyncio.sleep(0)
        held.go.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())
    assert held.batches == [("first", 1), ("many", 2), ("one", 1), ("many", 2), ("many", 1)]


def test_a_closed_thread_has_done_what_waited_and_takes_nothing_more():
    held = Held()

    async def ask():
        tasks = [asyncio.create_task(held.lanes.ask("b", "s", lambda: 1, 30)) for _ in range(3)]
        await asyncio.sleep(0)
        held.go.set()
        await asyncio.to_thread(held.lanes.close)
        with pytest.raises(Busy):
            await held.lanes.ask("b", "s", lambda: 1, 30)
        return await asyncio.gather(*tasks)

    assert asyncio.run(ask()) == [1, 1, 1] and not held.lanes.alive


# ------------------------------------------------------------------------------------------------ commits in groups
def group(opened, *verbs):
    """What verbs of one group came to."""
    go, lanes = threading.Event(), []

    def work(scope, jobs):
        go.wait(30)
        opened.write(scope, jobs)

    async def ask():
        lanes.append(Lanes("test", work, {"a": 99}, 32))
        tasks = [asyncio.create_task(lanes[0].ask("a", "default", lambda _: None, 30))]
        tasks += [asyncio.create_task(lanes[0].ask("a", "default", verb, 30)) for verb in verbs]
        await asyncio.sleep(0.01)
        go.set()
        return (await asyncio.gather(*tasks, return_exceptions=True))[1:]

    try:
        return asyncio.run(ask())
    finally:
        lanes[0].close()


@pytest.fixture
def opened(tmp_path):
    made = Opened(lambda scope: Memory(tmp_path / "a.db", scope=scope, embedder="hash:64"), 2)
    yield made
    made.close()


@pytest.mark.postgres
def test_a_verb_that_raises_undoes_itself_alone_on_postgresql(postgres_store):
    url = postgres_store("serve")
    opened = Opened(lambda scope: Memory(url, scope=scope, embedder="hash:64"), 2)
    try:
        test_a_verb_that_raises_undoes_itself_alone(opened)
    finally:
        opened.close()


def test_a_verb_that_raises_undoes_itself_alone(opened):
    def half(memory):
        memory.remember("half", "done")
        memory.settle("r99", 1.0)

    good, bad, last = group(
        opened, lambda m: m.remember("a", "b"), half, lambda m: m.remember_many([{"key": "c", "body": "d"}])
    )
    assert good == "m1" and isinstance(bad, BadInput) and bad.code == "unknown_receipt" and len(last) == 1
    assert {item.key for item in opened.of("default").items()} == {"a", "c"}


def test_where_the_commit_fails_nobody_is_told_that_it_lasts(opened, monkeypatch):
    memory = opened.of("default")
    execute = memory.bank.store.db.execute

    class Failing:
        def __getattr__(self, name):
            return getattr(memory_db, name)

        def execute(self, sql, *args):
            if sql == "COMMIT":
                raise sqlite3.OperationalError("database or disk is full")
            return execute(sql, *args)

    memory_db = memory.bank.store.db
    monkeypatch.setattr(memory.bank.store, "db", Failing())
    (answer,) = group(opened, lambda m: m.remember("a", "b"))
    assert isinstance(answer, StoreError) and answer.code == "disk_full"
    assert opened.of("default") is not memory and opened.of("default").items() == []


def test_the_scopes_that_were_not_used_for_longest_are_closed(opened):
    first, _, _ = opened.of("a"), opened.of("b"), opened.of("c")
    with pytest.raises(StoreError):
        first.items()
    assert opened.of("a").items() == []


# ----------------------------------------------------------------------------------------------------- the embedder
class Counting(Hashing):
    asked = 0

    def embed(self, texts):
        if "fail" in texts:
            raise OSError("no route to host 10.1.2.3")
        self.asked += len(texts)
        return super().embed(texts)


def test_a_text_is_embedded_once_and_the_newest_are_kept():
    inner = Counting(64)
    cached = Cached(inner, texts=2)
    assert (cached.embed(["a", "b", "a"]) == inner.embed(["a", "b", "a"])).all() and inner.asked == 5
    cached.embed(["a"])
    cached.embed(["c"])
    assert [cached.knows(text) for text in "abc"] == [True, False, True] and inner.asked == 6
    assert cached.embed(["c"]).dtype == np.float32 and (cached.id, cached.dim) == (inner.id, 64)


def test_what_an_embedder_raises_does_not_reach_who_asks():
    with pytest.raises(ModelError) as error:
        Cached(Counting(64)).embed(["fail"])
    assert "10.1.2.3" not in str(error.value)
