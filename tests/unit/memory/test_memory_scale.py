"""Rewards on another scale are the same story: every rule recalls the same and learns the same shares of the range."""

import random

import numpy as np
import pytest

from evolvent.cli.memory.audit import audit
from evolvent.memory.memory import Memory
from evolvent.memory.policies import names, preset

RANGES = [(-1.0, 1.0), (-100.0, 0.0), (100.0, 1000.0), (0.0, 1e-12)]


def story(policy, low, high):
    """Sixty recalls with outcomes, corrections and lessons of their own: what was handed out, and what was learned."""
    chance, found = random.Random(5), []
    kinds = ("fix the login page", "count delta flights", "deploy the search node")
    with Memory(policy=policy, embedder="hash:32", reward_range=(low, high), seed=3, sync="normal") as memory:
        for i in range(9):
            memory.remember(f"{kinds[i % 3]} {i}", f"way {i} of {i * 7}", source=f"s{i % 2}")
        for t in range(60):
            task = f"{kinds[chance.randrange(3)]} {chance.randrange(9)}"
            recall = memory.recall(task, k=3)
            found.append((recall.ids, [item.id for item in recall.omitted]))
            share = chance.randrange(5) / 4
            child = memory.remember(task, f"lesson {t} of it", parents=recall) if t % 7 == 5 else None
            memory.settle(recall, low + (high - low) * share, action=f"way {t % 9} of", child=child)
        return found, [(item.value - low) / (high - low) for item in memory.items()]


@pytest.mark.parametrize("name", sorted(set(names()) - {"none", "random"}))
def test_every_rule_does_the_same_on_every_scale_of_rewards(name):
    policy = preset(name, gate=-1.0)
    recalls, values = story(policy, 0.0, 1.0)
    for low, high in RANGES:
        again, learned = story(policy, low, high)
        assert again == recalls, (low, high)
        assert np.allclose(learned, values, rtol=0.0, atol=1e-9), (low, high)


def test_a_small_range_is_reported_in_its_own_places():
    for high, shown in ((1.0, "0.65"), (0.01, "0.0065"), (1e-12, "6.50e-13"), (1000.0, "650.00")):
        with Memory(policy="memrl", embedder="hash:32", reward_range=(0.0, high)) as memory:
            memory.remember("task", "body")
            memory.settle(memory.recall("task"), high)
            recall = memory.recall("task")
            assert f"value {shown} ±" in recall[0].why and f"value {shown} (n 1)" in str(memory.explain(recall))
            value = str(memory.explain("m1")).split("value ")[1].split(" ±")[0]
            assert float(value) == pytest.approx(0.65 * high)


def test_the_audit_compares_on_the_scale_of_the_rewards():
    with Memory(policy="memrl", embedder="hash:32", reward_range=(0.0, 1000.0)) as memory:
        memory.remember_many([{"key": f"task {name}", "body": name} for name in ("good", "bad")])
        for _ in range(30):
            memory.settle(memory.recall("task good", k=1), 1000.0)
            memory.settle(memory.recall("task bad", k=1), 0.0)
        (worst,) = audit(memory)["harmful"]["worst"]
        assert worst["why"].endswith("where another memory has 1000.00"), worst
