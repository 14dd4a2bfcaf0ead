"""Holding out: what chance keeps back, what stays of it, and that it teaches nothing."""

import random
import signal
import subprocess
import sys
from collections import Counter

import pytest

from evolvent.core.errors import BadInput
from evolvent.memory import effects, holdout
from evolvent.memory.maintenance import transfer
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.scopes import Scopes

TASK = "how to do it"


def opened(path=":memory:", share=0.5, **options):
    memory = Memory(path, embedder="hash:16", holdout=share, **options)
    if not memory.count():
        memory.remember(TASK, "like this")
        memory.remember(f"{TASK} now", "like that")
    return memory


def one_of(memory, held_out, **options):
    """A recall that chance held out, or did not."""
    while (recall := memory.recall(TASK, **options)).held_out != held_out:
        pass
    return recall


def learned(memory):
    """Everything that outcomes change: values and their sums, sources, events."""
    tables = ("value", "source_value", "value_event")
    return [memory.bank.store.rows(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in tables]


def test_what_is_held_out_stands_in_the_receipt_and_nowhere_else():
    memory = opened(policy=preset("memlift", gate=-1.0, omit=0.4, hide=0.0))
    shown, held = one_of(memory, False), one_of(memory, True)
    assert (len(held), bool(held), held.items, held.omitted, held.ids) == (0, False, (), (), [])
    assert shown.handed == held.handed == 0.5 and not shown.held_out
    pool = memory.explain(held).to_dict()["pool"]
    assert [c["id"] for c in pool if c["selected"]] and not any(c["shown"] or c["omitted"] for c in pool)
    assert "held out" in str(memory.explain(held))
    with pytest.raises(BadInput) as error:
        memory.shown(held, [pool[0]["id"]])
    assert error.value.code == "not_handed_out"
    memory.shown(held)
    memory.shown(held, [])
    assert memory.remember("another", "thing", parents=held) and not memory.get("m3").parents
    assert verify(memory) == []


def test_an_outcome_of_what_was_held_out_changes_no_value_to_the_last_bit():
    memory = opened(policy=preset("memlift", gate=-1.0, omit=0.4))
    for _ in range(30):
        memory.settle(one_of(memory, False), random.Random(1).random())
    before = learned(memory)
    for reward, weight in ((1.0, 1.0), (0.0, 0.5)):
        held = one_of(memory, True)
        assert memory.settle(held, reward, weight=weight) == []
        memory.settle(held, reward, weight=weight)  # a retry
        memory.revise(held, 1.0 - reward, "otherwise")
    memory.settle(one_of(memory, True), None, parts=[("like this", 1.0), ("or that", 0.0)])
    assert learned(memory) == before and memory.rebuild_values() == 0 and verify(memory) == []


def test_what_never_is_held_out():
    memory = opened()
    for _ in range(20):
        assert memory.recall(TASK, frozen=True).items and memory.recall(TASK, is_test=True).items
        assert memory.search(TASK) and not memory.recall(TASK, k=0).held_out
    assert memory.bank.store.rows("SELECT count(*) FROM exposure") == [(0,)]
    with opened(share=0.0) as other:
        assert all(r.handed == 1.0 for r in other.recall_many([TASK] * 20))
        assert other.bank.store.rows("SELECT count(*) FROM exposure") == [(0,)]


@pytest.mark.parametrize("share", [0.51, -0.1, "half", float("nan"), None])
def test_rates_that_are_refused(share):
    with pytest.raises(BadInput, match="share of attempts"):
        Memory(embedder="hash:16", holdout=share)


def test_an_attempt_is_drawn_once_and_its_retries_agree(tmp_path):
    path = tmp_path / "m.db"
    with opened(path) as memory:
        drawn = [memory.recall(TASK, attempt=f"job {i}").held_out for i in range(40)]
        assert 5 < sum(drawn) < 35
        again = memory.recall_many([TASK] * 40, attempts=[f"job {i}" for i in range(40)], stage="refine")
        assert [r.held_out for r in again] == drawn
    with opened(path, share=0.0) as memory:  # the first recall of an attempt decides, whatever the rate is now
        assert [memory.recall(TASK, attempt=f"job {i}").held_out for i in range(40)] == drawn
        new = memory.recall(TASK, attempt="new")
        assert not new.held_out and new.handed == 1.0
    with opened(path, share=0.5) as memory:
        assert not any(memory.recall(TASK, attempt="new").held_out for _ in range(20))
        memory.settle(memory.recall(TASK), 1.0)  # else so many recalls without an outcome say that nobody tells
        many = memory.recall_many([TASK] * 30)
        assert len({r.held_out for r in many}) == 2
        for number in (r.id[1:] for r in many):  # one row each
            assert memory.bank.store.rows("SELECT count(*) FROM exposure WHERE recall_id = ?", (int(number),)) == [(1,)]
        with pytest.raises(BadInput, match="attempts"):
            memory.recall_many([TASK] * 3, attempts=["a"])


def test_seeds_repeat_no_draw_and_two_stores_differ():
    with opened(seed=3) as one, opened(seed=3) as other:
        drawn = [[m.recall(TASK, seed=7).held_out for _ in range(60)] for m in (one, other)]
    assert drawn[0] != drawn[1] and all(10 < sum(each) < 50 for each in drawn)


def test_scopes_of_a_recall_draw_once(tmp_path):
    one, two = opened(tmp_path / "m.db", scope="a"), opened(tmp_path / "m.db", scope="b", share=0.1)
    empty = Memory(tmp_path / "m.db", embedder="hash:16", scope="c", holdout=0.5)
    both = Scopes(empty, one, two)
    seen = Counter()
    for i in range(40):
        recall = both.recall(TASK, attempt=f"job {i}" if i % 2 else None)
        held = {r.held_out for name, r in recall.receipts.items() if name != "c"}
        assert len(held) == 1 and bool(recall.items) != held.pop()
        assert [r.handed for r in recall.receipts.values()] == [1.0, 0.5, 0.5]
        seen[bool(recall.items)] += 1
        both.settle(recall, 1.0)
    assert min(seen.values()) > 5 and verify(one) == []


def test_the_rate_falls_when_it_is_known_and_where_nobody_tells():
    memory = opened(share=True)
    recalls = [memory.recall(TASK) for _ in range(99)]
    assert {r.handed for r in recalls} == {0.8}
    memory.recall(TASK)
    assert memory.recall(TASK).handed == 1.0, "a hundred recalls without an outcome"
    for r in recalls:
        memory.settle(r, float(bool(r)))
    for _ in range(100):  # chance may have held out too few for a verdict
        r = memory.recall(TASK)
        memory.settle(r, float(bool(r)))
    assert memory.recall(TASK).handed == 0.98
    assert memory.lift().verdict == "helps"
    with opened(share=0.5) as constant:
        for r in constant.recall_many([TASK] * 80):
            constant.settle(r, float(bool(r)))
        assert constant.recall(TASK).handed == 0.5


def told(memory):
    """The outcomes that count, by receipt."""
    return {one.number: one.told.outcome for one in effects.read(memory.bank, "success").asked if one.told is not None}


@pytest.mark.parametrize("policy", ["memlift", "rag"])
def test_a_rollback_takes_outcomes_along_that_have_no_value_event(policy):
    memory = opened(policy=policy)
    early = one_of(memory, True)
    memory.settle(early, 1.0)
    point = memory.recall(TASK, frozen=True)
    late = [one_of(memory, held) for held in (True, False, True)]
    for r in late:
        memory.settle(r, 0.0)
    memory.revise(early, 0.25, "not so good")
    every = told(memory)
    assert every == {int(early.id[1:]): 0.25} | {int(r.id[1:]): 0.0 for r in late}
    memory.rollback(point, "a bad hour")
    assert told(memory) == {int(early.id[1:]): 1.0}
    assert memory.rollback(point, "once more").act is None
    memory.settle(one_of(memory, True), 0.5)
    assert list(told(memory).values()) == [1.0, 0.5]
    (before,) = memory.bank.store.rows("SELECT created_at FROM audit WHERE verb = 'rollback' ORDER BY seq LIMIT 1")
    memory.rollback(before[0] - 1e-6, "take it back")
    assert told(memory) == every and verify(memory) == []


def test_only_outcomes_without_events_are_rolled_back_too():
    memory = opened()
    point = memory.recall(TASK, frozen=True)
    memory.settle(one_of(memory, True), 1.0)
    assert memory.rollback(point, "a bad hour", dry_run=True).act is None and len(told(memory)) == 1
    assert memory.rollback(point, "a bad hour").act is not None and not told(memory)


def test_erasing_takes_the_names_of_attempts_and_tasks():
    memory = opened()
    settled, open_ = memory.recall(TASK, attempt="job", task_id="Ada"), memory.recall(TASK, attempt="job 2")
    memory.settle(settled, 1.0)
    hashes = memory.bank.store.rows("SELECT attempt, task FROM exposure ORDER BY recall_id")[0]
    memory.erase([settled, open_], "a right")
    rows = memory.bank.store.rows("SELECT attempt, task FROM exposure")
    assert len(rows) == 1 and not set(rows[0]) & set(hashes)
    assert memory.lift().to_dict()["tasks"] == 1 and verify(memory) == []
    memory.drop_scope("default", "all of it")


def test_erasing_the_only_memory_of_a_recall_takes_nothing_from_the_lift():
    memory = opened()
    for _ in range(40):
        memory.settle(memory.recall(TASK), 1.0)
    before = memory.lift().to_dict()
    memory.erase([item.id for item in memory.items()], "a right")
    after = memory.lift().to_dict()
    assert [(after[arm]["n"], after[arm]["mean"]) for arm in ("with", "without")] == [
        (before[arm]["n"], before[arm]["mean"]) for arm in ("with", "without")
    ]
    assert after["with"]["n"] + after["without"]["n"] == 40 and verify(memory) == []


def test_a_process_that_dies_between_recall_and_outcome_loses_nothing(tmp_path):
    path = tmp_path / "m.db"
    opened(path).close()
    code = (
        "import os, signal, sys\nfrom evolvent.memory.memory import Memory\n"
        "m = Memory(sys.argv[1], embedder='hash:16', holdout=.5)\n"
        "for i in range(8): print(m.recall('how to do it', attempt=f'job {i}').held_out, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    said = [line == "True" for line in done.stdout.split()]
    with opened(path) as memory:
        assert [memory.recall(TASK, attempt=f"job {i}").held_out for i in range(8)] == said
        for receipt in memory.open_receipts():
            memory.settle(receipt, 1.0)
        d = memory.lift().to_dict()
        assert (d["with"]["n"], d["without"]["n"]) == (said.count(False), said.count(True)) and verify(memory) == []


def lived(path):
    """A life with held-out attempts, in a store whose salt is given."""
    with Memory(path, embedder="hash:16") as memory:
        memory.meta_set("made", True)
        memory.bank.store.meta_set(holdout._SALT, "00" * 16)
    with opened(path, share=0.3, policy=preset("memlift", gate=-1.0, omit=0.3, hide=0.0)) as memory:
        for i in range(60):
            r = memory.recall(TASK, attempt=f"job {i // 2}", stage=("solve", "refine")[i % 2])
            memory.settle(r, float(i % 3 > 0), weight=(1.0, 0.5)[i % 2])
        memory.revise("r2", 0.0, "otherwise")
        lifts = [memory.lift(by).to_dict() for by in (None, "item", "source", "kind", "stage", "scope", "week")]
        assert lifts[0]["without"]["n"] > 3
        for one in lifts:
            one.pop("told")  # it goes by how long ago that was
        return lifts, memory.recall(TASK, attempt="job 3").held_out


def test_export_and_import_keep_draws_and_what_came_of_them(tmp_path):
    lifts, held = lived(tmp_path / "a.db")
    with Memory(tmp_path / "a.db") as memory:
        transfer.export_jsonl(memory.bank.store, tmp_path / "a.jsonl")
    transfer.import_jsonl(tmp_path / "b.db", tmp_path / "a.jsonl")
    with Memory(tmp_path / "b.db", holdout=0.3) as memory:
        assert memory.lift("item").to_dict()["items"] == lifts[1]["items"]
        assert memory.recall(TASK, attempt="job 3").held_out == held


@pytest.mark.postgres
def test_both_engines_draw_and_measure_alike(tmp_path, postgres_store):
    assert lived(tmp_path / "a.db") == lived(postgres_store())


# ---------------------------------------------------------------------------------------------------- what is measured
def planted(share, effect, n, seed, **options):
    """A store in which success depends on what was handed out: ``effect(ids)`` is its probability."""
    memory, rng = opened(share=share, **options), random.Random(seed)
    memory.bank.store.meta_set(holdout._SALT, "00" * 16)  # the draws are the same each time
    for _ in range(n):
        r = memory.recall(TASK)
        memory.settle(r, float(rng.random() < effect(r.ids)))
    return memory


def test_a_companion_gets_nothing_of_its_neighbours_merit():
    """The first adds .6, the second beside it nothing; held-out attempts miss both."""
    policy = preset("memlift", gate=-1.0, hide=0.0, omit=0.4, omit_n0=1e9)
    memory = planted(0.2, lambda ids: 0.2 + 0.6 * ("m1" in ids), 300, 0, policy=policy)
    beside = {row["id"]: row for row in memory.lift("item").to_dict()["items"]}["m2"]
    assert memory.lift().verdict == "helps" and beside["together"]["verdict"] == "helps"
    assert beside["without"]["n"] > 30 and beside["named"] is None and abs(beside["lift"]) < 0.2, beside


def test_outcomes_told_late_give_the_same_figure():
    one, other = opened(), opened()
    for memory in (one, other):
        memory.bank.store.meta_set(holdout._SALT, "11" * 16)
    rewards = [random.Random(i).random() for i in range(50)]
    for reward in rewards:
        one.settle(one.recall(TASK), reward)
    for r, reward in reversed(list(zip(other.recall_many([TASK] * 50), rewards, strict=True))):
        other.settle(r, reward)
    assert [one.lift().to_dict()[name] for name in ("lift", "lo", "hi", "v")] == [
        other.lift().to_dict()[name] for name in ("lift", "lo", "hi", "v")
    ]


def test_an_attempt_of_several_recalls_counts_once_and_other_receipts_never():
    memory = opened()
    for i in range(10):
        for stage in ("solve", "refine"):
            memory.settle(memory.recall(TASK, attempt=f"job {i}", stage=stage), float(stage == "refine"))
    memory.settle(memory.recall(TASK, frozen=True), 0.0)
    memory.recall(TASK, is_test=True)
    d = memory.lift("stage").to_dict()
    assert d["with"]["n"] + d["without"]["n"] == 10 and d["not_counted"]["frozen"] == 2
    assert d["with"]["mean"] == d["without"]["mean"] == 1.0, "the outcome that was told last"
    assert [g["with"]["n"] + g["without"]["n"] for g in d["groups"]] == [10, 10]


def test_what_is_said_when_nothing_can_be():
    with opened(share=0.0) as memory:
        assert "no recall found anything" in str(memory.lift())
        memory.recall(TASK)
        assert "nothing was ever withheld" in str(memory.lift())
        assert "every selected note was always shown" in str(memory.lift("item"))
        assert memory.lift().to_dict()["lift"] is None
    memory = opened()
    memory.recall_many([TASK] * 30)
    assert str(memory.lift()) == "No outcome “success” was told of 30 recalls: settle them."
    memory.settle(one_of(memory, True), 1.0)
    assert "Too early" in str(memory.lift()) and memory.lift().verdict == "too early"
    for bad in ({"by": "colour"}, {"alpha": 0.0}, {"margin": 2.0}, {"since": "once"}):
        with pytest.raises(BadInput):
            memory.lift(**bad)


def test_telling_only_of_one_side_is_noticed():
    memory = opened()
    for r in memory.recall_many([TASK] * 300):
        if r or int(r.id[1:]) % 4 == 0:
            memory.settle(r, 1.0)
    d = memory.lift().to_dict()
    assert d["told"]["differs"] and d["told"]["untold_as_failed"] > 0.5
    assert "Outcomes are told more often with the memory" in str(memory.lift())


def test_receipts_of_old_stores_whose_seed_repeats_are_left_out():
    policy = preset("memlift", gate=-1.0, hide=0.0, omit=0.4)
    memory = planted(0.0, lambda ids: 0.5, 60, 0, policy=policy)
    rows = sum(r["with"]["n"] + r["without"]["n"] for r in memory.lift("item").to_dict()["items"])
    with memory.bank.store.write() as db:
        db.execute("UPDATE recall SET rng_seed = 5 WHERE seq <= 30")
    d = memory.lift("item").to_dict()
    assert d["not_counted"]["repeated_seed"] == 30 and "30 receipts drew from a repeated seed" in d["words"]
    assert 0 < sum(r["with"]["n"] + r["without"]["n"] for r in d["items"]) < rows


def test_an_open_question_with_less_held_out_than_before_is_said(tmp_path):
    for share in (0.5, 0.02):
        with Memory(tmp_path / "a.db", embedder="hash", holdout=share) as memory:
            memory.remember(TASK, "answer")
            for number in range(40):
                memory.settle(memory.recall(TASK), float(number % 2))
            said = str(memory.lift())
    assert "Held out now: 2% of attempts, 50% before; Memory(holdout=0.5)" in said
