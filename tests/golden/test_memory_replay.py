"""Lives of memories: the same calls do the same, and a store of version 0.1.0 goes on as it would have."""

import json
import shutil
import sqlite3
import tarfile

import memory_replay as lives
import pytest

from evolvent.memory.maintenance.verify import verify
from evolvent.memory.store.opening import open_store


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """Paths of ``before.db`` and ``after.db``, which version 0.1.0 wrote."""
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(lives.ARCHIVE) as tar:
        tar.extractall(folder, filter="data")
    for name in ("before.db", "after.db"):
        open_store(folder / name).close()  # of an older schema: brought to this one
    return folder / "before.db", folder / "after.db"


def test_the_record_holds_every_kind_of_event(old):
    with sqlite3.connect(old[1]) as db:
        result = dict(db.execute("SELECT rule, count(*) FROM value_event GROUP BY rule"))
        left_open = db.execute("SELECT count(*) FROM recall WHERE seq NOT IN (SELECT recall_id FROM outcome)")
    assert result["shown"] > 400 and result["omitted"] > 20 and result["ancestor"] > 100, result
    assert left_open.fetchone() == (0,)


def test_the_same_calls_do_the_same(tmp_path):
    path = tmp_path / "new.db"
    lives.live(path)
    lives.finish(path)
    assert lives.state_of(path) == json.loads(lives.NOW.read_text("utf-8")), (
        "where it should: write memory_replay.json again"
    )


def test_an_old_store_settles_its_open_receipts(old, tmp_path):
    """To the same values, except that memlift pays no ancestors now, and counts what was handed out and dropped.

    And that memq counts values from failure where that is not 0 ("memq far").
    """
    path = shutil.copy(old[0], tmp_path / "old.db")
    lives.finish(path)
    new, was = lives.events(path), lives.events(old[1])
    before = len(lives.events(old[0])["memlift"])
    for scope in lives.lives():
        now = [row for row in new[scope] if (row[1], row[4]) != ("omitted", 0.0)]
        if not scope.startswith("memlift") and scope != "memq far":
            assert now == was[scope], scope
        else:
            assert [row[:4] for row in now if row[1] == "shown"] == [row[:4] for row in was[scope] if row[1] == "shown"]
        with lives.opened(path, scope) as memory:
            assert memory.rebuild_values() == 0
    assert all(row[1] != "ancestor" for row in new["memlift"][before:])
    assert any(row[1] == "ancestor" for row in was["memlift"][before:])
    with lives.opened(path, "memlift") as memory:
        assert verify(memory) == []
