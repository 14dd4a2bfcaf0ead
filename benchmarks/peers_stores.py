"""The stores that are compared, each behind the same few calls, in its best documented setting.

A store is opened with a folder and the looked-up embedder. Libraries are imported when a store is opened, so that a
process pays for one only. Telemetry is off in all of them.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from peers_texts import DIM, Table, Text


class Peer(Protocol):
    """What is measured. ``prepare`` is not timed: it makes what ``update`` needs; ``read`` gives the learned value."""

    def add(self, text: Text) -> str: ...
    def add_many(self, texts: Sequence[Text]) -> list[str]: ...
    def search(self, query: str, k: int, kind: str | None = None) -> list[str]: ...
    def prepare(self, ids: Sequence[str], texts: Sequence[Text]) -> list[Any]: ...
    def update(self, handle: Any, value: float) -> None: ...
    def read(self, id_: str) -> float: ...
    def count(self) -> int: ...
    def close(self) -> None: ...


class Mem0:
    """mem0's core with local Qdrant, infer=False; its embedder is replaced by the looked-up one."""

    LICENCE = "Apache-2.0"
    SETTING = "local Qdrant on disk, SQLite history, `infer=False` (no language model), no extras (no BM25, no spaCy)"
    BULK = "add() one by one: it takes no batch with metadata of each item"

    def __init__(self, folder: Path, table: Table) -> None:
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "home"), "OPENAI_API_KEY": "unused"}
        from mem0 import Memory  # pyright: ignore[reportMissingImports]
        from mem0.embeddings.base import EmbeddingBase  # pyright: ignore[reportMissingImports]

        class Looked(EmbeddingBase):
            def embed(self, text: str, memory_action: str | None = None) -> list[float]:
                return table.lists([text])[0]

        self._memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {"path": str(folder / "qdrant"), "embedding_model_dims": DIM, "on_disk": True},
                },
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = Looked()

    def add(self, text: Text) -> str:
        meta = {"body": text.body, "kind": text.kind, "value": 0.0}
        done = self._memory.add(text.key, user_id="agent", metadata=meta, infer=False)
        return done["results"][0]["id"]

    def add_many(self, texts: Sequence[Text]) -> list[str]:
        return [self.add(text) for text in texts]

    def search(self, query: str, k: int, kind: str | None = None) -> list[str]:
        filters = {"user_id": "agent"} | ({"kind": kind} if kind else {})
        return [hit["memory"] for hit in self._memory.search(query, filters=filters, top_k=k)["results"]]

    def prepare(self, ids: Sequence[str], texts: Sequence[Text]) -> list[Any]:
        return list(ids)

    def update(self, handle: Any, value: float) -> None:
        self._memory.update(handle, metadata={"value": value})

    def read(self, id_: str) -> float:
        return self._memory.get(id_)["metadata"]["value"]

    def count(self) -> int:
        return len(self._memory.get_all(filters={"user_id": "agent"}, top_k=10_000_000)["results"])

    def close(self) -> None:
        self._memory.close()
        self._memory.vector_store.client.close()


class LangGraph:
    """LangGraph's store: in memory, or in SQLite with sqlite-vec."""

    LICENCE = "MIT"
    SETTING = "`InMemoryStore` with an index on the key; nothing is written anywhere"
    BULK = "batch() of 1,000 puts"
    NAMESPACE = ("agent",)

    def __init__(self, folder: Path, table: Table) -> None:
        from langgraph.store.memory import InMemoryStore  # pyright: ignore[reportMissingImports]

        self._store: Any = InMemoryStore(index={"dims": DIM, "embed": table.lists, "fields": ["key"]})

    def add(self, text: Text) -> str:
        id_ = str(uuid.uuid4())
        self._store.put(self.NAMESPACE, id_, _value(text))
        return id_

    def add_many(self, texts: Sequence[Text]) -> list[str]:
        from langgraph.store.base import PutOp  # pyright: ignore[reportMissingImports]

        ids = [str(uuid.uuid4()) for _ in texts]
        for start in range(0, len(texts), 1000):
            part = zip(ids[start : start + 1000], texts[start : start + 1000], strict=True)
            self._store.batch([PutOp(self.NAMESPACE, id_, _value(text)) for id_, text in part])
        return ids

    def search(self, query: str, k: int, kind: str | None = None) -> list[str]:
        found = self._store.search(self.NAMESPACE, query=query, limit=k, filter={"kind": kind} if kind else None)
        return [item.value["key"] for item in found]

    def prepare(self, ids: Sequence[str], texts: Sequence[Text]) -> list[Any]:
        return list(ids)

    def update(self, handle: Any, value: float) -> None:
        # there is no partial update; index=False keeps the vector and spares the embedder
        found = self._store.get(self.NAMESPACE, handle)
        self._store.put(self.NAMESPACE, handle, {**found.value, "value": value}, index=False)

    def read(self, id_: str) -> float:
        return self._store.get(self.NAMESPACE, id_).value["value"]

    def count(self) -> int:
        return len(self._store.search(self.NAMESPACE, limit=10_000_000))

    def close(self) -> None:
        pass


class LangGraphSqlite(LangGraph):
    """The same interface on SQLite."""

    SETTING = "`SqliteStore.from_conn_string` as documented (autocommit connection, SQLite's defaults), sqlite-vec"

    def __init__(self, folder: Path, table: Table) -> None:
        _loadable_sqlite()
        from langgraph.store.sqlite import SqliteStore  # pyright: ignore[reportMissingImports]

        # its documentation says "fields"; version 3.1.2 reads "text_fields" and otherwise embeds the whole value
        index = {"dims": DIM, "embed": table.lists, "text_fields": ["key"]}
        self._context = SqliteStore.from_conn_string(str(folder / "store.db"), index=index)
        self._store = self._context.__enter__()
        self._store.setup()

    def close(self) -> None:
        self._context.__exit__(None, None, None)


class Chroma:
    """chromadb's persistent client; vectors are handed over."""

    LICENCE = "Apache-2.0"
    SETTING = "`PersistentClient`, HNSW with cosine distance and default parameters (approximate), vectors given"
    BULK = "collection.add() of 1,000 items"

    def __init__(self, folder: Path, table: Table) -> None:
        import chromadb  # pyright: ignore[reportMissingImports]
        from chromadb.config import Settings  # pyright: ignore[reportMissingImports]

        self._table = table
        self._client = chromadb.PersistentClient(str(folder / "chroma"), Settings(anonymized_telemetry=False))
        self._items = self._client.get_or_create_collection(
            "agent", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    def add(self, text: Text) -> str:
        return self.add_many([text])[0]

    def add_many(self, texts: Sequence[Text]) -> list[str]:
        ids = [str(uuid.uuid4()) for _ in texts]
        for start in range(0, len(texts), 1000):
            part = texts[start : start + 1000]
            self._items.add(
                ids=ids[start : start + 1000],
                embeddings=self._table.embed([t.key for t in part]),
                documents=[t.key for t in part],
                metadatas=[{"body": t.body, "kind": t.kind, "value": 0.0} for t in part],
            )
        return ids

    def search(self, query: str, k: int, kind: str | None = None) -> list[str]:
        where = {"kind": kind} if kind else None
        found = self._items.query(query_embeddings=self._table.embed([query]), n_results=k, where=where)
        return found["documents"][0]

    def prepare(self, ids: Sequence[str], texts: Sequence[Text]) -> list[Any]:
        return list(ids)

    def update(self, handle: Any, value: float) -> None:
        self._items.update(ids=[handle], metadatas=[{"value": value}])

    def read(self, id_: str) -> float:
        return self._items.get(ids=[id_])["metadatas"][0]["value"]

    def count(self) -> int:
        return self._items.count()

    def close(self) -> None:
        self._client.close()


class SqliteVec:
    """What one would write by hand: an ordinary table for texts and values, a vec0 table for vectors and kinds."""

    LICENCE = "MIT or Apache-2.0"
    SETTING = "a plain table beside a `vec0` table (cosine, kind as metadata column); WAL, synchronous=FULL"
    BULK = "executemany in one transaction per 1,000 items"

    def __init__(self, folder: Path, table: Table) -> None:
        sqlite3 = _loadable_sqlite()
        import sqlite_vec  # pyright: ignore[reportMissingImports]

        self._table = table
        self._db = sqlite3.connect(str(folder / "items.db"), timeout=60.0, isolation_level=None)
        self._db.enable_load_extension(True)
        sqlite_vec.load(self._db)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS item(id INTEGER PRIMARY KEY, key TEXT, body TEXT, kind TEXT, value REAL)"
        )
        self._db.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS vec USING vec0(embedding float[{DIM}] distance_metric=cosine, "
            "kind TEXT)"
        )

    def add(self, text: Text) -> str:
        return self.add_many([text])[0]

    def add_many(self, texts: Sequence[Text]) -> list[str]:
        ids = []
        for start in range(0, len(texts), 1000):
            part = texts[start : start + 1000]
            vec_ND = self._table.embed([t.key for t in part])
            self._db.execute("BEGIN IMMEDIATE")
            first = self._db.execute("SELECT coalesce(max(id), 0) + 1 FROM item").fetchone()[0]
            rows = list(enumerate(part, first))
            self._db.executemany("INSERT INTO item VALUES(?,?,?,?,0.0)", [(i, *t) for i, t in rows])
            self._db.executemany(
                "INSERT INTO vec(rowid, embedding, kind) VALUES(?,?,?)",
                [(i, vec_ND[i - first].tobytes(), t.kind) for i, t in rows],
            )
            self._db.execute("COMMIT")
            ids += [str(i) for i, _ in rows]
        return ids

    def search(self, query: str, k: int, kind: str | None = None) -> list[str]:
        also, more = (" AND kind = ?", [kind]) if kind else ("", [])
        rows = self._db.execute(
            "SELECT i.key, i.body, i.value FROM (SELECT rowid, distance FROM vec WHERE embedding MATCH ? AND k = ?"
            f"{also}) v JOIN item i ON i.id = v.rowid ORDER BY v.distance",
            [self._table.embed([query])[0].tobytes(), k, *more],
        )
        return [row[0] for row in rows]

    def prepare(self, ids: Sequence[str], texts: Sequence[Text]) -> list[Any]:
        return [int(id_) for id_ in ids]

    def update(self, handle: Any, value: float) -> None:
        self._db.execute("UPDATE item SET value = ? WHERE id = ?", (value, handle))

    def read(self, id_: str) -> float:
        return self._db.execute("SELECT value FROM item WHERE id = ?", (int(id_),)).fetchone()[0]

    def count(self) -> int:
        # both tables: an item without its vector would not be found
        joined = "SELECT count(*) FROM item JOIN vec ON vec.rowid = item.id"
        return self._db.execute(joined).fetchone()[0]

    def close(self) -> None:
        self._db.close()


class Evolvent:
    """Ours. A search is a whole recall with its durable receipt; an update is settle, with its event in the ledger."""

    LICENCE = "Apache-2.0"
    SETTING = "`Memory(path, sync='full')`; search = `recall` under policy `rag`, update = `settle` of one memory"
    BULK = "remember_many() of 1,000 rows, merge=None; prepare() at the end (the search graph, from 100,000 on)"
    SYNC: Any = "full"

    def __init__(self, folder: Path, table: Table) -> None:
        from evolvent import Memory

        self._table = table
        self._memory = Memory(folder / "memory.db", embedder=table, sync=self.SYNC)

    def add(self, text: Text) -> str:
        return self._memory.remember(text.key, text.body, kind=text.kind, merge=None)

    def add_many(self, texts: Sequence[Text]) -> list[str]:
        ids = []
        for start in range(0, len(texts), 1000):
            rows = [{"key": t.key, "body": t.body, "kind": t.kind, "merge": None} for t in texts[start : start + 1000]]
            ids += self._memory.remember_many(rows)
        return ids

    def ready(self) -> None:
        """Wait for the search graph of a large store, which is otherwise built in the background."""
        self._memory.prepare()

    def search(self, query: str, k: int, kind: str | None = None, policy: str = "rag") -> list[str]:
        found = self._memory.recall(query, k=k, policy=policy, kinds=(kind,) if kind else None)
        return [item.key for item in found.items]

    def extras(self) -> dict[str, Callable[[str], list[str]]]:
        """Further ways to search: the default policy, and the index without any receipt (no public verb)."""

        def without_receipt(query: str) -> list[str]:
            bank = self._memory.bank
            seqs, _ = bank.index.search(self._table.embed([query])[0], limit=5)
            marks = ",".join("?" * len(seqs))
            rows = bank.store.rows(
                f"SELECT m.seq, k.body FROM memory m JOIN text_blob k ON k.hash = m.key_hash WHERE m.seq IN ({marks})",
                [int(s) for s in seqs],
            )
            keys = dict(rows)
            return [keys[int(s)] for s in seqs]

        def memlift(query: str) -> list[str]:
            return self.search(query, 5, policy="memlift")

        return {"search_memlift": memlift, "search_without_receipt": without_receipt}

    def prepare(self, ids: Sequence[str], texts: Sequence[Text]) -> list[Any]:
        with self._memory.transaction():
            return [self._memory.recall(text.key, k=1, policy="memrl") for text in texts]

    def update(self, handle: Any, value: float) -> None:
        changes = self._memory.settle(handle, value)
        assert len(changes) == 1, changes

    def read(self, id_: str) -> float:
        return self._memory.get(id_).value

    def count(self) -> int:
        return self._memory.health()["items"]

    def close(self) -> None:
        self._memory.close()


class EvolventNormal(Evolvent):
    """The same without waiting for the disk at every commit."""

    SETTING = "the same with `sync='normal'`: the last commits may go with the machine's power, not with the process"
    SYNC = "normal"


PEERS: dict[str, Callable[[Path, Table], Peer]] = {
    "evolvent full": Evolvent,
    "evolvent normal": EvolventNormal,
    "mem0": Mem0,
    "langgraph memory": LangGraph,
    "langgraph sqlite": LangGraphSqlite,
    "chroma": Chroma,
    "sqlite-vec": SqliteVec,
}
PACKAGES = {
    "evolvent full": ["evolvent"],
    "evolvent normal": ["evolvent"],
    "mem0": ["mem0ai", "qdrant-client"],
    "langgraph memory": ["langgraph", "langgraph-checkpoint"],
    "langgraph sqlite": ["langgraph-checkpoint-sqlite", "sqlite-vec", "pysqlite3-binary"],
    "chroma": ["chromadb"],
    "sqlite-vec": ["sqlite-vec", "pysqlite3-binary"],
}


def _value(text: Text) -> dict[str, Any]:
    return {"key": text.key, "body": text.body, "kind": text.kind, "value": 0.0}


def _loadable_sqlite() -> Any:
    """A sqlite3 module that can load extensions, in the place of the one that Python was built with."""
    import pysqlite3  # pyright: ignore[reportMissingImports]

    sys.modules["sqlite3"] = pysqlite3
    return pysqlite3


def exact(vec_ND: np.ndarray, query_D: np.ndarray, k: int, mask_N: np.ndarray | None = None) -> np.ndarray:
    """Rows of the ``k`` most similar vectors by the bare product."""
    sim_N = vec_ND @ query_D
    if mask_N is not None:
        sim_N = np.where(mask_N, sim_N, -2.0)
    top = np.argpartition(-sim_N, k)[:k]
    return top[np.argsort(-sim_N[top])]
