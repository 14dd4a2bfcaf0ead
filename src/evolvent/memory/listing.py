"""What a scope holds, read without a receipt: memories page by page, receipts, counts, and where a text stands."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from typing import Any, get_args

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.memory import events, external, keys, lift
from evolvent.memory.bank import Bank, parse_id
from evolvent.memory.find import find
from evolvent.memory.health import MAIN_STAGE, STATUS
from evolvent.memory.items import Item, Order, Receipt, Trace, memory_id, receipt_id
from evolvent.memory.metadata import Filter, parse
from evolvent.memory.rule import least_step
from evolvent.memory.store.engine import marks
from evolvent.memory.text import among_words, clean_word, flag, listed, whole
from evolvent.memory.times import time_of

_PIECE = 500
_STATUSES = ("active", "expired", "archived", "quarantined", "superseded", "erased", "external")
# by order: what rows are sorted by, whether downwards, and the field of an item that has it; then by number
_SORTED: dict[str, tuple[str, bool, str]] = {
    "created": ("m.created_at", False, "created_at"),
    "value": ("coalesce(v.q, m.q_init)", True, "value"),
    "outcomes": ("coalesce(v.n, 0)", True, "n"),
}
_MANY = 1 << 62  # a number that the engines take
_SETTLED = "EXISTS (SELECT 1 FROM outcome o WHERE o.recall_id = r.seq AND o.valid)"


class Listing:
    """What ``Memory`` offers to look at what it holds. Nothing is written, and no writer is waited for."""

    bank: Bank

    def get(self, id: str) -> Item:
        """One memory, whatever its status."""
        return items(self.bank, "m.seq = ?", (self.bank.memory_seq(id, "get"),))[0]

    def items(
        self,
        status: str | None = "active",
        *,
        filter: Filter | None = None,
        kinds: Sequence[str] | None = None,
        order: Order = "oldest",
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Item]:
        """Memories of a status (active, expired, archived, quarantined, superseded, erased, external; None: any).

        Page by page: ``limit`` of them, then those ``after`` the id of the last one; ``filter`` and ``kinds`` as in
        ``recall``.

        Args:
            status: of which.
            filter: only memories whose metadata hold this.
            kinds: only memories of these kinds.
            order: oldest (as they were written) or newest first, by "created" (``created_at``, earliest first), by
                "value" (highest first), or by number of "outcomes" (most first).
            limit: at most so many.
            after: only what comes after this memory in that order.
        """
        condition, args = _condition(status, kinds, "items")
        if not among_words(order, get_args(Order)):
            raise BadInput(
                "unknown order", got=order, expected=", ".join(get_args(Order)), where="items", code="unknown_option"
            )
        if limit is not None:
            limit = min(whole(limit, what="limit", where="items", least=1), _MANY)
        if after is not None:
            more, than = self._behind(order, after)
            condition, args = f"{condition} AND {more}", [*args, *than]
        rows = _matching(self.bank, filter, "items(filter=…)")
        if rows is None:
            return items(self.bank, condition, args, order=order, limit=limit)
        found: list[Item] = []
        at_once = order in ("oldest", "newest")  # others are sorted when all are there
        for piece in _pieces(rows if order != "newest" else rows[::-1]):
            more = None if limit is None or not at_once else limit - len(found)
            found += items(
                self.bank,
                f"{condition} AND {_ONE_OF.format(marks(len(piece)))}",
                [*args, *piece],
                order=order,
                limit=more,
            )
            if limit is not None and at_once and len(found) >= limit:
                break
        if not at_once:
            _, down, name = _SORTED[order]
            # pieces are in the order of numbers, and each is sorted: of equals the older one stays first
            found.sort(key=lambda item: -getattr(item, name) if down else getattr(item, name))
        return found[:limit]

    def count(
        self, status: str | None = "active", *, filter: Filter | None = None, kinds: Sequence[str] | None = None
    ) -> int:
        """How many memories ``items`` would list."""
        condition, args = _condition(status, kinds, "count")
        rows = _matching(self.bank, filter, "count(filter=…)")
        sql = f"SELECT count(*) FROM memory m WHERE m.scope_id = ? AND {condition}"
        if rows is None:
            return self.bank.store.rows(sql, (self.bank.scope_id, *args))[0][0]
        return sum(
            self.bank.store.rows(f"{sql} AND {_ONE_OF.format(marks(len(piece)))}", (self.bank.scope_id, *args, *piece))[
                0
            ][0]
            for piece in _pieces(rows)
        )

    def find(self, text: str) -> list[Trace]:
        """Every trace of a text: in keys, bodies, metadata, sources and kinds of memories of any status; in tasks,
        actions (with their parts) and names of jobs of receipts; in reasons of the log; in what ``meta_set`` keeps.

        In whatever case and with whatever spaces it is written. ``erase(find(text), reason)`` takes all of it out.
        """
        return find(self.bank, text)

    def receipts(
        self,
        *,
        settled: bool | None = None,
        stage: str | None = None,
        before: date | str | float | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Receipt]:
        """Receipts of recalls, oldest first, page by page as ``items``; ``erase`` takes them.

        Args:
            settled: with a valid outcome, or (False) without; None: both.
            stage: of this stage.
            before: written before a time (``datetime``, ``date``, ISO text, seconds since 1970; without a zone: local).
            filter: that handed out a memory whose metadata hold this.
            limit: at most so many.
            after: only those behind this one.
        """
        conditions, args = ["r.scope_id = ?"], list[Any]([self.bank.scope_id])
        if settled is not None:
            conditions.append(_SETTLED if flag(settled, what="settled", where="receipts") else f"NOT {_SETTLED}")
        if stage is not None:
            conditions.append("r.stage = ?")
            args.append(clean_word(stage, what="a stage", where="receipts"))
        if before is not None:
            conditions.append("r.created_at < ?")
            args.append(time_of(before, "receipts(before=…)").timestamp())
        if after is not None:
            conditions.append("r.seq > ?")
            args.append(parse_id(after, "r", "receipt", "receipts(after=…)"))
        most = _MANY if limit is None else min(whole(limit, what="limit", where="receipts", least=1), _MANY)
        return _receipts(self.bank, " AND ".join(conditions), args, _matching(self.bank, filter, "receipts"), most)

    def open_receipts(
        self,
        *,
        stage: str | None = None,
        before: date | str | float | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Receipt]:
        """Receipts without a valid outcome yet, oldest first: what late outcomes are looked up in.

        Arguments are those of ``receipts``.
        """
        return self.receipts(settled=False, stage=stage, before=before, filter=filter, limit=limit, after=after)

    def _behind(self, order: str, after: str) -> tuple[str, list[Any]]:
        """The condition of what comes after a memory, and its arguments."""
        elsewhere = external.sequences(self.bank.store, self.bank.scope_id, after)
        number = elsewhere[-1] if elsewhere else parse_id(after, "m", "memory", "items(after=…)")
        if order not in _SORTED:
            return ("m.seq > ?" if order == "oldest" else "m.seq < ?"), [number]
        column, down, name = _SORTED[order]
        there = getattr(self.get(after), name)
        return f"({column} {'<' if down else '>'} ? OR ({column} = ? AND m.seq > ?))", [there, there, number]


_ONE_OF = "m.seq IN ({})"


def _condition(status: str | None, kinds: Sequence[str] | None, where: str) -> tuple[str, list[Any]]:
    """SQL on table m for memories of a status and kinds: keys that were merged into them are none."""
    condition, args = keys.OWN, list[Any]()
    if status is not None and not among_words(status, _STATUSES):
        raise BadInput(
            "unknown status", got=status, expected=f"None or {', '.join(_STATUSES)}", where=where, code="unknown_status"
        )
    if status is not None:
        condition, args = f"{condition} AND {STATUS} = ?", [time.time(), status]
    if kinds is not None:
        wanted = listed(kinds, what="kinds", expected="a sequence, e.g. ['case']", where=where)
        args += [clean_word(kind, what="a kind", where=where) for kind in wanted]
        condition += f" AND m.kind IN ({marks(len(wanted))})"
    return condition, args


def _matching(bank: Bank, filter: Filter | None, where: str) -> np.ndarray | None:
    """Rows of the scope that a filter leaves, int64, sorted; ``None``: all."""
    if not (conditions := parse(filter, where)):
        return None
    only, without = bank.metadata.find(conditions)
    if only is None:
        every = bank.store.rows("SELECT seq FROM memory WHERE scope_id = ? ORDER BY seq", (bank.scope_id,))
        only = np.array([seq for (seq,) in every], np.int64)
    elif len(only):  # of what was erased since, nothing is left to filter by
        gone = bank.store.rows("SELECT seq FROM memory WHERE scope_id = ? AND status = 'erased'", (bank.scope_id,))
        only = np.setdiff1d(only, np.array([seq for (seq,) in gone], np.int64), assume_unique=True)
    return np.setdiff1d(only, without, assume_unique=True)


def _pieces(rows: np.ndarray) -> list[list[int]]:
    return [rows[start : start + _PIECE].tolist() for start in range(0, len(rows), _PIECE)]


def items(
    bank: Bank, condition: str, args: Sequence[Any], *, order: str = "oldest", limit: int | None = None
) -> list[Item]:
    """Stored memories that meet a condition on table m, with their value in the stage of most outcomes."""
    column, down, _ = _SORTED.get(order, ("", False, ""))
    by = f"{column} {'DESC' if down else 'ASC'}, m.seq" if column else f"m.seq {'DESC' if order == 'newest' else 'ASC'}"
    # a page is read in the order of numbers, and not the whole scope for it
    scope = "m.scope_id" if limit is None else "+m.scope_id"
    rows = bank.store.rows(
        f"SELECT m.seq, k.body, b.body, m.kind, m.polarity, m.source, {STATUS}, m.superseded_by, "
        "m.content_version, m.merged, m.created_at, m.meta, m.expires_at, m.q_init, coalesce(v.stage, ''), "
        f"{external.NAME}, {events.JOINED} FROM memory m JOIN text_blob k ON k.hash = m.key_hash "
        f"JOIN text_blob b ON b.hash = m.body_hash {MAIN_STAGE} "
        f"WHERE {scope} = ? AND {condition} ORDER BY {by} LIMIT ?",
        (time.time(), bank.policy.objective, bank.scope_id, *args, _MANY if limit is None else limit),
    )
    parents: dict[int, list[str]] = defaultdict(list)
    for child, parent, name in bank.store.rows_among(
        f"SELECT DISTINCT p.child, p.parent, {external.NAME} FROM provenance p JOIN memory m ON m.seq = p.parent "
        "WHERE p.relation NOT IN ('revised', 'updated') AND p.child IN ({}) ORDER BY p.child, p.parent",
        [row[0] for row in rows],
    ):
        parents[child].append(memory_id(parent, name))
    return [_item(bank, row, tuple(parents.get(row[0], ()))) for row in rows]


def _item(bank: Bank, row: tuple, parents: tuple[str, ...]) -> Item:
    seq, key, body, kind, polarity, source, status, newer, version, merged, at, meta, expires_at = row[:13]
    start, stage, name = row[13:16]
    v = events.Value(*row[16:])
    effect = lift.marginal(*v.arms, bank.reward_range)
    return Item(
        id=memory_id(seq, name),
        key=key,
        body=body,
        kind=kind,
        polarity=polarity,
        source=source,
        status=status,
        value=v.q,
        start=start,
        n=v.n,
        uncertainty=events.uncertainty(v, bank.reward_range, least_step(bank.policy)),
        lift=effect.shrunk if effect.confidence > 0 else None,
        n_omitted=v.n_omitted,
        parents=parents,
        superseded_by=memory_id(newer) if newer else None,
        content_version=version,
        merged=merged,
        created_at=at,
        metadata=json.loads(meta or "{}"),
        expires_at=expires_at,
        stage=stage,
    )


def _receipts(bank: Bank, condition: str, args: Sequence[Any], of: np.ndarray | None, limit: int) -> list[Receipt]:
    """Receipts that meet a condition on table r; ``of``: that handed out one of these memories."""
    rows = bank.store.rows(
        f"SELECT r.seq, t.body, r.stage, r.policy, {_SETTLED}, r.created_at, r.is_test, r.frozen FROM recall r "
        f"JOIN text_blob t ON t.hash = r.query_hash WHERE {condition} ORDER BY r.seq LIMIT ?",
        (*args, limit if of is None else _MANY),
    )
    if of is not None:
        handed = "SELECT DISTINCT recall_id FROM recall_item WHERE selected AND memory_id IN ({})"
        with_one = {number for (number,) in bank.store.rows_among(handed, of.tolist())}
        rows = [row for row in rows if row[0] in with_one][:limit]
    shown: dict[int, list[str]] = defaultdict(list)
    for number, seq, name in bank.store.rows_among(
        f"SELECT i.recall_id, i.memory_id, {external.NAME} FROM recall_item i JOIN memory m ON m.seq = i.memory_id "
        "WHERE i.shown AND i.recall_id IN ({}) ORDER BY i.recall_id, i.rank",
        [row[0] for row in rows],
    ):
        shown[number].append(memory_id(seq, name))
    return [
        Receipt(
            receipt_id(number), task, stage, policy, tuple(shown[number]), bool(settled), at, bool(test), bool(frozen)
        )
        for number, task, stage, policy, settled, at, test, frozen in rows
    ]
