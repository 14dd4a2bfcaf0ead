"""A flood of copies: what is known to harm takes no place in the pool and sets no margin."""

import numpy as np

from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

POLICY = preset("memlift", pool=3, k=1, gate=0.1)


class Near:
    """Copies of the task at cosine .98, one honest lesson at .82, one afar at .6, nothing else."""

    id, dim = "near", 16

    def embed(self, texts):
        out = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(out, texts, strict=True):
            kind, _, number = text.partition(" ")
            cosine = {"task": 1.0, "copy": 0.98, "honest": 0.82, "afar": 0.6}[kind]
            row[0], row[1 + int(number or 0)] = cosine, np.sqrt(1.0 - cosine**2)
        return out


def _flooded(**changes):
    memory = Memory(policy=POLICY if not changes else preset("memrl", **changes), embedder=Near())
    honest = memory.remember("honest", "the right way", source="self")
    memory.settle(memory.recall("task"), 1.0)
    copies = [memory.remember(f"copy {i}", f"wrong {i}", source=f"forum {i}") for i in range(8)]
    return memory, honest, copies


def test_known_harm_gives_its_place_to_the_next():
    memory, honest, copies = _flooded()
    with memory:
        assert honest not in memory.recall("task").ids
        failures = 0
        while (r := memory.recall("task")).ids != [honest]:
            memory.settle(r, 0.0)
            failures += 1
            assert failures < 6 * len(copies)
        last = memory.recall("task", frozen=True)
        assert last.ids == [honest]
        assert last.pool_size > POLICY.pool, "what fails is still looked at, beside the pool"


def test_what_another_handle_settles_between_the_search_and_the_receipt_is_in_it(tmp_path, monkeypatch):
    """What the rule was shown while searching is used again for ranking, unless something happened since."""
    path, task = tmp_path / "a.db", "close the drawer"
    with Memory(path, embedder="hash:64") as memory, Memory(path, embedder="hash:64") as other:
        memory.remember(task, "push it")
        before = memory.recall(task)
        write, late = memory.bank.store.write, [before]

        def after_the_other():
            while late:
                other.settle(late.pop(), 0.0)
            return write()

        monkeypatch.setattr(memory.bank.store, "write", after_the_other)
        after = memory.recall(task)
        assert not late and before[0].n == 0 and after[0].n == 1 and after[0].value < before[0].value


def test_a_pool_without_harm_is_as_large_as_asked():
    memory, honest, _ = _flooded()
    with memory:
        r = memory.recall("task")
        assert r.pool_size == POLICY.pool and honest not in r.ids
        assert memory.recall("task", k=9).pool_size == 9


def test_other_policies_keep_their_published_pool():
    memory, *_ = _flooded(pool=3, k=1, gate=0.1)
    with memory:
        for _ in range(40):
            memory.settle(memory.recall("task"), 0.0)
        assert memory.recall("task").pool_size == 3


def test_a_policy_that_does_not_learn_is_not_asked_to_settle():
    with Memory(policy=preset("rag"), embedder="hash:16") as memory:
        for i in range(100):
            memory.remember(f"task {i}", f"body {i}", merge=None)
        for _ in range(60):
            memory.settle(memory.recall("task 1", k=1), 1.0)
        assert not memory.health()["warnings"]
