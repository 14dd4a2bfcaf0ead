"""The credit rules for memories, run on recorded episodes, give what the store gave when it settled them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.core.episode import Episode
from evolvent.credit import memory_ema, memory_omission, memory_provenance
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

START = 0.5


def live(policy, seed, steps):
    """A life with a store: returns its episodes, what each settle changed, and provenance; nothing is left to chance.

    Args:
        policy: of the memory; every memory starts at ``START``.
        seed: of tasks, rewards and what survives prompt assembly.
        steps: how many tasks.
    """
    rng = np.random.default_rng(seed)
    episodes, changed, parents, created = [], [], {}, {}
    memory = Memory(policy=policy, embedder="hash:32", seed=seed)
    for i in range(4):
        memory.remember(f"task {i}", f"lesson {i}")
    for t in range(steps):
        r = memory.recall(f"task {rng.integers(4)}")
        shown = [i for i in r.ids if rng.random() < 0.8]
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


@settings(max_examples=40, deadline=None)
@given(seeds, steps)
def test_memrl(seed, steps):
    policy = preset("memrl", gate=-1.0, epsilon=0.0, q_init="middle", k=3)
    memory, episodes, changed, _, _ = live(policy, seed, steps)
    with memory:
        ledger = memory_ema.assign(episodes, memory_ema.Config(alpha=policy.alpha, q_init=START))
        for t, episode in enumerate(episodes):
            assert set(changed[t]) == set(episode.shown_memories if episode.valid else ())
            for m, change in changed[t].items():
                credit = ledger.get("memory", episode=t, unit=m)
                assert credit == pytest.approx(change.q_after - change.q_before, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(seeds, steps)
def test_memq(seed, steps):
    policy = preset("memq", gate=-1.0, epsilon=0.0, q_init="middle", k=3, alpha=0.2, gamma=0.4, trace=0.6)
    memory, episodes, changed, parents, created = live(policy, seed, steps)
    config = memory_provenance.Config(
        alpha=policy.alpha, gamma=policy.gamma, trace=policy.trace, q_init=START, parents=parents, created=created
    )
    with memory:
        for did, says in zip(changed, memory_provenance.changes(episodes, config), strict=True):
            moved = {m: c.q_after - c.q_before for m, c in did.items()}
            assert {m for m, c in moved.items() if abs(c) > 1e-12} == {m for m, c in says.items() if abs(c) > 1e-12}
            assert all(moved[m] == pytest.approx(c, abs=1e-9) for m, c in says.items() if m in moved)


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(20, 60))
def test_memlift(seed, steps):
    policy = preset(
        "memlift", gate=-1.0, margin=2.0, relevance="cosine", omit=0.4, omit_harmful=0.6, decay=1.0, q_init="middle"
    )
    memory, episodes, changed, _, _ = live(policy, seed, steps)
    # what was offered, neither shown nor left out, is no contrast: the agent dropped it for reasons of its own
    ledger = memory_omission.assign(episodes, memory_omission.Config(strength=0.0))
    with memory:
        compared = 0
        for address, credit in ledger.entries("memory"):
            if credit is None:
                continue
            (row,) = memory.explain(address.unit).to_dict()["values"]
            if row["effect"]["confidence"] > 0:
                assert credit == pytest.approx(row["effect"]["raw"], abs=1e-9)
                compared += 1
        assert compared or not any(c.rule == "omitted" for did in changed for c in did.values())
