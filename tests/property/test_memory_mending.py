"""Mending under any order of verbs: rollback gives what the receipt saw, back and forth, bit for bit."""

import random

import pytest

from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

KEYS = ["red-eye flights from Newark", "windy hours at JFK", "seats of United", "late arrivals into Boston", "delays"]
STATE = (
    "SELECT seq, status, superseded_by, merged FROM memory ORDER BY seq",
    "SELECT * FROM value ORDER BY memory_id, objective, stage",
    "SELECT * FROM source_value ORDER BY scope_id, source, objective, stage",
    "SELECT seq, event_from, event_to, undone_at IS NULL FROM void WHERE undone_at IS NULL ORDER BY seq",
    "SELECT * FROM recall_item ORDER BY recall_id, memory_id",
)


def state(memory):
    """What matters of a store, bit for bit; and what a search would find."""
    rows = [memory.bank.store.rows(sql) for sql in STATE]
    memory.bank.index.catch_up()
    found = [memory.bank.index.search(memory.bank.vectors({"x": key})["x"], limit=99)[0].tolist() for key in KEYS[:2]]
    memory.bank._vectors.clear()
    return rows, found


def same(now, was, kept):
    """Whether a state came back, but for memories that stayed in quarantine, and for receipts."""
    assert now[0][1:4] == was[0][1:4]  # values and what they rest on
    memories = [[row for row in rows if row[0] not in kept] for rows in (now[0][0], was[0][0])]
    assert memories[0] == memories[1] and all(row[1] == "quarantined" for row in now[0][0] if row[0] in kept)
    assert [[s for s in found if s not in kept] for found in was[1]] == now[1]


class Life:
    """Random verbs on one memory, and what each receipt saw."""

    def __init__(self, memory, seed):
        self.memory, self.random, self.seen, self.receipts = memory, random.Random(seed), {}, []
        self.settled = []

    def some(self, status="active"):
        ids = [item.id for item in self.memory.items(status)]
        return self.random.sample(ids, min(len(ids), self.random.randint(1, 2)))

    def look(self):
        """A recall, with all values as they were at that moment, as the memories themselves report them."""
        r = self.memory.recall(self.random.choice(KEYS), k=3)
        self.seen[r.id] = {item.id: item.value for item in self.memory.items(None)}
        self.receipts.append(r)
        return r

    def step(self):
        m, pick = self.memory, self.random
        verb = pick.choices(
            ["remember", "settle", "revise", "supersede", "archive", "quarantine", "restore", "rollback"],
            [4, 12, 3, 1, 1, 1, 1, 2],
        )[0]
        if verb == "remember":
            parents = pick.choice(self.receipts) if self.receipts and pick.random() < 0.7 else ()
            body = pick.choice([f"body {pick.random()}", "said before"])  # the latter merges: one more key
            m.remember(
                pick.choice(KEYS), body, parents=parents, polarity="success", source=pick.choice("ab"), merge=0.0
            )
        elif verb == "settle":
            r = self.look()
            m.settle(
                r, pick.choice([0.0, 0.3, 1.0]), source=pick.choice(["env", "judge"]), weight=pick.choice([1.0, 0.5])
            )
            self.settled.append(r)
        elif verb == "revise" and self.settled:
            m.revise(pick.choice(self.settled), pick.choice([0.0, 0.3, 1.0]), "it was otherwise", source="human")
        elif verb == "supersede" and (old := self.some()):
            m.remember(pick.choice(KEYS), f"better {pick.random()}", supersedes=old[0])
        elif verb in ("archive", "quarantine", "restore") and (ids := self.some(None)):
            m.archive(ids[0], "x") if verb == "archive" else getattr(m, verb)(ids, "x")
        elif verb == "rollback" and self.receipts:
            self.rollback(pick.choice(self.receipts).id)

    def rollback(self, receipt):
        rehearsed = self.memory.rollback(receipt, "x", dry_run=True)
        done = self.memory.rollback(receipt, "x")
        assert (rehearsed.statuses, rehearsed.values, rehearsed.events, rehearsed.kept) == (
            done.statuses,
            done.values,
            done.events,
            done.kept,
        )
        then = self.memory.values_as_of(receipt)
        assert then == self.seen[receipt]
        now = {item.id: item for item in self.memory.items(None)}
        assert {id_: now[id_].value for id_ in then} == then
        assert all(item.status != "active" for id_, item in now.items() if id_ not in then)


@pytest.mark.parametrize("policy", ["memlift", "memrl", "memq"])
@pytest.mark.parametrize("seed", range(6))
def test_rollback_gives_what_the_receipt_saw_back_and_forth(policy, seed, tmp_path):
    live(tmp_path / "a.db", policy, seed)


@pytest.mark.postgres
@pytest.mark.parametrize("policy", ["memlift", "memq"])
def test_the_same_on_postgres(policy, postgres_store):
    live(postgres_store(), policy, 1)


def live(path, policy, seed):
    chosen = preset(policy, gate=-1.0, pool=20, k=3)
    with Memory(path, policy=chosen, embedder="hash:32", sync="normal", seed=seed) as memory:
        life = Life(memory, seed)
        for _ in range(3):
            memory.remember(life.random.choice(KEYS), f"start {life.random.random()}", polarity="success")
        for turn in range(60):
            life.step()
            if turn % 6 == 0:
                assert memory.rebuild_values() == 0
                assert verify(memory) == []
            if turn % 10 == 9 and life.receipts:
                here = life.look().id
                before = state(memory)
                receipt = life.random.choice(life.receipts).id
                memory.rollback(receipt, "x", dry_run=True)
                assert state(memory) == before  # a rehearsal leaves nothing behind
                memory.rollback(receipt, "x")
                rolled, there = state(memory), life.look().id
                for moment, was in ((here, before), (there, rolled)):
                    kept = memory.rollback(moment, "x").kept
                    same(state(memory), was, {int(id_[1:]) for id_ in kept})
        # every receipt still tells what it saw, whatever was rolled back since
        for receipt, values in life.seen.items():
            assert memory.values_as_of(receipt) == values
        with Memory(path, policy=chosen) as again:
            assert state(again) == state(memory)
