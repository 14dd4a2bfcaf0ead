"""The verbs on PostgreSQL and on SQLite, one after the other in one run: how long a caller waits.

python benchmarks/memory_postgres.py --items 10000 --out benchmarks/results/memory_postgres.json

Both wait for the disk at each commit (sync="full"). The server is the wheel pgserver's, on this machine, through a
socket, with 256 MB of buffers; verbs take turns between the engines, so that what else the machine does hits both.
"""

import argparse
import json
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.memory.maintenance import transfer
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.store.opening import open_store
from evolvent.memory.store.postgres_link import Link
from postgres_server import server

SETTINGS = ("shared_buffers=256MB", "max_wal_size=4GB")
WORDS = [f"{a}{b}" for a in ("flight", "delay", "seat", "gate", "wind", "crew", "fuel", "route") for b in range(400)]
DIM = 384
GROUP = 200
SENT = [0]  # round trips so far


def task(rng):
    return " ".join(rng.choice(WORDS, size=8))


def fill(path, items, rng):
    with Memory(path, policy="memlift", embedder=f"hash:{DIM}", sync="normal") as memory:
        for start in range(0, items, 5000):
            memory.remember_many(
                {"key": f"{task(rng)} {i}", "body": f"lesson {i}"} for i in range(start, min(items, start + 5000))
            )


def timed(work):
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def verbs(memory, rng, counter):
    """One round of the verbs: (seconds, round trips to the server) by verb."""
    facts, text = {}, task(rng)

    def verb(name, work):
        before = SENT[0]
        seconds, found = timed(work)
        facts[name] = seconds, SENT[0] - before
        return found

    verb("recall, similarity only", lambda: memory.recall(text, policy="rag"))
    r = verb("recall", lambda: memory.recall(text))
    verb("shown", lambda: memory.shown(r, r.ids[:1]))
    verb("settle", lambda: memory.settle(r, float(rng.integers(2)), action="lesson 7"))
    verb("remember", lambda: memory.remember(f"{text} {counter}", f"new {counter}", parents=r))
    return facts


def count_round_trips():
    """From now on, how often something is sent to the server."""
    send = Link._send

    def counted(self, waiting):
        SENT[0] += bool(waiting)
        return send(self, waiting)

    Link._send = counted


def grouped(memory, rng):
    """Value updates per second where many outcomes are settled: by settle in one transaction, and by settle_many."""

    def receipts():
        return [memory.recall(task(rng), k=3, policy=preset("memrl", gate=-1.0)) for _ in range(GROUP)]

    def one_by_one(waiting):
        with memory.transaction():
            return sum(len(memory.settle(r, 1.0)) for r in waiting)

    def at_once(waiting):
        return sum(map(len, memory.settle_many([{"recalled": r, "reward": 1.0} for r in waiting])))

    facts = {}
    for name, settle in (("in a transaction", one_by_one), ("settle_many", at_once)):
        waiting, before = receipts(), SENT[0]
        seconds, updates = timed(lambda settle=settle, waiting=waiting: settle(waiting))
        facts[name] = updates / seconds, SENT[0] - before
    return facts


def measure(items, repeats, seed):
    rng = np.random.default_rng(seed)
    result = {"items": items, "dim": DIM, "repeats": repeats}
    with tempfile.TemporaryDirectory() as folder, server(SETTINGS) as url:
        path, there = Path(folder) / "a.db", f"{url}&schema=bench"
        fill(path, items, rng)
        seconds, moved = timed(lambda: transfer.migrate(path, there))
        rows = sum(moved.rows.values())
        result["migrate"] = {"rows": rows, "to_postgresql_s": seconds}
        result["migrate"]["back_s"], back = timed(lambda: transfer.migrate(there, Path(folder) / "b.db"))
        assert back.digest == moved.digest
        with closing(open_store(path)) as store:
            exported, _ = timed(lambda: transfer.export_jsonl(store, Path(folder) / "a.jsonl"))
            result["migrate"] |= {"export_s": exported, "export_bytes": (Path(folder) / "a.jsonl").stat().st_size}
        result |= compare(path, there, repeats, seed)
        result["hnsw"] = graph(there, repeats, seed)
    return result


def compare(path, there, repeats, seed):
    times: dict[str, dict[str, list[float]]] = {"sqlite": {}, "postgresql": {}}
    trips: dict[str, list[int]] = {}
    count_round_trips()
    with Memory(path, policy="memlift") as lite, Memory(there, policy="memlift") as pg:
        pg.bank.store.shrink()  # statistics for the planner, as autovacuum would have them after a minute
        rngs = {"sqlite": np.random.default_rng(seed + 1), "postgresql": np.random.default_rng(seed + 1)}
        for i in range(repeats + 10):
            for name, memory in (("sqlite", lite), ("postgresql", pg)):
                for verb, (seconds, sent) in verbs(memory, rngs[name], i).items():
                    if i >= 10:  # the first ones fill caches
                        times[name].setdefault(verb, []).append(seconds)
                        trips.setdefault(verb, []).extend([sent] if name == "postgresql" else [])
        groups = {name: grouped(memory, rngs[name]) for name, memory in (("sqlite", lite), ("postgresql", pg))}
        updates = {name: {way: rate for way, (rate, _) in facts.items()} for name, facts in groups.items()}
        sent = {way: n for way, (_, n) in groups["postgresql"].items()}
        assert lite.items(None)[-1].id == pg.items(None)[-1].id
        sizes = {"sqlite": path.stat().st_size, "postgresql": sum(pg.bank.store.sizes().values())}
    table = {}
    for verb in times["sqlite"]:
        table[verb] = {
            name: {f"p{q}_ms": float(1e3 * np.percentile(times[name][verb], q)) for q in (50, 99)} for name in times
        }
        table[verb]["round_trips"] = {"p50": float(np.median(trips[verb])), "max": max(trips[verb])}
        table[verb]["ratio_p50"] = table[verb]["postgresql"]["p50_ms"] / table[verb]["sqlite"]["p50_ms"]
    grouping = {"settled": GROUP, "value_updates_per_s": updates, "round_trips": sent}
    return {"verbs": table, "grouped": grouping, "bytes": sizes}


def graph(there, repeats, seed):
    """pgvector's HNSW against the exact search, both in the server, without the rest of a recall."""
    rng = np.random.default_rng(seed + 2)
    with Memory(there, search="exact") as exact:
        exact.bank.index.catch_up()
        build, approximate = timed(lambda: prepared(there))
        hits, times = 0, {"exact": [], "hnsw": []}
        for _ in range(repeats):
            query = exact.embedder.embed([task(rng)])[0]
            seconds, (_, truth) = timed(lambda q=query: exact.bank.index.search(q, limit=10))
            times["exact"].append(seconds)
            seconds, (_, found) = timed(lambda q=query: approximate.bank.index.search(q, limit=10))
            times["hnsw"].append(seconds)
            # keys of counted words tie exactly: another that is just as near as the tenth is no miss
            hits += int(np.count_nonzero(found >= truth[-1]))
        approximate.close()
    facts = {f"{name}_p50_ms": float(1e3 * np.median(seconds)) for name, seconds in times.items()}
    return {"build_s": build, "recall_at_10": hits / (10 * repeats), **facts}


def prepared(there):
    memory = Memory(there, search="approximate")
    memory.prepare()
    return memory


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--items", type=int, nargs="+", default=[10_000])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    results = [measure(items, given.repeats, given.seed) for items in given.items]
    print(json.dumps(results, indent=1))
    if given.out:
        sizes = " ".join(str(items) for items in given.items)
        command = f"python benchmarks/memory_postgres.py --items {sizes} --repeats {given.repeats} --seed {given.seed}"
        facts = {"benchmark": "memory_postgres", "command": command, "seed": given.seed, "results": results}
        write_atomic(given.out, dump({**facts, **provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
