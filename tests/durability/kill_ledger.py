"""What a store must hold after a kill: the acknowledged operations, and those in flight whole or not at all."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kill_worker import Op

from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

EVERYTHING = preset("rag", gate=-1.0, pool=100_000)


@dataclass
class Lesson:
    key: str
    body: str
    status: str = "active"
    superseded_by: str | None = None
    merged: int = 0
    parents: frozenset[str] = frozenset()


@dataclass
class Receipt:
    task: str
    is_test: bool
    items: list[str]
    shown: list[str]
    outcomes: list[tuple[float, bool]] = field(default_factory=list)
    changes: list[list[Any]] | None = None  # of the valid outcome


class Ledger:
    """A model of one store that knows nothing of how it is built."""

    def __init__(self) -> None:
        self.lessons: dict[str, Lesson] = {}
        self.receipts: dict[str, Receipt] = {}
        self.keys: dict[str, list[list[Any]]] = {}  # idempotency key -> the changes of its first time
        self.counts: Counter[str] = Counter()  # settled outcomes of a memory that was shown
        self.notes: dict[str, int] = {}
        self.nameless = 0  # receipts whose number nobody was given: the process died first
        self.probes = 0  # recalls of the checks
        self.acknowledged = 0

    # ------------------------------------------------------------------------------------------ acknowledged
    def apply(self, op: Op, got: Any) -> None:
        """An operation that was carried out, with its answer."""
        verb = op["verb"]
        if verb == "transaction":
            for part, answer in zip(op["parts"], got, strict=True) if not op["fails"] else ():
                self.apply(part, answer)
        elif verb == "remember":
            self._remember(op, got)
        elif verb == "remember_many":
            assert len(got) == len(op["rows"])
            for row, id_ in zip(op["rows"], got, strict=True):
                self._remember({**row, "parents": []}, id_)
        elif verb == "recall":
            assert got["id"] not in self.receipts, f"receipt {got['id']} handed out twice"
            self.receipts[got["id"]] = Receipt(op["task"], op["is_test"], got["items"], list(got["items"]))
        elif verb == "shown":
            self.receipts[op["receipt"]].shown = op["ids"]
        elif verb == "settle":
            self._settle(op, got)
        elif verb == "archive":
            self.lessons[op["id"]].status = "archived"
        else:
            self.notes[op["name"]] = op["value"]

    def _remember(self, op: Op, id_: str) -> None:
        same = [i for i, m in self.lessons.items() if (m.key, m.body, m.status) == (op["key"], op["body"], "active")]
        if same:
            assert id_ == same[0], f"{id_} instead of {same[0]}"
            self.lessons[id_].merged += 1
        else:
            assert id_ not in self.lessons, f"{id_} handed out twice"
            self.lessons[id_] = Lesson(op["key"], op["body"], parents=frozenset(op["parents"]))
        old = op.get("supersedes")
        if old is not None and old != id_:
            self.lessons[old].status, self.lessons[old].superseded_by = "superseded", id_

    def _settle(self, op: Op, got: list[list[Any]]) -> None:
        receipt = self.receipts[op["receipt"]]
        if op["key"] in self.keys:
            assert got == self.keys[op["key"]], "a retry got another answer"
        elif receipt.changes is not None:
            assert got == receipt.changes, "settling again got another answer"
        else:
            receipt.outcomes.append((op["reward"], op["valid"]))
            self.keys[op["key"]] = got
            if op["valid"]:
                receipt.changes = got
                credited = [] if receipt.is_test else receipt.shown
                assert sorted(c[0] for c in got if c[1] == "shown") == sorted(credited), (got, receipt)
                for id_ in credited:
                    self.counts[id_] += 1

    # ------------------------------------------------------------------------------------------ in flight
    def resolve(self, memory: Memory, op: Op) -> bool | None:
        """Whether an operation without an answer took place (None: nobody can tell); half of it is an error."""
        verb = op["verb"]
        if verb == "recall":
            return None  # counted in check()
        if verb == "transaction":
            if op["fails"]:
                return False  # check() would find what it left behind
            found = [self._found(memory, part) for part in op["parts"]]
            assert all(x is None for x in found) or all(x is not None for x in found), f"half a transaction: {op}"
            happened = found[0] is not None
            if happened:
                self.apply(op, [x[0] for x in found if x is not None])
            return happened
        one = self._found(memory, op)
        if one is not None:
            self.apply(op, one[0])
        return one is not None

    def _found(self, memory: Memory, op: Op) -> tuple[Any] | None:
        """The answer that an operation would have given, in a tuple, when the store shows that it took place."""
        verb = op["verb"]
        if verb == "remember":
            ids = self._new(memory, [op])
            return (ids[0],) if ids else None
        if verb == "remember_many":
            ids = self._new(memory, op["rows"])
            assert len(ids) in (0, len(op["rows"])), f"half a batch: {ids}"
            return (ids,) if ids else None
        if verb == "note":
            return (None,) if memory.meta_get(op["name"]) == op["value"] else None
        if verb == "archive":
            return (None,) if memory.get(op["id"]).status == "archived" else None
        explained = memory.explain(op["receipt"]).to_dict()
        if verb == "shown":
            now = {c["id"] for c in explained["pool"] if c["shown"]}
            return (None,) if now == set(op["ids"]) else None
        known = len(self.receipts[op["receipt"]].outcomes)
        if len(explained["outcomes"]) == known:
            return None
        return ([[c["id"], c["rule"], c["q_after"]] for c in explained["changes"]] if op["valid"] else [],)

    def _new(self, memory: Memory, rows: list[Op]) -> list[str]:
        """Ids of rows that the store holds once more than the ledger does."""
        found = []
        for row in rows:
            for item in memory.items(None):
                if (item.key, item.body) == (row["key"], row["body"]):
                    known = self.lessons.get(item.id)
                    if known is None or item.merged > known.merged:
                        found.append(item.id)
        return found

    # ------------------------------------------------------------------------------------------ the whole
    def check(self, memory: Memory, unanswered_recalls: int, receipts: list[str]) -> None:
        """The store holds exactly what it should; ``receipts`` are compared one by one."""
        stored = {i.id: i for i in memory.items(None)}
        assert list(stored) == sorted(stored, key=lambda x: int(x[1:])), "not in the order of writing"
        assert set(stored) == set(self.lessons), set(stored) ^ set(self.lessons)
        for id_, m in self.lessons.items():
            i = stored[id_]
            found = (i.key, i.body, i.status, i.superseded_by, i.merged, i.n)
            assert found == (m.key, m.body, m.status, m.superseded_by, m.merged, self.counts[id_]), (id_, found, m)
            assert m.parents == set(i.parents), (id_, i.parents, m)
        health = memory.health()
        extra = health["recalls"] - len(self.receipts) - self.nameless - self.probes
        assert 0 <= extra <= unanswered_recalls, f"{extra} receipts that nobody asked for"
        self.nameless += extra
        assert health["settled"] == sum(r.changes is not None for r in self.receipts.values()), "outcomes"
        for name, value in self.notes.items():
            assert memory.meta_get(name) == value, name
        for id_ in receipts:
            self.check_receipt(memory, id_)

    def check_receipt(self, memory: Memory, id_: str) -> None:
        receipt, explained = self.receipts[id_], memory.explain(id_).to_dict()
        assert explained["query"] == receipt.task, id_
        assert {c["id"] for c in explained["pool"] if c["shown"]} == set(receipt.shown), id_
        outcomes = [(o["reward"], bool(o["valid"])) for o in explained["outcomes"]]
        assert outcomes == receipt.outcomes, (id_, outcomes, receipt)
        changes = [[c["id"], c["rule"], c["q_after"]] for c in explained["changes"]]
        assert changes == (receipt.changes or []), (id_, changes, receipt)

    def check_index(self, memory: Memory, label: str) -> None:
        """A recall of everything finds every active memory, and no other. Writes a receipt."""
        r = memory.recall(f"everything {label}", k=100_000, policy=EVERYTHING, frozen=True, is_test=True)
        active = {id_ for id_, m in self.lessons.items() if m.status == "active"}
        assert set(r.ids) == active, set(r.ids) ^ active
        self.probes += 1
