"""`evolvent memory` over a real store: what it says must be what the store holds."""

import json
import os
import re

import pytest
from command import evolvent

from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("memory") / "memory.db"
    with Memory(path, embedder="hash:64", policy="memrl", seed=1) as memory:
        for i in range(8):
            memory.remember(f"question about subject{i} number{i}", f"answer {i} \x1b[31m", source="reviewer")
        for i in [*range(6)] * 3:  # three outcomes each: with fewer nothing is called least valuable
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


def test_search_shows_and_leaves_no_trace(store, tmp_path):
    before = json.loads(evolvent("memory", "audit", store, "--json", cwd=tmp_path)[0])["recalls"]
    out, _ = evolvent("memory", "search", store, "question about subject3", "--k", 2, cwd=tmp_path)
    found = json.loads(
        evolvent("memory", "search", store, "question about subject3", "--k", 2, "--json", cwd=tmp_path)[0]
    )
    assert found and all(item["id"] in out for item in found)
    assert json.loads(evolvent("memory", "audit", store, "--json", cwd=tmp_path)[0])["recalls"] == before


def test_list_goes_page_by_page_and_filters(tmp_path):
    path = tmp_path / "m.db"
    with Memory(path, embedder="hash:32") as memory:
        memory.remember_many([{"key": f"k {i}", "body": f"b {i}", "metadata": {"year": 2018 + i}} for i in range(4)])
    arguments = ("memory", "list", path, "--filter", '{"year": {">": 2018}}')
    out, _ = evolvent(*arguments, "--limit", 2, cwd=tmp_path)
    assert "m2" in out and "m3" in out and "m4" not in out and "--after m3" in out
    assert [i["id"] for i in json.loads(evolvent(*arguments, "--after", "m3", "--json", cwd=tmp_path)[0])] == ["m4"]
    _, err = evolvent("memory", "list", path, "--filter", '{"year": {"~": 1}}', cwd=tmp_path, code=2)
    assert "unknown operator" in err and "exists" in err
    _, err = evolvent("memory", "list", path, "--status", "deleted", cwd=tmp_path, code=2)
    assert "unknown status" in err


def test_the_readable_list_is_one_object_a_line(store, tmp_path):
    evolvent("memory", "export", store, "--items", "--out", "m.jsonl", cwd=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    items = _state(store)
    assert [(row["id"], row["value"], row["n"]) for row in rows] == [(i.id, i.value, i.n) for i in items]
    out, _ = evolvent("memory", "export", store, "--items", "--status", "archived", cwd=tmp_path)
    assert out == ""


@pytest.fixture
def copy(store, tmp_path):
    """A store that a test may change: an import of the export of the other."""
    out, _ = evolvent("memory", "export", store, cwd=tmp_path)
    (tmp_path / "all.jsonl").write_text(out)
    printed, _ = evolvent("memory", "import", "copy.db", "all.jsonl", "--dry-run", cwd=tmp_path)
    assert "nothing was made" in printed and not (tmp_path / "copy.db").exists()
    evolvent("memory", "import", "copy.db", "all.jsonl", cwd=tmp_path)
    return tmp_path / "copy.db"


def _dump(path, tmp_path):
    return evolvent("memory", "digest", path, cwd=tmp_path)[0].strip()


def test_export_import_and_migrate_make_equal_stores(store, copy, tmp_path):
    assert _dump(copy, tmp_path) == _dump(store, tmp_path)
    out, _ = evolvent("memory", "migrate", copy, "other.db", "--dry-run", cwd=tmp_path)
    assert not (tmp_path / "other.db").exists() and _dump(store, tmp_path) in out
    evolvent("memory", "migrate", copy, "other.db", cwd=tmp_path)
    assert _dump(tmp_path / "other.db", tmp_path) == _dump(store, tmp_path)
    for arguments in (["import", "other.db", "all.jsonl"], ["migrate", copy, "other.db"]):
        for more in ([], ["--dry-run"]):
            _, err = evolvent("memory", *arguments, *more, cwd=tmp_path, code=2)
            assert "not empty" in err


def test_each_act_is_rehearsed_done_and_taken_back(copy, tmp_path):
    def run(*arguments, code=0):
        return evolvent("memory", *arguments, cwd=tmp_path, code=code)[0]

    def state():
        with Memory(copy) as memory:
            tables = ("memory", "value", "source_value", "recall_item")
            return [memory.bank.store.rows(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in tables]

    start = state()
    printed = run("rollback", copy, "--to", "r3", "--dry-run")
    assert "no longer count" in printed and "nothing was changed" in printed and state() == start
    done = run("rollback", copy, "--to", "r3")
    assert "no longer count" in done and state() != start
    run("rollback", copy, "--to", re.search(r"evolvent memory rollback \S+ --to (\S+)", done)[1])
    assert state() == start
    found = json.loads(run("quarantine", copy, "m1", "--dry-run", "--json"))
    assert found["statuses"] == [["m1", "active", "quarantined"]] and found["act"] is None
    run("quarantine", copy, "m1", "--reason", "injected")
    out = run("audit", copy, "--plain")
    assert "injected" in out and re.search(r"quarantined memories\s+1\n", out)
    assert "active" in run("restore", copy, "m1")
    assert state() == start
    printed = run("compact", copy, "--keep", "0", "--dry-run")
    assert "recall_item" in printed and state() == start
    assert "recall_item" in run("compact", copy, "--keep", "0") and state() != start
    assert "every check passed" in run("verify", copy)


@pytest.mark.parametrize(
    "arguments",
    [
        ["rollback", "--to", "r99"],
        ["rollback", "--to", "yesterday"],
        ["quarantine", "m99"],
        ["restore", "r1"],
        ["undo", "a99"],
        ["compact", "--keep", "-1"],
        ["audit", "--scope", "nobody"],
        ["audit", "--top", "-1"],
        ["audit", "--near", "7"],
    ],
)
def test_what_cannot_be_done_is_said_in_one_message(store, tmp_path, arguments):
    _, err = evolvent("memory", arguments[0], store, *arguments[1:], cwd=tmp_path, code=2)
    assert err.startswith("error:") and "Traceback" not in err


def test_a_missing_store_is_not_made(tmp_path):
    for arguments in (["audit"], ["verify"], ["digest"], ["export"], ["rollback", "--to", "r1"]):
        _, err = evolvent("memory", arguments[0], "none.db", *arguments[1:], cwd=tmp_path, code=2)
        assert "there is no memory" in err and not (tmp_path / "none.db").exists()


def test_a_command_makes_no_store_of_an_empty_file(tmp_path):
    (tmp_path / "empty.db").touch()
    for arguments in (["audit"], ["search", "task"], ["list"], ["explain", "m1"], ["verify"], ["export"], ["digest"]):
        _, printed = evolvent("memory", arguments[0], "empty.db", *arguments[1:], cwd=tmp_path, code=2)
        assert "there is no memory" in printed and os.listdir(tmp_path) == ["empty.db"]
    assert not (tmp_path / "empty.db").stat().st_size


def test_the_page_is_one_file_and_harmless(store, tmp_path):
    evolvent("memory", "audit", store, "--html", "a.html", cwd=tmp_path)
    page = (tmp_path / "a.html").read_text()
    assert page.startswith("<!doctype html>") and "Value over time" in page
    assert not re.search(r"(src|href|url\()\s*=?\s*[\"']?(https?:|//)", page) and "<script" not in page


def test_an_outcome_a_memory_a_scope_and_the_embedder_are_changed(tmp_path):
    store = tmp_path / "own.db"
    with Memory(store, embedder="hash:64", policy="memrl") as memory, Memory(store, scope="tenant") as tenant:
        id_ = memory.remember("who lives in Elm Street?", "Ann Lee")
        receipt = memory.recall("who lives in Elm Street?", k=1).id
        memory.settle(receipt, 1.0, source="tests", weight=0.5, action="I asked Ann")
        tenant.remember("a question", "an answer")
    for arguments in ((), ("--reward", "0", "--void")):
        assert "--void" in evolvent("memory", "revise", store, receipt, *arguments, cwd=tmp_path, code=2)[1]
    out, _ = evolvent("memory", "revise", store, receipt, "--void", "--dry-run", cwd=tmp_path)
    assert "1 value\n" in out
    out, _ = evolvent("memory", "revise", store, receipt, "--reward", "0", "--dry-run", cwd=tmp_path)
    assert "1 value\n" in out and "nothing was changed" in out
    out, _ = evolvent("memory", "revise", store, receipt, "--reward", "0", cwd=tmp_path)
    assert "revise done as" in out and "take it back with: evolvent memory rollback" in out
    with Memory(store) as memory:
        explained = memory.explain(receipt).to_dict()["outcomes"][-1]
    assert [explained[part] for part in ("reward", "source", "weight", "action")] == [0.0, "tests", 0.5, "I asked Ann"]
    out, _ = evolvent("memory", "reembed", store, "--embedder", "hash:32", cwd=tmp_path)
    assert "2 keys embedded; the embedder is now hash:32" in out and "2 of 2 keys" in out
    assert "m1 is m3 now" in evolvent("memory", "update", store, id_, "--body", "Ann Lee, 2nd floor", cwd=tmp_path)[0]
    assert "nothing to say better" in evolvent("memory", "update", store, "m3", cwd=tmp_path, code=2)[1]
    for arguments in (
        ("quarantine", "m1"),
        ("restore", "m1"),
    ):  # of two versions one is in recall, also after taking it back
        out, _ = evolvent("memory", *arguments[:1], store, *arguments[1:], cwd=tmp_path)
        evolvent(*re.findall("take it back with: evolvent (.*)", out)[0].split(), cwd=tmp_path)
        with Memory(store) as memory:
            assert [item.id for item in memory.items()] == ["m3"], arguments
    out, _ = evolvent("memory", "erase", store, id_, "--reason", "asked for", cwd=tmp_path)
    assert "erase done as" in out and b"Ann Lee" not in store.read_bytes()
    _, err = evolvent("memory", "drop-scope", store, "tenant", cwd=tmp_path, code=2)
    assert "--yes" in err and b"an answer" in store.read_bytes()
    out, _ = evolvent("memory", "drop-scope", store, "tenant", "--yes", cwd=tmp_path)
    assert "'tenant' is gone" in out and b"an answer" not in store.read_bytes()
    assert "every check passed" in evolvent("memory", "verify", store, cwd=tmp_path)[0]


def test_traces_are_found_and_erased(tmp_path):
    """From a name to nothing of it: found, counted, waited for, taken out."""
    path = tmp_path / "m.db"
    with Memory(path, embedder="hash:64", policy=preset("memrl", gate=-1.0)) as memory:
        memory.remember("where does Ann Lee live?", "Elm Street", kind="note")
        memory.remember("another", "one")
        memory.settle(memory.recall("a refund for ann lee"), True, action="paid Ann Lee")
        memory.recall("an open question of Ann Lee")
    store = str(path)

    def run(verb, *arguments):
        return evolvent("memory", verb, *arguments, cwd=tmp_path)[0]

    assert run("count", store).strip() == "2" and run("count", store, "--kinds", "note").strip() == "1"
    assert [row["id"] for row in json.loads(run("list", store, "--order", "newest", "--json"))] == ["m2", "m1"]
    assert [row["id"] for row in json.loads(run("receipts", store, "--open", "--json"))] == ["r2"]
    found = [(row["id"], row["where"]) for row in json.loads(run("find", store, "ANN LEE", "--json"))]
    assert found == [("m1", "key"), ("r1", "task"), ("r2", "task"), ("r1", "action")]
    printed = run("erase", store, "--find", "ann lee", "--dry-run")
    assert "dry run" in printed and len(json.loads(run("find", store, "ann lee", "--json"))) == 4
    run("erase", store, "--find", "ann lee", "--reason", "asked for")
    assert json.loads(run("find", store, "ann lee", "--json")) == []
    assert [row["settled"] for row in json.loads(run("receipts", store, "--json"))] == [True]
    assert "erase done" in run("erase", store, "m2", "r1") and run("count", store).strip() == "0"
    assert "nothing to change" in run("compact", store, "--unsettled-days", "30")
