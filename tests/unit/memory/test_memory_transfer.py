"""Exports and imports that go wrong leave nothing behind; those that go right, go on where the old store stopped."""

import io
import json
import tracemalloc
from contextlib import closing

import pytest

from evolvent.cli.memory import look, move
from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.maintenance import transfer
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.store import schema
from evolvent.memory.store.engine import put_text
from evolvent.memory.store.opening import open_store

HASH = {"policy": "memlift", "embedder": "hash:32"}


def fill(memory, n=12):
    for i in range(n):
        r = memory.recall(f"task {i % 4}")
        memory.settle(r, float(i % 2), action="body 3")
        memory.remember(f"task {i % 4} {i}", f"bödy {i}\n\u2028", parents=r)
    memory.remember("task 1 one", "better", supersedes="m1")
    memory.archive("m2", "because")


@pytest.fixture
def store(tmp_path):
    with Memory(tmp_path / "a.db", **HASH) as memory:
        fill(memory)
        yield memory.bank.store


@pytest.fixture
def export(store, tmp_path):
    path = tmp_path / "a.jsonl"
    transfer.export_jsonl(store, path)
    return path


def refused(source, target, match):
    """The import fails; a store that was there is as empty as before, and none is left where none was."""
    with pytest.raises(StoreError, match=match):
        transfer.import_jsonl(target.with_suffix(".new"), source)
    assert not list(target.parent.glob("*.new*"))
    with closing(open_store(target)) as store:
        with pytest.raises(StoreError, match=match):
            transfer.import_jsonl(target, source)
        for table in schema.layout():
            assert store.rows(f"SELECT * FROM {table.name}") == []


def test_an_export_holds_every_row_and_is_stable(store, export, tmp_path):
    exported = transfer.export_jsonl(store, tmp_path / "again.jsonl")
    assert export.read_bytes() == (tmp_path / "again.jsonl").read_bytes()
    stream = io.BytesIO()
    assert transfer.export_jsonl(store, stream) == exported and stream.getvalue() == export.read_bytes()
    lines = [json.loads(line) for line in export.read_bytes().splitlines()]
    assert lines[0] == {
        "format": "evolvent memory",
        "schema": schema.VERSION,
        "embedder": "hash:32",
        "reward_range": {"default": [0.0, 1.0]},
    }
    assert lines[-1] == {
        "end": {"rows": len(lines) - 2, "sha256": exported.digest}
    } and exported.digest == transfer.digest(store)
    for table in schema.layout():
        names = [next(iter(line)) for line in lines[1:-1]]
        assert (
            names.count(table.name) == store.row(f"SELECT count(*) FROM {table.name}")[0] == exported.rows[table.name]
        )
    assert exported.rows["value_event"] > 5 and exported.rows["audit"] == 2
    assert sorted(p.name for p in tmp_path.glob("*.jsonl*")) == ["a.jsonl", "again.jsonl"], "a draft was left behind"


def test_any_change_changes_the_digest(store):
    seen = {transfer.digest(store)}
    with store.write() as db:
        for change in (
            "UPDATE recall_item SET shown = NOT shown WHERE recall_id = 5",
            "UPDATE value SET q = q + 1e-16 WHERE q > 0 AND q < 0.5",
            "UPDATE memory SET merged = merged + 1 WHERE seq = 3",
        ):
            db.execute(change)
            seen.add(transfer.digest(store))
    assert len(seen) == 4


def test_an_imported_memory_goes_on(store, export, tmp_path):
    exported = transfer.import_jsonl(tmp_path / "b.db", export)
    assert exported.digest == transfer.digest(store)
    with Memory(tmp_path / "b.db", policy="memlift") as copy, Memory(tmp_path / "a.db", policy="memlift") as old:
        assert copy.embedder.id == "hash:32" and copy.items(None) == old.items(None)
        for task in ("task 1", "task 3 11"):
            assert copy.recall(task) == old.recall(task)
        assert copy.remember("new", "new") == old.remember("new", "new") == "m14"
        assert copy.rebuild_values() == 0 and verify(copy) == []


def test_every_flipped_byte_is_noticed(export, tmp_path):
    data = bytearray(export.read_bytes())
    where = range(0, len(data), len(data) // 40)
    target = tmp_path / "b.db"
    for i in [*where, len(data) - 2]:
        data[i] ^= 1
        (tmp_path / "bad.jsonl").write_bytes(data)
        with pytest.raises(StoreError, match=r"damaged|not the export|another version|cut off"):
            transfer.import_jsonl(target, tmp_path / "bad.jsonl")
        data[i] ^= 1
    assert not target.exists()


def test_what_is_no_whole_export_is_refused(export, tmp_path):
    lines = export.read_bytes().splitlines(keepends=True)
    bad, mine = tmp_path / "bad.jsonl", f'"schema":{schema.VERSION}'.encode()
    for content, match in (
        (b"", "cut off"),
        (b"not an export\n", "damaged"),
        (b'{"format":"something else"}\n', "not the export"),
        (lines[0], "cut off"),
        (b"".join(lines[:-1]), "cut off"),
        (b"".join(lines)[:-1], "cut off"),
        (b"".join(lines[:7] + lines[8:]), "damaged"),
        (b"".join(lines[:7] + lines[6:]), "damaged"),
        (lines[0].replace(mine, b'"schema":99') + b"".join(lines[1:]), "upgrade evolvent"),
        (lines[0].replace(mine, b'"schema":"x"') + b"".join(lines[1:]), "of another version"),
    ):
        bad.write_bytes(content)
        refused(bad, tmp_path / "b.db", match)
    refused(tmp_path / "nowhere.jsonl", tmp_path / "b.db", "cannot be read")


def signed(lines):
    """The lines with a last line that fits them: what a forger, or another program, could write."""
    import hashlib

    body = b"".join(lines)
    end = {"rows": len(lines) - 1, "sha256": hashlib.sha256(body).hexdigest()}
    return body + json.dumps({"end": end}).encode() + b"\n"


def test_a_signed_export_that_no_store_could_hold_is_refused(export, tmp_path):
    """The digest fits, the content does not: unknown tables and columns, wrong types, rows that refer to nothing."""
    lines = export.read_bytes().splitlines(keepends=True)[:-1]
    bad = tmp_path / "bad.jsonl"
    scope = next(i for i, line in enumerate(lines) if line.startswith(b'{"scope"'))
    for content, match in (
        ([*lines, b'{"gossip":{"a":1}}\n'], "unknown table"),
        ([*lines[:scope], b'{"scope":{"scope_id":1}}\n', *lines[scope + 1 :]], "columns"),
        ([*lines[:scope], lines[scope].replace(b'"scope_id":1', b'"scope_id":"1"'), *lines[scope + 1 :]], "no export"),
        ([*lines[:scope], *lines[scope + 1 :]], "failed"),
        ([lines[0].replace(b"hash:32", b"hash:64"), *lines[1:]], "differs"),
        ([line.replace(b'"n_chars":6', b'"n_chars":6.0') for line in lines], "no export"),
    ):
        bad.write_bytes(signed(content))
        refused(bad, tmp_path / "b.db", match)


def test_a_store_that_holds_something_is_not_overwritten(store, export, tmp_path):
    with Memory(tmp_path / "b.db", **HASH) as memory:
        with pytest.raises(StoreError, match="not empty"):
            transfer.import_jsonl(tmp_path / "b.db", export)
        with pytest.raises(StoreError, match="not empty"):
            transfer.migrate(tmp_path / "a.db", tmp_path / "b.db")
        assert memory.items(None) == []


def test_migrate_wants_a_source(tmp_path):
    with pytest.raises(StoreError, match="there is no memory"):
        transfer.migrate(tmp_path / "nowhere.db", tmp_path / "b.db")
    assert not (tmp_path / "nowhere.db").exists()
    with pytest.raises(BadInput, match="the same"):
        transfer.migrate(tmp_path / "a.db", tmp_path / "a.db")


def test_an_export_that_cannot_be_written_is_reported(store, tmp_path):
    with pytest.raises(StoreError, match="cannot be written"):
        transfer.export_jsonl(store, tmp_path / "no folder" / "a.jsonl")


def test_nothing_is_written_over_the_memory_that_is_read(tmp_path):
    path = tmp_path / "a.db"
    with Memory(path, **HASH) as memory:
        memory.remember("task", "body")
        with pytest.raises(BadInput, match="the memory itself"):
            transfer.export_jsonl(memory.bank.store, path)
    for wrong, match in ((path, "the memory itself"), (tmp_path / "no folder" / "a", "no such folder")):
        with pytest.raises(BadInput, match=match):
            move.export(str(path), out=wrong)
        with pytest.raises(BadInput, match=match):
            move.export(str(path), out=wrong, items=True)
        with pytest.raises(BadInput, match=match):
            look.audit(str(path), html=wrong)
    with Memory(path, **HASH) as memory:
        assert [item.body for item in memory.items()] == ["body"] and verify(memory) == []


def test_a_copy_is_of_one_moment(store, tmp_path):
    """What another process commits while the copy is being made is not in it."""
    before = transfer.digest(store)
    with Memory(tmp_path / "a.db", **HASH) as other:
        written = []

        def meanwhile(done, total, table):
            if not written:
                written.append(other.remember("meanwhile", "meanwhile"))

        assert transfer.migrate(tmp_path / "a.db", tmp_path / "b.db", progress=meanwhile).digest == before
        assert written and transfer.digest(store) != before


def test_progress_reaches_the_total(store, export, tmp_path):
    found = []
    for step in (
        lambda p: transfer.export_jsonl(store, tmp_path / "b.jsonl", progress=p),
        lambda p: transfer.import_jsonl(tmp_path / "b.db", export, progress=p),
        lambda p: transfer.migrate(tmp_path / "a.db", tmp_path / "c.db", progress=p),
    ):
        found.clear()
        rows = step(lambda *args: found.append(args)).rows
        done = [n for n, _, _ in found]
        assert done == sorted(done) and found[-1][:2] == (sum(rows.values()),) * 2


def test_rows_are_streamed(tmp_path):
    """A store of 70 MB is copied with a third of it."""
    with Memory(tmp_path / "a.db", **HASH) as memory, memory.bank.store.write() as db:
        for i in range(700):
            put_text(db, f"{i}", f"{i} " + "x" * 100_000)
    tracemalloc.start()
    transfer.migrate(tmp_path / "a.db", tmp_path / "b.db")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 25e6, f"{peak / 1e6:.0f} MB"
