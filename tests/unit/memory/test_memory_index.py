"""The index against a plain computation, and its shadowing of the store: in RAM, in files, with a search graph."""

import importlib.util

import numpy as np
import pytest

from evolvent.memory.index import index as index_module
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.store.engine import Subset

needs_graph = pytest.mark.skipif(importlib.util.find_spec("usearch") is None, reason="needs the extra scale")


class Given:
    """Vectors by table: text "i" is row i."""

    def __init__(self, table):
        self.id, self.dim, self._table = "given", table.shape[1], table

    def embed(self, texts):
        return self._table[[int(t) for t in texts]]


@pytest.fixture(params=["ram", "files", pytest.param("graph", marks=needs_graph)])
def mode(request, monkeypatch):
    """How the index works in this test: the option that a Memory takes."""
    if request.param == "files":
        monkeypatch.setattr(index_module, "FILE_FROM", 100)
        monkeypatch.setattr(index_module, "_TAIL", 50)
    return "approximate" if request.param == "graph" else "exact"


@pytest.fixture
def bank(tmp_path, mode):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((600, 16)).astype(np.float32)
    table[100:110] = table[100]  # equal keys
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    memory = Memory(tmp_path / "a.db", policy=preset("rag", pool=50), embedder=Given(table), sync="normal", search=mode)
    for start in (0, 200, 400):  # of the last hundred no file and no graph knows at first
        stop = min(500, start + 200)
        memory.remember_many([{"key": str(i), "body": f"b{i}", "kind": "ab"[i % 2]} for i in range(start, stop)])
        if start < 400:
            memory.prepare()
    about = memory.health()["index"]
    assert about["search"] == ("approximate" if mode == "approximate" else "exact") and about["trouble"] is None
    yield memory, table
    memory.close()


def stored_vectors(memory):
    rows = memory.bank.store.rows("SELECT e.vec FROM memory m JOIN embedding e USING(emb_id) ORDER BY m.seq")
    return np.stack([np.frombuffer(row[0], "<f4") for row in rows]).astype(np.float64)


def test_top_k_is_exact_with_filters_and_ties(bank):
    memory, table = bank
    for i in (3, 104, 250):
        memory.archive(f"m{i + 1}", "test")
    index, stored = memory.bank.index, stored_vectors(memory)
    for query in range(500, 600):
        for kinds in (None, ["a"], ["a", "none"]):
            seq, sim = index.search(table[query], limit=20, subset=Subset(kinds))
            truth = np.round((stored * table[query]).sum(1), 6)
            able = [i for i in range(500) if i not in (3, 104, 250) and (kinds is None or "ab"[i % 2] in kinds)]
            best = sorted(able, key=lambda i: (-truth[i], i))[:20]
            assert seq.tolist() == [i + 1 for i in best]
            assert sim.tolist() == truth[best].tolist()
    seq, _ = index.search(table[100], limit=4)
    assert seq.tolist() == [101, 102, 103, 104], "equal keys: the older memory first"


def test_empty_and_zero(bank):
    memory, table = bank
    index = memory.bank.index
    assert index.search(table[0], limit=0)[0].size == 0
    assert index.search(table[0], limit=5, subset=Subset(["unknown"]))[0].size == 0


def test_it_follows_another_connection(bank, tmp_path, mode):
    memory, table = bank
    with Memory(tmp_path / "a.db", policy="rag", embedder=Given(table), sync="normal", search=mode) as other:
        assert other.recall("7").ids[0] == "m8"
        memory.remember("555", "new")
        assert other.recall("555").ids[0] == "m501"
        other.archive("m501", "wrong")
        assert memory.recall("555").ids[0] != "m501"
        third = other.remember("556", "third", supersedes="m8")
        assert memory.recall("7").ids[0] != "m8" and memory.recall("556").ids[0] == third


def test_it_forgets_what_was_rolled_back(bank):
    memory, _ = bank
    with pytest.raises(ZeroDivisionError), memory.transaction():
        memory.remember("555", "never")
        memory.archive("m8", "never")
        assert memory.recall("555").ids[0] == "m501"
        raise ZeroDivisionError
    assert memory.recall("7").ids[0] == "m8" and memory.recall("555").ids[0] != "m501"
    assert memory.remember("556", "after") == "m501" and memory.recall("556").ids[0] == "m501"


def test_vectors_are_stored_once_and_never_change(bank):
    memory, _ = bank
    db = memory.bank.store.db
    assert db.execute("SELECT count(*) FROM embedding").fetchone()[0] == 500
    memory.remember("7", "another body")
    memory.recall("7")
    assert db.execute("SELECT count(*) FROM embedding").fetchone()[0] == 500
    for sql in (
        "UPDATE embedding SET dim = 3",
        "UPDATE text_blob SET body = 'x'",
        "DELETE FROM memory",
        "UPDATE memory SET body_hash = key_hash",
        "INSERT INTO provenance VALUES(1, 2, 'retrieved')",
        "INSERT INTO provenance VALUES(3, 3, 'retrieved')",
        "INSERT INTO provenance VALUES(900, 1, 'retrieved')",
    ):
        with pytest.raises(Exception, match=r"written once|archived|CHECK|FOREIGN"):
            db.execute(sql)
