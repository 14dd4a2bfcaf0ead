"""Files and graph beside a store: whatever happens to store and files, a search equals the plain computation."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from evolvent.memory.index import index as index_module
from evolvent.memory.memory import Memory
from evolvent.memory.store.engine import Subset

pytest.importorskip("usearch")
TABLE = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
KINDS = "ab"


class Table:
    """Text "7" is row 7 of a table."""

    id, dim = "table", 8

    def embed(self, texts):
        return TABLE[[int(text) % 40 for text in texts]]


class Cached(RuleBasedStateMachine):
    """Two connections to one store, one with files from the first memory on, one with files and a graph."""

    @initialize()
    def start(self):
        self.folder = Path(tempfile.mkdtemp())
        self.kept = {name: getattr(index_module, name) for name in ("FILE_FROM", "_TAIL", "_LEAST")}
        index_module.FILE_FROM, index_module._TAIL, index_module._LEAST = 1, 4, 12
        self.memories = [self.open(search) for search in ("exact", "approximate")]

    def open(self, search):
        path = self.folder / "a.db"
        return Memory(path, policy="rag", embedder=Table(), sync="normal", search=search)

    def teardown(self):
        for memory in getattr(self, "memories", []):
            memory.close()
        if hasattr(self, "kept"):
            for name, value in self.kept.items():
                setattr(index_module, name, value)
            shutil.rmtree(self.folder)

    # ---------------------------------------------------------------------------------------------- the store
    @rule(who=st.booleans(), keys=st.lists(st.integers(0, 39), min_size=1, max_size=9), kind=st.sampled_from(KINDS))
    def remember(self, who, keys, kind):
        rows = [{"key": str(key), "body": "b", "kind": kind, "merge": None} for key in keys]
        self.memories[who].remember_many(rows)

    @rule(who=st.booleans(), data=st.data(), back=st.booleans())
    def change_status(self, who, data, back):
        seqs = [row[0] for row in self.memories[who].bank.store.rows("SELECT seq FROM memory")]
        if seqs:
            some = data.draw(st.lists(st.sampled_from(seqs), max_size=3))
            change = self.memories[who].restore if back else self.memories[who].archive
            for seq in some:
                change([f"m{seq}"] if back else f"m{seq}", "test")

    @rule(who=st.booleans(), key=st.integers(0, 39))
    def undone(self, who, key):
        memory = self.memories[who]
        with pytest.raises(ZeroDivisionError), memory.transaction():
            memory.remember(str(key), "never", merge=None)
            memory.archive("m1", "never")
            self.compare(memory)
            raise ZeroDivisionError

    # ---------------------------------------------------------------------------------------------- the files
    @rule(who=st.booleans())
    def prepare(self, who):
        self.memories[who].prepare()

    @rule(who=st.booleans())
    def reopen(self, who):
        self.memories[who].close()
        self.memories[who] = self.open(("exact", "approximate")[who])

    @rule(
        who=st.booleans(),
        kinds=st.sets(st.sampled_from(["npz", "f32", "graph"]), min_size=1),
        how=st.sampled_from(["remove", "cut", "zeros", "noise"]),
        share=st.floats(0, 1),
    )
    def harm(self, who, kinds, how, share):
        """Files are removed, or look as after a torn write; then one connection opens them again."""
        for path in [p for p in (self.folder / "a.db.cache").glob("*.*") if p.suffix[1:] in kinds]:
            try:
                data = path.read_bytes()
                path.unlink()  # a file that others have mapped is never changed under them
            except FileNotFoundError:  # a graph that was made beside took its place
                continue
            new = {"cut": data[: int(share * len(data))], "zeros": bytes(len(data)), "noise": os.urandom(len(data))}
            if how != "remove":
                path.write_bytes(new[how])
        self.reopen(who)

    # ---------------------------------------------------------------------------------------------- the promise
    @invariant()
    def searches_equal_the_plain_computation(self):
        for memory in getattr(self, "memories", []):
            self.compare(memory)

    def compare(self, memory):
        index = memory.bank.index
        index.catch_up()
        rows = memory.bank.store.rows(
            "SELECT m.seq, m.kind, m.status, e.vec FROM memory m JOIN embedding e USING(emb_id) ORDER BY m.seq"
        )
        assert index.n == len(rows) and index.about()["vectors"] == len({row[3] for row in rows})
        for query, kinds, limit in ((3, None, 3), (17, ["a"], 5), (28, ["a", "b"], 1000)):
            vec = TABLE[query] / np.linalg.norm(TABLE[query])
            truth = []
            for seq, kind, status, blob in rows:
                sim = round(float((np.frombuffer(blob, "<f4") * vec.astype(np.float64)).sum()), 6)
                if status == "active" and (kinds is None or kind in kinds):
                    truth.append((-sim, seq))
            found = index.search(vec, limit=limit, subset=Subset(kinds))
            assert list(zip((-found[1]).tolist(), found[0].tolist(), strict=True)) == sorted(truth)[:limit]
            assert index.count(Subset(kinds)) == sum(
                r[2] == "active" and (kinds is None or r[1] in kinds) for r in rows
            )


Cached.TestCase.settings = settings(
    max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestCached = Cached.TestCase
