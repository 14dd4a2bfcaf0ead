"""Promises of a memory: what a memory says of itself, to programs and to people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import numpy as np

from evolvent.core.errors import EvolventError
from evolvent.memory.items import Recall
from evolvent.memory.maintenance.drop import drop_scope
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

from .credit import make, refused

Factory = Callable[..., Memory]


def errors_carry_codes(factory: Factory) -> None:
    """What a program may want to tell apart has the same short name on every engine, and nothing is written."""
    with make(factory) as memory:
        a = memory.remember("task one", "body", metadata={"year": 2020})
        old = memory.remember("task two", "old words")
        new = memory.update(old, "said better", body="new words")
        gone = memory.remember("task three", "gone")
        memory.update(gone, "said better", body="gone, too")
        memory.erase(gone, "asked for")
        r, before = memory.recall("task one", k=1), memory.items(None)
        for code, verbs in _refusals(memory, r, a, old, gone).items():
            for number, verb in enumerate(verbs):
                try:
                    verb()
                except EvolventError as error:
                    assert error.code == code, f"{code} {number}: {error.code!r}: {error}"
                    assert gone not in error.do, f"advises what was erased: {error.do}"
                    assert code != "not_active" or new in error.do, error.do
                    assert "\n  got: " in str(error) or code in _NOTHING_GOT, f"{code} {number}: {error}"
                else:
                    raise AssertionError(f"{code} {number}: accepted")
        assert len(memory.items(None, limit=1 << 100)) == len(before)
        assert memory.items(None) == before and memory.explain(r).to_dict()["outcomes"] == [] and verify(memory) == []
        with refused("bounds of rewards in the wrong order", code="bad_reward_range"):
            make(factory, name="b", reward_range=(1.0, 0.0))


def _refusals(m: Memory, r: Recall, a: str, old: str, gone: str) -> dict[str, list[Callable[[], object]]]:
    """By code, what must be refused with it."""
    return _unspeakable(m, r, a) | _of_wrong_types(m, r, a) | _out_of_place(m, r, a, old, gone)


def _unspeakable(m: Memory, r: Recall, a: str) -> dict[str, list[Callable[[], object]]]:
    """Names, texts and settings that there are not."""
    x: Any = m  # arguments are of other types than they should be
    return {
        "bad_filter": [
            *(partial(m.recall, "task", filter=wrong) for wrong in cast("list[Any]", _NO_FILTERS)),
            *(partial(m.items, filter=wrong) for wrong in cast("list[Any]", _NO_FILTERS)),
        ],
        "bad_metadata": [
            lambda: x.remember("k", "b", metadata=[1]),
            lambda: x.update(a, "why", metadata={"n": None}),
            lambda: x.remember("k", "b", metadata=np.zeros(2)),
        ],
        "too_long": [lambda: m.remember("k", "b", metadata={"n": "x" * 20_000}), lambda: m.recall("x" * 100_001)],
        "bad_expiry": [lambda: m.remember("k", "b", expires=-1), lambda: x.remember("k", "b", expires="soon")],
        "unknown_policy": [lambda: m.recall("task", policy="memlr")],
        "bad_policy": [
            lambda: x.recall("task", policy=7),
            lambda: m.recall("task", policy=preset("memrl", q_init=0.0)),
            lambda: preset("memrl", epsilon=2.0),
            lambda: preset("memrl", epsilom=0.2),
        ],
        "unknown_source": [lambda: m.settle(r, 1.0, source="gossip"), lambda: m.revise(r, 1.0, "why", source="gossip")],
        "unknown_status": [lambda: m.items("lost"), lambda: x.items(np.array(["active", "erased"]))],
        "unknown_polarity": [
            lambda: m.remember("k", "b", polarity="great"),
            lambda: x.remember("k", "b", polarity=np.zeros(2)),
        ],
        "empty_text": [
            lambda: m.recall(" "),
            lambda: m.recall(""),
            lambda: m.remember("", "b"),
            lambda: m.remember("k", "\n"),
            lambda: m.archive(a, " "),
        ],
        "not_storable": [
            lambda: m.remember("a\x00b", "b"),
            lambda: m.remember("k", "\ud800"),
            lambda: m.remember("k\udfff", "b"),
            lambda: m.update(a, "why", body="\x00"),
        ],
        "not_a_name": [
            lambda: m.recall("task", stage=""),
            lambda: m.recall("task", stage=" "),
            lambda: m.settle(r, 1.0, objective="x" * 101),
            lambda: x.credit([], objective=7),
        ],
    }


def _of_wrong_types(m: Memory, r: Recall, a: str) -> dict[str, list[Callable[[], object]]]:
    """What is no number, list or text, or too large a number."""
    x: Any = m
    return {
        "not_a_count": [
            lambda: m.recall("task", k=-1),
            lambda: x.recall("task", k="3"),
            lambda: m.items(limit=0),
            lambda: x.items(limit=True),
            lambda: m.compact(keep=-1),
        ],
        "wrong_type": [
            lambda: x.recall(7),
            lambda: x.recall_many("task"),
            lambda: x.settle(r, 1.0, valid="no"),
            lambda: m.settle_many([{"reward": 1.0}]),
            lambda: m.remember_many([{"key": "k"}]),
            lambda: x.settle(r, None, parts=["a"]),
            lambda: x.settle(r, 1.0, action=False),
            lambda: x.settle(r, 1.0, action=[]),
            lambda: x.archive(a, "why", dry_run="no"),
            lambda: x.erase(a, "why", dry_run=None),
            lambda: x.compact(dry_run=1),
            lambda: x.quarantine([a], "why", descendants="no"),
            lambda: x.restore([a], "why", dry_run=[0]),
            lambda: x.quarantine(np.array(1), "why"),
            lambda: x.shown(r, np.array(1)),
        ],
        "out_of_range": [
            lambda: m.settle(r, None),
            lambda: m.settle(r, 2.0),
            lambda: m.settle(r, 1.0, weight=0.0),
            lambda: m.remember("k", "b", value=7.0),
            lambda: m.recall("task", seed=-1),
            lambda: m.recall("task", seed=True),
        ],
    }


def _out_of_place(m: Memory, r: Recall, a: str, old: str, gone: str) -> dict[str, list[Callable[[], object]]]:
    """What does not go together, or not with what the memory holds."""
    return {
        "conflicting": [lambda: m.settle(r, 1.0, action="a", parts=[("a", 1.0)])],
        "nothing_to_update": [lambda: m.update(a, "why")],
        "nothing_named": [lambda: m.quarantine([], "why")],
        "not_active": [lambda: m.remember("k", "b", supersedes=old), lambda: m.update(old, "why", body="b")],
        "erased": [
            lambda: m.remember("k", "b", supersedes=gone),
            lambda: m.update(gone, "why", body="b"),
            lambda: m.archive(gone, "why"),
            lambda: m.restore([gone], "why"),
        ],
        "not_a_moment": [lambda: m.rollback("yesterday", "why")],
        "not_an_id": [lambda: m.get("7"), lambda: m.settle("m1", 1.0), lambda: m.explain("x")],
        "unknown_memory": [lambda: m.get("m99"), lambda: m.remember("k", "b", parents=["m99"])],
        "unknown_receipt": [lambda: m.settle("r99", 1.0)],
        "unknown_scope": [lambda: drop_scope(m.bank.store, "nobody", "why")],
        "other_scope": [lambda: m.drop_scope("nobody", "why")],
        "not_handed_out": [lambda: m.shown(r, [old])],
        "not_settled": [lambda: m.revise(r, 1.0, "why")],
    }


_NOTHING_GOT = ("conflicting", "nothing_named")  # what was got are several arguments, or none
_NO_FILTERS = ("repo", {"a": {"~": 1}}, {"a": {">": True}}, {"a": [1]}, {"a": {"in": 3}}, {"a": {"exists": 1}})


def what_is_masked_is_told(factory: Factory) -> None:
    """Secrets do not reach the store, and whoever wrote them learns so; without masking texts are as they were."""
    said = "token of ann: ghp_" + "a1B2c3D4" * 5
    for mask in (True, False):
        with make(factory, name=f"mask-{mask}", mask=mask) as memory:
            with _heard() as heard:
                a = memory.remember(said, f"use it: {said}", metadata={"n": [said, 1]})
                b = memory.update(memory.remember("task", "plain"), "better", body=said)
            r = memory.recall(said, k=1)
            memory.settle(r, 1.0, action=said)
            assert ("ghp_" in _cells(memory)) is not mask
            assert [memory.get(id_).masked for id_ in (a, b)] == ([3, 1] if mask else [0, 0])
            assert memory.explain(a).to_dict()["masked"] == memory.get(a).masked
            assert ("masked" in str(memory.explain(a))) is mask
            assert len(heard) == (2 if mask else 0) and all("ghp_" not in line for line in heard), heard
            assert not mask or [line.partition(":")[0] for line in heard] == [a, b]
            assert r.ids == [a] and r[0].similarity > 0.99, "a task is compared as keys are stored"


def _cells(memory: Memory) -> str:
    return str(memory.bank.store.rows("SELECT body FROM text_blob")) + str(memory.items(None))


@contextmanager
def _heard() -> Iterator[list[str]]:
    """What is logged meanwhile by the verbs that write."""
    heard: list[str] = []
    handler, log = logging.Handler(), logging.getLogger("evolvent.memory.write")
    handler.emit = lambda record: heard.append(record.getMessage())
    log.addHandler(handler)
    try:
        yield heard
    finally:
        log.removeHandler(handler)
