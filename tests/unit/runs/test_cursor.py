"""How far a run with a memory is: what is saved stands, receipts behind it are taken back, in this order."""

from contextlib import closing

import pytest

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.memory.memory import Memory
from evolvent.runs.memory import cursor
from evolvent.runs.shell import Shell


@pytest.fixture
def memory():
    with Memory(":memory:", embedder="hash:64", policy="rag") as memory:
        memory.remember("one", "1")
        yield memory


@pytest.fixture
def shell(tmp_path):
    folder = RunFolder.create(tmp_path / "run", algo="test", config={}, env="none", seed=0, command="test")
    with closing(folder), Live(plain=True) as live:
        for step in (1, 2, 3):
            folder.log(step, phase="stream")
        yield lambda resume: Shell(folder, live, 5, resume=resume)


def test_a_new_run_begins_behind_the_receipts_that_are_there(memory, shell):
    memory.recall("one")
    assert not cursor.begun(memory)
    cursor.go_on(made := shell(False), memory)
    assert cursor.begun(memory) and made.update == 0 and memory.health()["recalls"] == 1
    memory.recall("one")
    cursor.go_on(shell(True), memory)
    assert memory.health()["recalls"] == 1, "its own goes, not the one from before"


def test_a_run_goes_on_behind_what_was_saved(memory, shell):
    cursor.go_on(shell(False), memory)
    with memory.transaction():
        memory.settle(memory.recall("one"), 1.0)
        cursor.saved(memory, 2)
    memory.recall("one")
    cursor.go_on(made := shell(True), memory)
    assert made.update == made.first == 2 and memory.health()["recalls"] == 1
    assert [row["step"] for row in made.folder.read_metrics()] == [1, 2], "what was logged of step 3 is gone"


def test_what_does_not_fit_is_refused_before_anything_is_taken_back(memory, shell):
    def refuse(done):
        raise BadInput(f"not after {done}")

    cursor.saved(memory, 1)
    memory.recall("one")
    with pytest.raises(BadInput, match="not after 1"):
        cursor.go_on(shell(True), memory, refuse)
    assert memory.health()["recalls"] == 1 and len(shell(True).folder.read_metrics()) == 3


def test_a_memory_that_learned_behind_its_cursor_is_not_gone_on_with(memory, shell):
    cursor.saved(memory, 1)
    memory.settle(memory.recall("one"), 1.0)
    with pytest.raises(BadInput, match="learned more"):
        cursor.go_on(shell(True), memory)


def test_a_run_of_a_version_that_kept_no_receipt_keeps_its_own(memory, shell):
    memory.meta_set("cursor", 2)
    memory.settle(memory.recall("one"), 1.0)
    cursor.go_on(made := shell(True), memory)
    assert made.update == 2 and memory.health()["recalls"] == 1
