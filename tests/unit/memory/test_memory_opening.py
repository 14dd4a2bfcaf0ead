"""Arguments of Memory(…) that cannot work are refused before a file is made; a store belongs to one process."""

import math
import multiprocessing
import os

import pytest

from evolvent import Memory
from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.maintenance.verify import verify


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
    if set(options) <= {"reward_range", "seed", "search", "sync", "path"}:
        assert not os.listdir(tmp_path), "no file is left behind"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_is_told_to_open_its_own(tmp_path):
    with Memory(tmp_path / "m.db", embedder="hash:16") as memory:
        memory.remember("task", "body")
        context = multiprocessing.get_context("fork")
        told = context.Queue()

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
            told.put(said)

        process = context.Process(target=child)
        process.start()
        said = told.get(timeout=60)
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


def test_a_process_out_of_file_handles_is_told_so_and_can_go_on(tmp_path):
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
