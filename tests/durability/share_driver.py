"""Many processes with many threads on one store: sums equal, no lock error, nobody starves.

python tests/durability/share_driver.py --processes 16 --threads 8 --seconds 60 [--store 'postgresql://…'] [--out FILE]
"""

import argparse
import multiprocessing
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import share_worker
from kill_ledger import EVERYTHING
from kill_worker import EMBEDDER, POLICIES, TOPICS

from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory

OUT = Path(__file__).parents[2] / "benchmarks" / "results" / "memory_concurrency.json"
FIRST = 20  # memories that are there when the work begins
CHECKED = (
    "no error reached a caller",
    "settled receipts, recalls, memories and archived memories: the store's count equals the sum of what callers did",
    "the sum of all memories' counts equals the number of memories shown in settled receipts; rewards likewise",
    "a counter in meta, raised in transactions, equals the number of transactions: none read what another replaced",
    "a retry with its idempotency key got the first answer",
    "Memory.verify() finds nothing (values equal the replay of their events), rebuild_values() changes nothing",
    "a recall of everything finds exactly the active memories, from a connection that was open all the time",
)


def share(store: str, *, processes: int, threads: int, seconds: float) -> dict[str, Any]:
    """Run it, check it, and tell what was done and how long callers waited. Raises AssertionError."""
    with Memory(store, policy=POLICIES["memrl"], embedder=EMBEDDER, sync="normal") as memory:
        memory.remember_many([{"key": f"{TOPICS[i % 4]} {i}", "body": f"first {i}"} for i in range(FIRST)])
        memory.recall("the index is filled", k=0, is_test=True)
        answers = _work(store, processes, threads, seconds)
        done: Counter[str] = Counter()
        for hands in answers:
            for sums, _, failure in hands:
                assert not failure, failure
                done.update(sums)
        _check(memory, done)
    return _reported(answers, done, seconds)


def _work(store: str, processes: int, threads: int, seconds: float) -> list[list[tuple]]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["share_worker"])
    workers = []
    for i in range(processes):
        pipe, theirs = context.Pipe()
        work = (theirs, store, str(i), threads, seconds)
        process = context.Process(target=share_worker.run, args=work, daemon=True)
        process.start()
        theirs.close()
        workers.append((process, pipe))
    for _, pipe in workers:
        assert pipe.poll(120.0), "a process did not open the store"
        pipe.recv()
    for _, pipe in workers:
        pipe.send("go")
    answers = []
    for process, pipe in workers:
        assert pipe.poll(seconds + 300.0), "a process did not come to an end"
        answers.append(pipe.recv())
        process.join()
    return answers


def _check(memory: Memory, done: Counter[str]) -> None:
    health, stored = memory.health(), memory.items(None)
    assert done["settled"] > 0, "nothing was done"
    assert health["settled"] == done["settled"], (health["settled"], done["settled"])
    assert health["recalls"] == done["recalls"] + 1, (health["recalls"], done["recalls"])
    assert len(stored) == done["memories"] + FIRST, (len(stored), done["memories"])
    assert sum(i.n for i in stored) == done["credited"], (sum(i.n for i in stored), done["credited"])
    paid = sum(v["sum_r"] for i in stored for v in memory.explain(i.id).to_dict()["values"]) * 4
    assert paid == done["quarters of reward"], (paid, done["quarters of reward"])
    assert (memory.meta_get("grouped") or 0) == done["grouped"], (memory.meta_get("grouped"), done["grouped"])
    active = {i.id for i in stored if i.status == "active"}
    assert len(stored) - len(active) == done["archived"]
    assert set(memory.recall("everything", k=100_000, policy=EVERYTHING, frozen=True, is_test=True).ids) == active
    wrong = verify(memory)
    assert not wrong, wrong
    assert memory.rebuild_values() == 0


def _reported(answers: list[list[tuple]], done: Counter[str], seconds: float) -> dict[str, Any]:
    waits: dict[str, list[float]] = defaultdict(list)
    for hands in answers:
        for _, timed, _ in hands:
            for verb, values in timed.items():
                waits[verb] += values
    of_process = sorted(sum(len(v) for _, timed, _ in hands for v in timed.values()) for hands in answers)
    of_thread = sorted(sum(len(v) for v in timed.values()) for hands in answers for _, timed, _ in hands)
    return {
        "processes": len(answers),
        "threads_each": len(answers[0]),
        "seconds": seconds,
        "done": dict(sorted(done.items())),
        "verbs_a_second": round(sum(of_process) / seconds, 1),
        "verbs_of_a_process": {"least": of_process[0], "most": of_process[-1]},
        "verbs_of_a_thread": {"least": of_thread[0], "most": of_thread[-1]},
        "milliseconds": {verb: _quantiles(values) for verb, values in sorted(waits.items())},
        "errors": 0,
        "checked": CHECKED,
    }


def _quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(1000.0 * s for s in seconds)
    facts = {f"p{p}": ordered[(len(ordered) - 1) * p // 100] for p in (50, 99)}
    return {name: round(value, 1) for name, value in {**facts, "most": ordered[-1]}.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--store", help="path or postgresql:// address of a new store; default: a temporary file")
    parser.add_argument("--out", type=Path, help=f"write the result here, e.g. {OUT}")
    given = parser.parse_args()
    size = {"processes": given.processes, "threads": given.threads, "seconds": given.seconds}
    with tempfile.TemporaryDirectory() as folder:
        result = share(given.store or f"{folder}/a.db", **size)
    print(dump(result, indent=2))
    if given.out:
        command = "python tests/durability/share_driver.py " + " ".join(f"--{n} {v:g}" for n, v in size.items())
        facts = {"benchmark": "memory_concurrency", "command": command, "result": result, **provenance()}
        write_atomic(given.out, dump(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
