"""What a scope keeps under a name is its own, whatever scope and name hold; rows of version 0.1.0 stay readable."""

from itertools import product

import pytest

from evolvent import Memory
from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.maintenance.drop import drop_scope
from evolvent.memory.scopes import Scopes


def test_no_two_scopes_share_a_place(tmp_path):
    scopes, names = ("a", "a:b", "a:b:c", "1:a", "3:a"), ("c", "b:c", ":c", "a:c", "1:a:c")
    for scope, name in product(scopes, names):
        with Memory(tmp_path / "m.db", embedder="hash:16", scope=scope) as memory:
            assert memory.meta_get(name) is None, (scope, name)
            memory.meta_set(name, [scope, name])
    for scope, name in product(scopes, names):
        with Memory(tmp_path / "m.db", embedder="hash:16", scope=scope) as memory:
            assert memory.meta_get(name) == [scope, name]


def old_row(path, scope, name, value):
    with Memory(path, embedder="hash:16", scope=scope) as memory:
        memory.bank.store.meta_set(f"user:{scope}:{name}", value)


def test_old_rows_are_read_where_one_scope_can_have_written_them(tmp_path):
    path = tmp_path / "m.db"
    old_row(path, "plain", "cursor", 7)
    old_row(path, "team:a", "cursor", 8)
    with Memory(path, embedder="hash:16", scope="plain") as memory:
        assert memory.meta_get("cursor") == 7
        memory.meta_set("cursor", None)
        assert memory.meta_get("cursor") is None, "what was said since counts"
    with Memory(path, embedder="hash:16", scope="team:a") as memory:
        assert memory.meta_get("cursor") == 8


def test_an_old_row_of_two_possible_scopes_is_refused_until_it_is_said_again(tmp_path):
    path = tmp_path / "m.db"
    old_row(path, "a", "b:c", 1)
    with Memory(path, embedder="hash:16", scope="a:b") as two, Memory(path, embedder="hash:16", scope="a") as one:
        for memory, name in ((one, "b:c"), (two, "c")):
            with pytest.raises(StoreError, match="several scopes"):
                memory.meta_get(name)
        one.meta_set("b:c", 1)
        assert one.meta_get("b:c") == 1
        two.meta_set("c", 2)
        assert (one.meta_get("b:c"), two.meta_get("c")) == (1, 2)


def test_a_name_is_text(tmp_path):
    with Memory(embedder="hash:16") as memory:
        for bad in ("", 3, None, "a\x00"):
            with pytest.raises(BadInput):
                memory.meta_set(bad, 1)


def _work_of_quiet(path, others):
    """Steps of SQLite's machine: the first look of a small scope beside ``others`` memories, and one after a write."""
    with Memory(path, scope="busy", embedder="hash:8", sync="normal") as busy:
        busy.remember_many([{"key": f"key {i}", "body": f"body {i}", "merge": None} for i in range(others)])
        with Memory(path, scope="quiet", embedder="hash:8", sync="normal") as quiet:
            quiet.remember_many([{"key": f"own {i}", "body": "b", "merge": None} for i in range(20)])
        busy.remember_many([{"key": f"later {i}", "body": f"body {i}", "merge": None} for i in range(others)])
        with Memory(path, scope="quiet", embedder="hash:8", sync="normal") as quiet:
            steps, work = [], []
            quiet.bank.store.db.set_progress_handler(lambda: steps.append(1) or 0, 10)
            for i in range(2):
                before = len(steps)
                assert quiet.bank.index.catch_up() is (i == 0) and quiet.bank.index.n == 20
                work.append(len(steps) - before)
                busy.remember(f"one more {i}", "body")
            busy.archive("m1", "old")
            assert quiet.bank.index.catch_up() is False
    return work


def test_a_look_costs_what_the_scope_holds_not_what_the_store_holds(tmp_path):
    few, many = (_work_of_quiet(tmp_path / f"{n}.db", n) for n in (300, 3000))
    assert many[0] <= 2 * few[0] and many[1] <= 2 * few[1] + 5, (few, many)


def test_a_dropped_scope_is_not_the_next_one_for_those_who_have_it_open(tmp_path):
    path = tmp_path / "m.db"
    with Memory(path, embedder="hash:16") as memory, Memory(path, embedder="hash:16", scope="tenant") as gone:
        gone.remember("where is the key?", "under the mat")
        drop_scope(memory.bank.store, "tenant", "the contract ended")
        with Memory(path, embedder="hash:16", scope="next") as other:
            other.remember("where is the key?", "in the safe")
            assert gone.search("where is the key?") == gone.items() == []
            with pytest.raises(StoreError):
                gone.remember("where is the key?", "at the neighbour's")
            assert [item.body for item in other.items()] == ["in the safe"]
            drop_scope(memory.bank.store, "next", "and this one")
        with Memory(path, embedder="hash:16", scope="last") as last:
            assert last.items() == [] and last.bank.scope_id not in (gone.bank.scope_id, other.bank.scope_id)


def test_one_store_may_be_named_in_several_ways(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Memory("m.db", scope="a", embedder="hash:16") as a, Memory(tmp_path / "m.db", scope="b") as b:
        assert list(Scopes(a, b).memories) == ["a", "b"]


def test_what_one_scope_would_refuse_is_reported_to_none(tmp_path):
    a = Memory(tmp_path / "a.db", scope="a", embedder="hash:16", policy="memrl")
    b = Memory(tmp_path / "a.db", scope="b", policy="memrl")
    both = Scopes(a, b)
    a.remember("q", "in a")
    b.remember("q", "in b")
    recalled = both.recall("q", k=2)
    first, second = recalled.id.split("+")
    b.settle(second, 1.0)
    with pytest.raises(BadInput) as caught:
        both.settle(recalled, 0.0)
    assert caught.value.code == "settled_already" and not a.explain(first).to_dict()["outcomes"]
    assert len(both.settle(recalled, 1.0)["a"]) == 1
    both.close()
