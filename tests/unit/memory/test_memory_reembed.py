"""A change of the embedder that dies is one that did not happen yet, and the next one goes on."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from evolvent.core.errors import StoreError
from evolvent.memory.embedders import Function
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

DIES = """
import os, signal, sys
from contextlib import closing
from evolvent.memory.embedders import Hashing
from evolvent.memory.maintenance import reembed
from evolvent.memory.store.opening import open_store

def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)

class Dies(Hashing):
    calls = 0
    def embed(self, texts):
        Dies.calls += 1
        return die() if Dies.calls > int(sys.argv[2]) else super().embed(texts)

if sys.argv[3:]:
    reembed.audit = die  # the last statement of the change over
with closing(open_store(sys.argv[1])) as store:
    reembed.reembed(store, Dies(32))
"""


class Counts:
    def __init__(self):
        from evolvent.memory.embedders import Hashing

        self._inner, self.texts = Hashing(32), 0
        self.id, self.dim = self._inner.id, 32

    def embed(self, texts):
        self.texts += len(texts)
        return self._inner.embed(texts)


@pytest.mark.parametrize(("calls", "at_the_end", "left"), [(1, (), 344), (9, ("change over",), 0)])
def test_a_process_that_dies_is_followed_by_one_that_goes_on(tmp_path, calls, at_the_end, left):
    path = tmp_path / "a.db"
    with Memory(path, embedder="hash:64") as memory:
        memory.remember_many({"key": f"task {i} of {i % 9}", "body": f"body {i}"} for i in range(600))
        before = memory.recall("task 7 of 7", frozen=True).ids
    done = subprocess.run([sys.executable, "-c", DIES, str(path), str(calls), *at_the_end], check=False)
    assert done.returncode == -signal.SIGKILL
    counts = Counts()
    with Memory(path) as memory:
        assert memory.embedder.id == "hash:64" and verify(memory) == []
        assert memory.recall("task 7 of 7", frozen=True).ids == before
        assert memory.reembed(counts) == counts.texts == left
        assert verify(memory) == [] and memory.recall("task 7 of 7", k=1).items[0].similarity == 1.0
    with Memory(path) as memory:
        assert memory.embedder.id == "hash:32" and memory.recall("task 8 of 8", k=1).items[0].similarity == 1.0


def test_large_scopes_do_not_find_their_old_files(tmp_path, monkeypatch):
    from evolvent.memory.index import index

    monkeypatch.setattr(index, "FILE_FROM", 1)
    with Memory(tmp_path / "a.db", embedder="hash:64") as memory, Memory(tmp_path / "a.db") as other:
        memory.remember_many({"key": f"task {i}", "body": f"body {i}"} for i in range(50))
        memory.prepare()
        other.prepare()
        memory.reembed("hash:32")
        with pytest.raises(StoreError, match="embedder of the store was changed") as caught:
            other.recall("task 7")
        assert caught.value.code == "embedder_changed"
    with Memory(tmp_path / "a.db") as memory:
        assert memory.recall("task 7", k=1).items[0].key == "task 7"


VERBS = {
    "recall": lambda memory: memory.recall("aaa"),
    "search": lambda memory: memory.search("aaa"),
    "remember": lambda memory: memory.remember("eee", "y", merge=None),
    "update": lambda memory: memory.update("m1", "clearer", key="eee"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("erased", [False, True])
def test_no_vector_of_the_old_embedder_is_compared_or_stored(tmp_path, verb, erased):
    """Also by a memory that never searched before the change, and one that read everything anew since it did."""
    first, second = (
        Function(name, lambda texts, letters=letters: [[t.count(c) + 0.01 for c in letters] for t in texts])
        for name, letters in (("first", "aeiou"), ("second", "uoiea"))
    )
    path = tmp_path / "a.db"
    with Memory(path, embedder=first, policy="rag") as memory, Memory(path, embedder=first, policy="rag") as other:
        memory.remember("aaa", "x")
        if erased:
            other.recall("aaa")
            memory.erase(memory.remember("iii", "z"), "asked for")
        memory.reembed(second)
        for _ in range(2):
            with pytest.raises(StoreError, match="embedder of the store was changed") as caught:
                VERBS[verb](other)
            assert caught.value.code == "embedder_changed"
        assert memory.bank.store.rows("SELECT DISTINCT model FROM embedding") == [("second",)]


def test_outcomes_from_before_the_change_count_whatever_the_new_cosines_are(tmp_path):
    """Distances to older tasks were measured by another embedder: they are not compared with those of this one."""

    def tight(texts):  # every text within a cosine of .98 of every other
        side = np.array([[hash_of(text) % 7] for text in texts], np.float64) / 40.0
        return np.hstack([np.ones_like(side), side])

    def hash_of(text):
        return sum(map(ord, text))

    with Memory(tmp_path / "a.db", policy=preset("memlift", k=1, gate=-1.0), embedder="hash:64") as memory:
        memory.remember("reset the router", "hold the button")
        for _ in range(6):
            memory.settle(memory.recall("what to do with a router that is stuck"), 0.0)
        memory.reembed(Function("tight", tight))
        (item,) = memory.recall("what to do with a router that is stuck").items
        assert item.value < 0.45, item.why
