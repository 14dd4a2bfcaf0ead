"""What was erased is in no byte of any file, and in no row of any table of a server."""

import numpy as np
import pytest

from evolvent.core.errors import StoreError
from evolvent.memory.index import index
from evolvent.memory.memory import Memory
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
        memory.drop_scope("tenant", "the contract ended")
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


def test_a_log_that_another_process_reads_is_told(tmp_path, monkeypatch):
    from evolvent.memory.store import sqlite

    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.1)
    with Memory(tmp_path / "a.db", embedder="hash:64") as memory, Memory(tmp_path / "a.db") as other:
        wanted, a = needles(memory), lived(memory)
        with other.bank.store.snapshot():
            other.bank.store.rows("SELECT * FROM memory")
            with pytest.raises(StoreError, match="still in its log") as told:
                memory.erase(a, "asked for")
            assert told.value.code == "log_in_use" and memory.get(a).status == "erased"
        memory.erase(a, "asked for")
        assert held(tmp_path, wanted) == []


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
