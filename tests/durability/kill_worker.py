"""The process that is killed: random verbs on one store, each announced before and acknowledged after it returns."""

import random
import traceback
from multiprocessing.connection import Connection
from typing import Any

from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

Op = dict[str, Any]
EMBEDDER = "hash:32"
TOPICS = ("red-eye flights from Newark", "windy hours at JFK", "seats of United", "late arrivals into Boston")
POLICIES = {
    "memrl": preset("memrl", gate=-1.0, k=4),
    "memq": preset("memq", gate=-1.0, k=4),
    "memlift": preset("memlift", gate=-1.0, k=4, omit=0.3),
}
CHOICES = {
    "remember": 18,
    "remember_many": 8,
    "repeat": 6,
    "supersede": 4,
    "recall": 24,
    "shown": 12,
    "settle": 18,
    "invalid": 4,
    "again": 4,
    "job again": 5,
    "archive": 6,
    "transaction": 10,
    "failing": 6,
}


def perform(memory: Memory, op: Op) -> Any:
    """Carry out one operation with the public verbs; returns what the ledger needs to know of the answer."""
    verb = op["verb"]
    if verb == "remember":
        return memory.remember(op["key"], op["body"], parents=op["parents"], supersedes=op.get("supersedes"))
    if verb == "remember_many":
        return memory.remember_many(op["rows"])
    if verb == "recall":
        r = memory.recall(op["task"], is_test=op["is_test"])
        return {"id": r.id, "items": r.ids, "omitted": [item.id for item in r.omitted]}
    if verb == "shown":
        return memory.shown(op["receipt"], op["ids"])
    if verb == "settle":
        changes = memory.settle(op["receipt"], op["reward"], valid=op["valid"], idempotency_key=op["key"])
        return [[c.id, c.rule, c.q_after] for c in changes]
    if verb == "archive":
        return memory.archive(op["id"], op["reason"])
    if verb == "note":
        return memory.meta_set(op["name"], op["value"])
    assert verb == "transaction"
    got = []
    try:
        with memory.transaction():
            got = [perform(memory, part) for part in op["parts"]]
            if op["fails"]:
                raise KeyError("the caller's own failure")
    except KeyError:
        assert op["fails"]
    return got


class Worker:
    """Chooses operations whose effect the parent can tell apart: every key, body and task is new, but for repeats."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.rng = random.Random(plan["seed"])
        self.label, self.n = plan["label"], 0
        self.todo: list[Op] = plan["todo"]
        self.open: dict[str, list[str]] = dict(plan["open"])  # receipt -> what it handed out
        self.settled: dict[str, tuple[str, float]] = {}  # receipt -> its idempotency key and reward
        self.mine: dict[str, tuple[str, str]] = dict(plan["mine"])  # active memory -> key, body

    def text(self, what: str) -> str:
        self.n += 1
        return f"{self.rng.choice(TOPICS)} {what} {self.label}.{self.n}"

    def next(self) -> Op:
        """The operation to do now."""
        if self.todo:
            return self.todo.pop(0)
        name = self.rng.choices(list(CHOICES), weights=list(CHOICES.values()))[0]
        return self.choose(name) or self.remember()

    def choose(self, name: str) -> Op | None:
        rng = self.rng
        if name == "remember":
            return self.remember()
        if name == "remember_many":
            rows = [{"key": self.text("row"), "body": self.text("body")} for _ in range(rng.randint(2, 6))]
            return {"verb": "remember_many", "rows": rows}
        if name == "recall":
            return {"verb": "recall", "task": self.text("task"), "is_test": rng.random() < 0.1}
        if name in ("repeat", "supersede", "archive") and self.mine:
            id_ = rng.choice(list(self.mine))
            if name == "archive":
                return {"verb": "archive", "id": id_, "reason": self.text("reason")}
            key, body = self.mine[id_]
            if name == "repeat":
                return {"verb": "remember", "key": key, "body": body, "parents": []}
            return {"verb": "remember", "key": key, "body": self.text("better"), "parents": [], "supersedes": id_}
        if name == "shown" and self.open:
            receipt = rng.choice(list(self.open))
            offered = self.open[receipt]
            return {"verb": "shown", "receipt": receipt, "ids": rng.sample(offered, rng.randint(0, len(offered)))}
        if name in ("settle", "invalid") and self.open:
            return self.settle(rng.choice(list(self.open)), valid=name == "settle")
        if name == "again" and self.settled:
            receipt = rng.choice(list(self.settled))
            return {**self.settle(receipt, valid=True), "reward": self.settled[receipt][1]}
        if name == "job again" and self.settled and self.open:  # the same job reports once more, with another receipt
            job = self.settled[rng.choice(list(self.settled))][0]
            return {**self.settle(rng.choice(list(self.open)), valid=True), "key": job}
        if name in ("transaction", "failing"):
            return self.transaction(fails=name == "failing")
        return None

    def remember(self) -> Op:
        parents = self.rng.sample(list(self.mine), min(len(self.mine), self.rng.randint(0, 2)))
        return {"verb": "remember", "key": self.text("key"), "body": self.text("body"), "parents": parents}

    def settle(self, receipt: str, valid: bool) -> Op:
        self.n += 1
        reward = self.rng.choice([0.0, 0.25, 1.0])
        return {"verb": "settle", "receipt": receipt, "reward": reward, "valid": valid, "key": f"{self.label}.{self.n}"}

    def transaction(self, fails: bool) -> Op:
        parts = [self.remember()]
        if self.open:
            parts.append(self.settle(self.rng.choice(list(self.open)), valid=True))
        if self.mine:
            id_ = self.rng.choice(list(self.mine))
            parts.append({"verb": "archive", "id": id_, "reason": self.text("reason")})
        self.n += 1
        parts.append({"verb": "note", "name": self.label, "value": self.n})
        self.rng.shuffle(parts)
        return {"verb": "transaction", "parts": parts, "fails": fails}

    def done(self, op: Op, got: Any) -> None:
        """Remember what later operations may refer to."""
        verb = op["verb"]
        if verb == "transaction" and not op["fails"]:
            for part, answer in zip(op["parts"], got, strict=True):
                self.done(part, answer)
        elif verb == "remember":
            self.mine.pop(op.get("supersedes"), None)
            self.mine[got] = (op["key"], op["body"])
        elif verb == "remember_many":
            self.mine |= {id_: (row["key"], row["body"]) for id_, row in zip(got, op["rows"], strict=True)}
        elif verb == "recall":
            self.open[got["id"]] = got["items"]
        elif verb == "settle" and op["valid"] and op["key"] not in [key for key, _ in self.settled.values()]:
            if self.open.pop(op["receipt"], None) is not None:
                self.settled[op["receipt"]] = op["key"], op["reward"]
        elif verb == "archive":
            self.mine.pop(op["id"], None)


def run(pipe: Connection, store: str, plan: dict[str, Any]) -> None:
    """Work until killed. Each message is in the pipe, outside this process, before the next step begins."""
    try:
        memory = Memory(store, policy=POLICIES[plan["policy"]], embedder=EMBEDDER, seed=plan["seed"])
        worker = Worker(plan)
        pipe.send(("ready", None))
        while True:
            op = worker.next()
            pipe.send(("begin", op))
            got = perform(memory, op)
            pipe.send(("done", got))
            worker.done(op, got)
    except BaseException:  # noqa: BLE001  no verb may fail here: the parent reports it
        pipe.send(("failed", traceback.format_exc()))
