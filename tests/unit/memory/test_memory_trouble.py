"""Trouble with the file: a clear error, and what was stored is intact."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.memory import Memory


@pytest.fixture
def path(tmp_path):
    with Memory(tmp_path / "a.db", policy="rag", embedder="hash:32") as memory:
        memory.remember("task", "body")
    return tmp_path / "a.db"


def refused(path, match, **options):
    with pytest.raises(StoreError, match=match) as caught:
        Memory(path, **options)
    assert str(path) in str(caught.value), "the message does not say where"


def test_not_a_memory(tmp_path):
    (tmp_path / "text.db").write_text("this is not a database, " * 100)
    refused(tmp_path / "text.db", "not an Evolvent memory")
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE precious(x)")
    refused(tmp_path / "other.db", "not an Evolvent memory")
    with sqlite3.connect(tmp_path / "other.db") as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("precious",)], "tables were added"
    refused(tmp_path / "no" / "folder.db", "does not exist")
    refused(tmp_path, "cannot be opened")
    with pytest.raises(BadInput):
        Memory("mysql://host/db")
    with pytest.raises(BadInput):
        Memory(tmp_path / "b.db", sync="off")
    assert not (tmp_path / "b.db").exists()
    for no_path in (f"{tmp_path}/a\0b.db", f"{tmp_path}/{'x' * 300}.db"):
        with pytest.raises(BadInput, match="path"):
            Memory(no_path)


def test_a_newer_version_is_refused(path):
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=99")
    refused(path, "a newer version")


def test_truncated_file_and_wal(path):
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError, match="damaged"), Memory(path, policy="rag") as memory:
        memory.items()
    path.write_bytes(whole)
    with Memory(path, policy="rag") as memory:
        assert [i.body for i in memory.items()] == ["body"]


def test_a_torn_wal_loses_only_what_was_not_committed(tmp_path):
    """A process dies without closing; the last bytes of its write-ahead log are torn."""
    code = (
        "import os, sys; from evolvent.memory.memory import Memory\n"
        "m = Memory(sys.argv[1], policy='rag', embedder='hash:32')\n"
        "[m.remember(f'task {i}', f'body {i}') for i in range(20)]; os._exit(9)"
    )
    path = tmp_path / "a.db"
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    wal = tmp_path / "a.db-wal"
    assert wal.stat().st_size > 0
    with wal.open("r+b") as log:
        log.truncate(wal.stat().st_size - 1000)
    with Memory(path, policy="rag") as memory:
        kept = memory.items()
        assert 15 <= len(kept) < 20 and [i.id for i in kept] == [f"m{n + 1}" for n in range(len(kept))]
        assert memory.recall("task 1").items and memory.rebuild_values() == 0


def test_disk_full_undoes_the_verb(path):
    with Memory(path, policy="rag") as memory:
        pages = memory.bank.store.db.execute("PRAGMA page_count").fetchone()[0]
        memory.bank.store.db.execute(f"PRAGMA max_page_count={pages + 4}")
        with pytest.raises(StoreError, match="full"):
            memory.remember("large", "x" * 500_000)
        assert len(memory.items(None)) == 1 and len(memory.recall("large").items) == 1
        memory.bank.store.db.execute("PRAGMA max_page_count=100000")
        assert memory.remember("large", "x" * 500_000) == "m2"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder(path):
    path.parent.chmod(0o500)
    path.chmod(0o400)
    try:
        with pytest.raises(StoreError, match=r"written|opened"):
            Memory(path).remember("a", "b")
    finally:
        path.parent.chmod(0o700)


READING = """
import os, sys
from evolvent.core.errors import StoreError
from evolvent.memory.memory import Memory

def look(path):
    with Memory(path, policy="rag") as memory:
        print([item.body for item in memory.search("task 1", k=1)], memory.items()[0].id, memory.health()["items"])
        for write, *given in ((memory.recall, "task 1"), (memory.remember, "a", "b"), (memory.meta_set, "a", 1)):
            try:
                write(*given)
            except StoreError as error:
                print(error.what)

with Memory(policy="rag", embedder="hash:32") as warm:  # what is imported late is imported now
    warm.remember("task 1", "body 1")
    warm.search("task 1"), warm.items(), warm.health()
if os.geteuid() == 0:
    os.setuid(65534)
look(sys.argv[1])
"""


def test_a_memory_that_can_only_be_read_is_searched(tmp_path):
    """No permission to write, neither to the file nor beside it: reading verbs work, writing ones say why not."""
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    path = folder / "a.db"
    try:
        with Memory(path, policy="rag", embedder="hash:32") as memory:
            memory.remember("task 1", "body 1")
        before = path.read_bytes()
        path.chmod(0o444)
        folder.chmod(0o555)
        done = subprocess.run([sys.executable, "-c", READING, str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["['body 1'] m1 1", *["the memory cannot be written"] * 3]
        assert path.read_bytes() == before and os.listdir(folder) == ["a.db"]
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_read_only_file_system(path):
    with Memory(path, policy="rag") as memory:
        memory.bank.store.db.execute("PRAGMA query_only=ON")
        with pytest.raises(StoreError, match="written"):
            memory.remember("a", "b")


def test_closed(path):
    memory = Memory(path, policy="rag")
    memory.close()
    memory.close()
    for verb in (lambda: memory.recall("task"), lambda: memory.remember("a", "b"), lambda: memory.items()):
        with pytest.raises(StoreError, match="closed"):
            verb()


def test_a_lock_held_by_another_process_is_reported(path, monkeypatch):
    monkeypatch.setattr("evolvent.memory.store.sqlite.BUSY_TIMEOUT_S", 0.2)
    with Memory(path, policy="rag") as memory:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            memory.remember("a", "b")
        assert memory.items(), "readers need not wait for a writer"
        other.execute("ROLLBACK")
        other.close()
        assert memory.remember("a", "b") == "m2"


def test_a_reader_of_a_file_without_a_log_is_waited_for_once(path, monkeypatch):
    """A copy by VACUUM INTO or backup has no write-ahead log; to give it one, nobody may be reading."""
    monkeypatch.setattr("evolvent.memory.store.sqlite.BUSY_TIMEOUT_S", 0.05)
    waits = []
    monkeypatch.setattr("evolvent.memory.store.sqlite.time.sleep", waits.append)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("PRAGMA journal_mode=DELETE")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM memory").fetchall()
    with pytest.raises(StoreError, match="locked") as error:
        Memory(path)
    assert error.value.code == "locked" and len(waits) < 20
    reader.close()
    with Memory(path, policy="rag") as memory:
        assert memory.items()


def test_a_clock_that_goes_backwards_changes_no_order(path, monkeypatch):
    import itertools

    ticks = itertools.count(2_000_000_000, -1000)
    monkeypatch.setattr("time.time", lambda: float(next(ticks)))
    with Memory(path, policy="memrl", embedder="hash:32") as memory:
        a = memory.remember("task two", "later")
        memory.settle(memory.recall("task two"), 1.0)
        r = memory.recall("task two")
        assert [i.id for i in memory.items()] == ["m1", a] and memory.values_as_of(r)[a] == memory.get(a).value
        assert memory.rebuild_values() == 0


def test_foreign_errors_pass_through_a_transaction(path):
    with Memory(path, policy="rag") as memory, pytest.raises(sqlite3.OperationalError), memory.transaction():
        sqlite3.connect(":memory:").execute("SELECT * FROM nothing")
