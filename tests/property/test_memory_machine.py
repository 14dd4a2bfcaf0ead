"""The five verbs in any order, through two connections, against a plain dictionary: all three hold the same."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from evolvent.core.errors import BadInput
from evolvent.memory.embedders import Hashing
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

KEYS = ["red-eye flights from Newark", "windy hours at JFK", "seats of United", "late arrivals into Boston"]
BODIES = ["SELECT 1", "SELECT 2", "avoid this"]
REWARDS = [0.0, 0.25, 1.0]
JOBS = [None, "job 1", "job 2"]
ALPHA = 0.3
VIA = st.integers(0, 1)
MERGE = st.sampled_from([0.98, 0.0])
VECTOR = dict(zip(KEYS, Hashing(32).embed(KEYS), strict=True))


class FiveVerbs(RuleBasedStateMachine):
    """``model``: id → [key, body, kind, value, n, status]; ``receipts``: id → [offered, shown, changes or None].

    ``keys``: (id, key) of every row of the store: a memory has as many rows as it has keys.
    ``jobs``: (idempotency key, valid) → the changes of the outcome of that name. ``calls``: what settle was asked, and
    answered, so that it can be asked again. ``story``: by job and receipt, the outcome that counts; ``outcomes``: all.
    """

    memories = Bundle("memories")
    receipts = Bundle("receipts")

    @initialize()
    def start(self):
        self.folder = Path(tempfile.mkdtemp())
        self.model, self.asked, self.jobs, self.calls, self.invalid = {}, {}, {}, [], 0
        self.story, self.outcomes, self.keys = {}, [], []
        self.open()

    def connect(self):
        """A new connection to the store; a subclass gives another engine."""
        policy = preset("memrl", gate=-1.0, pool=20, k=3, alpha=ALPHA)
        return Memory(self.folder / "a.db", policy=policy, embedder="hash:32", sync="normal")

    def open(self):
        self.ways = [self.connect(), self.connect()]

    def teardown(self):
        if hasattr(self, "ways"):
            assert self.ways[0].rebuild_values() == 0 and verify(self.ways[1]) == []
            for memory in self.ways:
                memory.close()
            shutil.rmtree(self.folder)

    # ---------------------------------------------------------------------------------------------- the model
    def is_remembered(self, id_, key, body, kind, merge=0.98):
        """The model's side of remember: the same lesson is kept once, under all its keys."""
        said = [i for i, m in self.model.items() if m[1:3] == [body, kind] and m[5] == "active"]
        known = [i for i, other in self.keys if other == key and i in said]
        near = [(float(VECTOR[key] @ VECTOR[other]), -int(i[1:])) for i, other in self.keys if i in said]
        if known:
            assert id_ == known[0]
            return
        merges = bool(near) and max(near)[0] >= merge
        assert id_ == (f"m{-max(near)[1]}" if merges else f"m{len(self.keys) + 1}")
        self.keys.append((id_, key))
        self.model.setdefault(id_, [key, body, kind, 0.5, 0, "active"])

    def is_recalled(self, r, task, k, kind):
        able = [i for i, m in self.model.items() if m[5] == "active" and kind in (None, m[2])]
        assert set(r.ids) <= set(able) and len(r.items) == min(k, len(able)) and not r.omitted
        for item in r.items:
            m = self.model[item.id]
            keys = [key for id_, key in self.keys if id_ == item.id]
            assert task not in keys or item.similarity == 1.0
            assert (item.key, item.body, item.kind, item.n) == (m[0], m[1], m[2], m[4]) and item.value == m[3]
        assert r.id not in self.asked
        self.asked[r.id] = [list(r.ids), list(r.ids), None]

    def is_another_story(self, r, reward, valid, job):
        """Whether a receipt has an outcome already, and this is another one."""
        names = [(job, True)] if valid else [(job, False), (job, True)]
        named = [self.story[name] for name in names if job is not None and name in self.story]
        first = named[0] if named else self.story.get(r)
        if first is None or first[0] != r or not (valid or first[2]):
            return False
        if not valid and (r, reward, False) in self.outcomes:
            return False
        return first != (r, reward, valid)

    def is_settled(self, changes, r, reward, valid, job):
        """The model's side of settle: an outcome counts once, by its name and by its receipt."""
        names = [(job, True)] if valid else [(job, False), (job, True)]
        earlier = [self.jobs[name] for name in names if name in self.jobs]
        if not earlier and self.asked[r][2] is not None:
            earlier = [self.asked[r][2]]
        if earlier:
            assert changes in earlier
            return
        self.outcomes.append((r, reward, valid))
        if job is not None:
            self.jobs[job, valid] = changes
            self.story[job, valid] = self.outcomes[-1]
        if valid:
            self.story[r] = self.outcomes[-1]
        if not valid:
            self.invalid += 1
            assert changes == []
            return
        shown = self.asked[r][1]
        assert sorted(c.id for c in changes) == sorted(shown)
        for id_ in shown:
            m = self.model[id_]
            m[3], m[4] = m[3] + ALPHA * (reward - m[3]), m[4] + 1
        self.asked[r][2] = changes

    # ---------------------------------------------------------------------------------------------- verbs
    @rule(
        target=memories,
        via=VIA,
        key=st.sampled_from(KEYS),
        body=st.sampled_from(BODIES),
        kind=st.sampled_from("ab"),
        merge=MERGE,
    )
    def remember(self, via, key, body, kind, merge):
        id_ = self.ways[via].remember(key, body, kind=kind, merge=merge)
        self.is_remembered(id_, key, body, kind, merge)
        return id_

    @rule(
        target=memories,
        via=VIA,
        rows=st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(BODIES)), min_size=1, max_size=4),
    )
    def remember_many(self, via, rows):
        ids = self.ways[via].remember_many([{"key": key, "body": body, "kind": "b"} for key, body in rows])
        assert len(ids) == len(rows)
        for id_, (key, body) in zip(ids, rows, strict=True):
            self.is_remembered(id_, key, body, "b")
        return multiple(*ids)

    @rule(target=receipts, via=VIA, key=st.sampled_from(KEYS), k=st.integers(0, 5), kind=st.sampled_from(["a", None]))
    def recall(self, via, key, k, kind):
        r = self.ways[via].recall(key, k=k, kinds=None if kind is None else [kind])
        self.is_recalled(r, key, k, kind)
        return r.id

    @rule(r=receipts, via=VIA, data=st.data())
    def shown(self, r, via, data):
        offered, now, settled = self.asked[r]
        ids = data.draw(st.lists(st.sampled_from(offered), unique=True)) if offered else []
        if settled is not None and set(ids) != set(now):
            with pytest.raises(BadInput):
                self.ways[via].shown(r, ids)
        else:
            self.ways[via].shown(r, ids)
            self.asked[r][1] = ids

    @rule(r=receipts, via=VIA, reward=st.sampled_from(REWARDS), valid=st.booleans(), job=st.sampled_from(JOBS))
    def settle(self, r, via, reward, valid, job):
        if self.is_another_story(r, reward, valid, job):
            with pytest.raises(BadInput, match="settled already"):
                self.ways[via].settle(r, reward, valid=valid, idempotency_key=job)
            return
        changes = self.ways[via].settle(r, reward, valid=valid, idempotency_key=job)
        self.is_settled(changes, r, reward, valid, job)
        if valid or job is not None:
            self.calls.append((r, reward, valid, job, changes))

    @rule(via=VIA, data=st.data())
    def settle_again(self, via, data):
        """A caller that did not hear the answer asks again, perhaps through another process."""
        if self.calls:
            r, reward, valid, job, changes = data.draw(st.sampled_from(self.calls))
            again = self.ways[via].settle(r, reward, valid=valid, idempotency_key=job)
            self.is_settled(again, r, reward, valid, job)
            assert again == changes or not valid

    @rule(via=VIA, key=st.sampled_from(KEYS), rewards=st.tuples(st.sampled_from(REWARDS), st.sampled_from(REWARDS)))
    def a_job_that_runs_twice(self, via, key, rewards):
        """Its second report carries another receipt, perhaps another reward, and the same name: it changes nothing."""
        name = f"job of {len(self.asked)}"
        for way, reward in zip((via, 1 - via), rewards, strict=True):
            r = self.ways[way].recall(key, k=2)
            self.is_recalled(r, key, 2, None)
            self.is_settled(self.ways[way].settle(r, reward, idempotency_key=name), r.id, reward, True, name)
        assert self.asked[r.id][2] is None

    @rule(r=receipts, via=VIA, key=st.sampled_from(KEYS))
    def remember_under_a_receipt(self, r, via, key):
        body = f"made under a receipt {len(self.model)}"
        id_ = self.ways[via].remember(key, body, kind="a", parents=r)
        self.is_remembered(id_, key, body, "a")
        assert set(self.ways[1 - via].get(id_).parents) == set(self.asked[r][1])

    @rule(target=memories, old=memories, via=VIA, body=st.sampled_from(["better", "best"]))
    def supersede(self, old, via, body):
        m = self.model[old]
        if m[5] != "active":
            with pytest.raises(BadInput):
                self.ways[via].remember(m[0], body, kind=m[2], supersedes=old)
            return multiple()
        id_ = self.ways[via].remember(m[0], body, kind=m[2], supersedes=old)
        self.is_remembered(id_, m[0], body, m[2])
        if id_ != old:
            m[5] = "superseded"
        return id_

    @rule(id_=memories, via=VIA)
    def archive(self, id_, via):
        self.ways[via].archive(id_, "because")
        self.model[id_][5] = "archived"

    # ---------------------------------------------------------------------------------------------- transactions
    @rule(via=VIA, key=st.sampled_from(KEYS), body=st.sampled_from(BODIES), reward=st.sampled_from(REWARDS))
    def a_transaction(self, via, key, body, reward):
        """What is grouped is seen by itself at once and by others afterwards; a verb that fails undoes only itself."""
        memory, number = self.ways[via], len(self.model)
        with memory.transaction():
            id_ = memory.remember(key, body, kind="a")
            self.is_remembered(id_, key, body, "a")
            with pytest.raises(BadInput):
                memory.remember_many([{"key": "half of it", "body": "x"}, {"key": "half of it", "body": " "}])
            r = memory.recall(key, k=2)
            self.is_recalled(r, key, 2, None)
            self.is_settled(memory.settle(r, reward), r.id, reward, True, None)
            memory.meta_set("number", number)
        assert self.ways[1 - via].meta_get("number") == number

    @rule(via=VIA, key=st.sampled_from(KEYS), reward=st.sampled_from(REWARDS))
    def a_transaction_that_fails(self, via, key, reward):
        memory = self.ways[via]
        with pytest.raises(ZeroDivisionError), memory.transaction():
            memory.settle(memory.recall(key), reward, idempotency_key="job never")
            new = memory.remember(key + " never", "never", kind="c")
            assert new in memory.recall(key, kinds=["c"]).ids
            for item in memory.items():
                memory.archive(item.id, "never")
            raise ZeroDivisionError

    # ---------------------------------------------------------------------------------------------- accidents
    @rule(r=receipts, via=VIA, reward=st.sampled_from([float("nan"), float("inf"), -0.5, 1.5]))
    def nonsense(self, r, via, reward):
        with pytest.raises(BadInput):
            self.ways[via].settle(r, reward)
        with pytest.raises(BadInput):
            self.ways[via].remember("", "body")

    @rule(via=VIA)
    def reopen_one(self, via):
        self.ways[via].close()
        self.ways[via] = self.connect()

    @rule()
    def reopen_both(self):
        for memory in self.ways:
            memory.close()
        self.open()

    @invariant()
    def all_hold_the_same(self):
        for memory in getattr(self, "ways", ()):
            stored = {i.id: [i.key, i.body, i.kind, i.value, i.n, i.status] for i in memory.items(None)}
            assert stored == self.model
            health = memory.health()
            assert health["settled"] == sum(r[2] is not None for r in self.asked.values())
            assert (health["recalls"], health["invalid_outcomes"]) == (len(self.asked), self.invalid)


FiveVerbs.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestFiveVerbs = FiveVerbs.TestCase
