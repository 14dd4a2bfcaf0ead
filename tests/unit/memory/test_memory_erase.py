"""What was erased is in no byte of any file, and in no row of any table of a server."""

import os
import time
from pathlib import Path

import numpy as np
import psycopg
import pytest

from evolvent.core.errors import StoreError
from evolvent.memory.index import index
from evolvent.memory.maintenance.drop import drop_scope
from evolvent.memory.maintenance.transfer import export_jsonl
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.store.sqlite import SQLite

SECRET = "Ann Lee of Elm Street 7 asked about her divorce"
BODY = "a body that nobody else has: zqxj"
TEXTS = (SECRET, BODY, "zqxj", "Elm Street")


def lived(memory):
    """A life with the secret in keys, bodies, queries, actions and reasons; returns its memory."""
    for i in range(20):
        memory.remember(f"task {i}", f"body {i}")
    a = memory.remember(SECRET, BODY, source="Ann Lee of Elm Street")
    memory.remember(f"once more: {SECRET}", BODY, merge=0.0)
    for task in (SECRET, f"{SECRET}, and the house?"):
        memory.settle(memory.recall(task, k=3), 1.0, action=f"I said: {BODY}")
    memory.archive("m1", f"it is about: {SECRET}")
    return a


def needles(memory):
    """Texts and vectors, as bytes."""
    vectors = memory.embedder.embed([SECRET, f"once more: {SECRET}"])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return [*(text.encode() for text in TEXTS), *(np.ascontiguousarray(vec, "<f4").tobytes() for vec in vectors)]


def held(folder, wanted):
    """Which of some bytes are in any file."""
    found = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return [needle[:60] for needle in wanted if any(needle in data for data in found)]


def test_no_byte_is_left_in_file_log_and_caches(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "FILE_FROM", 1)
    with Memory(tmp_path / "a.db", embedder="hash:64") as memory, Memory(tmp_path / "a.db") as other:
        wanted, a = needles(memory), lived(memory)
        other.recall("task 3")  # knows all vectors
        memory.prepare()
        assert len(list((tmp_path / "a.db.cache").glob("*.f32"))) == 1
        assert len(held(tmp_path, wanted)) == len(wanted), "the test looks for what was never there"
        assert len(held(tmp_path / "a.db.cache", wanted)) == 2
        memory.erase(a, f"asked for by the one of whom it says {SECRET}")
        assert held(tmp_path, wanted) == []
        other.remember("another", "one")
        other.prepare()  # writes its vectors to files
        memory.recall("task 4")
        assert list((tmp_path / "a.db.cache").glob("*.f32"))
        assert held(tmp_path, wanted) == []
    assert held(tmp_path, wanted) == []


def test_no_byte_of_a_dropped_scope_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "FILE_FROM", 1)
    with Memory(tmp_path / "a.db", embedder="hash:64") as memory:
        with Memory(tmp_path / "a.db", scope="tenant") as tenant:
            wanted = needles(tenant)
            lived(tenant)
            tenant.prepare()
        assert len(held(tmp_path, wanted)) == len(wanted)
        drop_scope(memory.bank.store, "tenant", "the contract ended")
        assert held(tmp_path, wanted) == [] and not list((tmp_path / "a.db.cache").glob("scope-2*"))
    with Memory(tmp_path / "a.db") as memory:
        memory.drop_scope("default", "and this one")
        with pytest.raises(StoreError, match="closed"):
            memory.recall("task")


def test_what_died_before_the_files_were_rewritten_is_finished_by_erasing_again(tmp_path, monkeypatch):
    with Memory(tmp_path / "a.db", embedder="hash:64") as memory:
        wanted, a = needles(memory), lived(memory)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(SQLite, "shrink", dies)
            memory.erase(a, "asked for")
        assert memory.get(a).status == "erased" and held(tmp_path, wanted)
        assert memory.erase(a, "asked for").nothing and held(tmp_path, wanted) == []


def dies(self, *, whole=False):
    raise KeyboardInterrupt


def test_a_log_that_another_process_reads_is_reported(tmp_path, monkeypatch):
    from evolvent.memory.store import sqlite

    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.1)
    with Memory(tmp_path / "a.db", embedder="hash:64") as memory, Memory(tmp_path / "a.db") as other:
        wanted, a = needles(memory), lived(memory)
        with other.bank.store.snapshot():
            other.bank.store.rows("SELECT * FROM memory")
            with pytest.raises(StoreError, match="still in its log") as caught:
                memory.erase(a, "asked for")
            assert caught.value.code == "log_in_use" and memory.get(a).status == "erased"
        memory.erase(a, "asked for")
        assert held(tmp_path, wanted) == []


def asked(memory):
    """Receipts with the secret: settled by an action and a job's name, in parts, late, and never; returns their ids."""
    memory.remember("task", "a body of nobody")
    receipts = [memory.recall(f"{SECRET} ({i})", k=1) for i in range(12)]
    memory.settle(receipts[0], 1.0, action=f"I said: {BODY}", idempotency_key=f"ticket of {SECRET}")
    memory.settle(receipts[1], None, parts=[(f"part of {SECRET}", 1.0), (BODY, 0.0)])
    memory.revise(receipts[0], 0.0, f"{SECRET} complained")
    memory.remember("made under it", "kept", parents=receipts[2])
    return [r.id for r in receipts]


def spoken_of(memory):
    """Bytes of what was asked."""
    vector = memory.embedder.embed([f"{SECRET} (3)"])[0]
    return [*(text.encode() for text in TEXTS), (vector / np.linalg.norm(vector)).astype("<f4").tobytes()]


@pytest.mark.parametrize("way", ["ids", "find", "filter", "age"])
def test_no_byte_of_a_receipt_is_left(tmp_path, way):
    policy = preset("memrl", gate=-1.0)
    with Memory(tmp_path / "a.db", embedder="hash:64", policy=policy) as memory, Memory(tmp_path / "a.db") as other:
        wanted, ids = spoken_of(memory), asked(memory)
        memory.settle(other.recall("task"), True)
        assert len(held(tmp_path, wanted)) == len(wanted), "the test looks for what was never there"
        gone_by(memory, way, ids)
        assert held(tmp_path, wanted) == [] and verify(memory) == []
        export_jsonl(memory.bank.store, tmp_path / "all.jsonl")
        assert len(memory.receipts()) == 4 and memory.get("m1").n == 3 and memory.rebuild_values() == 0
    assert held(tmp_path, wanted) == []


def gone_by(memory, way, ids):
    """Take all receipts' words out, and what the log says of them."""
    traces = memory.find("Elm Street")
    if way == "age":
        memory.compact(unsettled=0.0)
        ids = [id_ for id_ in ids if id_ in [r.id for r in memory.receipts()]]
    named = {"find": traces, "filter": memory.receipts(before=time.time() + 1.0, stage="solve")}.get(way, ids)
    memory.erase(named, "asked for")
    memory.erase(memory.find("Elm Street"), "asked for")


def test_what_died_before_is_finished_by_an_erasure_of_nothing(tmp_path, monkeypatch):
    """What was found is gone, so that nothing is found again; its bytes are in free pages until then."""
    with Memory(tmp_path / "a.db", embedder="hash:64") as memory:
        wanted, _ = spoken_of(memory), asked(memory)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(SQLite, "shrink", dies)
            memory.erase(memory.find("Elm Street"), "asked for")
        assert memory.find("Elm Street") == [] and held(tmp_path, wanted)
        assert [finding.check for finding in verify(memory)] == ["erased"]
    with Memory(tmp_path / "a.db") as memory:
        assert memory.erase([], "asked for").nothing and held(tmp_path, wanted) == [] and verify(memory) == []


@pytest.mark.postgres
@pytest.mark.skipif("EVOLVENT_TEST_POSTGRES" in os.environ, reason="the files of a server that is not ours")
def test_no_byte_is_left_in_the_files_of_a_server(postgres, postgres_store, monkeypatch):
    """Tables, and its log where it does not keep old segments for reuse."""
    with psycopg.connect(postgres, autocommit=True) as server:
        (folder,) = server.execute("SHOW data_directory").fetchone()
        server.execute("ALTER SYSTEM SET wal_recycle = off")
        server.execute("SELECT pg_reload_conf()")
        with Memory(postgres_store(), embedder="hash:64") as memory:
            wanted = [text.encode() for text in TEXTS]
            a, ids = lived(memory), asked(memory)
            server.execute("CHECKPOINT")
            assert len(held(Path(folder), wanted)) == len(wanted)
            with psycopg.connect(postgres) as reader:
                reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                reader.execute("SELECT count(*) FROM pg_class")
                with (
                    pytest.MonkeyPatch.context() as patch,
                    pytest.raises(StoreError, match="older transactions") as caught,
                ):
                    patch.setattr("evolvent.memory.store.postgres.BUSY_TIMEOUT_S", 0.2)
                    memory.erase([a, *ids], "asked for")
                assert caught.value.code == "log_in_use" and memory.get(a).status == "erased"
            memory.erase(memory.find("Elm Street"), "asked for")
            assert held(Path(folder), wanted) == [] and verify(memory) == []
        server.execute("ALTER SYSTEM RESET wal_recycle")


@pytest.mark.postgres
def test_no_row_of_a_server_is_left(postgres_store):
    with Memory(postgres_store(), embedder="hash:64") as memory:
        a = lived(memory)
        sql = "SELECT e.vec::text FROM embedding e JOIN memory m USING(emb_id) WHERE m.seq = ?"
        wanted = [*TEXTS, memory.bank.store.row(sql, (int(a[1:]),))[0]]
        assert all(any(text in row for row in everything(memory)) for text in wanted)
        memory.erase(a, "asked for")
        assert not [text for text in wanted for row in everything(memory) if text in row]


def everything(memory):
    """All rows of all tables of the schema, those that only PostgreSQL has among them, as text."""
    store = memory.bank.store
    tables = store.rows("SELECT tablename FROM pg_tables WHERE schemaname = ?", (store.schema,))
    return [row for (table,) in tables for (row,) in store.rows(f"SELECT t::text FROM {table} t")]
