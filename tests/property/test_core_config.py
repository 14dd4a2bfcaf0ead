"""Configurations: JSON and back, hash, difference, and errors that name the field."""

import json
from dataclasses import dataclass, field, replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.core.config import config_hash, diff, from_json, to_json
from evolvent.core.errors import BadInput

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.floats(allow_nan=False)


@dataclass(frozen=True)
class Inner:
    name: str = "x"
    rate: float | None = None
    size: int | str = 3


@dataclass(frozen=True)
class Outer:
    learning_rate: float = 0.1
    steps: int = 5
    greedy: bool = False
    mode: Literal["fast", "slow"] = "fast"
    shape: tuple[int, ...] = (1, 2)
    span: tuple[float, float] = (0.0, 1.0)
    inner: Inner = Inner()
    parts: tuple[Inner, ...] = ()
    extra: dict[str, float] = field(default_factory=dict)
    nothing: None = None


@dataclass(frozen=True)
class Whole:
    seed: int = 0
    plan: Inner = Inner()


inners = st.builds(Inner, name=text, rate=st.none() | numbers, size=st.integers() | text)
outers = st.builds(
    Outer,
    learning_rate=numbers,
    steps=st.integers(),
    greedy=st.booleans(),
    mode=st.sampled_from(["fast", "slow"]),
    shape=st.lists(st.integers(), max_size=3).map(tuple),
    span=st.tuples(numbers, numbers),
    inner=inners,
    parts=st.lists(inners, max_size=2).map(tuple),
    extra=st.dictionaries(text, numbers, max_size=2),
)


@settings(deadline=None)
@given(outers)
def test_json_round_trip(cfg):
    again = from_json(Outer, json.loads(json.dumps(to_json(cfg), allow_nan=False)))
    assert again == cfg
    assert isinstance(again.shape, tuple) and type(again.inner.size) is type(cfg.inner.size)
    assert config_hash(again) == config_hash(cfg)
    assert diff(cfg, again) == {}
    assert diff(cfg, to_json(again)) == {}


@settings(deadline=None)
@given(outers, outers)
def test_hash_and_difference_agree(a, b):
    assert (config_hash(a) == config_hash(b)) == (diff(a, b) == {})


def test_nan_round_trips_and_equals_itself():
    cfg = Outer(learning_rate=float("nan"), span=(float("-inf"), float("inf")))
    record = to_json(cfg)
    again = from_json(Outer, json.loads(json.dumps(record, allow_nan=False)))
    assert again.learning_rate != again.learning_rate and again.span == cfg.span
    assert diff(cfg, again) == {} and diff(cfg, record) == {}


def test_difference_by_path():
    a = Outer()
    b = replace(a, steps=6, inner=replace(a.inner, name="y"), shape=(1, 3))
    assert diff(a, b) == {"steps": (5, 6), "inner.name": ("x", "y"), "shape": ([1, 2], [1, 3])}
    assert diff(Inner(), {"name": "x", "rate": None}) == {"size": (3, ...)}
    assert diff(Inner(rate=1), Inner(rate=1.0)) == {}
    assert config_hash(Inner(rate=1)) == config_hash(Inner(rate=1.0))


def test_the_hash_is_stable():
    assert config_hash(Inner()) == "db15a8da6d7f"
    assert config_hash(Inner()) != config_hash(Inner(name="z"))


def test_defaults_fill_what_is_missing():
    assert from_json(Outer, {"inner": {"name": "q"}}) == Outer(inner=Inner(name="q"))
    assert type(from_json(Outer, {"learning_rate": 1}).learning_rate) is float


@dataclass(frozen=True)
class Required:
    must: int


@pytest.mark.parametrize(
    ("cls", "record", "where", "hint"),
    [
        (Outer, {"learnin_rate": 1.0}, "Outer", "did you mean 'learning_rate'?"),
        (Outer, {"inner": {"nam": "x"}}, "Outer.inner", "did you mean 'name'?"),
        (Outer, {"zzz": 1}, "Outer", "known: learning_rate"),
        (Required, {}, "Required", ""),
        (Outer, {"steps": True}, "Outer.steps", ""),
        (Outer, {"steps": 1.5}, "Outer.steps", ""),
        (Outer, {"learning_rate": "high"}, "Outer.learning_rate", ""),
        (Outer, {"mode": "warp"}, "Outer.mode", ""),
        (Outer, {"span": [1.0]}, "Outer.span", ""),
        (Outer, {"shape": [1, "2"]}, "Outer.shape[1]", ""),
        (Outer, {"inner": 3}, "Outer.inner", ""),
        (Outer, {"inner": {"rate": "x"}}, "Outer.inner.rate", ""),
        (Outer, {"extra": {"a": "b"}}, "Outer.extra.a", ""),
        (Outer, {"nothing": 1}, "Outer.nothing", ""),
    ],
)
def test_refuses_and_says_where(cls, record, where, hint):
    with pytest.raises(BadInput) as caught:
        from_json(cls, record)
    assert caught.value.where == where
    assert hint in str(caught.value)


def test_refuses_what_is_no_configuration():
    for bad in (3, Outer, {"a": 1}):
        with pytest.raises(BadInput, match="not a configuration"):
            to_json(bad)


def test_a_setting_that_moved_into_the_plan_is_read_from_where_it_stood():
    assert from_json(Whole, {"seed": 3, "size": 7, "plan": {"name": "y"}}) == Whole(3, Inner("y", size=7))
    with pytest.raises(BadInput, match="unknown field"):
        from_json(Whole, {"sise": 7})


def test_a_folder_of_an_earlier_version_is_read_by_the_names_of_today():
    from evolvent.algos import hapo, happo, poad  # here: they need torch

    assert from_json(happo.Config, {"trace": 0.9}).gae_lambda == 0.9
    assert from_json(poad.Config, {"plan": {"trace_inside": 0.5}}).plan.gae_lambda_inside == 0.5
    assert from_json(hapo.Config, {"heat": 0.1}).adapt_temperature == 0.1
    with pytest.raises(BadInput, match="unknown field"):
        from_json(hapo.Config, {"trace": 0.1, "gae_lambda": 0.2, "warmth": 1})
