"""Lives of memories: the same calls write the same rows, and a store of version 0.1.0 goes on as it would have."""

import shutil
import sqlite3
import tarfile

import memory_replay as lives
import pytest

from evolvent.cli.memory.verify import verify
from evolvent.memory.store.opening import open_store


def _stores(archive, folder):
    """Paths of ``before.db`` and ``after.db``."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    for name in ("before.db", "after.db"):
        open_store(folder / name).close()  # of an older schema: brought to this one
    return folder / "before.db", folder / "after.db"


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """Stores that version 0.1.0 wrote."""
    return _stores(lives.ARCHIVE, tmp_path_factory.mktemp("old"))


def test_the_record_holds_every_kind_of_event(old):
    with sqlite3.connect(old[1]) as db:
        told = dict(db.execute("SELECT rule, count(*) FROM value_event GROUP BY rule"))
        left_open = db.execute("SELECT count(*) FROM recall WHERE seq NOT IN (SELECT recall_id FROM outcome)")
    assert told["shown"] > 400 and told["omitted"] > 20 and told["ancestor"] > 100, told
    assert left_open.fetchone() == (0,)


def test_the_same_calls_write_the_same_rows(tmp_path):
    path = tmp_path / "new.db"
    for act, expected in zip((lives.live, lives.finish), _stores(lives.NOW, tmp_path), strict=True):
        act(path)
        _same(path, expected)


def test_an_old_store_settles_its_open_receipts_to_the_same_values(old, tmp_path):
    path = shutil.copy(old[0], tmp_path / "old.db")
    lives.finish(path)
    _same(path, old[1])
    for scope in lives.lives():
        with lives.opened(path, scope) as memory:
            assert memory.rebuild_values() == 0
    with lives.opened(path, "memlift") as memory:
        assert verify(memory) == []


def _same(path, expected):
    new, was = lives.dump(path), lives.dump(expected)
    assert new.keys() == was.keys()
    for table in was:
        assert new[table] == was[table], table
