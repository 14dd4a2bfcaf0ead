"""Stores of older schemas (3: version 0.1.0) open and go on: every value to the last bit, in both engines."""

import lzma
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from evolvent.core.errors import StoreError
from evolvent.memory.maintenance import transfer
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.store import schema, upgrade
from evolvent.memory.store.opening import open_store

GOLDEN = Path(__file__).parents[2] / "golden"
OLD = GOLDEN / "memory_schema3.sqlite"
OLD_TABLES = [table for table in schema.layout() if table.name != "exposure"]  # that schema 3 had, too
GONE = {"provenance": {"weight"}, "recall_item": {"in_pool"}}
NEW = {
    "memory": {"meta": None, "expires_at": None, "text_hash": None},
    "outcome": {"weight": 1.0, "place": None, "replaced_by": None, "parts": None},
    "void": {"outcome_from": 0, "outcome_to": 0},
}


@pytest.fixture
def old(tmp_path):
    return shutil.copy(OLD, tmp_path / "old.db")


def raw(path, table):
    """Rows of a file as mappings, whatever its schema."""
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(f"SELECT * FROM {table}")]


def expected(table):
    """What the rows of the old store must have become."""
    rows = []
    for row in raw(OLD, table):
        if table == "provenance" and row["weight"] == 0:
            row["relation"] = "key"
        rows.append({name: cell for name, cell in row.items() if name not in GONE.get(table, ())} | NEW.get(table, {}))
    return rows


def assert_upgraded(store):
    """Every row of every table is what it was, and what is derived from them still is."""
    for table in OLD_TABLES:
        names, order = ", ".join(table.columns), ", ".join(table.key)
        got = [transfer.to_json(table, row) for row in store.rows(f"SELECT {names} FROM {table.name} ORDER BY {order}")]
        want = sorted(expected(table.name), key=lambda row: tuple(row[name] for name in table.key))
        assert got == [transfer.to_json(table, [row[name] for name in table.columns]) for row in want], table.name
    for scope in ("default", "other"):
        with Memory(store.path, scope=scope) as memory:
            assert verify(memory) == [] and memory.rebuild_values() == 0


def assert_goes_on(path):
    """Open receipts are settled, old ones are not again, the rollback is taken back, a key belongs to its memory."""
    with Memory(path) as memory:
        scopes = {row["seq"]: row["scope_id"] for row in raw(OLD, "memory")}
        links = [row for row in raw(OLD, "provenance") if row["weight"] == 0 and scopes[row["child"]] == 1]
        assert len(links) >= 3
        for link in links:
            assert memory.explain(f"m{link['child']}").to_dict()["key_of"] == f"m{link['parent']}"
        settled = {row["recall_id"] for row in raw(OLD, "outcome") if row["scope_id"] == 1}
        open_ = [row["seq"] for row in raw(OLD, "recall") if row["scope_id"] == 1 and row["seq"] not in settled]
        assert len(open_) >= 3
        for number in open_:
            memory.settle(f"r{number}", 1.0)
        (void,) = raw(OLD, "void")
        before = [item.value for item in memory.items(None)]
        memory.rollback(void["created_at"] - 1, "back to before the rollback")
        assert [item.value for item in memory.items(None)] != before
        memory.remember("a new question", "a new lesson", parents=memory.recall("a new question"))
        assert verify(memory) == []


def test_the_old_store_holds_every_kind_of_row():
    counts = {table.name: len(raw(OLD, table.name)) for table in OLD_TABLES}
    assert min(counts.values()) >= 1 and counts["value_event"] > 100, counts
    assert {row["status"] for row in raw(OLD, "memory")} == {"active", "archived", "quarantined", "superseded"}
    assert {row["relation"] for row in raw(OLD, "provenance")} == {"retrieved", "merged", "revised"}
    with closing(sqlite3.connect(OLD)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (3,)


def test_a_file_is_upgraded_when_it_is_opened(old, tmp_path):
    with closing(open_store(old)) as store:
        assert_upgraded(store)
        with pytest.raises(StoreError, match="appended only"), store.write() as db:
            db.execute("UPDATE value_event SET reward = 9")
        with pytest.raises(StoreError, match="CHECK constraint"), store.write() as db:
            db.execute("UPDATE memory SET status = 'candidate' WHERE seq = 1")
        with pytest.raises(StoreError, match="FOREIGN KEY"), store.write() as db:
            db.execute("UPDATE memory SET made_in = 999 WHERE seq = 1")
    with closing(open_store(tmp_path / "new.db")):
        assert shape(old) == shape(tmp_path / "new.db")
    assert_goes_on(old)


def shape(path):
    """Tables, indexes and triggers of a file, without quotes around names."""
    with closing(sqlite3.connect(path)) as db:
        return {name: (sql or "").replace('"', "") for name, sql in db.execute("SELECT name, sql FROM sqlite_master")}


def test_a_process_that_dies_in_the_middle_leaves_the_old_store(old):
    """At each statement: the file is the old one to the last row, and the next who opens it upgrades it."""
    die = (
        "import os, signal, sys\nfrom evolvent.memory.store import upgrade\nfrom evolvent.memory.store.opening import "
        "open_store\nreal = upgrade.sqlite\n"
        "def some(version):\n    for i, statement in enumerate(real(version)):\n"
        "        if i == int(sys.argv[2]):\n            os.kill(os.getpid(), signal.SIGKILL)\n        yield statement\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\nupgrade.sqlite = some\nopen_store(sys.argv[1])\n"
    )
    for at in range(0, len(upgrade.sqlite(3)) + 1, 3):
        done = subprocess.run([sys.executable, "-c", die, str(old), str(at)], capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        with closing(sqlite3.connect(old)) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (3,), at
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for table in OLD_TABLES:
            assert raw(old, table.name) == raw(OLD, table.name), (at, table.name)
    with closing(open_store(old)) as store:
        assert_upgraded(store)


@pytest.mark.parametrize("closed", [lambda path: True, lambda path: str(path).endswith(".db")])
def test_an_old_store_that_can_only_be_read_says_what_to_do(old, monkeypatch, closed):
    """With its folder, or alone."""
    before, may = old.read_bytes(), os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not closed(path) and may(path, mode))
    with pytest.raises(StoreError, match="copy it to a place that can be written") as error:
        Memory(old)
    assert error.value.code == "read_only"
    assert old.read_bytes()[60:64] == before[60:64]  # where SQLite keeps the version of the schema


def test_an_old_store_is_upgraded_beside_a_reader(old):
    """The reader goes on in its old state until its transaction ends."""
    with closing(sqlite3.connect(old, isolation_level=None)) as reader:
        reader.execute("PRAGMA journal_mode=WAL")
        reader.execute("BEGIN")
        count = reader.execute("SELECT count(*) FROM provenance WHERE weight >= 0").fetchone()
        with closing(open_store(old)) as store:
            assert_upgraded(store)
        assert reader.execute("SELECT count(*) FROM provenance WHERE weight >= 0").fetchone() == count


def test_several_processes_may_open_an_old_store_at_once(old):
    code = "import sys\nfrom evolvent.memory.store.opening import open_store\nopen_store(sys.argv[1]).close()\n"
    running = [subprocess.Popen([sys.executable, "-c", code, str(old)]) for _ in range(4)]
    assert [process.wait() for process in running] == [0, 0, 0, 0]
    with closing(open_store(old)) as store:
        assert_upgraded(store)


def test_an_export_of_the_old_schema_is_imported(old, tmp_path):
    (tmp_path / "old.jsonl").write_bytes(lzma.decompress((GOLDEN / "memory_schema3.jsonl.xz").read_bytes()))
    transfer.import_jsonl(tmp_path / "new.db", tmp_path / "old.jsonl")
    with closing(open_store(tmp_path / "new.db")) as store:
        assert_upgraded(store)
        with closing(open_store(old)) as upgraded:
            assert transfer.digest(store) == transfer.digest(upgraded)
    assert_goes_on(tmp_path / "new.db")


@pytest.mark.postgres
def test_a_schema_of_a_server_is_upgraded_when_it_is_opened(postgres_store, monkeypatch):
    import psycopg

    from evolvent.memory.store.postgres import split_url

    url = postgres_store()
    conninfo, own = split_url(url)
    with psycopg.connect(conninfo) as db:
        db.execute("CREATE EXTENSION IF NOT EXISTS vector")
        db.execute(f"CREATE SCHEMA {own['schema']}")
        db.execute(f"SET search_path TO {own['schema']}, public")
        db.execute((GOLDEN / "memory_schema3_postgres.sql").read_text())
        db.execute("SET CONSTRAINTS ALL DEFERRED")
        for table in OLD_TABLES:
            flags = [name for name, kind in table.columns.items() if kind == "BOOLEAN"]
            for row in raw(OLD, table.name):
                row |= {name: bool(row[name]) for name in [*flags, "in_pool"] if name in row}
                if "vec" in row:
                    row["vec"] = str([float(x) for x in memoryview(row["vec"]).cast("f")])
                marks = ", ".join("%s" for _ in row)
                db.execute(f"INSERT INTO {table.name}({', '.join(row)}) VALUES({marks})", list(row.values()))
    whole = upgrade.postgres
    monkeypatch.setattr(upgrade, "postgres", lambda version: [*whole(version), "SELECT 1 / 0"])
    with pytest.raises(StoreError, match="division by zero"):
        open_store(url)
    monkeypatch.setattr(upgrade, "postgres", whole)  # all of it or nothing: it can begin again
    with closing(open_store(url)) as store:
        assert_upgraded(store)
        with pytest.raises(StoreError, match="check constraint"), store.write() as db:
            db.execute("UPDATE memory SET status = 'candidate' WHERE seq = 1")
    assert_goes_on(url)


# ---------------------------------------------------------------------------------------------- from schemas 4 to 6
# 4: made with the library at commit 54f6dac, 5: at 48ec41c, 6: at 434540c8: revised, weighted, invalid and open
# receipts, metadata, expiry, a new version, an archived, a quarantined and an erased memory, two scopes; 5 also parts,
# omissions and a rollback; 6 also attempts that were held out
NO_TEXT = {"text_hash": None}
NEWER = {
    4: {"outcome": {"parts": None}, "void": NEW["void"], "memory": NO_TEXT},
    5: {"void": NEW["void"], "memory": NO_TEXT},
    6: {"memory": NO_TEXT},
}


def packed(version, path):
    path.write_bytes(lzma.decompress((GOLDEN / f"memory_schema{version}.sqlite.xz").read_bytes()))
    return path


def goes_on(path):
    """What schemas 5 to 7 are for can be written, and what is derived still is."""
    with Memory(path, holdout=0.5) as memory:
        recall = memory.recall("question 1 of topic 1", frozen=True)
        memory.settle(recall, None, parts=[("answer 1 with words", 1.0), ("something else", 0.0)])
        assert memory.explain(recall).to_dict()["outcomes"][0]["parts"] is not None
        recalls = [memory.recall("question 1 of topic 1") for _ in range(20)]
        assert {len(one) > 0 for one in recalls} == {True, False}
        for one in recalls:
            memory.settle(one, 1.0)
        assert verify(memory) == [] and memory.rebuild_values() == 0


@pytest.mark.parametrize("version", NEWER)
def test_a_file_is_upgraded_row_by_row(version, tmp_path):
    path = packed(version, tmp_path / "old.db")
    before = {table.name: raw(path, table.name) for table in OLD_TABLES}
    with closing(open_store(path)):
        pass
    for name, rows in before.items():
        assert raw(path, name) == [row | NEWER[version].get(name, {}) for row in rows], name
    with closing(open_store(tmp_path / "new.db")):
        assert shape(path) == shape(tmp_path / "new.db")
    goes_on(path)


@pytest.mark.parametrize("version", NEWER)
def test_an_export_is_imported_as_the_file_is_upgraded(version, tmp_path):
    (tmp_path / "old.jsonl").write_bytes(lzma.decompress((GOLDEN / f"memory_schema{version}.jsonl.xz").read_bytes()))
    transfer.import_jsonl(tmp_path / "new.db", tmp_path / "old.jsonl")
    upgraded = packed(version, tmp_path / "old.db")
    with closing(open_store(tmp_path / "new.db")) as store, closing(open_store(upgraded)) as other:
        assert transfer.digest(store) == transfer.digest(other)
    goes_on(tmp_path / "new.db")


@pytest.mark.postgres
@pytest.mark.parametrize("version", NEWER)
def test_a_newer_schema_of_a_server_is_upgraded(version, postgres_store):
    import psycopg

    from evolvent.memory.store.postgres import split_url

    url = postgres_store()
    with Memory(url, embedder="hash:16") as memory:
        memory.remember("question 1 of topic 1", "answer 1 with words")
        memory.settle(memory.recall("question 1 of topic 1"), 1.0)
    conninfo, own = split_url(url)
    with psycopg.connect(conninfo) as db:  # the tables as they were
        db.execute(f"SET search_path TO {own['schema']}, public")
        db.execute("ALTER TABLE memory DROP CONSTRAINT memory_status_check, DROP COLUMN text_hash CASCADE")
        db.execute(
            "ALTER TABLE memory ADD CONSTRAINT memory_status_check CHECK(status IN ('active', 'archived', "
            "'quarantined', 'superseded', 'erased')), ADD CHECK(status = 'erased' OR emb_id IS NOT NULL)"
        )
        db.execute(
            "CREATE TRIGGER memory_content_fixed BEFORE UPDATE OF scope_id, kind, polarity, key_hash, body_hash, "
            "emb_id, q_init, q_given, source ON memory FOR EACH ROW EXECUTE FUNCTION "
            "refuse('what a memory says is written once; supersede it')"
        )
        if version < 6:
            db.execute("DROP TABLE exposure")
            db.execute("ALTER TABLE void DROP COLUMN outcome_from, DROP COLUMN outcome_to")
        if version == 4:
            db.execute("ALTER TABLE outcome DROP COLUMN parts")
        db.execute(f"UPDATE evolvent_store SET version = {version}")
    goes_on(url)
