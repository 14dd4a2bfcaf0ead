"""Filters over columns give what comparing every memory by itself gives, however the rows came in."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.core.errors import BadInput
from evolvent.memory.metadata import Metadata, parse, stored

NAMES = st.sampled_from(["a", "b", "c"])
SCALAR = st.one_of(
    st.integers(-2, 2), st.sampled_from([0.5, 1.0, -2.0]), st.booleans(), st.sampled_from(["", "x", "1"])
)
META = st.dictionaries(NAMES, st.one_of(SCALAR, st.lists(SCALAR, max_size=3)), max_size=3)
ORDERED = SCALAR.filter(lambda value: not isinstance(value, bool))
ASKED = st.one_of(
    SCALAR,
    st.dictionaries(st.sampled_from(["<", "<=", ">", ">="]), ORDERED, min_size=1, max_size=2),
    st.fixed_dictionaries({"in": st.lists(SCALAR, max_size=3)}),
    st.fixed_dictionaries({"not in": st.lists(SCALAR, max_size=3)}),
    st.fixed_dictionaries({"!=": SCALAR}),
    st.fixed_dictionaries({"exists": st.booleans()}),
    st.fixed_dictionaries({"==": SCALAR, "exists": st.just(True)}),
)
PLAIN = st.dictionaries(NAMES, ASKED, min_size=1, max_size=3)
FILTER = st.recursive(
    PLAIN,
    lambda inner: (
        st.dictionaries(st.sampled_from(["or", "and"]), st.lists(inner, min_size=1, max_size=3), min_size=1)
        | st.fixed_dictionaries({"not": inner})
        | st.tuples(PLAIN, st.lists(inner, min_size=1, max_size=2)).map(lambda two: {**two[0], "or": two[1]})
    ),
    max_leaves=5,
)


def kind(value):
    return "boolean" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def holds(meta, name, op, operand):
    """The same in plain words."""
    if op == "exists":
        return (name in meta) == operand
    if op in ("!=", "not in"):
        return not holds(meta, name, {"!=": "==", "not in": "in"}[op], operand)
    if name not in meta:
        return False
    values = meta[name] if isinstance(meta[name], list) else [meta[name]]
    if op == "in":
        return any(holds(meta, name, "==", each) for each in operand)
    alike = [value for value in values if kind(value) == kind(operand)]
    compare = {"==": "__eq__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[op]
    if kind(operand) == "number":
        alike, operand = [float(value) for value in alike], float(operand)
    return any(getattr(value, compare)(operand) for value in alike)


def meets(meta, asked):
    for name, want in asked.items():
        if name in ("or", "and"):
            held = (any if name == "or" else all)(meets(meta, each) for each in want)
        elif name == "not":
            held = not meets(meta, want)
        else:
            clauses = (want if isinstance(want, dict) else {"==": want}).items()
            held = all(holds(meta, name, *clause) for clause in clauses)
        if not held:
            return False
    return True


def expected(metas, asked):
    return {seq for seq, meta in metas.items() if meets(meta, asked)}


class Store:
    """A store as far as filters need one."""

    def __init__(self):
        self.rows_, self.open, self.read = [], False, 0

    def rows(self, sql, args):
        found = [(seq, text) for seq, text in self.rows_ if seq > args[1] and text is not None]
        self.read += len(found)
        return found

    def writing(self):
        return self.open


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(META, st.booleans()), max_size=12), st.lists(FILTER, min_size=1, max_size=3))
def test_columns_are_the_memories_one_by_one(rows, filters):
    store, metas = Store(), {}
    metadata = Metadata(store, 1)
    for seq, (meta, open_) in enumerate(rows, start=1):
        metas[seq] = meta
        store.rows_.append((seq, stored(meta)))
        store.open = open_
        for asked in filters:
            only, without = metadata.find(parse(asked, "test"))
            every = set(metas) if only is None else set(only.tolist())
            assert every - set(without.tolist()) == expected(metas, asked)
    store.open = False
    metadata.find(parse(filters[0], "test"))
    before = store.read
    metadata.find(parse(filters[0], "test"))
    assert store.read == before, "what is committed is read once"


@pytest.mark.parametrize("name", ["or", "and", "not"])
def test_a_field_may_have_the_name_of_what_joins(name):
    store = Store()
    store.rows_ = [(1, stored({name: "x"})), (2, stored({name: "y"})), (3, stored({"a": "x"}))]
    metadata = Metadata(store, 1)
    for asked in ({name: "x"}, {name: {"==": "x"}}, {name: {"in": ["x", "z"]}}, {name: {"!=": "y", "exists": True}}):
        assert metadata.find(parse(asked, "test"))[0].tolist() == [1], asked


SPELLED = [
    *({name: [{"a": 1}]} for name in ("OR", "$or", "Or", "any", "AND", "$and")),
    *({name: {"a": 1}} for name in ("NOT", "$not")),
    *({"or": []}, {"or": [1]}, {"not": {}}),
]


@pytest.mark.parametrize("asked", SPELLED, ids=str)
def test_another_spelling_is_given_the_right_one(asked):
    with pytest.raises(BadInput) as refused:
        parse(asked, "test")
    assert "filters are joined by {" in refused.value.do


@given(META)
def test_what_is_stored_comes_back(meta):
    assert json.loads(stored(meta) or "{}") == meta
    assert stored(dict(reversed(meta.items()))) == stored(meta)
