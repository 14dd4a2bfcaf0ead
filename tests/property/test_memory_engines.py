"""One story of verbs on SQLite and on PostgreSQL: every answer and every error is the same, and so are the rows."""

import io
import logging
import random
import re
from unittest.mock import patch

import pytest

from evolvent.core.errors import EvolventError
from evolvent.memory.maintenance import transfer
from evolvent.memory.maintenance.drop import drop_scope
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

KEYS = [f"task {a} of {b}" for a in ("one", "two", "three", "four") for b in ("east", "west")]
BODIES = [f"lesson {i} naïve 🚀" for i in range(5)] + ["the key is sk-proj-" + "a1B2" * 8]
POLICIES = ["memlift", "memrl", "memq", preset("memlift", gate=-1.0), preset("memrl", gate=-1.0, epsilon=0.5)]
OTHER = "b:c"  # a scope that is dropped and made again


class Story:
    """Verbs by name, each with arguments that the same seed draws again; about one in twenty names nothing known."""

    def __init__(self, path, seed):
        self.path, self.rng, self.now = path, random.Random(seed), 1.7e9
        self.policy = POLICIES[seed % len(POLICIES)]
        self.ids, self.receipts, self.answers = ["m99"], ["r99"], []

    def open(self, scope):
        return Memory(self.path, embedder="hash:32", policy=self.policy, scope=scope, seed=7, sync="normal")

    def clock(self):
        self.now += 1.0
        return self.now

    def one_of(self, *things):
        return self.rng.choice(things)

    def id(self):
        return self.rng.choice(self.ids)

    def receipt(self):
        return self.rng.choice(self.receipts)

    def remember(self, m):
        parents = self.one_of((), (), self.receipt(), [self.id()])
        metadata = self.one_of(None, {"a": 1}, {"a": [1, "x"], "b": True})
        made = m.remember(
            self.one_of(*KEYS),
            self.one_of(*BODIES),
            kind=self.one_of("case", "script"),
            parents=parents,
            polarity=self.one_of("success", "failure", "neutral"),
            merge=self.one_of(0.98, 0.0, None),
            metadata=metadata,
            expires=self.one_of(None, None, 30.0),
            source=self.one_of("self", "reviewer"),
            created_at=self.one_of(None, None, self.now - 40.0),
        )
        self.ids.append(made)
        return made

    def recall(self, m):
        filter = self.one_of(None, None, {"a": {"in": [1, "x"]}}, {"a": {"exists": False}})
        kinds, policy = self.one_of(None, None, ["case"]), self.one_of(None, "memq", "random")
        found = m.recall(self.one_of(*KEYS), k=self.one_of(None, 1, 5), kinds=kinds, filter=filter, policy=policy)
        self.receipts.append(found.id)
        return found

    def settle(self, m):
        return m.settle(
            self.receipt(),
            self.one_of(0.0, 0.5, 1.0),
            valid=self.rng.random() < 0.9,
            weight=self.one_of(1.0, 0.3),
            idempotency_key=self.one_of(None, "j1", "j2"),
            action=self.one_of(None, *BODIES[:2]),
            child=self.one_of(None, None, self.id()),
            objective=self.one_of("success", "speed"),
        )

    def revise(self, m):
        return m.revise(self.receipt(), self.one_of(0.0, 0.25, 1.0), "why", valid=self.rng.random() < 0.9)

    def update(self, m):
        made = m.update(self.id(), "better", body=self.one_of(None, *BODIES), key=self.one_of(None, *KEYS))
        self.ids.append(made)
        return made

    def mend(self, m):
        dry = self.rng.random() < 0.3
        verb = self.one_of("archive", "quarantine", "restore", "erase", "rollback", "compact")
        if verb == "rollback":
            return m.rollback(self.one_of(self.receipt(), self.now - 5.0, self.now - 50.0), "why", dry_run=dry)
        if verb == "compact":
            return m.compact(keep=self.one_of(0, 3, 1000), unsettled=self.one_of(None, 20.0), dry_run=dry)
        several = [self.id(), self.receipt(), *m.find(self.one_of("lesson 1", "task two"))[:3]]
        if verb == "erase":
            return m.erase(
                self.one_of(self.id(), self.receipt(), several, m.open_receipts(limit=2)), "why", dry_run=dry
            )
        named = self.id() if verb == "archive" else [self.id(), self.id()]
        return getattr(m, verb)(named, "why", dry_run=dry)

    def look(self, m):
        found = m.explain(self.one_of(self.id(), self.receipt()))
        listed = m.items(self.one_of(None, "active", "erased", "expired"), limit=self.one_of(None, 2))
        kinds, order = self.one_of(None, ["case"]), self.one_of("newest", "created", "value", "outcomes")
        listed += m.items(None, kinds=kinds, order=order, limit=3)
        listed += [
            m.count(kinds=kinds),
            m.receipts(settled=self.one_of(None, True)),
            m.find(self.one_of("task", "why")),
        ]
        return found.data, found.text, listed, m.search(self.one_of(*KEYS), k=4), m.values_as_of(self.receipts[-1])

    def undone(self, m):
        with pytest.raises(ZeroDivisionError), m.transaction():
            m.settle(m.recall(m.remember(self.one_of(*KEYS), "gone") and KEYS[0]), 1.0)
            raise ZeroDivisionError

    def drop(self, m):
        if self.rng.random() < 0.2:
            gone = drop_scope(self.ways[0].bank.store, OTHER, "why")
            self.ways[1].close()
            self.ways[1] = self.open(OTHER)
            return {table: n for table, n in gone.items() if table != "memory_vector"}  # a copy that one engine keeps

    def run(self, steps):
        verbs = [self.remember, self.recall, self.settle] * 3
        verbs += [self.revise, self.update, self.mend, self.mend, self.look, self.undone, self.drop]
        # a line that one engine logs would ask for the time
        with patch("time.time", self.clock), patch.object(logging.Logger, "isEnabledFor", lambda *_: False):
            self.ways = [self.open("default"), self.open(OTHER)]
            for _ in range(steps):
                verb, m = self.rng.choice(verbs), self.ways[self.rng.random() < 0.2]
                try:
                    self.answers.append((verb.__name__, repr(verb(m))))
                except EvolventError as error:
                    self.answers.append((verb.__name__, error.what, error.code, str(error.got)))
            out = io.BytesIO()
            transfer.export_jsonl(self.ways[0].bank.store, out)
        for m in self.ways:
            assert verify(m) == [] and m.rebuild_values() == 0
            m.close()
        # how far its index had counted, where memories were erased behind that, is the engine's own
        return self.answers, [re.sub(rb'"store_seq":\d+', b"", line) for line in out.getvalue().splitlines()[:-1]]


@pytest.mark.postgres
@pytest.mark.parametrize("seed", range(10))
def test_a_story_is_the_same_on_both_engines(tmp_path, postgres_store, seed):
    here, rows = Story(tmp_path / "a.db", seed).run(70)
    there, rows_there = Story(postgres_store(f"story_{seed}"), seed).run(70)
    for one, other in zip(here, there, strict=True):
        assert one == other
    assert rows == rows_there and len({verb for verb, *_ in here}) > 7
