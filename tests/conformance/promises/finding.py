"""Promises of a memory: what is listed, counted and found, and every trace of a text taken out."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from unittest.mock import patch

import numpy as np

from evolvent.memory.items import Receipt
from evolvent.memory.maintenance import transfer
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.scopes import Scopes

from .credit import make, refused

Factory = Callable[..., Memory]


def _said(memory: Memory) -> str:
    """An export: everything that the store holds, as text."""
    out = io.BytesIO()
    transfer.export_jsonl(memory.bank.store, out)
    return out.getvalue().decode()


# ------------------------------------------------------------------------------------------------ listing
def items_come_in_an_order_of_a_kind_and_counted(factory: Factory) -> None:
    """In every order pages join to the whole; kinds and filters leave what they say, and are counted the same."""
    with make(factory, preset("memrl", gate=-1.0)) as memory:
        for i in range(9):
            memory.remember(
                f"task {i}", f"lesson {i}", kind=("a", "b", "c")[i % 3], metadata={"i": i % 2} if i else None
            )
            memory.settle(memory.recall(f"task {i}", k=1 + i % 4), float(i % 2))
        memory.remember("task 1", "lesson 0", kind="a", merge=0.0)  # one more key of another
        memory.archive("m2", "why")
        keys: dict[str, Callable[[Any], Any]] = {
            "oldest": lambda x: int(x.id[1:]),
            "newest": lambda x: -int(x.id[1:]),
            "created": lambda x: (x.created_at, int(x.id[1:])),
            "value": lambda x: (-x.value, int(x.id[1:])),
            "outcomes": lambda x: (-x.n, int(x.id[1:])),
        }
        for status in ("active", None):
            for kinds in (None, ["a"], ["b", "c"], []):
                for asked in (None, {"i": 1}, {"i": {"!=": 1}}):
                    some: dict[str, Any] = {"kinds": kinds, "filter": asked}
                    every = memory.items(status, **some)
                    assert memory.count(status, **some) == len(every), (status, some)
                    assert all(kinds is None or item.kind in kinds for item in every)
                    for order, key in keys.items():
                        pages = list[Any]()
                        more: dict[str, Any] = {**some, "order": order, "limit": 2}
                        while page := memory.items(status, after=pages[-1].id if pages else None, **more):
                            pages += page
                        assert pages == sorted(every, key=key), (status, some, order)
        assert memory.count() == 8 and memory.count(None) == 9 and memory.count("archived") == 1
        wrong: list[dict[str, Any]] = [{"order": "best"}, {"order": 1}, {"kinds": "a"}, {"kinds": [1]}]
        for bad in wrong:
            with refused(f"items({bad})"):
                memory.items(**bad)


def a_memory_may_have_been_made_earlier(factory: Factory) -> None:
    """``created_at`` is what a list tells; a rollback goes by when it was written, and later times are refused."""
    with make(factory) as memory:
        first = memory.remember("task one", "one")
        with patch("time.time", lambda at=time.time() + 100: at):
            old = memory.remember("task two", "two", created_at="2020-05-17T12:00:00+00:00")
            older = memory.remember("task three", "three", created_at=datetime(2019, 1, 1, tzinfo=UTC))
            same = memory.remember("task two", "two", created_at=1.0e9)
            at = {item.id: item.created_at for item in memory.items(order="created")}
            assert list(at) == [older, old, first] and same == old
            assert at[old] == 1589716800.0 and at[older] == 1546300800.0
            day, noon = datetime(2020, 5, 17), datetime(2020, 5, 17, 12)  # without a zone: local
            given: list[tuple[Any, float]] = [(0, 0.0), (1, 1.0), (np.int64(7), 7.0), (np.float32(0.5), 0.5)]
            given += [(day.date(), day.timestamp()), (day.date().isoformat(), day.timestamp())]
            given += [(noon, noon.timestamp()), (noon.replace(tzinfo=timezone(timedelta(hours=9))), 1589684400.0)]
            for n, (when, seconds) in enumerate(given):
                assert memory.get(memory.remember(f"task {n}", f"at {n}", created_at=when)).created_at == seconds
            bad: list[Any] = [time.time() + 9, "soon", True, float("nan"), datetime.now() + timedelta(days=1)]
            bad += [timedelta(days=1), b"2020", 1.7e12, datetime.min]
            for when in bad:
                with refused(f"created_at={when}"):
                    memory.remember("task four", "four", created_at=when)
            memory.rollback(time.time() - 50, "back to before the import")
        assert [item.id for item in memory.items()] == [first] and verify(memory) == []
        for when in (datetime(2099, 1, 2).date(), "2099-01-02", datetime(2099, 1, 2)):
            id_ = memory.remember(f"until {when!r}", "five", merge=None, expires=when)
            assert memory.get(id_).expires_at == datetime(2099, 1, 2).timestamp()
        with refused("expires"):
            memory.remember("task five", "five", expires="soon")


def receipts_are_listed_until_their_outcome_comes(factory: Factory) -> None:
    """By stage, time and what they showed; an invalid outcome leaves one open; each can be settled late."""
    now = time.time()
    with make(factory, preset("memrl", gate=-1.0)) as memory:
        a = memory.remember("task one", "one", metadata={"user": "ann"})
        memory.remember("task two", "two", metadata={"user": "ben"})
        with patch("time.time", lambda: now - 1000.0):
            old = memory.recall("asked long ago", k=1, filter={"user": "ann"}, stage="draft")
        new = [memory.recall(f"asked {i}", k=1, filter={"user": "ben"}) for i in range(3)]
        memory.settle(new[0], True)
        memory.settle(new[1], None, valid=False)
        assert [r.id for r in memory.open_receipts()] == [old.id, new[1].id, new[2].id]
        assert [r.id for r in memory.receipts(settled=True)] == [new[0].id]
        assert [r.id for r in memory.receipts(limit=2)] == [old.id, new[0].id]
        assert [r.id for r in memory.receipts(limit=9, after=new[0].id)] == [new[1].id, new[2].id]
        (found,) = memory.open_receipts(before=now - 500.0)
        assert found == Receipt(old.id, "asked long ago", "draft", "memrl", (a,), False, now - 1000.0)
        assert memory.receipts(stage="draft") == memory.receipts(filter={"user": "ann"}) == [found]
        assert [r.id for r in memory.receipts(filter={"user": "ben"}, limit=1, settled=False)] == [new[1].id]
        assert [c.id for c in memory.settle(found, 1.0)] == [a] and memory.explain(found.id).subject == old.id
        assert len(memory.open_receipts()) == 2
        memory.revise(new[0], None, "said nothing after all", valid=False)
        assert len(memory.open_receipts()) == 2, "what was settled is revised, not settled late"
        wrong: list[dict[str, Any]] = [{"before": "soon"}, {"limit": 0}, {"after": "m1"}, {"stage": ""}, {"filter": 3}]
        for bad in wrong:
            with refused(f"receipts({bad})"):
                memory.receipts(**bad)


# ------------------------------------------------------------------------------------------------ finding
_NAME = "Ann  Lee"


def _lived(memory: Memory) -> None:
    """A life in which a name stands everywhere, and somebody else's beside it."""
    memory.remember(f"where does {_NAME} live?", "Elm Street 7")
    memory.remember("who lives there?", "it is ANN LEE, of course", metadata={"of": ["x", "Ann Lee"]}, source="Ann Lee")
    memory.remember("somebody else", "Ben lives there", kind="ann lee")
    memory.remember("and so do others", "Ben lives there", kind="ann lee", merge=0.0)  # one more key
    for i, task in enumerate(("a question of Ann Lee", "a question of Ben", "what did ann\nlee say?")):
        r = memory.recall(task, k=2)
        memory.settle(
            r, float(i % 2), action=f"I asked {('Ben', 'Ann Lee', 'nobody')[i]}", idempotency_key=f"job {task}"
        )
    memory.settle(memory.recall("parts"), None, parts=[("it was Ben", 1.0), ("and Ann Lee", 0.0)])
    memory.recall("asked by Ann Lee, and nobody told")
    memory.remember("made under it", "Ben's lesson", parents=memory.recall("Ann Lee once more"))
    memory.revise("r2", 0.0, "as Ann Lee wrote to us")
    memory.update(memory.remember("x y z", "z"), "ann lee said it better", body="zz")
    memory.meta_set("cursor of Ann Lee", 3)
    memory.meta_set("cursor", {"last": "ann lee"})
    memory.meta_set("another", "Ben")


def every_trace_is_found_and_erased(factory: Factory) -> None:
    """Wherever a name stands, in whatever case: found, and taken out in one act; what others said stays."""
    with make(factory, preset("memrl", gate=-1.0)) as memory, make(factory, scope="other") as other:
        other.remember("Ann Lee", "in another scope")
        _lived(memory)
        found = memory.find("Ann Lee")
        of_memories, of_receipts = {"key", "body", "metadata", "source", "kind"}, {"task", "action", "idempotency key"}
        assert {trace.where for trace in found} == {*of_memories, *of_receipts, "log", "kept"}
        assert all("ann lee" in " ".join(t.text.casefold().split()) for t in found)
        assert memory.find("nobody of that name") == [] and {t.id for t in memory.find("BEN")} >= {"m4", "r2", "r4"}
        rehearsed = memory.erase(found, "asked for", dry_run=True)
        assert memory.find("Ann Lee") == found
        done = memory.erase(found, "asked for")
        assert (done.emptied, done.removed, done.statuses) == (rehearsed.emptied, rehearsed.removed, rehearsed.statuses)
        assert done.emptied["jobs"] == 3 and done.emptied["kept"] == 2 and done.removed["recall"] == 1, done
        assert memory.find("Ann Lee") == [] and len(other.find("ann lee")) == 1
        rows = [line for line in _said(memory).splitlines() if "ann lee" in " ".join(line.casefold().split())]
        assert len(rows) == 1 and "text_blob" in rows[0], "a trace is left beside that of the other scope"
        assert memory.meta_get("another") == "Ben" and memory.explain("r2").to_dict()["outcomes"][1]["reward"] == 0.0
        assert verify(memory) == [] and memory.rebuild_values() == 0
        assert memory.erase(found, "again").nothing and memory.erase([], "nobody").nothing
        for bad in ([""], " ", 7):
            with refused(f"find({bad!r})"):
                memory.find(bad)  # type: ignore[arg-type]


def a_settled_receipt_loses_its_words_alone(factory: Factory) -> None:
    """Numbers, propensities and events stay: values are replayed, revised and voided as in a store that kept them."""
    lift = preset("memlift", gate=-1.0, margin=2.0, omit=0.4, omit_n0=20.0)
    for policy, did in ((lift, None), (preset("memq", gate=-1.0, q_init="middle"), "ann did it")):
        kept, erased = (make(factory, policy, name=f"{name}-{policy.name}") for name in ("kept", "erased"))
        for memory in (kept, erased):
            for i in range(6):
                memory.remember(f"task {i}", f"lesson {i}", parents=[f"m{i}"] if i else (), polarity="success")
            for i in range(12):
                r = memory.recall(f"task {i % 6} of ann", k=4)
                memory.settle(r, float(i % 2), idempotency_key=f"ann {i}", action=did)
        numbers = [_numbers(erased), erased.items()]
        done = erased.erase(erased.receipts(settled=True), "no words after a year")
        assert (done.emptied["queries"], done.emptied["jobs"], done.emptied["actions"]) == (12, 12, 12 if did else 0)
        assert not any(words in _said(erased) for words in ("of ann", "ann did", "ann 3"))
        assert [_numbers(erased), erased.items()] == numbers
        for memory in (kept, erased):
            memory.revise("r5", 1.0, "it held")
            memory.revise("r8", None, "it said nothing", valid=False)
            memory.rollback("r10", "back")
            memory.settle(memory.recall("task 1", k=4), 1.0)
            assert memory.settle("r3", 0.0, action=did) == memory.settle("r3", 0.0), "a retry is another outcome"
            assert memory.rebuild_values() == 0 and verify(memory) == []
        assert [_at(item, kept) for item in erased.items(None)] == kept.items(None)
        assert kept.values_as_of("r9") == erased.values_as_of("r9") and _numbers(kept) == _numbers(erased)
        kept.close()
        erased.close()


def _numbers(memory: Memory) -> list[list[tuple]]:
    """What learning rests on."""
    events = "memory_id, rule, alpha, weight, ipw, decay, depth, reward, target, q_before, q_after, recall_id"
    return [
        memory.bank.store.rows(sql)
        for sql in (
            "SELECT recall_id, memory_id, sim, q, score, propensity, shown, omitted FROM recall_item ORDER BY 1, 2",
            f"SELECT {events} FROM value_event ORDER BY seq",
            "SELECT * FROM value ORDER BY 1, 2, 3",
        )
    ]


def _at(item: Any, other: Memory) -> Any:
    """The item, made when that of the other store was."""
    return replace(item, created_at=other.get(item.id).created_at)


def a_receipt_without_an_outcome_goes(factory: Factory) -> None:
    """By its id, or by its age; its number is not given again, and what was made under it stays."""
    now = time.time()
    with make(factory, preset("memrl", gate=-1.0)) as memory, make(factory, scope="b") as other:
        memory.remember("task", "body")
        with patch("time.time", lambda: now - 1000.0):
            old = [memory.recall(f"words of ann {i}") for i in range(12)]
            memory.settle(old[0], True)
            memory.settle(old[1], None, valid=False)
            child = memory.remember("made", "under it", parents=old[2])
            theirs = other.recall("words of ann")
        new = memory.recall("words of ben")
        rehearsed = memory.compact(unsettled=500, dry_run=True)
        assert memory.receipts()[2].task == "words of ann 2"
        done = memory.compact(unsettled=timedelta(seconds=500))
        assert done.removed == rehearsed.removed and done.removed["recall"] == 9 and done.emptied["queries"] == 1
        assert [r.task for r in memory.receipts()] == ["words of ann 0", "words of ann 1", "", "words of ben"]
        assert memory.get(child).parents == ("m1",) and len(other.receipts()) == 1
        assert memory.settle(old[2], 1.0) and verify(memory) == []
        with refused("an outcome of what is gone", code="unknown_receipt"):
            memory.settle(old[3], 1.0)
        memory.erase(new, "asked for")
        assert memory.erase([new.id, old[3].id], "again").nothing
        assert int(memory.recall("another").id[1:]) > int(new.id[1:]), "a number was given twice"
        codes = {
            "r999": "unknown_receipt",
            theirs.id: "unknown_receipt",
            "a999": "unknown_line",
            "x1": "not_an_id",
            "m99": "unknown_memory",
        }
        for bad, code in codes.items():
            for one in (bad, ["m1", bad]):
                with refused(f"erase({one})", code=code):
                    memory.erase(one, "why")
        odd: list[Any] = [7, None, [7], [None], {"m": 1}, [["m1"]]]
        for one in odd:
            with refused(f"erase({one})"):
                memory.erase(one, "why")
        wrong: list[Any] = [-1, "old", True, float("nan")]
        for bad in wrong:
            with refused(f"compact(unsettled={bad})"):
                memory.compact(unsettled=bad)
        assert verify(memory) == [] and memory.rebuild_values() == 0


def several_scopes_are_looked_through(factory: Factory) -> None:
    """Found, counted and listed by scope."""
    with make(factory, scope="user") as user, make(factory, scope="team") as team:
        user.remember("task of Ann Lee", "body")
        team.remember("task", "body")
        both = Scopes(user, team)
        r = both.recall("what Ann Lee asked")
        assert both.count() == {"user": 1, "team": 1} and {n: len(x) for n, x in both.find("ann lee").items()} == {
            "user": 2,
            "team": 1,
        }
        assert {n: [one.id for one in x] for n, x in both.open_receipts().items()} == {
            name: [receipt.id] for name, receipt in r.receipts.items()
        }
        both.settle(r, 1.0)
        assert both.open_receipts() == {"user": [], "team": []}
