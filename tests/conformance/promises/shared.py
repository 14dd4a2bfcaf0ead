"""Promises of a memory: threads, processes and kill −9 on one store."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

from .credit import OPEN, make, refused, values

Factory = Callable[..., Memory]
KILLS = 50


def threads_share_a_memory(factory: Factory) -> None:
    """Four threads on one object: every settled outcome is counted once."""
    with make(factory, sync="normal") as memory:
        for i in range(5):
            memory.remember(f"task {i}", f"body {i}")
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for t in range(25):
                    r = memory.recall(f"task {(t + number) % 5}")
                    memory.settle(r, float(t % 2))
                    memory.remember(f"note {number} {t}", f"note {number} {t}", parents=r)
            except BaseException as error:  # noqa: BLE001  reported by the main thread
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures[0]
        _consistent(memory, settled=100, items=105)


def processes_share_a_store(factory: Factory) -> None:
    """Two processes with two threads each write at once: nothing lost, nothing twice, no lock error."""
    with make(factory, sync="normal") as memory:
        for i in range(5):
            memory.remember(f"task {i}", f"body {i}")
        children = [_spawn(_SHARING, memory.path, str(i)) for i in range(2)]
        for child in children:
            _, errors = child.communicate(timeout=120)
            assert child.returncode == 0, errors
        _consistent(memory, settled=100, items=105)
        # By similarity alone: what the notes are worth depends on how the processes took turns.
        found = memory.recall("note 1 1 24", k=1, policy=preset("rag", **OPEN)).items[0].key
        assert found == "note 1 1 24", f"another process's memory was not seen, got {found!r}"


def killed_processes_leave_a_consistent_store(factory: Factory) -> None:
    """Kill −9 at random times: what was acknowledged is there once, and values equal their events."""
    rng = random.Random(0)
    with make(factory) as memory:
        for i in range(5):
            memory.remember(f"task {i}", f"body {i}")
        with tempfile.TemporaryDirectory() as folder:
            for round_ in range(KILLS):
                log = Path(folder) / f"{round_}.txt"
                child = _spawn(_KILLED, memory.path, str(round_), str(log))
                assert child.stdout is not None
                child.stdout.readline()  # it has begun
                time.sleep(rng.random() * 0.04)
                child.kill()
                child.communicate()
                _acknowledged(memory, log, round_)
        _consistent(memory)


def _spawn(code: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _consistent(memory: Memory, settled: int | None = None, items: int | None = None) -> None:
    """Values equal the replay of their events; counts add up."""
    health = memory.health()
    assert memory.rebuild_values() == 0, "values differ from their events"
    if settled is not None:
        assert health["settled"] == settled, (health["settled"], settled)
        assert sum(i.n for i in memory.items(None)) == sum(
            sum(c["rule"] == "shown" for c in memory.explain(f"r{r}").to_dict()["changes"])
            for r in range(1, health["recalls"] + 1)
        )
    if items is not None:
        assert health["items"] == items, (health["items"], items)
    assert all(0.0 <= v <= 1.0 for v in values(memory).values())


def _acknowledged(memory: Memory, log: Path, round_: int) -> None:
    """Every line that the dead process wrote after a verb returned must hold in the store."""
    lines = log.read_text().splitlines() if log.exists() else []
    for line in lines:
        if not line.endswith(";"):
            continue  # the kill hit the log itself
        verb, id_, extra = line[:-1].split("|")
        if verb == "settled":
            explained = memory.explain(id_).to_dict()
            assert [o["reward"] for o in explained["outcomes"]] == [float(extra)], f"round {round_}: {line}"
            assert sum(c["rule"] == "shown" for c in explained["changes"]) == sum(p["shown"] for p in explained["pool"])
            before = values(memory)
            memory.settle(id_, float(extra))  # a retry
            with refused("another outcome"):
                memory.settle(id_, 1.0 - float(extra))
            assert values(memory) == before, f"round {round_}: settled again"
        elif verb == "remembered":
            assert memory.get(id_).key == extra, f"round {round_}: {line}"
        else:
            assert memory.explain(id_).to_dict()["query"] == extra, f"round {round_}: {line}"


_OPENING = """
import sys, threading
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
def open_it(sync):
    return Memory(sys.argv[1], policy=preset("memrl", gate=-1.0), embedder="hash:64", sync=sync)
"""
_SHARING = (
    _OPENING
    + """
memory = open_it("normal")
def work(number):
    for t in range(25):
        r = memory.recall(f"task {(t + number) % 5}")
        memory.settle(r, float(t % 2))
        memory.remember(f"note {sys.argv[2]} {number} {t}", f"note {sys.argv[2]} {number} {t}", parents=r)
threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
)
_KILLED = (
    _OPENING
    + """
memory = open_it("full")
log = open(sys.argv[3], "w", buffering=1)
print("begun", flush=True)
for t in range(10_000):
    task = f"task {t % 5}"
    r = memory.recall(task)
    log.write(f"recalled|{r.id}|{task};\\n")
    memory.shown(r, r.ids[:2])
    memory.settle(r, float(t % 2))
    log.write(f"settled|{r.id}|{t % 2};\\n")
    key = f"note {sys.argv[2]} {t}"
    log.write(f"remembered|{memory.remember(key, key, parents=r)}|{key};\\n")
"""
)
