"""`evolvent memory` with a URL: there and back, and what it shows is what is there."""

import pytest
from command import evolvent

from evolvent.memory.memory import Memory


@pytest.mark.postgres
def test_a_memory_moves_to_postgresql_and_back(postgres_store, tmp_path):
    url = postgres_store()
    with Memory(tmp_path / "a.db", embedder="hash:32", policy="memrl") as memory:
        for i in range(4):
            memory.remember(f"task {i}", f"body {i}")
            memory.settle(memory.recall(f"task {i}", k=1), 1.0)
    digest, _ = evolvent("memory", "digest", "a.db", cwd=tmp_path)
    rehearsed, _ = evolvent("memory", "migrate", "a.db", url, "--dry-run", cwd=tmp_path)
    assert digest.strip() in rehearsed and "nothing was made" in rehearsed
    _, refused = evolvent("memory", "digest", url, cwd=tmp_path, code=2)
    assert "there is no memory" in refused
    evolvent("memory", "migrate", "a.db", url, cwd=tmp_path)
    _, refused = evolvent("memory", "migrate", "a.db", url, "--dry-run", cwd=tmp_path, code=2)
    assert "not empty" in refused
    assert evolvent("memory", "digest", url, cwd=tmp_path)[0] == digest
    audit, _ = evolvent("memory", "audit", url, cwd=tmp_path)
    assert "task 3" in audit
    evolvent("memory", "migrate", url, "b.db", cwd=tmp_path)
    assert evolvent("memory", "digest", "b.db", cwd=tmp_path)[0] == digest
