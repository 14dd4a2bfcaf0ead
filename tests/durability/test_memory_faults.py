"""Disks that are full, read-only or wrong: a clear error, and what was acknowledged is intact or named as damaged."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from damage_driver import flips, make

from evolvent.core.errors import BadInput, EvolventError, StoreError
from evolvent.memory.maintenance.transfer import digest
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory


# ------------------------------------------------------------------------------------------------ disks
def on_a_disk_of_its_own(code, folder, size="3m"):
    """Run code in a process whose ``folder`` is a small file system in memory; skips where that is not allowed."""
    shell = f"mount -t tmpfs -o size={size} tmpfs {folder} && exec {sys.executable} -c '{code}' {folder}"
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-r", "-m", "true"], check=False).returncode:
        pytest.skip("no user namespaces here")
    done = subprocess.run(["unshare", "-r", "-m", "sh", "-c", shell], capture_output=True, text=True, check=False)
    if "mount" in done.stderr and "tmpfs" in done.stderr:
        pytest.skip("mounting is not allowed here")
    assert done.returncode == 0, done.stderr
    return done.stdout


OPENING = """
import os, sys
from evolvent.memory.maintenance.verify import verify
from evolvent.core.errors import StoreError
from evolvent.memory.memory import Memory
folder = sys.argv[1]
def open_it(name="a.db"):
    return Memory(folder + "/" + name, policy="rag", embedder="hash:32")
def refused(what, call, code=None):
    try:
        call()
    except StoreError as error:
        assert what in str(error) and folder in str(error) and "do:" in str(error), error
        assert code in (None, error.code), error.code
        return
    raise SystemExit("not refused: " + what)
def fill(name):
    with open(folder + "/" + name, "wb", buffering=0) as ballast:
        for size in (65536, 512):
            try:
                while ballast.write(b"x" * size): pass
            except OSError:
                pass
"""


def test_a_full_disk(tmp_path):
    code = (
        OPENING
        + """
with open(folder + "/reserve", "wb") as file:
    file.write(b"x" * 1_500_000)
memory, kept = open_it(), []
def until_full():
    while len(kept) < 5000:
        kept.append(memory.remember(f"task {len(kept)}", f"body {len(kept)} " * 300))
refused("the disk is full", until_full)
fill("ballast")
refused("the disk is full", until_full)
refused("the disk is full", lambda: memory.recall("task 1 " * 3000))
assert [i.id for i in memory.items(None)] == kept and len(kept) > 5 and verify(memory) == []
memory.close()
refused("the disk is full", lambda: open_it("new.db"))
with open_it() as memory:
    refused("the disk is full", lambda: memory.remember("a", "b" * 100_000))
    assert len(memory.items(None)) == len(kept)
os.remove(folder + "/reserve")
with open_it() as memory, open_it("new.db") as new:
    assert memory.remember("a", "b") == f"m{len(kept) + 1}" and verify(memory) == []
    assert new.remember("a", "b") == "m1" and verify(new) == []
print("done")
"""
    )
    assert on_a_disk_of_its_own(code, tmp_path) == "done\n"


def test_a_disk_that_can_only_be_read(tmp_path):
    code = (
        OPENING
        + """
with open_it() as memory:
    memory.remember("task", "body")
assert os.system("mount -o remount,ro " + folder) == 0
with open_it() as memory:
    assert [i.body for i in memory.search("task")] == ["body"]
    for write in (lambda: memory.remember("other", "body"), lambda: memory.recall("task")):
        refused("cannot be written", write)
refused("cannot be", lambda: open_it("new.db"))
assert os.system("mount -o remount,rw " + folder) == 0
with open_it() as memory:
    assert [i.body for i in memory.items()] == ["body"] and verify(memory) == []
print("done")
"""
    )
    assert on_a_disk_of_its_own(code, tmp_path) == "done\n"


def test_a_limit_on_the_size_of_files(tmp_path):
    pytest.importorskip("resource")
    code = (
        OPENING
        + """
import resource
memory = open_it()
memory.remember("task", "body")
size = max(os.path.getsize(folder + "/" + name) for name in os.listdir(folder))
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 30_000, resource.RLIM_INFINITY))
kept = ["m1"]
def until_full():
    for i in range(5000):
        kept.append(memory.remember(f"task {i}", f"body {i} " * 300))
refused("the disk does not take what is written", until_full, "not_written")
assert [i.id for i in memory.items(None)] == kept and verify(memory) == []
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert memory.remember("a", "b") == f"m{len(kept) + 1}" and verify(memory) == []
print("done")
"""
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr


def test_a_disk_that_does_not_answer_is_no_damage(tmp_path):
    """For a while the handles of the file are ones that cannot be read."""
    code = (
        OPENING
        + """
with open_it() as memory:
    for i in range(300):
        memory.remember(f"task {i}", f"body {i} " * 300)
memory = open_it()
def handles():
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + fd) == os.path.realpath(folder + "/a.db"):
                yield int(fd)
        except FileNotFoundError:
            pass
mine, away = list(handles()), os.open(folder + "/a.db", os.O_WRONLY)
kept = [os.dup(fd) for fd in mine]
for fd in mine:
    os.dup2(away, fd)
refused("the disk does not answer", lambda: memory.items(None), "not_read")
for fd, was in zip(mine, kept):
    os.dup2(was, fd)
assert len(memory.items(None)) == 300 and verify(memory) == []
print("done")
"""
    )
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc here")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr


# ------------------------------------------------------------------------------------------------ damage
def seen(came):
    return sum(n for what, n in came.items() if what.startswith(("refused", "found")))


def test_flipped_bits_are_refused_or_found(tmp_path):
    came, unnoticed = flips(tmp_path / "a.db", 240, seed=5)  # of 80, chance alone made the share 1 in 5
    assert seen(came) > 5 * came["unnoticed"], (came, unnoticed)
    assert not {"text_blob.body", "memory.key_hash", "value.q", "embedding.vec"} & set(unnoticed)


@pytest.mark.slow
def test_two_thousand_flipped_bits(tmp_path):
    came, unnoticed = flips(tmp_path / "a.db", 2000, seed=0)
    assert seen(came) > 8 * came["unnoticed"], (came, unnoticed)
    known = {"recall", "recall_item", "value_event", "outcome", "memory", "audit", "meta", "scope", "provenance"}
    assert {column.split(".")[0] for column in unnoticed} <= known, unnoticed


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(tmp_path, share):
    path = tmp_path / "a.db"
    whole = make(path, n=10)
    path.write_bytes(whole[: int(share * len(whole))])
    if share == 0.0:  # an empty file is a new store for SQLite: nothing to find
        with Memory(path, embedder="hash:32") as memory:
            assert memory.items(None) == []
        return
    with pytest.raises(StoreError, match="damaged"):  # noqa: SIM117
        with Memory(path, policy="rag") as memory:
            assert verify(memory) != [], "half a file is no healthy store"
            memory.items(None)
            memory.remember("task", "body")
            raise StoreError("damaged, as verify said")


def test_a_damaged_log_loses_a_tail_and_nothing_else(tmp_path):
    """Flipped bytes in the write-ahead log of a dead process: what is left is what was there at an earlier commit."""
    code = (
        "import os, sys; from evolvent.memory.memory import Memory\n"
        "m = Memory(sys.argv[1], policy='memrl', embedder='hash:32')\n"
        "for i in range(15):\n"
        "    m.remember(f'task {i}', f'body {i}'); m.settle(m.recall(f'task {i}'), 1.0)\n"
        "os._exit(9)"
    )
    first, path = tmp_path / "first.db", tmp_path / "a.db"
    subprocess.run([sys.executable, "-c", code, str(first)], check=False)
    log, rng, kept = first.with_name("first.db-wal").read_bytes(), random.Random(3), set()
    for _ in range(12):
        damaged = bytearray(log)
        damaged[rng.randrange(len(log) // 3, len(log))] ^= 1 << rng.randrange(8)
        shutil.copy(first, path)
        path.with_name("a.db-wal").write_bytes(damaged)
        path.with_name("a.db-shm").unlink(missing_ok=True)
        with Memory(path, policy="memrl") as memory:
            items = memory.items(None)
            assert [i.id for i in items] == [f"m{n + 1}" for n in range(len(items))]
            assert verify(memory) == [] and memory.rebuild_values() == 0
            assert memory.remember("after", "the damage") == f"m{len(items) + 1}"
            kept.add(len(items))
    assert len(kept) > 2, f"the damage was always at the same place: {kept}"


WRONG = {
    "texts": "UPDATE text_blob SET body = replace(body, 'a', 'b') WHERE hash = (SELECT body_hash FROM memory LIMIT 1)",
    "vectors": "UPDATE embedding SET vec = zeroblob(length(vec)) WHERE emb_id = 2",
    "embedder": "UPDATE embedding SET vec = (SELECT vec FROM embedding WHERE emb_id = 1) WHERE emb_id = 3",
    "values": "UPDATE value SET q = q + 0.01 WHERE memory_id = 2",
    "receipts": "UPDATE recall_item SET shown = 1, omitted = 1 WHERE recall_id = 2",
    "credit": "UPDATE outcome SET reward = 1.0 - reward WHERE outcome_id = 3",
    "rows": "UPDATE memory SET created_at = 'yesterday' WHERE seq = 4",
    "memories": "UPDATE memory SET status = 'superseded' WHERE seq = 5",
    "engine": "DELETE FROM recall WHERE seq = 3",
}


@pytest.mark.parametrize("check", WRONG)
def test_verify_finds(tmp_path, check):
    path = tmp_path / "a.db"
    make(path, n=10)
    with sqlite3.connect(path) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        assert db.execute(WRONG[check]).rowcount > 0
    with Memory(path, policy="memlift") as memory:
        found = verify(memory, embed=True)
        assert check in {f.check for f in found}, found
        assert all(f.where and f.got and f.expected and f.do for f in found) and str(found[0])
        if check == "values":
            assert memory.rebuild_values() == 2 and verify(memory) == [], "values can be had again from their events"
        if check == "embedder":
            assert verify(memory) == [], "a vector of another text can only be noticed with the embedder"


# ------------------------------------------------------------------------------------------------ what callers give
class Vectors:
    """An embedder that can be broken."""

    def __init__(self, dim):
        self.id, self.dim, self.made = "mine", dim, None

    def embed(self, texts):
        return np.ones((len(texts), self.dim)) if self.made is None else np.tile(self.made, (len(texts), 1))


def test_vectors_that_cannot_be_compared(tmp_path):
    path = tmp_path / "a.db"
    with Memory(path, policy="rag", embedder=Vectors(4)) as memory:
        memory.remember("task", "body")
    for scope in ("default", "another"):
        with Memory(path, policy="rag", embedder=Vectors(5), scope=scope) as memory:
            for verb in (lambda m: m.remember("new", "body"), lambda m: m.recall("other")):
                with pytest.raises(StoreError, match="another dimension") as caught:
                    verb(memory)
                assert "expected: 4" in str(caught.value) and str(path) in str(caught.value)
    embedder = Vectors(4)
    with Memory(path, policy="rag", embedder=embedder) as memory:
        before = digest(memory.bank.store)
        for bad in (np.nan, np.inf, -np.inf, 1e30, 1e300, 0.0):
            embedder.made = np.full((1, 4), bad)
            with pytest.raises(BadInput, match="the embedder gave"), np.errstate(over="ignore"):
                memory.remember(f"task {bad}", "body")
        assert digest(memory.bank.store) == before and verify(memory) == []


TEXTS = {"a zero byte": "a\x00b", "a lone surrogate": "a\ud800", "10 MB": "x" * 10_000_000, "no text": 7, "bytes": b"a"}


@pytest.mark.parametrize("bad", TEXTS)
def test_texts_that_cannot_be_kept_change_nothing(tmp_path, bad):
    text = TEXTS[bad]
    with Memory(tmp_path / "a.db", policy="memrl", embedder="hash:32") as memory:
        memory.remember("task", "body")
        r = memory.recall("task")
        before = digest(memory.bank.store)
        # what was asked and done is kept whatever it holds: an outcome must not be lost for a character
        asked = (
            []
            if isinstance(text, str) and len(text) < 99
            else [lambda: memory.recall(text), lambda: memory.settle(r, 1.0, action=text)]
        )
        for verb in (
            *asked,
            lambda: memory.remember(text, "body"),
            lambda: memory.remember("key", text),
            lambda: memory.remember("key", "body", kind=text),
            lambda: memory.remember("key", "body", source=text),
            lambda: memory.remember("key", "body", polarity=text),
            lambda: memory.remember("key", "body", parents=[text]),
            lambda: memory.remember("key", "body", supersedes=text),
            lambda: memory.remember_many([{"key": "fine", "body": "fine"}, {"key": "key", "body": text}]),
            lambda: memory.recall("task", stage=text),
            lambda: memory.recall("task", kinds=[text]),
            lambda: memory.recall("task", policy=text),
            lambda: memory.shown(text),
            lambda: memory.shown(r, [text]),
            lambda: memory.settle(text, 1.0),
            lambda: memory.settle(r, 1.0, source=text),
            lambda: memory.settle(r, 1.0, objective=text),
            lambda: memory.settle(r, 1.0, idempotency_key=text),
            lambda: memory.settle(r, 1.0, child=text),
            lambda: memory.archive(text, "reason"),
            lambda: memory.archive("m1", text),
            lambda: memory.get(text),
            lambda: memory.explain(text),
            lambda: Memory(tmp_path / "a.db", scope=text),
        ):
            with pytest.raises(EvolventError):
                verb()
        assert digest(memory.bank.store) == before, "something was written"
        for number in (float("nan"), float("inf"), 2.0, "high", None):
            with pytest.raises(BadInput):
                memory.settle(r, number)
        assert digest(memory.bank.store) == before and verify(memory) == []


def test_a_clock_that_jumps_changes_no_order(tmp_path, monkeypatch):
    """Order comes from sequence numbers alone: backwards, standing still, before 1970."""
    rng = random.Random(0)
    monkeypatch.setattr("time.time", lambda: rng.choice([2e9, 1e9, 0.0, -1e9]))
    with Memory(tmp_path / "a.db", policy="memrl", embedder="hash:32") as memory:
        ids = [memory.remember(f"task {i}", f"body {i}") for i in range(10)]
        receipts = []
        for i in range(10):
            r = memory.recall(f"task {i}")
            receipts.append((r, {x.id: x.value for x in memory.items()}))
            memory.settle(r, float(i % 2))
        assert [i.id for i in memory.items(None)] == ids
        for r, values in receipts:
            assert memory.values_as_of(r) == values, "the past is ordered by the clock"
        assert verify(memory) == [] and memory.rebuild_values() == 0
        explained = memory.explain(ids[0]).to_dict()["history"]
        assert [line["event"] for line in explained] == sorted((line["event"] for line in explained), reverse=True)
