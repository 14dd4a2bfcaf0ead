"""How fast the memory is: recall against the bare matrix product, settle against the disk, search against a loop.

Every ratio compares two things measured alternately in one process on the same data; medians and 99th percentiles.
Embedding is left out: vectors of 384 numbers come from a clustered random source, like many texts of few kinds.
"""

from __future__ import annotations

import math
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.seeding import rng
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

DIM, CLUSTERS, BATCH = 384, 200, 5000
LOOP_SIZES = (1_000, 10_000)
Progress = Callable[[str], None]


class Clustered:
    """Vectors around ``CLUSTERS`` centres by the hash of the text: cosine about .5 within one, 0 between them."""

    dim = DIM

    def __init__(self, seed: int) -> None:
        self.id = f"clustered:{DIM}:{seed}"
        self._seed = seed
        self._centres = rng(seed, "bench", "centres").standard_normal((CLUSTERS, DIM)).astype(np.float32)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-norm float32 ``[N, 384]``."""
        generator = rng(self._seed, "bench", zlib.crc32("\n".join(texts).encode()))
        which = [zlib.crc32(t.encode()) % CLUSTERS for t in texts]
        vec_ND = self._centres[which] + generator.standard_normal((len(texts), DIM), dtype=np.float32)
        return vec_ND / np.linalg.norm(vec_ND, axis=1, keepdims=True)


def run(
    seed: int = 0, sizes: Sequence[int] = (10_000, 100_000), repeats: int = 200, progress: Progress | None = None
) -> dict[str, Any]:
    """Measure recall, settle and search; a minute and a half for the default sizes on two cores.

    Args:
        seed: of the vectors and queries.
        sizes: numbers of memories.
        repeats: measurements of each kind.
        progress: called with a line of text now and then.

    Returns:
        ``ratios`` (search, and whole recall with its receipt, over the bare product at each size; Python loop over
        search), ``milliseconds`` (p50 and p99 of each), ``per_second`` (bulk inserts), ``checks`` (search ≤ 1.5 × the
        product at the largest size, ≥ 50 × faster than the loop).
    """
    say = progress or (lambda text: None)
    result: dict[str, Any] = {
        "name": "memory",
        "seed": seed,
        "dim": DIM,
        "ratios": {},
        "milliseconds": {},
        "per_second": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            _measure_size(Path(folder) / f"{size}.db", size, seed, repeats, result, say)
        say("settle with full durability")
        for sync in ("full", "normal"):
            _measure_settle(Path(folder) / f"settle-{sync}.db", sync, seed, repeats, result)
    for size in LOOP_SIZES:
        say(f"Python loop over {size:,} vectors")
        _measure_loop(size, seed, result)
    ratios = result["ratios"]
    result["checks"] = {
        "search_within_1.5_of_product": ratios[f"search_over_product_{max(sizes)}"] <= 1.5,
        "faster_than_loop_50": min(ratios[f"loop_over_search_{n}"] for n in LOOP_SIZES) >= 50.0,
    }
    return result


def _text(i: int) -> str:
    """Texts that share most of their words, as the tasks of a stream do."""
    return f"How many of kind {i % 97} were seen by {i % 1009} in month {i % 12} of case {i}?"


def _measure_size(path: Path, size: int, seed: int, repeats: int, result: dict[str, Any], say: Progress) -> None:
    policy = preset("memrl", k=5, pool=10, gate=0.3)
    with Memory(path, policy=policy, embedder=Clustered(seed), sync="normal", seed=seed) as memory:
        begun = time.perf_counter()
        for start in range(0, size, BATCH):
            memory.remember_many(
                [{"key": _text(i), "body": f"body {i}"} for i in range(start, min(size, start + BATCH))]
            )
            say(f"{min(size, start + BATCH):,} of {size:,} memories written")
        result["per_second"][f"remember_many_{size}"] = round(size / (time.perf_counter() - begun))
        index = memory._bank.index
        matrix = np.ascontiguousarray(index._matrix[: index.n])
        times: dict[str, list[float]] = {"product": [], "search": [], "recall_memrl": [], "recall_memlift": []}
        say(f"recall among {size:,} memories")
        for t in range(repeats + 5):
            text = _text(size + t)
            query = memory.embedder.embed([text])[0]
            _clock(times["product"], lambda q=query: matrix @ q)
            _clock(times["search"], lambda q=query: index.search(q, limit=10, gate=0.3))
            # the receipt, its query's vector and its candidates are committed to the file before this returns
            _clock(times["recall_memrl"], lambda q=text: memory.recall(q))
            _clock(times["recall_memlift"], lambda q=text: memory.recall(q, policy="memlift"))
        begun = time.perf_counter()
    with Memory(path, policy=policy, embedder=Clustered(seed), sync="normal", seed=seed) as memory:
        memory.recall(_text(0))
        result["milliseconds"][f"open_and_first_recall_{size}"] = round(1e3 * (time.perf_counter() - begun), 1)
    for name, seconds in times.items():
        _put(result, f"{name}_{size}", seconds[5:])  # the first ones warm caches
    for name in ("search", "recall_memrl", "recall_memlift"):
        for quantile in ("p50", "p99"):
            ms = result["milliseconds"]
            ratio = ms[f"{name}_{size}"][quantile] / ms[f"product_{size}"][quantile]
            result["ratios"][f"{name}_over_product_{size}" + ("" if quantile == "p50" else "_p99")] = round(ratio, 3)


def _measure_settle(path: Path, sync: Any, seed: int, repeats: int, result: dict[str, Any]) -> None:
    """Recall and settle with three memories shown, each verb one durable commit, among 1,000 memories."""
    with Memory(path, policy="memlift", embedder=Clustered(seed), sync=sync, seed=seed) as memory:
        memory.remember_many([{"key": _text(i), "body": f"body {i}"} for i in range(1000)])
        times: dict[str, list[float]] = {"recall": [], "settle": []}
        for t in range(repeats + 5):
            receipt = _clock(times["recall"], lambda q=_text(t): memory.recall(q, k=3))
            _clock(times["settle"], lambda r=receipt, won=t % 2: memory.settle(r, float(won)))
        for name, seconds in times.items():
            _put(result, f"{name}_sync_{sync}", seconds[5:])
        with memory.transaction():
            waiting = [memory.recall(_text(t), k=3, policy="memrl") for t in range(repeats)]
        begun = time.perf_counter()
        with memory.transaction():
            changed = sum(len(memory.settle(receipt, 1.0)) for receipt in waiting)
        seconds = time.perf_counter() - begun
        result["per_second"][f"values_settled_in_one_transaction_{sync}"] = round(changed / seconds)


def _measure_loop(size: int, seed: int, result: dict[str, Any]) -> None:
    """Cosine in a Python loop over lists of floats, as the released MemRL code does it, against the index."""
    embedder = Clustered(seed)
    with Memory(policy="rag", embedder=embedder) as memory:
        for start in range(0, size, BATCH):
            memory.remember_many([{"key": _text(i), "body": "b"} for i in range(start, min(size, start + BATCH))])
        memory.recall("warm")
        index = memory._bank.index
        lists = [row.tolist() for row in index._matrix[: index.n]]
        query = embedder.embed(["query"])[0]
        plain_query = query.tolist()
        loop: list[float] = []
        search: list[float] = []
        for _ in range(3):
            _clock(loop, lambda: sorted(((_cosine(plain_query, v), i) for i, v in enumerate(lists)), reverse=True)[:10])
            for _ in range(20):
                _clock(search, lambda: index.search(query, limit=10))
        _put(result, f"loop_{size}", loop)
        _put(result, f"search_beside_loop_{size}", search)
        result["ratios"][f"loop_over_search_{size}"] = round(float(np.median(loop) / np.median(search)), 1)


def _cosine(a: list[float], b: list[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / (math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b)))


def _clock(into: list[float], work: Callable[[], Any]) -> Any:
    begun = time.perf_counter()
    done = work()
    into.append(time.perf_counter() - begun)
    return done


def _put(result: dict[str, Any], name: str, seconds: Sequence[float]) -> None:
    p50, p99 = np.quantile(np.asarray(seconds), (0.5, 0.99)) * 1e3
    result["milliseconds"][name] = {"p50": round(float(p50), 3), "p99": round(float(p99), 3)}
