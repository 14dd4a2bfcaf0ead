"""Kill -9 while a store is opened, written and committed: nothing acknowledged is lost, nothing counts twice."""

import pytest
from kill_driver import campaign
from kill_ledger import Ledger


def test_25_kills(tmp_path):
    done = campaign(25, seed=25, template=f"{tmp_path}/{{n}}.db")
    assert done.kills == 25 and done.acknowledged > 25


@pytest.mark.postgres
def test_kills_on_postgresql(postgres_store):
    done = campaign(12, seed=12, template=lambda n: postgres_store(f"kill_{n}"))
    assert done.kills == 12 and done.acknowledged > 12


@pytest.mark.slow
def test_1000_kills(tmp_path):
    done = campaign(1000, seed=0, template=f"{tmp_path}/{{n}}.db")
    assert done.kills == 1000 and done.acknowledged > 2000
    assert sum(done.landed.values()) > 5, "hardly any kill hit a commit"


def test_the_driver_notices_a_lost_and_a_doubled_verb(tmp_path):
    """A test that cannot fail is none: what never was acknowledged and what was not kept are both reported."""
    from kill_worker import EMBEDDER, POLICIES, perform

    from evolvent.memory.memory import Memory

    facts = {"verb": "remember", "key": "a key", "body": "a body", "parents": []}
    with Memory(tmp_path / "a.db", policy=POLICIES["memrl"], embedder=EMBEDDER) as memory:
        ledger = Ledger()
        ledger.apply(facts, "m1")
        with pytest.raises(AssertionError):
            ledger.check(memory, 0, [])  # acknowledged, not there
        perform(memory, facts)
        ledger.check(memory, 0, [])
        recall = {"verb": "recall", "task": "a key", "is_test": False}
        ledger.apply(recall, {"id": "r1", "items": ["m1"]})
        with pytest.raises(AssertionError):
            ledger.check(memory, 0, [])
        memory.recall("a key")
        memory.recall("a key")  # nobody asked for this one
        with pytest.raises(AssertionError):
            ledger.check(memory, 0, ["r1"])
        ledger.check(memory, 1, ["r1"])  # unless its process died before it heard the number
        settle = {"verb": "settle", "receipt": "r1", "reward": 1.0, "valid": True, "key": "job 1"}
        ledger.apply(settle, perform(memory, settle))
        ledger.check(memory, 0, ["r1"])
        memory.settle("r2", 1.0)  # the same job once more, without its idempotency key
        with pytest.raises(AssertionError):
            ledger.check(memory, 0, ["r1"])
