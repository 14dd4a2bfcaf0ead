"""Files and graph beside a store: what they must never change, and what is said when they cannot be had."""

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from evolvent.core.errors import BadInput, MissingExtra
from evolvent.memory.index import graph
from evolvent.memory.index import index as index_module
from evolvent.memory.index.cache_files import Files
from evolvent.memory.memory import Memory

EMBEDDER = "hash:32"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Files from 50 memories on, a graph from 100 on."""
    for name, value in (("FILE_FROM", 50), ("GRAPH_FROM", 100), ("_TAIL", 20)):
        monkeypatch.setattr(index_module, name, value)


def opened(path, **options):
    return Memory(path, policy="rag", embedder=EMBEDDER, sync="normal", **options)


def write(memory, start, stop, word="case"):
    memory.remember_many([{"key": f"{word} {i} of {i % 7}", "body": f"{word} {i}"} for i in range(start, stop)])


def check(memory):
    """Searches equal the plain computation over what the store holds."""
    index = memory.bank.index
    index.catch_up()
    rows = memory.bank.store.rows(
        "SELECT m.seq, e.vec FROM memory m JOIN embedding e USING(emb_id) WHERE m.status = 'active' ORDER BY m.seq"
    )
    stored = np.stack([np.frombuffer(vec, "<f4") for _, vec in rows]).astype(np.float64)
    for i in (0, 5, 77):
        query = memory.bank.embedder.embed([f"case {i} of {i % 7}"])[0]
        sims = np.round((stored * query.astype(np.float64)).sum(axis=1), 6)
        order = np.lexsort((np.arange(len(rows)), -sims))[:10]
        seq, sim = index.search(query, limit=10)
        assert sim.tolist() == sims[order].tolist()
        # of those that are as near as the last one, a graph may propose others (twice in a hundred runs)
        last = -1.0 if memory.bank.index.about()["search"] == "exact" else sim[-1]
        wanted = [rows[j][0] for j in order if sims[j] > last]
        assert seq[: len(wanted)].tolist() == wanted
    return index.about()


def test_files_open_a_store_without_reading_its_vectors(tmp_path, monkeypatch):
    with opened(tmp_path / "a.db", search="exact") as memory:
        write(memory, 0, 100)
    assert {p.suffix for p in (tmp_path / "a.db.cache").iterdir()} == {".npz", ".f32", ".lock"}
    with opened(tmp_path / "a.db", search="exact") as memory:
        store = memory.bank.store
        read = []
        monkeypatch.setattr(store, "chunks", lambda *args: read.append(args) or iter(()))
        assert memory.recall("case 5 of 5").ids[0] == "m6" and not read
        assert memory.health()["index"]["in_file"] == 100


def test_equal_keys_share_a_vector(tmp_path):
    with opened(tmp_path / "a.db") as memory:
        memory.remember_many([{"key": f"case {i % 30}", "body": f"{i}"} for i in range(200)])
        memory.prepare()
        memory.remember_many([{"key": f"case {i % 40}", "body": f"{i}"} for i in range(200, 280)])
        about = check(memory)
        assert about["vectors"] == 40 and len(memory.recall("case 3", k=9).ids) == 9


def test_a_backup_that_went_another_way_is_not_mistaken_for_the_store(tmp_path):
    path = tmp_path / "a.db"
    with opened(path) as memory:
        write(memory, 0, 80)
        memory.archive("m3", "no use")
    shutil.copy(path, tmp_path / "backup")
    with opened(path) as memory:
        write(memory, 80, 160)
        memory.archive("m5", "no use")
        memory.prepare()
        check(memory)
    shutil.copy(tmp_path / "backup", path)
    with opened(path) as memory:
        write(memory, 0, 90, "other")
        memory.archive("m7", "no use")
        check(memory)
    with opened(path) as memory:
        check(memory)


def test_a_writer_that_died_between_vectors_and_columns_leaves_the_old_state(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    with opened(path) as memory:
        write(memory, 0, 80)
    with monkeypatch.context() as patch, opened(path) as memory:
        write(memory, 80, 200)
        patch.setattr(Files, "write", lambda self, saved: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        memory.prepare()
        assert "No space left" in check(memory)["trouble"] and "No space left" in str(memory.health()["warnings"])
    with opened(path) as memory:
        assert memory.bank.index.about()["in_file"] == 0
        check(memory)
        memory.prepare()
        assert check(memory)["in_file"] == 200 and not memory.health()["index"]["trouble"]


def test_without_a_place_for_files_the_memory_works_and_says_so(tmp_path):
    (tmp_path / "a.db.cache").write_text("in the way")
    with opened(tmp_path / "a.db") as memory:
        write(memory, 0, 120)
        memory.prepare()
        about = check(memory)
        assert about["search"] == "exact" and about["in_file"] == 0 and about["trouble"]
        assert any("slower than they could be" in text for text in memory.health()["warnings"])


def test_without_usearch_search_is_exact_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(graph, "installed", lambda: False)
    with opened(tmp_path / "a.db") as memory:
        write(memory, 0, 120)
        memory.prepare()
        about = check(memory)
        assert about["search"] == "exact" and "'.[scale]'" in about["trouble"]
    with pytest.raises(MissingExtra, match="scale"):
        opened(tmp_path / "a.db", search="approximate")


def test_a_store_in_memory_has_no_graph():
    with pytest.raises(BadInput, match="searched exactly"):
        opened(":memory:", search="approximate")


def test_a_graph_is_built_and_what_it_may_not_know_is_found_exactly(tmp_path):
    pytest.importorskip("usearch")
    seen = []
    with opened(tmp_path / "a.db") as memory:
        write(memory, 0, 300)
        memory.remember("the only one", "of its kind", kind="rare")
        memory.prepare(lambda done, total, what: seen.append((done, total, what)))
        assert seen[-1] == (301, 301, "search graph")
        assert check(memory)["search"] == "approximate"
        memory.remember("case 5 of 5", "newer than the graph")
        assert memory.recall("case 5 of 5", k=2).ids == ["m6", "m302"]
        assert memory.recall("case 5 of 5", kinds=["rare"]).ids == ["m301"], "a filter that leaves few"
        for i in range(1, 292):
            memory.archive(f"m{i}", "most of them")
        check(memory)
    with opened(tmp_path / "a.db", search="exact") as memory:
        assert check(memory)["search"] == "exact"


def test_a_damaged_graph_is_thrown_away(tmp_path):
    pytest.importorskip("usearch")
    with opened(tmp_path / "a.db") as memory:
        write(memory, 0, 150)
        memory.prepare()
    (path,) = (tmp_path / "a.db.cache").glob("*.graph")
    data = bytearray(path.read_bytes())
    left = path.with_name(f"{path.name.rsplit('.', 3)[0]}.1.tmp")
    left.write_bytes(b"of a killed builder")
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with opened(tmp_path / "a.db") as memory:
        memory.prepare()
        assert check(memory)["search"] == "approximate"
    (new,) = (tmp_path / "a.db.cache").glob("*.graph")
    assert bytes(data) != new.read_bytes() and not left.exists()


@pytest.mark.slow
def test_a_killed_process_leaves_files_that_are_right_or_rebuilt(tmp_path):
    path = tmp_path / "a.db"
    script = f"""
from evolvent.memory.index import index
index.FILE_FROM, index.GRAPH_FROM, index._TAIL = 50, 100, 20
from evolvent.memory.memory import Memory
with Memory({str(path)!r}, policy="rag", embedder="hash:32", sync="normal") as memory:
    print("open", flush=True)
    while True:
        n = memory.bank.index.n
        memory.remember_many([dict(key=f"case {{i}} of {{i % 7}}", body=str(i)) for i in range(n, n + 25)])
        memory.prepare()
"""
    rng = np.random.default_rng(0)
    for _ in range(20):
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"open\n"
            time.sleep(float(rng.uniform(0.0, 0.5)))
            os.kill(process.pid, signal.SIGKILL)
        with opened(path) as memory:
            write(memory, 0, 100) if memory.bank.store.row("SELECT count(*) FROM memory")[0] < 100 else None
            check(memory)
