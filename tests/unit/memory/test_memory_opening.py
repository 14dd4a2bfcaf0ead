"""Arguments of Memory(…) that cannot work are refused before a file is made; a store belongs to one process."""

import math
import multiprocessing
import os
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from evolvent import Memory
from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.policies import preset
from evolvent.memory.store.engine import NoMemory
from evolvent.memory.there import open_memory


@pytest.mark.parametrize(
    "options",
    [
        *({"reward_range": x} for x in ((0, 1, 2), (0,), (), (1, 0), (1, 1), 5, "01", ("a", "b"), (None, 1))),
        *({"reward_range": x} for x in ((math.nan, 1), (0, math.inf), (False, True), {0: 1, 1: 2})),
        *({"seed": x} for x in (None, "x", 1.5, True)),
        *({"search": x} for x in (None, "fast", 3)),
        *({"policy": x} for x in (None, 3, "nope", {})),
        *({"scope": x} for x in (None, 3, "", "a" * 300)),
        *({"embedder": x} for x in (3, "", object(), "hash:x", "hash:0")),
        *({"sync": x} for x in (None, "later")),
        *({"path": x} for x in (None, 3, "", b"x", "file://x")),
    ],
    ids=lambda given: f"{sorted(given)[0]}-{type(next(iter(given.values()))).__name__}",
)
def test_nonsense_is_refused_in_words(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = options.get("path", tmp_path / "m.db")
    rest = {"embedder": "hash:16", **{name: x for name, x in options.items() if name != "path"}}
    with pytest.raises(BadInput) as caught:
        Memory(path, **rest)
    assert ("expected" in str(caught.value) and caught.value.got is not None) or list(options.values()) == [None]
    assert not os.listdir(tmp_path), "no file is left behind"


def test_what_could_not_be_opened_fixes_nothing(tmp_path):
    """A mistyped name left a store behind that refused the right embedder and range from then on."""
    for wrong in (
        {"policy": "memlfit"},
        {"embedder": "nope:1"},
        {"scope": " "},
        {"policy": preset("memrl", q_init=7.0)},
    ):
        with pytest.raises(BadInput):
            Memory(tmp_path / "a.db", **wrong)
    with Memory(
        tmp_path / "a.db", embedder="hash:64", reward_range=(0, 10), policy=preset("memrl", q_init=7.0)
    ) as memory:
        memory.remember("key", "body")
    with pytest.raises(StoreError, match="another embedder"):
        Memory(tmp_path / "a.db", scope="new", embedder="hash:32")
    with closing(sqlite3.connect(tmp_path / "a.db")) as db:
        assert db.execute("SELECT name FROM scope").fetchall() == [("default",)]


def test_a_used_scope_without_its_range_is_damaged(tmp_path):
    """A flipped bit in the name of its range made it 0..1, whatever it was."""
    with Memory(tmp_path / "a.db", embedder="hash:64", reward_range=(0, 10)) as memory:
        memory.remember("key", "body")
    with closing(sqlite3.connect(tmp_path / "a.db")) as db, db:
        db.execute("UPDATE meta SET name = 'reward_range:defawlt' WHERE name = 'reward_range:default'")
    with pytest.raises(StoreError, match="damaged"):
        Memory(tmp_path / "a.db")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_is_asked_to_open_its_own(tmp_path):
    with Memory(tmp_path / "m.db", embedder="hash:16") as memory:
        memory.remember("task", "body")
        context = multiprocessing.get_context("fork")
        result = context.Queue()

        def child():
            said = []
            for verb in (lambda: memory.recall("task"), lambda: memory.remember("x", "y"), memory.items, memory.health):
                try:
                    verb()
                    said.append("worked")
                except StoreError as error:
                    said.append(f"{error.code}: {error}")
            memory.close()
            with Memory(tmp_path / "m.db", embedder="hash:16") as own:
                said.append(own.recall("task").items[0].body)
            result.put(said)

        process = context.Process(target=child)
        process.start()
        said = result.get(timeout=600)
        process.join(60)
        assert process.exitcode == 0
        assert all(line.startswith("forked: ") and "another process" in line for line in said[:4]) and said[4] == "body"
        assert memory.recall("task").items and verify(memory) == []


def test_numbers_that_no_engine_holds():
    with Memory(embedder="hash:16", policy="rag") as memory:
        memory.remember("task", "body")
        assert [item.id for item in memory.items(limit=2**70)] == ["m1"]
        for seed in ("7", 0.5, -1, 2**63):
            with pytest.raises(BadInput, match="seed is out of range"):
                memory.recall("task", seed=seed)


def test_a_process_out_of_file_handles_is_warned_and_can_go_on(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    path, memories = tmp_path / "m.db", []
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 40, before[1]))
    try:
        with pytest.raises(StoreError, match=r"may open no more files[\s\S]*ulimit") as caught:
            for number in range(40):
                memories.append(Memory(path, scope=f"s{number}", embedder="hash:16"))
                memories[-1].remember(f"question {number}", "answer")
        assert str(path) in str(caught.value) and len(memories) > 5
        while len(memories) > 5:
            memories.pop().close()
        memories.append(Memory(path, scope="one more", embedder="hash:16"))
        memories[-1].remember("question", "answer")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for memory in memories:
            memory.close()
    assert [one.body for one in Memory(path, scope="s3").recall("question 3").items] == ["answer"]


class Alike:
    """Every text in one direction."""

    id, dim = "alike", 2

    def embed(self, texts):
        return np.ones((len(texts), 2), np.float32)


@pytest.mark.parametrize(
    ("options", "do"),
    [
        ({"embedder": Alike}, "give an instance: embedder=Alike(…)"),
        ({"embedder": lambda texts: texts}, "embedders.Function(name, function)"),
        ({"embedder": "hash:16", "policy": type(preset("rag"))}, "give an instance: policy=Config(…)"),
    ],
)
def test_a_class_or_a_function_in_the_place_of_an_object_is_shown_what_to_give(options, do):
    with pytest.raises(BadInput) as caught:
        Memory(**options)
    assert do in str(caught.value) and caught.value.code in ("unknown_embedder", "bad_policy")


def test_what_cannot_be_called_or_counted_is_reported_as_it_was_given():
    with Memory(embedder="hash:16") as memory:
        for verb in (lambda: memory.prepare("x"), lambda: memory.reembed("hash:32", progress=3)):
            with pytest.raises(BadInput, match="progress cannot be called") as caught:
                verb()
            assert caught.value.code == "wrong_type" and memory.embedder.id == "hash:16"
        with pytest.raises(BadInput, match="'3'") as caught:
            memory.recall("task", k="3")
        assert caught.value.code == "not_a_count"


@pytest.mark.parametrize("begun", [False, True], ids=["no byte", "no table"])
def test_a_file_that_holds_no_memory_yet_is_made_one_by_writing_alone(tmp_path, begun):
    path = tmp_path / "m.db"
    if begun:  # a process that made it died before it wrote its tables
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode=WAL")
    else:
        path.touch()
    was = path.read_bytes()
    with pytest.raises(NoMemory):
        open_memory(str(path))
    assert path.read_bytes() == was and os.listdir(tmp_path) == ["m.db"]
    with Memory(path, embedder="hash:16") as memory:
        assert memory.remember("task", "body") == "m1"
    with open_memory(str(path)) as memory:
        assert [item.id for item in memory.items()] == ["m1"]
