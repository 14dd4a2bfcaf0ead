"""One memory under several keys: which keys are kept, what an undone transaction leaves, what a copy and verify see."""

import numpy as np
import pytest

from evolvent.cli.memory.audit import audit
from evolvent.memory import candidates, keys
from evolvent.memory.maintenance import transfer
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

ANGLES = {"north": 0.0, "a little east": 8.0, "east of north": 30.0, "north-east": 50.0, "east": 90.0}


class Compass:
    """Texts as directions: the cosine of two is that of the angle between them."""

    id, dim = "compass", 2

    def embed(self, texts):
        at = np.deg2rad([ANGLES[text] for text in texts])
        return np.stack([np.cos(at), np.sin(at)], axis=1).astype(np.float32)


def opened(path, **options):
    return Memory(path, policy="rag", embedder=Compass(), sync="normal", **options)


def keys_of(memory, id_):
    return [row["key"] for row in memory.explain(id_).to_dict()["keys"]]


def similar(memory, task):
    return {item.id: round(item.similarity, 3) for item in memory.recall(task, k=9).items}


def test_a_key_is_kept_where_it_says_more_than_those_at_hand(tmp_path):
    with opened(tmp_path / "a.db") as memory:
        a = memory.remember("north", "wear a hat")
        assert np.cos(np.deg2rad(8.0)) > keys.SAME_KEY and memory.remember("a little east", "wear a hat") == a
        assert keys_of(memory, a) == ["north"], "a key that finds the same was kept"
        assert memory.remember("north-east", "wear a hat", merge=0.6) == a
        # 30 degrees are near enough to one of its keys, whichever came first
        assert memory.remember("east of north", "wear a hat", merge=0.9) == a
        assert keys_of(memory, a) == ["north", "north-east", "east of north"] and memory.get(a).merged == 3
        assert similar(memory, "north-east") == {a: 1.0} and similar(memory, "east") == {a: 0.766}
        b = memory.remember("east", "wear a hat", merge=0.9)
        assert b != a and memory.remember("north-east", "wear a hat", merge=0.0) == a, "an equal key did not decide"
        assert audit(memory)["duplicates"]["same_body"]["largest"] == [[a, b]]
        explained = str(memory.explain(a))
        assert "and   north-east" in explained and f"one more key of {a}" in str(memory.explain("m2"))


def test_a_key_of_an_undone_transaction_finds_nothing(tmp_path):
    with opened(tmp_path / "a.db") as memory, opened(tmp_path / "a.db") as other:
        a = memory.remember("north", "wear a hat")
        with pytest.raises(ZeroDivisionError), memory.transaction():
            memory.remember("east", "wear a hat", merge=0.0)
            assert similar(memory, "east") == {a: 1.0}
            raise ZeroDivisionError
        for way in (memory, other):
            assert similar(way, "north-east") == {a: 0.643} and keys_of(way, a) == ["north"]
        memory.remember("east", "wear a hat", merge=0.0)
        assert similar(other, "east") == {a: 1.0}, "another connection does not see the new key"


def test_a_copy_has_all_keys(tmp_path):
    with opened(tmp_path / "a.db") as memory:
        a = memory.remember("north", "wear a hat")
        memory.remember("east", "wear a hat", merge=0.0)
        memory.settle(memory.recall("east"), 1.0, source="tests")
        transfer.export_jsonl(memory.bank.store, tmp_path / "a.jsonl")
        transfer.import_jsonl(tmp_path / "b.db", tmp_path / "a.jsonl")
        memory.compact(keep=0)
        with opened(tmp_path / "b.db") as copy:
            assert copy.items(None) == memory.items(None) and keys_of(copy, a) == keys_of(memory, a)
            assert similar(copy, "east") == similar(memory, "east") == {a: 1.0}
            assert verify(copy) == verify(memory) == []


def test_verify_finds_a_key_of_a_memory_that_says_something_else(tmp_path):
    with opened(tmp_path / "a.db") as memory:
        memory.remember("north", "wear a hat")
        b = memory.remember("east", "wear a coat")
        with memory.bank.store.write() as db:
            db.execute("INSERT INTO provenance(child, parent, relation) VALUES(2, 1, 'key')")
        (found,) = verify(memory)
        assert (found.check, found.where) == ("memories", b) and "m1" in found.got


@pytest.mark.parametrize("search", ["exact", pytest.param("approximate", id="graph")])
def test_keys_in_the_files_beside_a_store(tmp_path, search):
    if search == "approximate":
        pytest.importorskip("usearch")
    rng, known = np.random.default_rng(0), {}

    class Anywhere:
        id, dim = "anywhere", 16

        def embed(self, texts):
            return np.stack([known.setdefault(text, rng.normal(size=16)) for text in texts]).astype(np.float32)

    options = {"policy": "rag", "embedder": Anywhere(), "sync": "normal", "search": search}
    with Memory(tmp_path / "a.db", **options) as memory:
        rows = [{"key": f"key {i}", "body": f"lesson {i % 100}", "merge": 0.0} for i in range(600)]
        ids = memory.remember_many(rows)
        memory.prepare()
    with Memory(tmp_path / "a.db", **options) as memory:
        for i in range(0, 600, 7):
            r = memory.recall(f"key {i}", k=5)
            assert r.ids[0] == ids[i] and r.items[0].similarity == 1.0 and len(set(r.ids)) == 5
        assert verify(memory) == []


def test_whoever_descends_from_a_key_or_follows_it_does_so_of_its_memory(tmp_path):
    with opened(tmp_path / "a.db") as memory:
        first = memory.remember("north", "wear a hat")
        memory.remember("north-east", "wear a hat", merge=0.6)
        child = memory.remember("east", "take a coat", parents=["m2"])
        assert memory.get(child).parents == (first,)
        memory.remember("a little east", "wear a cap", supersedes="m2")
        assert memory.get(first).status == "superseded"


def test_hundreds_of_keys_of_one_memory_are_each_asked_for_and_compared_once(monkeypatch):
    result, compared = [], []
    ask, hybrid = keys.ask, candidates.hybrid
    monkeypatch.setattr(keys, "ask", lambda db, rows, texts: result.extend(rows) or ask(db, rows, texts))
    monkeypatch.setattr(
        candidates, "hybrid", lambda task, texts, cosine: compared.append(len(texts)) or hybrid(task, texts, cosine)
    )
    with Memory(policy=preset("memlift", relevance="hybrid"), embedder="hash:64") as memory:
        rows = [{"key": f"reset the printer {i}", "body": "hold the button", "merge": 0.0} for i in range(300)]
        rows += [{"key": f"reset the camera {i}", "body": f"card {i}"} for i in range(40)]
        memory.remember_many(rows)
        found = memory.search("reset the printer", k=3)
        assert [item.body for item in found] == ["hold the button"]
        assert len(result) == len(set(result)) == compared[0] > 200 and len(compared) == 1
