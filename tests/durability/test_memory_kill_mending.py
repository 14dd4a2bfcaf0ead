"""Killed at any statement of a revision, an erasure, a dropped scope or a changed embedder: before it, or after it."""

import shutil
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from evolvent.memory.maintenance import transfer
from evolvent.memory.maintenance.drop import drop_scope
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.store.opening import open_store

SECRET = "Ann Lee of Elm Street"
VERBS = {
    "revise": lambda memory: memory.revise("r2", 0.0, "reverted"),
    "erase": lambda memory: memory.erase("m1", "asked for"),
    "erase many": lambda memory: memory.erase([*memory.find("Ann"), *(r.id for r in memory.receipts())], "asked for"),
    "compact": lambda memory: memory.compact(keep=0, unsettled=0.0),
    "drop_scope": lambda memory: drop_scope(memory.bank.store, "tenant", "the contract ended"),
    "reembed": lambda memory: memory.reembed("hash:16"),
}
DIES = """
import os, signal, sys
sys.path.insert(0, sys.argv[4])
from test_memory_kill_mending import VERBS
from evolvent.memory.memory import Memory

left = [int(sys.argv[3])]
with Memory(sys.argv[1]) as memory:
    def count(statement):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    memory.bank.store.db.set_trace_callback(count)
    VERBS[sys.argv[2]](memory)
    print(int(sys.argv[3]) - left[0])
"""


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A store with a family, settled receipts and a tenant."""
    path = tmp_path_factory.mktemp("old") / "old.db"
    with Memory(path, embedder="hash:32", policy="memrl") as memory, Memory(path, scope="tenant") as tenant:
        for one in (memory, tenant):
            a = one.remember(f"{SECRET} asked", f"{SECRET}: the answer", polarity="success")
            for i in range(4):
                receipt = one.recall(f"{SECRET} asked")
                one.remember(f"another question {i}", f"body {i}", parents=[a])
                one.settle(receipt, 1.0, action=f"said {SECRET}")
        for i in range(4):
            memory.recall(f"{SECRET} asked {i}")
    return path


def state(path):
    """The digest of a store that is sound."""
    with Memory(path) as memory:  # what was erased may still be in a free page
        assert [found for found in verify(memory) if found.check != "erased"] == []
    with closing(open_store(path)) as store:
        return transfer.digest(store)


@pytest.mark.parametrize("verb", VERBS)
def test_a_kill_leaves_all_of_it_or_nothing(verb, old, tmp_path):
    before, path = state(old), tmp_path / "a.db"
    whole = shutil.copy(old, tmp_path / "whole.db")
    here = __file__.rpartition("/")[0]
    run = [sys.executable, "-c", DIES]
    steps = int(subprocess.run([*run, whole, verb, "0", here], check=True, capture_output=True, text=True).stdout)
    assert steps > 10
    seen = set()
    for at in range(1, steps + 1, max(1, steps // 8)):
        shutil.copy(old, path)
        done = subprocess.run([*run, str(path), verb, str(at), here], check=False, capture_output=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        now = state(path)
        seen.add(now == before)
        with Memory(path) as memory:  # what was not done can be done, what was done twice is as once
            if verb == "drop_scope" and memory.bank.store.row("SELECT 1 FROM scope WHERE name = 'tenant'") is None:
                assert memory.bank.store.row("SELECT 1 FROM memory WHERE scope_id = 2") is None
                memory.erase([], "the files")
            else:
                VERBS[verb](memory)
            assert verify(memory) == [] and memory.rebuild_values() == 0
            assert memory.get("m1").n == (0 if verb.startswith("erase") else 4)
            assert (memory.find(SECRET) == []) == (verb == "erase many")
            assert bool(memory.open_receipts()) == (verb not in ("erase many", "compact"))
        for log in path.parent.glob("a.db*"):
            log.unlink()
    assert True in seen
