"""`evolvent memory` over a real store: what it says must be what the store holds."""

import json

import pytest
from command import evolvent

from evolvent.memory.memory import Memory


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("memory") / "memory.db"
    with Memory(path, embedder="hash:64", policy="memrl", seed=1) as memory:
        for i in range(8):
            memory.remember(f"question about subject{i} number{i}", f"answer {i} \x1b[31m", source="reviewer")
        for i in range(6):
            recall = memory.recall(f"question about subject{i} number{i}", k=1)
            memory.settle(recall, float(i % 2))
    return path


def _state(store):
    with Memory(store) as memory:
        return memory.items()


def test_audit_shows_best_worst_and_untried(store, tmp_path):
    out, _ = evolvent("memory", "audit", store, "--top", 3, cwd=tmp_path)
    items = _state(store)
    tried = [item for item in items if item.n]
    best = max(tried, key=lambda item: item.value)
    part = out.split("Most valuable")[1].split("Least valuable")
    assert part[0].count("reviewer") == 3 and f"{best.value:.4g}" in part[0]
    assert f"Without any outcome yet: {len(items) - len(tried)} of {len(items)}" in out and "\x1b" not in out


def test_a_run_folder_stands_for_its_memory(store, tmp_path):
    out, _ = evolvent("memory", "audit", store.parent, cwd=tmp_path)
    assert "Health" in out


def test_explain_an_item_and_a_receipt(store, tmp_path):
    out, _ = evolvent("memory", "explain", store, "r1", "--json", cwd=tmp_path)
    assert isinstance(json.loads(out), dict)
    out, _ = evolvent("memory", "explain", store, "m1", cwd=tmp_path)
    assert "m1" in out and "question about subject0" in out


@pytest.mark.parametrize("subject", ["m99", "r99", "nonsense"])
def test_explain_of_what_is_not_there(store, tmp_path, subject):
    _, err = evolvent("memory", "explain", store, subject, cwd=tmp_path, code=2)
    assert err.startswith("error:") and "Traceback" not in err


def test_export_is_one_object_a_line(store, tmp_path):
    evolvent("memory", "export", store, "--out", "m.jsonl", cwd=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    items = _state(store)
    assert [(row["id"], row["value"], row["n"]) for row in rows] == [(i.id, i.value, i.n) for i in items]
    out, _ = evolvent("memory", "export", store, "--status", "archived", cwd=tmp_path)
    assert out == ""
