"""What an act of mending costs: what it changes, not what the store holds; and what ranges of events it counts."""

from hypothesis import given
from hypothesis import strategies as st

from evolvent.memory import replay
from evolvent.memory.maintenance import act
from evolvent.memory.memory import Memory
from evolvent.memory.replay import holds, less


def ranges(bounds):
    """Sorted ranges ``(from, to]`` without overlaps."""
    ends = sorted(set(bounds))
    return list(zip(ends[::2], ends[1::2], strict=False))


def events_of(some):
    return {seq for start, end in some for seq in range(start + 1, end + 1)}


@given(st.lists(st.integers(0, 40)), st.lists(st.integers(0, 40)))
def test_less_and_holds_are_those_of_sets(a, b):
    some, others = ranges(a), ranges(b)
    assert events_of(less(some, others)) == events_of(some) - events_of(others)
    assert {seq for seq in range(45) if holds(some, seq)} == events_of(some)


def test_what_changes_no_outcome_looks_at_no_event(monkeypatch):
    """Archiving counted all events of the scope twice, each against all voids: more with every revision before."""
    asked = []
    with Memory(policy="memrl", embedder="hash:16") as memory:
        ids = [memory.remember(f"task {i}", f"body {i}") for i in range(3)]
        for i in range(3):
            memory.settle(memory.recall(f"task {i}", k=1), 1.0)
        rows = act.Act.rows
        monkeypatch.setattr(act.Act, "rows", lambda self, sql, *args: asked.append(sql) or rows(self, sql, *args))
        memory.archive(ids[0], "why")
        memory.restore([ids[0]], "why")
        memory.quarantine([ids[1]], "why", dry_run=True)
    assert not [sql for sql in asked if "value_event" in sql], asked


def test_an_act_tells_how_many_events_stopped_and_began_to_count():
    with Memory(policy="memrl", embedder="hash:16") as memory:
        memory.remember("task", "body")
        receipts = [memory.recall("task", k=1) for _ in range(6)]
        for r in receipts:
            memory.settle(r, 1.0)
        assert memory.revise(receipts[1], 0.0, "wrong").events == 0, "one gives way to one"
        assert memory.revise(receipts[2], None, "says nothing", valid=False).events == 1
        late = memory.recall("task", k=1)
        memory.settle(late, 1.0)
        before = memory.rollback(late, "as if it had not come", dry_run=True)
        assert before.events == 1
        assert memory.rollback(receipts[3], "back").events == 6, "five that counted of the first, and the last"
        assert memory.rebuild_values() == 0


def test_a_revision_reads_the_events_of_what_was_shown_and_of_its_source(monkeypatch):
    """It replayed the whole scope twice: with twice the outcomes of other memories, it took twice as long."""
    read = []
    in_order = replay._in_order
    monkeypatch.setattr(replay, "_in_order", lambda *args: (read.append(row) or row for row in in_order(*args)))
    with Memory(policy="memlift", embedder="hash:16") as memory:
        memory.remember("a question of its own", "body", source="rare")
        mine = [memory.recall("a question of its own", k=1) for _ in range(3)]
        for i in range(20):
            memory.remember(f"task {i}", f"body {i}", source="common")
            memory.settle(memory.recall(f"task {i}", k=1), float(i % 2))
        memory.settle_many([{"recalled": r, "reward": 1.0} for r in mine])
        mended = memory.revise(mine[1], 0.0, "wrong")
        assert [move.id for move in mended.values] == ["m1"] and mended.events == 0
        # before the revised place, all four of the memory now, and the same for the sum of its source
        assert len(read) <= 3 * 4, len(read)
        assert memory.rebuild_values() == 0
