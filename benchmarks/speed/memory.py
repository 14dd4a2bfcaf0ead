"""How fast the memory is: search against the bare matrix product, recall and settle against the disk, and a loop.

Every ratio compares two things measured alternately in one process on the same data; medians and 99th percentiles.
Embedding is left out: vectors of 384 numbers come from a clustered random source, like many texts of few kinds.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.seeding import rng
from evolvent.memory.items import Recall
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.store.engine import Search, Sync

from . import FRESH

DIM, CLUSTERS, BATCH, LIMIT, GATE = 384, 200, 5000, 10, 0.3
LOOP_SIZES = (1_000, 10_000)
Progress = Callable[[str], None]
Times = tuple[float, float]  # seconds on the clock, and of this thread's work


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
    """Measure recall, settle and search; about two minutes for the default sizes on two cores, 1,000,000 takes twenty.

    Args:
        seed: of the vectors and queries.
        sizes: numbers of memories.
        repeats: measurements of each kind.
        progress: called with a line of text now and then.

    Returns:
        For each size: ``ratios`` to the bare product of the search that compares with every vector (``exact``), of the
        search that the memory chooses (``search``: the same, or from 100,000 on with a graph) and of whole recalls
        whose receipt is on disk; ``milliseconds``, of which ``cpu_milliseconds`` are this thread's own (medians: a busy
        machine blurs the former only); ``load_before``: what else ran; ``recall_at_10`` of the chosen search;
        ``bytes_per_memory`` that stay resident in a fresh process; ``per_second`` and ``seconds`` of writing and
        building; ``checks``.
    """
    say = progress or (lambda text: None)
    names = ("ratios", "milliseconds", "cpu_milliseconds", "recall_at_10", "bytes_per_memory", "per_second", "seconds")
    load = [round(x, 1) for x in os.getloadavg()] if hasattr(os, "getloadavg") else None
    result: dict[str, Any] = {"name": "memory", "seed": seed, "dim": DIM, **{name: {} for name in names}}
    result["load_before"] = load
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            path = Path(folder) / f"{size}.db"
            _fill(path, size, seed, result, say)
            _measure_size(path, size, seed, repeats, result, say)
            for search in ("exact", "auto"):
                _measure_open(path, size, seed, search, repeats, result)
            for file in [path, *path.parent.glob(f"{path.name}.cache/*")]:
                file.unlink()
        say("settle with full durability")
        for sync in ("full", "normal"):
            _measure_settle(Path(folder) / f"settle-{sync}.db", sync, seed, repeats, result)
    for size in LOOP_SIZES:
        say(f"Python loop over {size:,} vectors")
        _measure_loop(size, seed, result)
    result["checks"] = _checks(result, max(sizes))
    return result


def _checks(result: dict[str, Any], largest: int) -> dict[str, bool]:
    ratios, ms, rates = result["ratios"], result["milliseconds"], result["per_second"]
    graph = importlib.util.find_spec("usearch") is not None and largest >= 100_000
    return {
        "exact_search_within_1.5_of_product": ratios[f"exact_over_product_{largest}"] <= 1.5,
        "faster_than_loop_50": min(ratios[f"loop_over_search_{n}"] for n in LOOP_SIZES) >= 50.0,
        "recall_at_10_of_98": result["recall_at_10"][f"search_{largest}"] >= 0.98,
        "search_p50_within_5_ms": not graph or ms[f"search_{largest}"]["p50"] <= 5.0,
        "open_within_3_s": ms[f"open_and_first_recall_auto_{largest}"] <= 3000.0,
        "resident_within_1.15_of_vectors": result["bytes_per_memory"][f"exact_{largest}"]
        <= 1.15 * 4 * DIM + 1e8 / largest,
        "settle_5000_values_a_second": rates["values_settled_in_one_transaction_full"] >= 5000,
        "settle_p50_within_10_ms": ms["settle_sync_full"]["p50"] <= 10.0,
    }


def _text(i: int) -> str:
    """Texts that share most of their words, as the tasks of a stream do."""
    return f"How many of kind {i % 97} were seen by {i % 1009} in month {i % 12} of case {i}?"


def _open(path: Path, seed: int, *, search: Search = "auto", sync: Sync = "full") -> Memory:
    policy = preset("memrl", k=5, pool=LIMIT, gate=GATE)
    return Memory(path, policy=policy, embedder=Clustered(seed), sync=sync, seed=seed, search=search)


def _fill(path: Path, size: int, seed: int, result: dict[str, Any], say: Progress) -> None:
    with _open(path, seed, sync="normal", search="exact") as memory:
        begun = time.perf_counter()
        for start in range(0, size, BATCH):
            stop = min(size, start + BATCH)
            memory.remember_many([{"key": _text(i), "body": f"body {i}"} for i in range(start, stop)])
            say(f"{stop:,} of {size:,} memories written")
        result["per_second"][f"remember_many_{size}"] = round(size / (time.perf_counter() - begun))
    with _open(path, seed) as memory:
        begun = time.perf_counter()
        memory.prepare(lambda done, total, what: say(f"{what}: {done:,} of {total:,}"))
        result["seconds"][f"prepare_{size}"] = round(time.perf_counter() - begun, 2)


def _measure_size(path: Path, size: int, seed: int, repeats: int, result: dict[str, Any], say: Progress) -> None:
    say(f"recall among {size:,} memories")
    names = ("product", "exact", "search", "recall_memrl", "recall_memlift")
    times: dict[str, list[Times]] = {name: [] for name in names}
    found, due = 0, 0
    with _open(path, seed, search="exact") as plain, _open(path, seed) as memory:
        for each in (plain, memory):
            each.prepare()
        exact: Any = plain.bank.index
        index, vectors = memory.bank.index, exact._shadow.vectors
        matrix = vectors.mapped if vectors.in_file else np.ascontiguousarray(vectors.tail)
        for t in range(repeats + 5):
            text = _text(size + t)
            query = memory.embedder.embed([text])[0]
            _clock(times["product"], lambda q=query: matrix @ q)
            right, _ = _clock(times["exact"], lambda q=query: exact.search(q, limit=LIMIT))
            near, _ = _clock(times["search"], lambda q=query: index.search(q, limit=LIMIT))
            found, due = found + len(np.intersect1d(right, near, assume_unique=True)), due + len(right)
            # the receipt, its query's vector and its candidates are on the disk before this returns
            _clock(times["recall_memrl"], lambda q=text: memory.recall(q))
            _clock(times["recall_memlift"], lambda q=text: memory.recall(q, policy="memlift"))
    result["recall_at_10"][f"search_{size}"] = round(found / due, 5)
    for name, seconds in times.items():
        _put(result, f"{name}_{size}", seconds[5:])  # the first ones warm caches
    for name in names[1:]:
        ms, cpu = result["milliseconds"], result["cpu_milliseconds"]
        for quantile in ("p50", "p99"):
            ratio = ms[f"{name}_{size}"][quantile] / ms[f"product_{size}"][quantile]
            result["ratios"][f"{name}_over_product_{size}" + ("" if quantile == "p50" else "_p99")] = round(ratio, 3)
        result["ratios"][f"{name}_over_product_{size}_cpu"] = round(cpu[f"{name}_{size}"] / cpu[f"product_{size}"], 3)


def _measure_open(path: Path, size: int, seed: int, search: Search, repeats: int, result: dict[str, Any]) -> None:
    """Open and recall in a fresh process; what stays resident after more recalls."""
    code = f"{FRESH}from benchmarks.speed.memory import _opened; "
    code += f"_opened({str(path)!r}, {size}, {seed}, {search!r}, {repeats})"
    data = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    result["milliseconds"][f"open_and_first_recall_{search}_{size}"] = data["ms"]
    result["cpu_milliseconds"][f"open_and_first_recall_{search}_{size}"] = data["cpu_ms"]
    result["bytes_per_memory"][f"{search}_{size}"] = data["bytes"]


def _opened(path: str, size: int, seed: int, search: Search, repeats: int) -> None:
    """The other side of ``_measure_open``: measures itself, answers in JSON."""
    before = _resident()
    spent: list[Times] = []
    memory = _clock(spent, lambda: _open(Path(path), seed, search=search))
    with memory:
        _clock(spent, lambda: memory.recall(_text(size)))
        ms, cpu_ms = (round(1e3 * sum(seconds), 1) for seconds in zip(*spent, strict=True))
        memory.prepare()
        for i in range(repeats):
            memory.recall(_text(size + i))
        sys.stdout.write(json.dumps({"ms": ms, "cpu_ms": cpu_ms, "bytes": round((_resident() - before) / size, 1)}))


def _resident() -> int:
    """Bytes of this process in RAM, shared and mapped pages included."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return 1024 * int(line.split()[1])


def _measure_settle(path: Path, sync: Sync, seed: int, repeats: int, result: dict[str, Any]) -> None:
    """Recall and settle with three memories shown, each verb one durable commit, among 1,000 memories."""
    with Memory(path, policy="memlift", embedder=Clustered(seed), sync=sync, seed=seed) as memory:
        memory.remember_many([{"key": _text(i), "body": f"body {i}"} for i in range(1000)])
        times: dict[str, list[Times]] = {"recall": [], "settle": []}
        for t in range(repeats + 5):
            receipt = _clock(times["recall"], lambda q=_text(t): memory.recall(q, k=3))
            _clock(times["settle"], lambda r=receipt, won=t % 2: memory.settle(r, float(won)))
        for name, seconds in times.items():
            _put(result, f"{name}_sync_{sync}", seconds[5:])
        spent: list[Times] = []
        _clock(spent, lambda: memory.recall_many([_text(t) for t in range(repeats)], k=3))
        each = 1e3 * spent[0][0] / repeats
        alone = result["milliseconds"][f"recall_sync_{sync}"]["p50"]
        result["ratios"][f"recall_alone_over_in_batch_{sync}"] = round(alone / each, 2)
        with memory.transaction():
            waiting = [memory.recall(_text(t), k=3, policy="memrl") for t in range(repeats)]
        spent = []
        changed = _clock(spent, lambda: _settle_all(memory, waiting))
        for name, seconds in zip(("", "cpu_"), spent[0], strict=True):
            result["per_second"][f"values_settled_in_one_transaction_{name}{sync}"] = round(changed / seconds)


def _settle_all(memory: Memory, waiting: Sequence[Recall]) -> int:
    with memory.transaction():
        return sum(len(memory.settle(receipt, 1.0)) for receipt in waiting)


def _measure_loop(size: int, seed: int, result: dict[str, Any]) -> None:
    """Cosine in a Python loop over lists of floats, as the released MemRL code does it, against the index."""
    embedder = Clustered(seed)
    with Memory(policy="rag", embedder=embedder) as memory:
        for start in range(0, size, BATCH):
            memory.remember_many([{"key": _text(i), "body": f"b{i}"} for i in range(start, min(size, start + BATCH))])
        memory.recall("warm")
        index = memory.bank.index
        lists = [row.tolist() for row in index.vectors(range(1, size + 1))]
        query = embedder.embed(["query"])[0]
        plain_query = query.tolist()
        loop: list[Times] = []
        search: list[Times] = []
        for _ in range(3):
            _clock(loop, lambda: sorted(((_cosine(plain_query, v), i) for i, v in enumerate(lists)), reverse=True)[:10])
            for _ in range(20):
                _clock(search, lambda: index.search(query, limit=10))
        _put(result, f"loop_{size}", loop)
        _put(result, f"search_beside_loop_{size}", search)
        result["ratios"][f"loop_over_search_{size}"] = round(
            float(np.median(loop, axis=0)[0] / np.median(search, axis=0)[0]), 1
        )


def _cosine(a: list[float], b: list[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / (math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b)))


def _clock(into: list[Times], work: Callable[[], Any]) -> Any:
    begun, cpu = time.perf_counter(), time.thread_time()
    done = work()
    into.append((time.perf_counter() - begun, time.thread_time() - cpu))
    return done


def _put(result: dict[str, Any], name: str, times: Sequence[Times]) -> None:
    wall, cpu = np.asarray(times).T * 1e3
    p50, p99 = np.quantile(wall, (0.5, 0.99))
    result["milliseconds"][name] = {"p50": round(float(p50), 3), "p99": round(float(p99), 3)}
    result["cpu_milliseconds"][name] = round(float(np.median(cpu)), 3)
