"""Mending by hand: what each act changes, what it leaves and what is refused."""

from datetime import datetime

import pytest

from evolvent.cli.memory.audit import audit
from evolvent.core.errors import BadInput
from evolvent.memory.events import Event, Value, apply, weighed
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.text import content_hash

TASK = "red-eye flights from Newark"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def memory(request, tmp_path):
    path = tmp_path / "a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")()
    chosen = preset("memlift", gate=-1.0, pool=9, k=3, hide=0.0)
    with Memory(path, policy=chosen, embedder="hash:32", sync="normal") as opened:
        yield opened


def family(memory):
    """m1 → m2 → m3, and m4 that only merged with what m1 led to."""
    root = memory.remember(TASK, "root")
    recall = memory.recall(TASK, k=1)
    child = memory.remember(TASK + " again", "child", parents=recall, polarity="success")
    grandchild = memory.remember(TASK + " once more", "grandchild", parents=[child], polarity="success")
    other = memory.remember("windy hours at JFK", "other")
    assert memory.remember("windy hours at JFK", "other", parents=[root]) == other
    return root, child, grandchild, other


def statuses(memory):
    return {item.id: item.status for item in memory.items(None)}


def test_quarantine_takes_what_came_of_a_memory_too(memory):
    root, child, grandchild, other = family(memory)
    rehearsed = memory.quarantine([root], "injected", dry_run=True)
    assert rehearsed.act is None and set(statuses(memory).values()) == {"active"}
    done = memory.quarantine([root], "injected")
    assert done.statuses == rehearsed.statuses and [s.id for s in done.statuses] == [root, child, grandchild]
    assert statuses(memory)[other] == "active"  # it had said the same before
    assert memory.recall(TASK, k=9).ids == [other]
    with Memory(memory.path, policy=memory.policy) as elsewhere:
        assert elsewhere.recall(TASK, k=9).ids == [other]
        elsewhere.restore([change.id for change in done.statuses], "looked at")
    assert set(memory.recall(TASK, k=9).ids) == {root, child, grandchild, other}
    assert memory.quarantine([child], "x", descendants=False).statuses[0].id == child
    assert memory.quarantine([child], "x", descendants=False).nothing
    rehearsed = memory.explain(child).to_dict()["audit"]
    assert [line["verb"] for line in rehearsed] == ["quarantine", "restore", "quarantine"] and rehearsed[0][
        "reason"
    ] == "injected"


def test_a_rollback_keeps_a_later_quarantine_and_takes_back_archive_and_supersede(memory):
    root, child, grandchild, other = family(memory)
    r = memory.recall(TASK, k=2)
    memory.quarantine([other], "bad", descendants=False)
    memory.archive(child, "old")
    newer = memory.remember(TASK, "better", supersedes=grandchild)
    before = memory.recall(TASK, k=2)
    done = memory.rollback(r, "a bad day")
    assert done.kept == (other,)
    assert statuses(memory) == {
        root: "active",
        child: "active",
        grandchild: "active",
        other: "quarantined",
        newer: "archived",
    }
    assert memory.get(grandchild).superseded_by is None
    memory.rollback(before, "the day was not that bad")  # forward again
    assert statuses(memory)[grandchild] == "superseded" and memory.get(grandchild).superseded_by == newer


def test_voided_outcomes_stay_history_and_new_ones_count(memory):
    root = memory.remember(TASK, "root")
    first = memory.recall(TASK)
    memory.settle(first, 0.0)
    low = memory.get(root).value
    second = memory.recall(TASK)
    changed = memory.settle(second, 1.0)
    third = memory.recall(TASK)
    done = memory.rollback(second, "a wrong judge")
    assert done.events == 1 and [(v.id, v.was, v.now) for v in done.values] == [(root, changed[0].q_after, low)]
    assert memory.get(root).n == 1 and memory.settle(second, 1.0) == changed and memory.get(root).value == low
    assert [e["counts"] for e in memory.explain(root).to_dict()["history"]] == [False, True]
    memory.settle(third, 0.0)
    assert memory.get(root).n == 2 and memory.get(root).value < low
    forward = memory.rollback(third, "the judge was right, what came after it was wrong")
    assert forward.events == 0 and memory.get(root).n == 2  # one outcome counts again, the last one no longer
    assert memory.values_as_of(third) == {root: changed[0].q_after} == {root: memory.get(root).value}


def memory_acts(memory):
    return [act["id"] for act in audit(memory)["acts"]]


def test_the_log_tells_each_act_once(memory):
    root, *_ = family(memory)
    quarantined = memory.quarantine([root], "injected")
    archived = memory.archive(root, "old")
    audited = audit(memory)["acts"]
    assert [(act["id"], act["verb"], act["memories"], act["reason"]) for act in audited] == [
        (archived.act, "archive", 1, "old"),
        (quarantined.act, "quarantine", 3, "injected"),
    ]


@pytest.mark.parametrize("to", ["r99", "yesterday", "m1", "", float("nan"), float("inf"), None, True, "r"])
def test_no_moment(memory, to):
    with pytest.raises(BadInput):
        memory.rollback(to, "x")


def test_times_name_moments_too(memory):
    a = memory.remember(TASK, "a")
    at = memory.get(a).created_at
    assert memory.rollback(at + 3600, "x").nothing
    assert [s.id for s in memory.rollback(at - 3600, "x", dry_run=True).statuses] == [a]
    for form in (
        at - 3600,
        datetime.fromtimestamp(at - 3600),
        datetime.fromtimestamp(at - 3600).isoformat(),
        "2001-01-01",
    ):
        assert memory.rollback(form, "x", dry_run=True).statuses[0].now == "archived"


def test_an_act_that_fails_or_is_rehearsed_leaves_nothing(memory):
    root, *_ = family(memory)
    before = statuses(memory)
    with pytest.raises(ZeroDivisionError), memory.transaction():
        memory.quarantine([root], "x")
        assert root not in memory.recall(TASK, k=9).ids
        raise ZeroDivisionError
    assert statuses(memory) == before and root in memory.recall(TASK, k=9).ids
    with memory.transaction():
        memory.quarantine([root], "x", dry_run=True)
        assert root in memory.recall(TASK, k=9).ids
    assert statuses(memory) == before and memory_acts(memory) == []
    for ids in ([], "m1", ["m99"], ["r1"]):
        with pytest.raises(BadInput):
            memory.quarantine(ids, "x")
    with pytest.raises(BadInput):
        memory.quarantine([root], " ")


def test_scopes_do_not_mend_each_other(tmp_path):
    options = {"policy": preset("memrl", gate=-1.0), "embedder": "hash:32"}
    with Memory(tmp_path / "a.db", scope="a", **options) as a, Memory(tmp_path / "a.db", scope="b", **options) as b:
        ids = []
        for memory in (a, b):
            memory.remember(TASK, "x")
            r = memory.recall(TASK)
            memory.settle(r, 1.0)
            ids.append(r.id)
        assert a.rollback(ids[0], "x").events == 1
        assert b.items()[0].n == 1 and a.items()[0].n == 0 and b.rebuild_values() == 0
        with pytest.raises(BadInput):
            a.rollback(ids[1], "x")


def test_compact_takes_out_what_nothing_needs(memory):
    for i in range(9):
        memory.remember(f"{TASK} {i}", f"body {i}")
    for i in range(6):
        r = memory.recall(f"{TASK} {i}")
        memory.settle(r, 1.0)
    rows = "SELECT * FROM recall_item ORDER BY recall_id, memory_id"
    before, values = memory.bank.store.rows(rows), [item.value for item in memory.items()]
    rehearsed = memory.compact(keep=2, dry_run=True)
    assert rehearsed.removed["recall_item"] == 4 * 6 and memory.bank.store.rows(rows) == before
    done = memory.compact(keep=2)
    assert done.removed == rehearsed.removed and len(memory.bank.store.rows(rows)) == len(before) - 24
    assert verify(memory) == [] and memory.rebuild_values() == 0 and [i.value for i in memory.items()] == values
    assert len(memory.explain("r6").to_dict()["pool"]) == 9 and len(memory.explain("r1").to_dict()["pool"]) == 3
    assert memory.compact(keep=2).nothing
    for keep in (-1, 1.5, True):
        with pytest.raises(BadInput):
            memory.compact(keep=keep)


def test_texts_and_vectors_that_nothing_refers_to_are_removed(memory):
    memory.remember(TASK, "kept")
    memory.remember(TASK, "kept", merge=0.0)
    text = "orphan \x85\u2028 line"
    with memory.bank.store.write() as db:
        memory.bank.put_embedding(db, content_hash(text), text, memory.bank.vectors({"x": TASK})["x"])
    tables = ("SELECT * FROM text_blob ORDER BY hash", "SELECT * FROM embedding ORDER BY emb_id")
    before = [memory.bank.store.rows(sql) for sql in tables]
    done = memory.compact()
    assert done.removed == {"recall_item": 0, "embedding": 1, "text_blob": 1}
    assert [len(memory.bank.store.rows(sql)) for sql in tables] == [len(rows) - 1 for rows in before]
    assert memory.compact().nothing and verify(memory) == []


def test_an_event_computed_from_another_value_takes_its_step_from_there():
    event = Event("m", "o", "s", "shown", 0.3, 1.0, 1.0, 1.0, 0, 1.0, 1.0, q_before=0.5, q_after=0.65)
    assert apply(Value(0.5), event, (0.0, 1.0)).q == 0.65
    assert apply(Value(0.2), event, (0.0, 1.0)).q == pytest.approx(0.2 + 0.3 * (1.0 - 0.2))


def test_what_is_no_step_towards_its_target_adds_its_difference_within_bounds():
    event = Event("m", "o", "s", "ancestor", 0.0, 1.0, 1.0, 1.0, 0, 1.0, 1.0, q_before=0.5, q_after=0.65)
    assert apply(Value(0.5), event, (0.0, 1.0)).q == 0.65
    assert apply(Value(0.2), event, (0.0, 1.0)).q == pytest.approx(0.35)
    assert apply(Value(0.95), event, (0.0, 1.0)).q == 1.0
    assert apply(Value(1.5), event, (0.0, 1.0)).q == 1.5  # further outside is not allowed, what was outside stays


def test_an_outcome_of_some_weight_gives_so_much_of_the_step_and_of_the_evidence():
    step = Event("m", "o", "s", "shown", 0.3, 0.5, 2.0, 1.0, 0, 1.0, 1.0, q_before=0.5, q_after=0.65)
    assert weighed(step, 1.0) is step
    assert weighed(step, 0.5)[4:7] == (0.15, 0.25, 1.0) and weighed(step, 0.5).q_after == 0.5 + 0.15 * (1.0 - 0.5)
    jump = step._replace(rule="ancestor", alpha=0.0)
    assert weighed(jump, 0.5).q_after == pytest.approx(0.575) and weighed(jump, 0.5).alpha == 0.0
