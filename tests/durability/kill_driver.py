"""Kill -9 at random moments, a thousand times: nothing acknowledged is lost, nothing counts twice.

    python tests/durability/kill_driver.py --kills 1000 --seed 0 [--postgres] [--minutes 20] [--out FILE]

A round starts one or two workers on a store (``kill_worker``), kills each at a random moment (while it opens the store
or works, microseconds to milliseconds after it announced a verb, so often while it commits), opens the store again
and compares it with a ledger of what was acknowledged (``kill_ledger``). The next round's workers begin by trying again
what was in flight, by idempotency key, under the same receipt or under a new one. ``{n}`` in the store is a number:
every few dozen kills a new store is begun, so that its making is hit as well.
"""

import argparse
import math
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import kill_worker
from kill_ledger import Ledger
from kill_worker import EMBEDDER, POLICIES, Op

from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory

sys.path.insert(0, str(Path(__file__).parents[1]))
from postgres_server import server

OUT = Path(__file__).parents[2] / "benchmarks" / "results" / "memory_kill.json"
KILLS_A_STORE = 40
CHECKED = (
    "every acknowledged remember, remember_many, recall, shown, settle, archive, supersede and transaction is in the "
    "store, with its texts, parents, status, merges and counts, and nothing else is",
    "an operation in flight took place whole or not at all; a failed transaction left nothing",
    "a retry with its idempotency key, under the same receipt or a new one, counted once and got the first answer",
    "Memory.verify() finds nothing: engine's own check, foreign keys, texts equal their hashes, norm of vectors 1, "
    "words equal the keys, credit equals receipts and outcomes, values equal the replay of their events",
    "rebuild_values() changes nothing",
    "recalling everything finds exactly the active memories, from a new connection and from one open all the time",
)


class Victim(threading.Thread):
    """Starts a worker, collects what it says, kills it at its moment, and waits until it is gone."""

    def __init__(self, store: str, plan: dict[str, Any], rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[tuple[Op, Any]] = []
        self.in_flight: Op | None = None
        self.ready, self.failure = False, ""
        self.moment = rng.choices(["opening", "any", "verb"], weights=[1, 4, 5])[0]
        self.verbs_before = rng.randint(1, 25)
        self.delay_s = rng.uniform(0.0, 0.06)
        if self.moment == "verb":  # about half of them within the work of the verb, half while it commits or later
            self.delay_s = rng.choice([10 ** rng.uniform(-6, -2), rng.uniform(0.0, 0.006)])
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["kill_worker"])
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=kill_worker.run, args=(theirs, store, plan), daemon=True)
        self.theirs = theirs

    def run(self) -> None:
        self.process.start()
        self.theirs.close()
        kill_at = time.perf_counter() + self.delay_s if self.moment == "opening" else None
        begun = 0
        while kill_at is None or time.perf_counter() < kill_at:
            left_s = 60.0 if kill_at is None else max(0.0, kill_at - time.perf_counter() - 0.0003)
            if not self.pipe.poll(left_s):
                if kill_at is None:
                    self.failure = "no word for a minute"
                    break
                continue
            kind = self.hear()
            if kind in ("gone", "failed"):
                break
            begun += kind == "begin"
            reached = kind == "ready" if self.moment == "any" else begun == self.verbs_before
            if kill_at is None and reached:
                kill_at = time.perf_counter() + self.delay_s
        self.process.kill()
        self.process.join()
        while self.hear() != "gone":  # what it had said before it died
            pass

    def hear(self) -> str:
        try:
            kind, content = self.pipe.recv()
        except (EOFError, OSError):
            return "gone"
        if kind == "ready":
            self.ready = True
        elif kind == "begin":
            self.in_flight = content
        elif kind == "done":
            assert self.in_flight is not None
            self.acknowledged.append((self.in_flight, content))
            self.in_flight = None
        else:
            self.failure = content
        return kind


class Campaign:
    """Many kills, the ledgers of the stores they hit, and the counts for the result."""

    def __init__(self, template: str | Callable[[int], str], seed: int) -> None:
        self.rng, self.seed = random.Random(seed), seed
        self.store_of = template if callable(template) else lambda n: template.format(n=n)
        self.kills = self.rounds = self.stores = self.acknowledged = self.retries = 0
        self.in_flight: Counter[str] = Counter()
        self.landed: Counter[str] = Counter()
        self.delays: list[float] = []
        self.until = math.inf

    def run(self, kills: int, seconds: float = math.inf) -> None:
        """Kill until ``kills`` processes have died, or for so long."""
        self.until = time.perf_counter() + seconds
        while self.kills < kills and time.perf_counter() < self.until:
            self.one_store(min(KILLS_A_STORE, kills - self.kills))

    def one_store(self, kills: int) -> None:
        store = self.store_of(self.stores)
        policy = list(POLICIES)[self.stores % len(POLICIES)]
        self.stores += 1
        ledger, todo, old, end = Ledger(), [], None, self.kills + kills
        while self.kills < end and (old is None or time.perf_counter() < self.until):
            victims = self.one_round(ledger, store, policy, todo, end - self.kills)
            with Memory(store, policy=POLICIES[policy], embedder=EMBEDDER) as memory:
                memory.meta_set("fence", self.rounds)  # a server may still be ending what a dead client had begun
                todo = self.judge(ledger, memory, victims)
                if old is None:
                    old = Memory(store, policy=POLICIES[policy], embedder=EMBEDDER)
                ledger.check_index(old, f"old {self.rounds}")
            self.rounds += 1
        assert old is not None
        for id_ in ledger.receipts:
            ledger.check_receipt(old, id_)
        old.close()
        self.acknowledged += ledger.acknowledged

    def one_round(self, ledger: Ledger, store: str, policy: str, todo: list[Op], most: int) -> list[Victim]:
        """Start workers, each with its own share of open receipts and memories, and wait for their deaths."""
        number = min(most, self.rng.choice([1, 1, 2]))
        # what one worker tries again, another leaves alone: the ledger does not know in which order they worked
        busy = {op[name] for op in todo for name in ("receipt", "id") if name in op}
        texts = {(row["key"], row["body"]) for op in todo for row in op.get("rows", [op]) if "body" in row}
        waiting = [(id_, r.items) for id_, r in ledger.receipts.items() if r.changes is None and id_ not in busy]
        active = [
            (id_, (m.key, m.body))
            for id_, m in ledger.lessons.items()
            if m.status == "active" and id_ not in busy and (m.key, m.body) not in texts
        ]
        victims = []
        for i in range(number):
            plan = {
                "seed": self.rng.getrandbits(32),
                "label": f"{self.rounds}.{i}",
                "policy": policy,
                "todo": todo[i::number],
                "open": waiting[i::number],
                "mine": active[i::number],
            }
            victims.append(Victim(store, plan, self.rng))
        for victim in victims:
            victim.start()
        for victim in victims:
            victim.join()
            assert not victim.failure, f"round {self.rounds}: a verb failed\n{victim.failure}"
            assert victim.process.exitcode == -9, f"round {self.rounds}: {victim.process.exitcode}"
            self.delays.append(victim.delay_s)
        self.kills += number
        return victims

    def judge(self, ledger: Ledger, memory: Memory, victims: list[Victim]) -> list[Op]:
        """Compare the store with what was acknowledged; returns what the next workers try again."""
        touched: set[str] = set()
        unanswered, again = 0, []
        for victim in victims:
            for op, got in victim.acknowledged:
                ledger.apply(op, got)
                ledger.acknowledged += 1
                touched |= {part["receipt"] for part in op.get("parts", [op]) if "receipt" in part}
                touched |= {got["id"]} if op["verb"] == "recall" else set()
        for victim in victims:
            op = victim.in_flight
            name = op["verb"] if op else "between verbs" if victim.ready else "opening"
            self.in_flight["failing transaction" if op and op.get("fails") else name] += 1
            if op is None:
                continue
            happened = ledger.resolve(memory, op)
            unanswered += happened is None
            self.landed[name] += bool(happened)
            again += self.retry(memory, ledger, op)
        ghosts = ledger.nameless
        ledger.check(memory, unanswered, sorted(touched))
        self.landed["recall"] += ledger.nameless - ghosts
        wrong = verify(memory)
        assert not wrong, wrong
        assert memory.rebuild_values() == 0
        ledger.check_index(memory, f"new {self.rounds}")
        return again

    def retry(self, memory: Memory, ledger: Ledger, op: Op) -> list[Op]:
        """The same operation once more, as a caller would who does not know whether it took place."""
        verb = op["verb"]
        if verb == "settle" and op["valid"] and self.rng.random() < 0.5:
            task = ledger.receipts[op["receipt"]].task  # the job runs again and carries a receipt of its own
            new = memory.recall(task)
            found = {"id": new.id, "items": new.ids}
            ledger.apply({"verb": "recall", "task": task, "is_test": False}, found)
            op = {**op, "receipt": new.id}
        elif verb in ("recall", "transaction", "shown") or "supersedes" in op:
            return []
        self.retries += 1
        return [op]

    def result(self, seconds: float) -> dict[str, Any]:
        """What happened, as JSON values."""
        delays = sorted(self.delays)
        quantile = {f"p{p}": float(f"{delays[(len(delays) - 1) * p // 100]:.3g}") for p in (1, 10, 50, 90, 99)}
        return {
            "seed": self.seed,
            "kills": self.kills,
            "rounds": self.rounds,
            "stores": self.stores,
            "engine": "postgresql" if "://" in self.store_of(0) else "sqlite",
            "acknowledged_operations": self.acknowledged,
            "retried_operations": self.retries,
            "in_flight_when_killed": dict(sorted(self.in_flight.items())),
            "in_flight_and_in_the_store": dict(sorted(self.landed.items())),
            "delay_s": quantile,
            "violations": 0,
            "checked_after_every_round": CHECKED,
            "seconds": round(seconds, 1),
        }


def campaign(kills: int, seed: int, template: str | Callable[[int], str], seconds: float = math.inf) -> Campaign:
    """Run one; raises AssertionError at the first thing that is lost, counted twice or half there."""
    done = Campaign(template, seed)
    done.run(kills, seconds)
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long, however many died")
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL server that is started for it")
    parser.add_argument("--store", help="path or postgresql:// address with {n}; default: files in a temporary folder")
    parser.add_argument("--out", type=Path, help=f"write the result here, e.g. {OUT}")
    given = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, server() if given.postgres else nullcontext() as url:
        store = given.store or (f"{url}&schema=kill_{{n}}" if url else f"{folder}/{{n}}.db")
        done = campaign(given.kills, given.seed, store, 60.0 * given.minutes)
    result = done.result(time.perf_counter() - start)
    print(result)
    if given.out:
        command = f"python tests/durability/kill_driver.py --kills {given.kills} --seed {given.seed}"
        command += " --postgres" if given.postgres else ""
        command += f" --minutes {given.minutes:g}" if given.minutes < math.inf else ""
        if given.store:
            command += " --store 'postgresql://…{n}'" if "://" in given.store else f" --store {given.store}"
        write_atomic(
            given.out, dump({"benchmark": "memory_kill", "command": command, "result": result, **provenance()})
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
