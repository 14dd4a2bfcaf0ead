"""One process of the comparison: measures one store, or takes part in a trial of its guarantees. See memory_peers.py.

Modes: ``measure`` fills a store and times it, ``reopen`` opens it again in a fresh process, ``adds`` acknowledges every
write on standard output (and is killed), ``pair`` shares a store with another process, ``count`` says what is there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from peers_stores import PEERS, Peer, exact
from peers_texts import Table, Text, every_text

N_QUERIES = 120
WARM = 10
K = 5
PATIENCE_S, FEWEST = 180.0, 8  # a slow store is asked less often
Times = list[tuple[float, float]]  # seconds on the clock and of the processor
LEARNED = 0.25  # the value, or the reward, that an update brings


class TooSlow(Exception):
    """Filling the store will take longer than allowed."""


def main() -> None:
    """Run one mode and write its result as one line of JSON."""
    a = _arguments()
    done = {"measure": measure, "reopen": reopen, "adds": adds, "pair": pair, "count": count}[a.mode](a)
    _say(done)


def measure(a: argparse.Namespace) -> dict[str, Any]:
    """Fill an empty store with ``a.size`` items, then time single operations, each beside its yardstick."""
    texts, vec_ND, queries = _data(a.vectors)
    table = Table(texts, vec_ND)
    table.embed([texts[0].key])
    begun = time.perf_counter()
    peer = PEERS[a.peer](Path(a.folder), table)
    out: dict[str, Any] = {"import_and_create_s": time.perf_counter() - begun}
    before = _resident()
    try:
        busy = time.process_time()
        ids, out["bulk_add_s"] = _fill(peer, texts[: a.size], a.limit_s)
        out["bulk_add_cpu_s"] = time.process_time() - busy
    except TooSlow as slow:
        return out | {"cut": str(slow)}
    out["bulk_add_per_s"] = a.size / out["bulk_add_s"]
    out["bulk_add_per_cpu_s"] = a.size / out["bulk_add_cpu_s"]
    out["resident_grown_mib"] = _resident() - before
    out["disk_mib"] = _disk(Path(a.folder))
    matrix_ND = np.ascontiguousarray(vec_ND[: a.size])
    _searches(peer, texts[: a.size], matrix_ND, table, queries, out)
    out["disk_after_searches_mib"] = _disk(Path(a.folder))
    _writes(peer, texts, ids, a, out)
    peer.close()
    return out


def _fill(peer: Peer, texts: list[Text], limit_s: float) -> tuple[list[str], float]:
    ids: list[str] = []
    begun = time.perf_counter()
    for start in range(0, len(texts), 1000):
        ids += peer.add_many(texts[start : start + 1000])
        seconds = time.perf_counter() - begun
        # no store gets faster as it grows: what will not make it is not waited for
        if len(ids) >= 2000 and seconds / len(ids) * len(texts) > limit_s:
            raise TooSlow(f"{len(ids):,} items in {seconds:.0f} s")
    if ready := getattr(peer, "ready", None):
        ready()
    return ids, time.perf_counter() - begun


def _searches(
    peer: Peer, texts: list[Text], matrix_ND: np.ndarray, table: Table, queries: list[Text], out: dict[str, Any]
) -> None:
    """Searches in turn with the bare product over the same vectors; and how many of the true five they found."""
    kinds = np.array([t.kind for t in texts])
    ways: dict[str, Callable[[Text], list[str]]] = {
        "search": lambda t: peer.search(t.key, K),
        "search_filtered": lambda t: peer.search(t.key, K, kind=t.kind),
    }
    if extras := getattr(peer, "extras", None):
        ways |= {name: lambda t, way=way: way(t.key) for name, way in extras().items()}
    seconds: dict[str, Times] = {name: [] for name in ("product", *ways)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    begun = time.perf_counter()
    for done, query in enumerate(queries):
        if time.perf_counter() - begun > PATIENCE_S and done >= FEWEST:
            break
        q_D = table.embed([query.key])[0]
        _clock(seconds["product"], lambda q=q_D: matrix_ND @ q)
        for name, way in ways.items():
            keys = _clock(seconds[name], lambda t=query, w=way: w(t))
            mask = kinds == query.kind if name == "search_filtered" else None
            truth = {texts[i].key for i in exact(matrix_ND, q_D, K, mask)}
            found[name].append(len(truth & set(keys)) / K)
    out["queries"] = len(seconds["product"])
    for name, values in seconds.items():
        out[name] = _quantiles(values[min(WARM, len(values) // 4) :])
    for name in ways:
        out[f"{name}_over_product"] = out[name]["cpu"] / out["product"]["cpu"]
        out[f"{name}_recall"] = float(np.mean(found[name]))


def _writes(peer: Peer, texts: list[Text], ids: list[str], a: argparse.Namespace, out: dict[str, Any]) -> None:
    """Single adds and updates in turn with a bare append and fsync of 2 KiB in the same folder."""
    fresh = texts[a.size : a.size + a.writes]
    chosen = np.random.default_rng(0).choice(a.size, size=a.writes, replace=False).tolist()
    handles = peer.prepare([ids[i] for i in chosen], [texts[i] for i in chosen])
    seconds: dict[str, Times] = {"fsync": [], "add": [], "update": []}
    before = [peer.read(ids[i]) for i in chosen[:5]]
    with open(Path(a.folder) / "yardstick", "wb", buffering=0) as file:
        begun = time.perf_counter()
        for text, handle in zip(fresh, handles, strict=True):
            if time.perf_counter() - begun > PATIENCE_S and len(seconds["add"]) >= FEWEST:
                break
            _clock(seconds["fsync"], lambda: (file.write(b"x" * 2048), os.fsync(file.fileno())))
            _clock(seconds["add"], lambda t=text: peer.add(t))
            _clock(seconds["update"], lambda h=handle: peer.update(h, LEARNED))
    after = [peer.read(ids[i]) for i in chosen[:5]]
    # fewer may have been updated than were chosen, never fewer than five
    out["updates_read_back"] = sum(x != y for x, y in zip(before, after, strict=True)) / len(before)
    out["found_after_update"] = float(np.mean([texts[i].key in peer.search(texts[i].key, K) for i in chosen[:5]]))
    for name, values in seconds.items():
        out[name] = _quantiles(values[2:])
    for name in ("add", "update"):
        out[f"{name}_over_fsync"] = out[name]["p50"] / out["fsync"]["p50"]


def reopen(a: argparse.Namespace) -> dict[str, Any]:
    """Open a filled store in a fresh process: seconds to the first answer, and memory it takes."""
    texts, vec_ND, queries = _data(a.vectors)
    table = Table(queries, np.array(vec_ND[-len(queries) :]))
    table.embed([queries[0].key])
    del texts
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as empty:
        PEERS[a.peer](Path(empty), table).close()  # imports the library, so that its code does not count as data
    imported, before = time.perf_counter() - begun, _resident()
    begun, busy = time.perf_counter(), time.process_time()
    peer = PEERS[a.peer](Path(a.folder), table)
    opened = time.perf_counter() - begun
    n = len(peer.search(queries[0].key, K))
    first, worked = time.perf_counter() - begun, time.process_time() - busy
    for query in queries[1:11]:
        peer.search(query.key, K)
    out = {"import_s": imported, "open_s": opened, "open_and_first_search_s": first, "found": n}
    out["open_and_first_search_cpu_s"] = worked
    out["resident_mib"] = _resident() - before
    peer.close()
    return out


def adds(a: argparse.Namespace) -> dict[str, Any]:
    """Add ``a.size`` items one by one (then update as many), saying so after each; somebody kills this process."""
    texts, vec_ND, _ = _data(a.vectors)
    peer = PEERS[a.peer](Path(a.folder), Table(texts, vec_ND))
    _say({"ready": True})
    ids = []
    for i in range(a.size):
        ids.append(peer.add(texts[i]))
        os.write(1, b'{"added": %d}\n' % (i + 1))
    for handle in peer.prepare(ids, texts[: a.size]) if a.updates else ():
        peer.update(handle, LEARNED)
    if a.stay:
        time.sleep(600)  # to be killed right after the last acknowledgement
    peer.close()
    return {"added": len(ids)}


def pair(a: argparse.Namespace) -> dict[str, Any]:
    """One of two processes on one store: adds its half, then looks for the last item of the other."""
    texts, vec_ND, _ = _data(a.vectors)
    table = Table(texts, vec_ND)
    out: dict[str, Any] = {"errors": 0, "first_error": None, "added": 0}
    mine = texts[1 + a.number * a.size : 1 + (a.number + 1) * a.size]
    other = texts[(2 - a.number) * a.size]
    peer = None
    try:
        peer = PEERS[a.peer](Path(a.folder), table)
    except Exception as error:  # noqa: BLE001 - whatever a store raises is the result here
        out |= {"errors": 1, "first_error": _said(error, a.folder)}
    _say({"ready": True})
    sys.stdin.readline()
    for text in mine:
        if peer is None:
            break
        try:
            peer.add(text)
            out["added"] += 1
        except Exception as error:  # noqa: BLE001
            out["errors"] += 1
            out["first_error"] = out["first_error"] or _said(error, a.folder)
    _say({"written": True})
    sys.stdin.readline()
    if peer is not None:
        out["sees_other"] = peer.search(other.key, 1) == [other.key]
        peer.close()
    return out


def count(a: argparse.Namespace) -> dict[str, Any]:
    """How many items a fresh process finds, and how many of the first ``a.size`` a search finds."""
    texts, vec_ND, _ = _data(a.vectors)
    peer = PEERS[a.peer](Path(a.folder), Table(texts, vec_ND))
    found = sum(peer.search(text.key, 1) == [text.key] for text in texts[: a.size])
    out = {"count": peer.count(), "found": found}
    peer.close()
    return out


def _data(vectors: str) -> tuple[list[Text], np.ndarray, list[Text]]:
    """Items and queries; the last texts are never stored."""
    texts = every_text()
    return texts, np.load(vectors, mmap_mode="r"), texts[-N_QUERIES - WARM :]


def _said(error: Exception, folder: str) -> str:
    return f"{type(error).__name__}: {error}".replace(folder, "FOLDER")[:200]


def _clock(into: Times, work: Callable[[], Any]) -> Any:
    begun, busy = time.perf_counter(), time.process_time()
    done = work()
    into.append((time.perf_counter() - begun, time.process_time() - busy))
    return done


def _quantiles(seconds: Times) -> dict[str, float]:
    """Milliseconds: median and 99th percentile on the clock, and the median of processor time, all threads."""
    wall_N, cpu_N = np.asarray(seconds).T * 1e3
    p50, p99 = np.quantile(wall_N, (0.5, 0.99))
    return {"p50": float(p50), "p99": float(p99), "cpu": float(np.median(cpu_N))}


def _resident() -> float:
    """MiB of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _disk(folder: Path) -> float:
    """MiB that the files of a store take, write-ahead logs included."""
    files = [p.stat() for p in folder.rglob("*") if p.is_file() and p.name != "yardstick"]
    return sum(s.st_blocks * 512 for s in files) / 2**20


def _say(what: dict[str, Any]) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


def _arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("mode", choices=["measure", "reopen", "adds", "pair", "count"])
    p.add_argument("peer", choices=list(PEERS))
    p.add_argument("folder")
    p.add_argument("vectors")
    p.add_argument("--size", type=int, default=0)
    p.add_argument("--writes", type=int, default=200)
    p.add_argument("--limit-s", type=float, default=600.0)
    p.add_argument("--updates", action="store_true")
    p.add_argument("--stay", action="store_true")
    p.add_argument("--number", type=int, default=0)
    return p.parse_args()


if __name__ == "__main__":
    main()
