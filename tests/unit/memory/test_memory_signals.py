"""A signal (Ctrl-C) may end a verb on entering any function; the database may undo a transaction by itself."""

import os
import sqlite3
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import evolvent
from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.memory import Memory

HERE = str(Path(evolvent.__file__).parent) + os.sep
VERBS = {
    "settle": lambda memory, receipt: memory.settle(receipt, 0.0),
    "remember": lambda memory, receipt: memory.remember("a second task", "another body"),
    "recall": lambda memory, receipt: memory.recall("a second task"),
    "transaction": lambda memory, receipt: grouped(memory),
}


def grouped(memory):
    with memory.transaction():
        memory.meta_set("a", 1)
        memory.meta_set("b", 1)


def interrupted(verb, at, places=(HERE,)):
    """Whether the verb got as far as the ``at``-th function of the packages, and was ended on entering it."""
    left = at

    def trace(frame, event, _):
        nonlocal left
        if event == "call" and frame.f_code.co_filename.startswith(places):
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        verb()
    finally:
        sys.settrace(before)
    return left < 0


@pytest.mark.parametrize("name", VERBS)
def test_what_is_acknowledged_after_an_interrupt_anywhere_is_kept(tmp_path, name):
    at, places = 0, 0
    while True:
        path = tmp_path / f"{at}.db"
        memory = Memory(path, embedder="hash:16", policy="memrl", sync="normal")
        first = memory.remember("first task", "body")
        one, other = memory.recall("first task"), memory.recall("first task")
        try:
            ended = interrupted(lambda m=memory, r=one: VERBS[name](m, r), at)
        except KeyboardInterrupt:
            ended = True
            recalled_elsewhere(memory)
            memory.settle(other, 1.0)  # while the traceback still holds every frame of the verb
        if not ended:
            break
        later = memory.remember("later task", "later body")
        assert later in memory.recall("later task", k=9).ids
        memory.close()
        with Memory(path, embedder="hash:16", policy="memrl") as again:
            assert later in [item.id for item in again.items()], f"lost after an interrupt at {at}"
            assert again.get(first).n in (1, 2) and again.rebuild_values() == 0
            assert again.meta_get("a") == again.meta_get("b")
        places, at = places + 1, at + (1 if name in ("settle", "transaction") else 7)
    assert places > 20
    memory.close()


@pytest.mark.postgres
@pytest.mark.parametrize("name", VERBS)
def test_an_interrupt_loses_nothing_in_a_server_either(postgres_store, name):
    url = postgres_store(connections=2)  # one that is lost would soon be missed
    drivers = tuple(str(Path(package.__file__).parent) + os.sep for package in (evolvent, psycopg))
    at, later, settled = 0, [], 0
    with Memory(url, embedder="hash:16", policy="memrl", sync="normal") as memory:
        first = memory.remember("first task", "body")
        while True:
            one, other = memory.recall("first task"), memory.recall("first task")
            try:
                ended = interrupted(lambda r=one: VERBS[name](memory, r), at, drivers)
            except KeyboardInterrupt:
                ended = True
                recalled_elsewhere(memory)
                memory.settle(other, 1.0)
                settled += 1
                later.append(memory.remember(f"task {at}", f"body {at}"))
            if not ended:
                break
            at += 7
    assert len(later) > 20
    with Memory(url, embedder="hash:16", policy="memrl") as again:
        assert set(later) <= {item.id for item in again.items()}
        assert again.get(first).n >= settled and again.rebuild_values() == 0
        assert again.meta_get("a") == again.meta_get("b")


def recalled_elsewhere(memory):
    """Another thread is not kept waiting by what was ended."""
    thread = threading.Thread(target=lambda: memory.recall("first task"), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def test_where_the_database_undoes_a_transaction_nothing_of_it_is_kept(tmp_path):
    for swallowed in (True, False):
        path = tmp_path / f"{swallowed}.db"
        with Memory(path, embedder="hash:16", policy="memrl") as memory:
            memory.remember("first", "first")
            receipt = memory.recall("first")
            with sqlite3.connect(path) as db:  # as a full disk would
                db.execute("CREATE TRIGGER t BEFORE INSERT ON value_event BEGIN SELECT RAISE(ROLLBACK, 'no room'); END")
            db.close()
            with pytest.raises(StoreError) as caught, memory.transaction():
                memory.remember("one", "one")
                with suppress(StoreError):
                    memory.settle(receipt, 1.0)
                if swallowed:
                    with pytest.raises(StoreError):
                        memory.remember("two", "two")
                else:
                    memory.remember("two", "two")
            assert caught.value.code == "undone"
            memory.remember("after", "after")
        with Memory(path, embedder="hash:16", policy="memrl") as memory:
            assert [item.key for item in memory.items()] == ["first", "after"]


def test_a_transaction_that_is_left_in_another_thread_says_so():
    left_elsewhere(Memory(embedder="hash:16"))


@pytest.mark.postgres
def test_so_it_does_in_a_server(postgres_store):
    left_elsewhere(Memory(postgres_store(), embedder="hash:16"))


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_block_that_a_generator_left_in_another_thread_holds_nothing_of_what_follows(request, tmp_path, engine):
    place = tmp_path / "a.db" if engine == "sqlite" else request.getfixturevalue("postgres_store")()
    found = []

    def within(memory):
        with memory.transaction():
            memory.remember("inside", "inside")
            yield

    with Memory(place, embedder="hash:16") as memory:
        going = within(memory)
        next(going)

        def close():
            try:
                going.close()
            except StoreError as error:
                found.append(error.code)

        thread = threading.Thread(target=close)
        thread.start()
        thread.join()
        later = memory.remember("later", "later")
        recalled_elsewhere(memory)
    with Memory(place, embedder="hash:16") as memory:
        assert found == ["other_thread"] and [item.id for item in memory.items()] == [later]


def left_elsewhere(memory):
    found, block = [], memory.transaction()
    block.__enter__()

    def leave():
        try:
            block.__exit__(None, None, None)
        except StoreError as error:
            found.append(error.code)

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert found == ["other_thread"]
    memory.remember("a", "a")
    block.__exit__(None, None, None)
    assert len(memory.items()) == 1
    memory.close()


def test_a_snapshot_only_reads(tmp_path):
    with Memory(tmp_path / "a.db", embedder="hash:16") as memory:
        memory.remember("a", "a")
        with memory.bank.store.snapshot():
            with pytest.raises(BadInput) as caught:
                memory.remember("b", "b")
            assert caught.value.code == "inside_transaction" and len(memory.items()) == 1
        memory.remember("b", "b")
        with memory.transaction(), memory.bank.store.snapshot():
            memory.remember("c", "c")
    with Memory(tmp_path / "a.db", embedder="hash:16") as memory:
        assert len(memory.items()) == 3


def test_a_number_that_is_no_time_is_no_moment():
    with Memory(embedder="hash:16") as memory:
        memory.remember("a", "a")
        for number in (3, 0, -1, 3.5):
            with pytest.raises(BadInput) as caught:
                memory.rollback(number, "meant receipt 3")
            assert caught.value.code == "not_a_moment"
