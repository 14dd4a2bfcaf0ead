"""One of many processes on a store: its threads use one memory until the time is up, and count what they did."""

import random
import threading
import time
import traceback
from collections import Counter, defaultdict
from multiprocessing.connection import Connection
from typing import Any

from kill_worker import EMBEDDER, POLICIES, TOPICS

from evolvent.memory.memory import Memory


class Hand:
    """One thread: its operations, what they must add up to, and how long each verb took."""

    def __init__(self, memory: Memory, label: str, seed: int) -> None:
        self.memory, self.label, self.rng = memory, label, random.Random(seed)
        self.sums: Counter[str] = Counter()
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.failure = ""

    def work(self, until: float) -> None:
        try:
            while time.monotonic() < until:
                self.once()
        except BaseException:  # noqa: BLE001  no error may reach a caller: the parent reports it
            self.failure = traceback.format_exc()

    def timed(self, verb: str, call: Any) -> Any:
        start = time.perf_counter()
        got = call()
        self.seconds[verb].append(time.perf_counter() - start)
        return got

    def once(self) -> None:
        memory, rng = self.memory, self.rng
        task = f"{rng.choice(TOPICS)} {rng.randrange(50)}"
        r = self.timed("recall", lambda: memory.recall(task))
        self.sums["recalls"] += 1
        shown = r.ids
        if rng.random() < 0.3:
            shown = rng.sample(r.ids, rng.randint(0, len(r.ids)))
            self.timed("shown", lambda: memory.shown(r, shown))
        reward, name = float(rng.random() < 0.5), f"{self.label}/{self.sums['settled']}"
        changes = self.timed("settle", lambda: memory.settle(r, reward, idempotency_key=name))
        assert sorted(c.id for c in changes if c.rule == "shown") == sorted(shown)
        self.sums["settled"] += 1
        self.sums["credited"] += len(shown)
        self.sums["quarters of reward"] += int(4 * reward) * len(shown)
        if rng.random() < 0.2:
            assert memory.settle(r, reward, idempotency_key=name) == changes, "a retry got another answer"
        if rng.random() < 0.3:
            key = f"{task} {self.label}.{self.sums['memories']}"
            id_ = self.timed("remember", lambda: memory.remember(key, f"body of {key}", parents=r))
            self.sums["memories"] += 1
            assert memory.get(id_).key == key
            if rng.random() < 0.3:
                self.timed("archive", lambda: memory.archive(id_, "one too many"))
                self.sums["archived"] += 1
        if rng.random() < 0.05:
            self.timed("transaction", self.group)

    def group(self) -> None:
        with self.memory.transaction():
            count = (self.memory.meta_get("grouped") or 0) + 1  # reads what the last writer committed
            self.memory.meta_set("grouped", count)
            self.memory.settle(self.memory.recall("grouped", k=0), 1.0)
        self.sums["grouped"] += 1
        self.sums["recalls"] += 1
        self.sums["settled"] += 1


def run(pipe: Connection, store: str, label: str, threads: int, seconds: float) -> None:
    """Open the store, wait for the common start, work; the answer goes through the pipe."""
    with Memory(store, policy=POLICIES["memrl"], embedder=EMBEDDER, sync="normal") as memory:
        hands = [Hand(memory, f"{label}.{i}", hash((label, i)) & 0xFFFF) for i in range(threads)]
        pipe.send("ready")
        pipe.recv()
        until = time.monotonic() + seconds
        tasks = [threading.Thread(target=hand.work, args=(until,)) for hand in hands]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
        pipe.send([(dict(hand.sums), dict(hand.seconds), hand.failure) for hand in hands])
