"""Checks of ``check_memory``: what a memory says of itself, to programs and to people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from evolvent.memory.memory import Memory
from evolvent.testing.memory_credit import make

Factory = Callable[..., Memory]


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
