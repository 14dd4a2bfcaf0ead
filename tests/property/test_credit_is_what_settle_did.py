"""The credit rules for memories, run on recorded episodes, give what the store gave when it settled them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.core.episode import Episode
from evolvent.credit import memory_omission
from evolvent.memory.ledger import Known, changes_by
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.rules import evokernel, memlift, memq, memrl

START = 0.5


def live(policy, seed, steps, room=0.8):
    """A life with a store: returns its episodes, what each settle changed, and provenance; nothing is left to chance.

    Args:
        policy: of the memory; every memory starts at ``START``.
        seed: of tasks, rewards and what survives prompt assembly.
        steps: how many tasks.
        room: share of what was handed out that survives prompt assembly.
    """
    rng = np.random.default_rng(seed)
    episodes, changed, parents, created = [], [], {}, {}
    memory = Memory(policy=policy, embedder="hash:32", seed=seed)
    for i in range(4):
        memory.remember(f"task {i}", f"lesson {i}")
    for t in range(steps):
        r = memory.recall(f"task {rng.integers(4)}")
        shown = [i for i in r.ids if rng.random() < room]
        memory.shown(r, shown)
        reward, valid = float(rng.random() < 0.6), bool(rng.random() < 0.9)
        child = None
        if rng.random() < 0.4:
            child = memory.remember(f"task {t} later", f"found {t}", parents=r, polarity="success")
            parents[child], created[f"e{t}"] = shown, child
        changed.append({c.id: c for c in memory.settle(r, reward, valid=valid, child=child)})
        episode = Episode(f"task {t}", id=f"e{t}")
        omitted = [i.id for i in r.omitted]
        odds = {i.id: i.propensity for i in (*r.items, *r.omitted) if i.id in (*shown, *omitted)}
        episode.recall(r.id, shown, omitted=omitted, propensity=odds)
        episode.act("x", reward=reward)
        episode.end(terminated=True, valid=valid)
        episodes.append(episode)
    return memory, episodes, changed, parents, created


seeds, steps = st.integers(0, 2**32), st.integers(1, 12)
RULES = {
    "memrl": (memrl, {}),
    "memq": (memq, {"alpha": 0.2, "gamma": 0.4, "trace": 0.6}),
    "evokernel": (evokernel, {"alpha": 0.3}),
    "memlift": (memlift, {"hide": 0.0, "omit": 0.4}),
}


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=30, deadline=None)
@given(seeds, steps)
def test_the_rule_over_episodes_changes_what_settling_changed(name, seed, steps):
    rule, fields = RULES[name]
    policy = preset(name, gate=-1.0, epsilon=0.0, q_init="middle", k=3, **fields)
    memory, episodes, changed, parents, created = live(policy, seed, steps)
    known = Known(parents=parents, created=created)
    with memory:
        for did, says in zip(changed, changes_by(rule.credit, episodes, policy, known), strict=True):
            facts = {c.memory: (c.rule, c.depth, c.weight, c.q_before, c.q_after) for c in says}
            # what was handed out and dropped is not in the record of an episode: it changes statistics only
            seen = {i: c for i, c in did.items() if (c.rule, c.weight) != ("omitted", 0.0)}
            assert facts == {i: (c.rule, c.depth, c.weight, c.q_before, c.q_after) for i, c in seen.items()}
        ledger = memory.credit(episodes)
        for address, credit in ledger.entries("memory"):
            c = changed[address.episode].get(address.unit)
            assert credit == (None if c is None else c.q_after - c.q_before)
        says = rule.assign(episodes, policy, known)
        assert np.array_equal(ledger.values("memory"), says.values("memory"), equal_nan=True)


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(20, 60))
def test_memlift(seed, steps):
    policy = preset("memlift", gate=-1.0, hide=0.0, omit=0.4, omit_harmful=0.6, q_init="middle")
    memory, episodes, changed, _, _ = live(policy, seed, steps, room=1.0)
    ledger = memory_omission.assign(episodes, memory_omission.Config(strength=0.0))
    with memory:
        compared = 0
        for address, credit in ledger.entries("memory"):
            if credit is None:
                continue
            (row,) = memory.explain(str(address.unit)).to_dict()["values"]
            if row["effect"]["confidence"] > 0:
                assert credit == pytest.approx(row["effect"]["raw"], abs=1e-9)
                compared += 1
        assert compared or not any(c.rule == "omitted" for did in changed for c in did.values())
