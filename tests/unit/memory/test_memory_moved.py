"""A memory file that is removed or replaced under an open memory still takes writes; none of them is acknowledged."""

import os
import shutil
from pathlib import Path

import pytest

from evolvent.core.errors import StoreError
from evolvent.memory.memory import Memory


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_what_is_written_into_a_file_that_is_gone_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
):
    path = tmp_path / "a.db"
    with Memory(path, policy="rag", embedder="hash:32") as memory:
        memory.remember("task", "body")
    shutil.copy(path, tmp_path / "backup.db")
    monkeypatch.chdir(tmp_path)
    with Memory(path.name, policy="rag", embedder="hash:32") as memory:
        monkeypatch.chdir("/")  # a path is the one that it was
        memory.remember("before", "body")
        if how == "removed":
            path.unlink()
        else:
            os.replace(tmp_path / "backup.db", path)
        with pytest.raises(StoreError, match="removed or replaced") as caught:
            memory.remember("after", "body")
        assert caught.value.code == "moved"
