"""What is kept elsewhere: candidates of another memory are held out, credited, measured and erased as our own."""

import json
import random
import secrets
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

from evolvent.core.errors import BadInput
from evolvent.memory.aio import AsyncMemory
from evolvent.memory.blame import blame
from evolvent.memory.maintenance import transfer
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.scopes import Scopes
from evolvent.memory.store.opening import open_store

TASK = "reset the router"
GUIDE = {"id": "guide", "text": "hold the button for ten seconds", "score": 0.9}
FAQ = {"id": "faq", "text": "call the hotline and wait", "score": 0.7}


def opened(path=":memory:", **options):
    return Memory(path, **{"embedder": "hash:16", **options})


def sound(memory):
    assert verify(memory) == [] and memory.rebuild_values() == 0


def test_the_five_verbs_take_ids_of_others():
    memory = opened()
    recall = memory.recall(TASK, candidates=[FAQ, GUIDE])
    assert recall.ids == ["guide", "faq"] and recall.pool_size == 2
    assert [item.body for item in recall] == [GUIDE["text"], FAQ["text"]]
    assert [item.relevance for item in recall] == pytest.approx([0.9, 0.7]) and "score 0.90" in recall[0].why
    memory.shown(recall, ["guide"])
    assert memory.receipts()[0].shown == ("guide",)
    changes = memory.settle(recall, 0.0)
    assert [(c.id, c.rule) for c in changes] == [("guide", "shown")] and memory.settle(recall, 0.0) == changes
    assert memory.get("guide").n == 1 and memory.get(recall[0]).value < 1.0
    assert memory.explain("guide").to_dict()["values"][0]["n"] == 1
    told = memory.explain(recall).to_dict()
    assert {row["id"]: row["shown"] for row in told["pool"]} == {"guide": True, "faq": False}
    assert told["changes"][0]["id"] == "guide" and told["query"] == TASK
    assert {trace.where for trace in memory.find("guide")} == {"key"}
    own = memory.remember(TASK, "what I found", parents=recall)
    assert memory.get(own).parents == ("guide",)
    sound(memory)


def test_no_search_finds_them_and_nothing_counts_them_as_ours():
    memory = opened()
    memory.recall(TASK, candidates=[GUIDE], keep_text=True)
    assert memory.recall(TASK).pool_size == 0 and memory.search("guide") == [] and memory.count() == 0
    assert [item.id for item in memory.items("external")] == ["guide"]
    assert memory.health()["by_status"] == {"external": 1} and memory.health()["items"] == 0
    memory.remember("guide", GUIDE["text"])
    assert memory.recall("guide").ids == ["m2"]


def test_health_does_not_complain_that_a_store_of_others_notes_alone_learns_nothing():
    memory = opened()
    for _ in range(60):
        memory.settle(memory.recall(TASK, candidates=[FAQ, GUIDE]), 1.0)
    assert memory.health()["warnings"] == []
    memory.remember("another task", "never asked for")
    assert "fewer than 5 %" in memory.health()["warnings"][0]


def test_what_is_kept_elsewhere_is_said_to_be_there():
    memory = opened()
    memory.settle(memory.recall(TASK, candidates=[GUIDE]), 1.0)
    assert "(kept elsewhere)" in str(memory.explain("guide"))
    memory.recall(TASK, candidates=[GUIDE], keep_text=True)
    assert GUIDE["text"] in str(memory.explain("guide"))


def test_another_text_begins_anew_and_the_earlier_one_goes_on():
    memory = opened()
    for _ in range(3):
        memory.settle(memory.recall(TASK, candidates=[GUIDE]), 0.0)
    other = memory.recall(TASK, candidates=[{**GUIDE, "text": "unplug it"}])
    assert other[0].n == 0 and memory.get("guide").content_version == 2
    memory.settle(other, 1.0)
    again = memory.recall(TASK, candidates=[GUIDE])
    assert again[0].n == 3 and again[0].value < other[0].value
    assert memory.explain("guide").to_dict()["texts"] == ["m1", "m2"] and memory.get("m1").n == 3
    rows = memory.lift("item").to_dict()["items"]
    assert [(row["id"], row["memory"]) for row in rows] == [("guide", "m1"), ("guide", "m2")]
    sound(memory)


BAD = [
    ([GUIDE, GUIDE], "conflicting"),
    ([{"id": "guide", "text": "", "score": 1.0}], "empty_text"),
    ([{"id": "guide", "text": "a", "score": float("nan")}], "out_of_range"),
    ([{"id": "guide", "text": "a", "score": float("inf")}], "out_of_range"),
    ([{"id": "guide", "text": "a", "score": "0.9"}], "out_of_range"),
    ([{"id": "guide", "text": "a", "score": True}], "out_of_range"),
    ([{"id": "guide", "text": "a", "score": 0.5}, {"id": "b", "text": "b"}], "conflicting"),
    ([{"id": "guide", "text": "a", "rank": 1}], "wrong_type"),
    ([{"id": "guide"}], "wrong_type"),
    (["guide"], "wrong_type"),
    (GUIDE, "wrong_type"),
    ("guide", "wrong_type"),
    (7, "wrong_type"),
    ([{"id": 7, "text": "a"}], "not_a_name"),
    ([{"id": "", "text": "a"}], "not_a_name"),
    ([{"id": "x" * 501, "text": "a"}], "not_a_name"),
    ([{"id": "lone \ud800", "text": "a"}], "not_a_name"),
    ([{"id": "a", "text": "lone \ud800"}], "not_storable"),
    ([{"id": "a", "text": "zero \x00"}], "not_storable"),
    ([{"id": "a", "text": "x" * 2_000_001}], "too_long"),
    *(([{"id": id_, "text": "a"}], "not_a_name") for id_ in ("m12", "r3", "a1", "kept:x")),
]


@pytest.mark.parametrize(("given", "code"), BAD)
def test_what_is_no_candidate_is_refused_and_nothing_is_written(given, code):
    memory = opened()
    with pytest.raises(BadInput) as error:
        memory.recall(TASK, candidates=given)
    assert error.value.code == code and "candidates" in str(error.value)
    assert memory.receipts() == [] and memory.items(None) == []


def test_options_that_say_nothing_of_candidates_are_refused():
    memory = opened()
    for options in ({"kinds": ["case"]}, {"filter": {"a": 1}}, {"policy": "memento"}, {"keep_text": 1}):
        with pytest.raises(BadInput):
            memory.recall(TASK, candidates=[GUIDE], **options)
    with pytest.raises(BadInput, match="keep_text without candidates"):
        memory.recall(TASK, keep_text=True)
    with pytest.raises(BadInput, match="several scopes"):
        Scopes(memory).recall(TASK, candidates=[GUIDE])
    with pytest.raises(BadInput) as error:
        memory.recall_many([TASK, TASK], candidates=[[GUIDE]])
    assert error.value.code == "wrong_number"


def test_an_id_that_is_not_there_is_an_error_as_ever():
    memory = opened()
    recall = memory.recall(TASK, candidates=[GUIDE])
    for verb in (memory.get, memory.explain, lambda id_: memory.erase(id_, "why")):
        with pytest.raises(BadInput) as error:
            verb("nobody")
        assert error.value.code == "not_an_id"
    with pytest.raises(BadInput) as error:
        memory.shown(recall, ["faq"])
    assert error.value.code == "not_handed_out"
    with pytest.raises(BadInput) as error:
        memory.update("guide", "better", body="x")
    assert error.value.code == "not_active" and "where it is kept" in str(error.value)
    other = opened(scope="other")
    with pytest.raises(BadInput):
        other.get("guide")


def test_none_of_them_is_a_receipt_that_can_be_settled():
    memory = opened()
    recall = memory.recall(TASK, candidates=[])
    assert not recall and recall.pool_size == 0
    memory.settle(recall, 1.0)
    assert memory.receipts()[0].settled


def test_ten_thousand_of_them_leave_the_pool_alone():
    memory = opened()
    many = [{"id": f"doc {i}", "text": f"text {i}", "score": i / 10_000} for i in range(10_000)]
    recall = memory.recall(TASK, candidates=many, k=2)
    assert recall.ids == ["doc 9999", "doc 9998"] and recall.pool_size == 10
    assert len(memory.items(None)) == 10 and memory.explain(recall).to_dict()["n_scanned"] == 10_000
    assert len(memory.recall(TASK, candidates=many, k=50, policy="rag")) == 50
    assert memory.recall(TASK, candidates=[{"id": "long", "text": "x" * 1_000_000}])[0].body == "x" * 1_000_000


@pytest.mark.parametrize("policy", ["memlift", "rag", "memrl", "memq", "memp"])
def test_the_order_goes_where_scores_do_not_tell(policy):
    letters = [{"id": letter, "text": letter} for letter in "dacbe"]
    for given in (letters, [{**one, "score": 0.5} for one in letters], [{**one, "score": 0.0} for one in letters]):
        assert opened(policy=policy).recall(TASK, candidates=given, k=5).ids == list("dacbe")


def test_scores_beyond_one_are_divided_by_the_largest():
    memory = opened()
    recall = memory.recall(TASK, candidates=[{**GUIDE, "score": 12.0}, {**FAQ, "score": 9.0}])
    assert [item.relevance for item in recall] == pytest.approx([1.0, 0.75])
    memory.recall(TASK, candidates=[{**GUIDE, "score": 1e308}, {**FAQ, "score": -1e308}])
    sound(memory)


def test_policies_that_compare_nothing():
    memory = opened()
    letters = [{"id": letter, "text": letter} for letter in "abcdefgh"]
    drawn = [memory.recall(TASK, candidates=letters, k=2, policy="random").ids for _ in range(40)]
    assert {id_ for ids in drawn for id_ in ids} == set("abcdefgh") and all(len(set(ids)) == 2 for ids in drawn)
    other = opened()
    again = [other.recall(TASK, candidates=letters, k=2, policy="random").ids for _ in range(3)]
    assert again == drawn[:3] and len(other.items("external")) == len({id_ for ids in again for id_ in ids})
    assert memory.recall(TASK, candidates=letters, policy="none").ids == []
    assert memory.recall(TASK, candidates=letters, k=0).ids == []


def test_what_fails_always_takes_no_place_from_others():
    memory = opened(policy=preset("memlift", pool=2, k=2))
    many = [{"id": f"poison {i}", "text": "wrong", "score": 1.0} for i in range(4)]
    good = [{"id": f"good {i}", "text": "right", "score": 0.9} for i in range(2)]
    for _ in range(60):
        recall = memory.recall(TASK, candidates=[*many, *good], k=2)
        memory.settle(recall, any(id_.startswith("good") for id_ in recall.ids))
    assert memory.recall(TASK, candidates=[*many, *good], k=2).ids[0].startswith("good")


def test_the_text_is_kept_by_hash_unless_asked_for(tmp_path):
    path = tmp_path / "a.db"
    with opened(path) as memory:
        recall = memory.recall(TASK, candidates=[GUIDE])
        memory.settle(recall, 1.0)
        assert memory.get("guide").body == ""
        with pytest.raises(BadInput, match="no text is here"):
            blame(memory, recall.id, lambda task, notes: 1.0)
    assert GUIDE["text"].encode() not in path.read_bytes()
    secret = {"id": "faq", "text": "the password is hunter2hunter2, key sk-abcdefghijklmnopqrstuvwxyz123456"}
    with opened(path) as memory:
        memory.recall(TASK, candidates=[GUIDE], keep_text=True)
        shown = memory.recall(TASK, candidates=[secret], keep_text=True)
        assert memory.get("guide").body == GUIDE["text"] and memory.get("guide").n == 1
        assert "[secret]" in memory.get("faq").body and shown[0].body == secret["text"]
        assert [trace.id for trace in memory.find("for ten seconds")] == ["m1"]
        sound(memory)


def test_what_was_used_of_a_kept_text_gets_the_credit():
    memory = opened()
    recall = memory.recall(TASK, candidates=[GUIDE, FAQ], keep_text=True)
    weights = {c.id: c.weight for c in memory.settle(recall, 1.0, action=FAQ["text"])}
    assert weights["faq"] > weights["guide"]


def test_erased_is_every_text_and_the_id(tmp_path):
    path = tmp_path / "a.db"
    with opened(path) as memory:
        for text in ("first lesson of bob", "second lesson of bob"):
            recall = memory.recall(
                TASK, candidates=[{"id": "mail-of-bob", "text": text, "score": 0.8}, FAQ], keep_text=True
            )
            memory.settle(recall, 1.0)
        done = memory.erase(["mail-of-bob", recall[1]], "a right")
        assert [(one.id, one.now) for one in done.statuses] == [("m1", "erased"), ("m2", "erased"), ("m3", "erased")]
        assert [(item.status, item.key, item.body) for item in memory.items(None)] == [("erased", "", "")] * 3
        assert memory.find("bob") == [] and memory.bank.store.rows("SELECT 1 FROM memory WHERE text_hash <> ''") == []
        again = memory.recall(TASK, candidates=[FAQ])
        assert again.ids == ["faq"] and again[0].n == 0
        sound(memory)
    assert b"of bob" not in path.read_bytes() and b"of-bob" not in path.read_bytes()


def test_mending_takes_them_out_and_puts_them_back():
    memory = opened()
    early = memory.recall(TASK, candidates=[GUIDE])
    memory.settle(early, 1.0)
    before = memory.recall(TASK, candidates=[GUIDE])
    memory.settle(memory.recall(TASK, candidates=[GUIDE, FAQ]), 0.0)
    value = memory.get("guide").value
    done = memory.quarantine(["guide"], "untrusted")
    assert [(one.id, one.was, one.now) for one in done.statuses] == [("guide", "external", "quarantined")]
    assert memory.recall(TASK, candidates=[GUIDE, FAQ]).ids == ["faq"]
    memory.restore(["guide"], "looked at")
    assert memory.recall(TASK, candidates=[GUIDE, FAQ]).ids == ["guide", "faq"] and memory.recall(TASK).ids == []
    memory.archive("faq", "old")
    assert memory.recall(TASK, candidates=[GUIDE, FAQ]).ids == ["guide"]
    memory.rollback(before, "back")
    # what is kept elsewhere is still there, without what was learned since
    assert memory.get("guide").value == 1.0 > value and memory.get("faq").n == 0
    assert memory.recall(TASK, candidates=[GUIDE, FAQ]).ids[0] == "guide"
    memory.compact(keep=0)
    memory.reembed("hash:32")
    sound(memory)


def test_attempts_and_frozen_recalls():
    memory = opened(holdout=0.5)
    for number in range(30):
        first, second = (memory.recall(TASK, candidates=[GUIDE], attempt=f"job {number}") for _ in range(2))
        assert first.held_out == second.held_out and first.handed == 0.5 and bool(first) != first.held_out
    assert memory.recall(TASK, candidates=[GUIDE], frozen=True).ids == ["guide"]
    many = memory.recall_many([TASK, "another"], candidates=[[GUIDE], None], task_ids=["case 1", None], frozen=True)
    assert [one.ids for one in many] == [["guide"], []]


async def _awaited():
    async with AsyncMemory(opened()) as memory:
        recall = await memory.recall(TASK, candidates=[GUIDE])
        return [change.id for change in await memory.settle(recall, 1.0)]


def test_the_same_for_asyncio():
    import asyncio

    assert asyncio.run(_awaited()) == ["guide"]


def measured(memory, adds, n, seed=0):
    """Settle attempts of which a candidate, where it is shown, raises the success rate by ``adds``."""
    rng = random.Random(seed)
    with memory.transaction():
        for number in range(n):
            recall = memory.recall(f"task {number % 50}", candidates=[FAQ, GUIDE], attempt=f"job {number}")
            rate = 0.4 + sum(adds.get(id_, 0.0) for id_ in recall.ids)
            memory.settle(recall, rng.random() < rate)
    return memory.lift("item")


def pinned(monkeypatch):
    """The same draws in every store and every run of this test."""
    monkeypatch.setattr(secrets, "token_hex", lambda n=None: "5a17" * 8)


def test_a_planted_candidate_helps_and_a_null_one_does_not(monkeypatch):
    pinned(monkeypatch)
    options = {"policy": preset("memlift", omit=0.4, omit_n0=1000.0, hide=0.0), "holdout": 0.3}
    null = measured(opened(**options), {}, 400)
    assert null.verdict in ("too early", "no difference") and not any(row["named"] for row in null.data["items"])
    found = measured(opened(**options), {"faq": 0.5}, 600)
    rows = {row["id"]: row for row in found.data["items"]}
    assert found.verdict == "helps" and rows["faq"]["named"] == "helps" and rows["guide"]["named"] is None
    assert "faq: helps" in str(found)


def everything(memory):
    """What a store answers about a fixed life."""
    found = [str(measured(memory, {"guide": 0.4}, 60, seed=3))]
    memory.settle(memory.recall(TASK, candidates=[{**GUIDE, "text": "unplug it"}], keep_text=True), 0.0)
    memory.quarantine(["faq"], "untrusted")
    memory.recall(TASK, candidates=[GUIDE, FAQ, {"id": "ü\u202e", "text": "x", "score": 0.1}])
    found.append(json.dumps(memory.lift("item").to_dict(), sort_keys=True))
    told = memory.explain("guide").to_dict() | {"created_at": 0, "history": [], "audit": []}
    found.append(json.dumps(told, sort_keys=True))
    memory.erase("guide", "a right")
    found += [str([item.id, item.status, item.n]) for item in memory.items(None)]
    assert verify(memory) == [] and memory.rebuild_values() == 0
    return found


@pytest.mark.postgres
def test_both_engines_say_the_same(postgres_store, monkeypatch, tmp_path):
    pinned(monkeypatch)
    with opened(tmp_path / "a.db", holdout=0.3) as ours, opened(postgres_store(), holdout=0.3) as theirs:
        clock = iter(range(10_000_000))
        monkeypatch.setattr(time, "time", lambda: 1.8e9 + next(clock))
        mine = everything(ours)
        clock = iter(range(10_000_000))
        monkeypatch.setattr(time, "time", lambda: 1.8e9 + next(clock))
        assert everything(theirs) == mine


@pytest.mark.postgres
def test_a_store_with_candidates_moves_to_a_server_and_back(postgres_store, tmp_path):
    with opened(tmp_path / "a.db", holdout=0.3) as memory:
        measured(memory, {}, 20)
        memory.recall(TASK, candidates=[{"id": "new\x1b[31m", "text": "x"}], keep_text=True)
    url = postgres_store()
    transfer.migrate(tmp_path / "a.db", url)
    with opened(url) as memory:
        assert memory.recall(TASK, candidates=[GUIDE])[0].n > 0 and memory.recall(TASK).ids == []
        memory.archive("guide", "old")
        memory.restore(["guide"], "new")
        assert memory.health()["items"] == 0 and memory.recall(TASK, candidates=[GUIDE])
        sound(memory)


def test_an_export_holds_them(tmp_path):
    with opened(tmp_path / "a.db") as memory:
        measured(memory, {}, 20)
        moved = transfer.export_jsonl(memory.bank.store, tmp_path / "a.jsonl")
    transfer.import_jsonl(tmp_path / "b.db", tmp_path / "a.jsonl")
    with closing(open_store(tmp_path / "b.db")) as store:
        assert transfer.digest(store) == moved.digest
    with opened(tmp_path / "b.db") as memory:
        assert memory.recall(TASK, candidates=[GUIDE])[0].n > 0
        sound(memory)


KILLED = """
import sys
from evolvent.memory.memory import Memory
memory = Memory(sys.argv[1], embedder="hash:16", holdout=0.3)
for number in range(10**6):
    docs = [{"id": f"doc {(number + i) % 40}", "text": f"text {number // 100}", "score": i / 5} for i in range(5)]
    recall = memory.recall("a task", candidates=docs, keep_text=number % 2 == 0)
    print(recall.id, *recall.ids, sep=",", flush=True)
    memory.settle(recall, number % 3 == 0)
    print("settled", recall.id, flush=True)
"""


def test_what_was_handed_out_survives_a_kill(tmp_path):
    path, handed, settled = tmp_path / "a.db", {}, set()
    for wait in (20, 45, 90):
        running = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
        assert running.stdout is not None
        lines = [running.stdout.readline() for _ in range(wait)]
        running.send_signal(signal.SIGKILL)
        lines += running.stdout.readlines()
        running.wait()
        running.stdout.close()
        for line in (line.strip() for line in lines if line.endswith("\n")):
            if line.startswith("settled"):
                settled.add(line.split()[1])
            else:
                number, *ids = line.split(",")
                handed[number] = ids
    with opened(path) as memory:
        receipts = {one.id: one for one in memory.receipts()}
        assert (
            len(handed) > 50
            and handed.keys() <= receipts.keys()
            and settled <= {id_ for id_, one in receipts.items() if one.settled}
        )
        assert all(list(receipts[id_].shown) == ids for id_, ids in handed.items())
        sound(memory)


def test_an_id_is_data_on_the_terminal_and_on_a_page(tmp_path, capsys, monkeypatch):
    from evolvent.cli import main

    pinned(monkeypatch)
    nasty = "\x1b[31m<script>alert(1)</script> [bold]x[/bold]"
    path, page = tmp_path / "a.db", tmp_path / "lift.html"
    with opened(path, policy=preset("memlift", omit=0.4, omit_n0=1000.0, hide=0.0), holdout=0.3) as memory:
        rng = random.Random(0)
        with memory.transaction():
            for _ in range(500):
                recall = memory.recall(TASK, candidates=[FAQ, {"id": nasty, "text": "x", "score": 0.6}])
                memory.settle(recall, rng.random() < (0.9 if nasty in recall.ids else 0.1))
    main(["memory", "lift", str(path), "--by", "item", "--html", str(page)])
    main(["memory", "explain", str(path), nasty])
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\\x1b[31m<script>" in said and "helps" in said and "[bold]x[/bold]" in said
    assert "<script>alert(1)" not in page.read_text() and "&lt;script&gt;alert(1)" in page.read_text()
