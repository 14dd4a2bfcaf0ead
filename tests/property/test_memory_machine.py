"""The five verbs in any order against a plain dictionary: whatever happens, both hold the same."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from evolvent.core.errors import BadInput
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

KEYS = ["red-eye flights from Newark", "windy hours at JFK", "seats of United", "late arrivals into Boston"]
BODIES = ["SELECT 1", "SELECT 2", "avoid this"]
REWARDS = [0.0, 0.25, 1.0]
ALPHA = 0.3


class FiveVerbs(RuleBasedStateMachine):
    """``model``: id → [key, body, kind, value, n, status]; ``receipts``: id → [shown ids, settled?]."""

    memories = Bundle("memories")
    receipts = Bundle("receipts")

    @initialize()
    def start(self):
        self.folder = Path(tempfile.mkdtemp())
        self.model, self.open_receipts, self.keys = {}, {}, {}
        self.open()

    def open(self):
        policy = preset("memrl", gate=-1.0, pool=20, k=3, alpha=ALPHA)
        self.memory = Memory(self.folder / "a.db", policy=policy, embedder="hash:32", sync="normal")

    def teardown(self):
        if hasattr(self, "memory"):
            assert self.memory.rebuild_values() == 0
            self.memory.close()
            shutil.rmtree(self.folder)

    # ---------------------------------------------------------------------------------------------- verbs
    @rule(target=memories, key=st.sampled_from(KEYS), body=st.sampled_from(BODIES), kind=st.sampled_from("ab"))
    def remember(self, key, body, kind):
        known = [i for i, m in self.model.items() if m[:3] == [key, body, kind] and m[5] == "active"]
        id_ = self.memory.remember(key, body, kind=kind)
        assert id_ == (known[0] if known else f"m{len(self.model) + 1}")
        self.model.setdefault(id_, [key, body, kind, 0.5, 0, "active"])
        return id_

    @rule(target=receipts, key=st.sampled_from(KEYS), k=st.integers(0, 5), kind=st.sampled_from(["a", "b", None]))
    def recall(self, key, k, kind):
        r = self.memory.recall(key, k=k, kinds=None if kind is None else [kind])
        able = [i for i, m in self.model.items() if m[5] == "active" and kind in (None, m[2])]
        assert set(r.ids) <= set(able) and len(r.items) == min(k, len(able)) and not r.omitted
        for item in r.items:
            m = self.model[item.id]
            assert (item.key, item.body, item.kind, item.n) == (m[0], m[1], m[2], m[4]) and item.value == m[3]
        assert r.id == f"r{len(self.open_receipts) + 1}"
        self.open_receipts[r.id] = [list(r.ids), list(r.ids), False]
        return r.id

    @rule(r=receipts, data=st.data())
    def shown(self, r, data):
        offered, now, settled = self.open_receipts[r]
        ids = data.draw(st.lists(st.sampled_from(offered), unique=True)) if offered else []
        if settled and set(ids) != set(now):
            with pytest.raises(BadInput):
                self.memory.shown(r, ids)
        else:
            self.memory.shown(r, ids)
            self.open_receipts[r][1] = ids

    @rule(r=receipts, reward=st.sampled_from(REWARDS), valid=st.booleans())
    def settle(self, r, reward, valid):
        _, shown, settled = self.open_receipts[r]
        changes = self.memory.settle(r, reward, valid=valid)
        if settled:
            assert changes == settled[0]
        elif valid:
            assert {c.id for c in changes} == set(shown)
            for id_ in shown:
                m = self.model[id_]
                m[3], m[4] = m[3] + ALPHA * (reward - m[3]), m[4] + 1
            self.open_receipts[r][2] = [changes]
        else:
            assert changes == []

    @rule(r=receipts, key=st.sampled_from(KEYS))
    def remember_under_a_receipt(self, r, key):
        id_ = self.memory.remember(
            f"{key}, again {len(self.model)}", "made under a receipt", kind="a", parents=r_of(self, r)
        )
        self.model[id_] = [self.memory.get(id_).key, "made under a receipt", "a", 0.5, 0, "active"]
        assert set(self.memory.get(id_).parents) == set(self.open_receipts[r][1])

    @rule(target=memories, old=memories, body=st.sampled_from(["better", "best"]))
    def supersede(self, old, body):
        m = self.model[old]
        if m[5] != "active":
            with pytest.raises(BadInput):
                self.memory.remember(m[0], body, kind=m[2], supersedes=old)
            return multiple()
        known = [i for i, x in self.model.items() if x[:3] == [m[0], body, m[2]] and x[5] == "active"]
        id_ = self.memory.remember(m[0], body, kind=m[2], supersedes=old)
        assert id_ == (known[0] if known else f"m{len(self.model) + 1}")
        self.model.setdefault(id_, [m[0], body, m[2], 0.5, 0, "active"])
        if id_ != old:
            m[5] = "superseded"
        return id_

    @rule(id_=memories)
    def archive(self, id_):
        self.memory.archive(id_, "because")
        self.model[id_][5] = "archived"

    # ---------------------------------------------------------------------------------------------- accidents
    @rule(key=st.sampled_from(KEYS), reward=st.sampled_from(REWARDS))
    def a_transaction_that_fails(self, key, reward):
        with pytest.raises(ZeroDivisionError), self.memory.transaction():
            self.memory.settle(self.memory.recall(key), reward)
            new = self.memory.remember(key + " never", "never", kind="c")
            assert new in self.memory.recall(key, kinds=["c"]).ids
            for item in self.memory.items():
                self.memory.archive(item.id, "never")
            raise ZeroDivisionError

    @rule(r=receipts, reward=st.sampled_from([float("nan"), float("inf"), -0.5, 1.5]))
    def nonsense(self, r, reward):
        with pytest.raises(BadInput):
            self.memory.settle(r, reward)
        with pytest.raises(BadInput):
            self.memory.remember("", "body")

    @rule()
    def reopen(self):
        self.memory.close()
        self.open()

    @invariant()
    def both_hold_the_same(self):
        if not hasattr(self, "memory"):
            return
        stored = {i.id: [i.key, i.body, i.kind, i.value, i.n, i.status] for i in self.memory.items(None)}
        assert stored == self.model


def r_of(machine, receipt):
    """Parents of what is written under a receipt: what it showed."""
    return machine.open_receipts[receipt][1]


FiveVerbs.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestFiveVerbs = FiveVerbs.TestCase
