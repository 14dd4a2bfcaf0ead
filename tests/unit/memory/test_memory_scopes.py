"""What a scope keeps under a name is its own, whatever scope and name hold; rows of version 0.1.0 stay readable."""

from itertools import product

import pytest

from evolvent import Memory
from evolvent.core.errors import BadInput, StoreError


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
