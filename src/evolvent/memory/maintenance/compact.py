"""Compacting: rows that nothing needs leave the file, and are written beside it first, so that they can be put back.

What nothing needs: candidates of old receipts that were not selected (they were never shown, never credited, and only
explain what the recall looked at), and texts and vectors that no row refers to.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput, StoreError
from evolvent.core.jsonfile import write_atomic
from evolvent.memory.bank import Bank
from evolvent.memory.maintenance.act import Act, Mended, perform
from evolvent.memory.maintenance.transfer import from_json, to_json
from evolvent.memory.store.engine import Store
from evolvent.memory.store.schema import Table, layout

# rows go in this order, so that nothing refers to what is gone; they come back in the opposite one
_ORDER = ("recall_item", "embedding", "text_blob")
_SELECT = {
    "recall_item": "FROM recall_item WHERE NOT selected AND recall_id IN (SELECT seq FROM recall WHERE scope_id = ? "
    "AND seq <= ?)",
    "embedding": "FROM embedding WHERE emb_id IN (SELECT emb_id FROM embedding EXCEPT SELECT emb_id FROM memory EXCEPT "
    "SELECT emb_id FROM recall)",
    "text_blob": "FROM text_blob WHERE hash IN (SELECT hash FROM text_blob EXCEPT SELECT key_hash FROM memory EXCEPT "
    "SELECT body_hash FROM memory EXCEPT SELECT query_hash FROM recall EXCEPT SELECT action_hash FROM outcome EXCEPT "
    "SELECT text_hash FROM embedding)",
}


def compact(
    bank: Bank, *, keep: int = 1000, file: Path | None = None, reason: str = "compact", dry_run: bool = False
) -> Mended:
    """Take out what nothing needs; the candidates of the newest ``keep`` receipts stay for ``explain``.

    Args:
        bank: the scope whose receipts are trimmed; texts and vectors that nothing refers to go from the whole store.
        keep: how many receipts keep all their candidates.
        file: where to write the removed rows; default: beside the store.
        reason: for the log.
        dry_run: only tell.

    Raises:
        BadInput: the store is no file, and ``file`` is not given.
    """
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 0:
        raise BadInput("keep is not a count", got=keep, expected="an integer >= 0", where="compact")
    row = bank.store.row(
        "SELECT coalesce(min(seq), 0) - 1 FROM (SELECT seq FROM recall WHERE scope_id = ? ORDER BY seq DESC LIMIT ?) r",
        (bank.scope_id, keep),
    )
    if keep == 0:
        row = bank.store.row("SELECT coalesce(max(seq), 0) FROM recall WHERE scope_id = ?", (bank.scope_id,))
    last = row[0] if row else 0

    def change(act: Act) -> None:
        merged = _merged_keys(bank)
        lines: list[str] = []
        for table in _tables():
            keys = ", ".join(table.key)
            rows = bank.store.rows(
                f"SELECT {', '.join(table.columns)} {_SELECT[table.name]} ORDER BY {keys}",
                (bank.scope_id, last) if table.name == "recall_item" else (),
            )
            if table.name == "text_blob":
                rows = [row for row in rows if row[0] not in merged]
            lines += [json.dumps([table.name, to_json(table, row)], ensure_ascii=False) for row in rows]
            act.removed[table.name] = len(rows)
            places = [list(table.columns).index(key) for key in table.key]
            where = " AND ".join(f"{key} = ?" for key in table.key)
            with bank.store.write() as db:
                db.executemany(
                    f"DELETE FROM {table.name} WHERE {where}", [tuple(row[place] for place in places) for row in rows]
                )
        if lines and not dry_run:
            path = _path(bank, file)
            text = "\n".join(lines) + "\n"
            try:
                write_atomic(path, text)
            except OSError as error:
                raise StoreError("the removed rows cannot be written", got=str(error), where=str(path),
                                 do="nothing was removed; say where: file=…") from error  # fmt: skip
            act.file = str(path)
            act.extra["until"] = last
            act.extra["file"] = {"path": str(path), "sha256": _digest(text), "rows": len(lines)}

    done = perform(bank, "compact", bank.scope, reason, change, dry_run)
    if done.act is not None:
        bank.store.shrink()
    return done


def put_back(act: Act, file: dict[str, Any]) -> None:
    """Insert the rows that a compaction took out, from the file it wrote; what is there again already stays."""
    path = Path(file["path"])
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError("the removed rows cannot be read", got=str(error), where=str(path),
                         do="put the file back to where it was written") from error  # fmt: skip
    if _digest(text) != file["sha256"]:
        raise StoreError("the file of removed rows was changed", got=_digest(text), expected=file["sha256"],
                         where=str(path), do="put the original back")  # fmt: skip
    rows: dict[str, list[list[Any]]] = {name: [] for name in _ORDER}
    for line in text.split("\n")[:-1]:
        name, cells = json.loads(line)
        rows[name].append(cells)
    with act.bank.store.write():
        for table in reversed(_tables()):
            lacking = _lacking(act.bank.store, table, [from_json(table, row) for row in rows[table.name]])
            act.bank.store.load(table, lacking)
            act.removed[table.name] = -len(lacking)


def _tables() -> list[Table]:
    known = {table.name: table for table in layout()}
    return [known[name] for name in _ORDER]


def _lacking(store: Store, table: Table, rows: list[list[Any]]) -> list[list[Any]]:
    """Rows that the store does not hold again already (a question asked again brings its text and vector back)."""
    if not rows or table.name == "recall_item":
        return rows
    taken = set(store.rows(f"SELECT {', '.join(table.key)} FROM {table.name}"))
    places = [list(table.columns).index(key) for key in table.key]
    if table.name == "embedding":
        known = set(store.rows("SELECT model, text_hash FROM embedding"))
        rows = [row for row in rows if (row[1], row[2]) not in known]
    return [row for row in rows if tuple(row[place] for place in places) not in taken]


def trimmed(store: Store) -> dict[int, int]:
    """By scope, the last receipt that a compaction looked at: up to it, candidates that were not selected may lack."""
    found: dict[int, int] = {}
    for scope_id, detail in store.rows("SELECT scope_id, detail FROM audit WHERE verb = 'compact'"):
        found[scope_id] = max(found.get(scope_id, 0), json.loads(detail).get("until", 0))
    return found


def _merged_keys(bank: Bank) -> set[str]:
    """Hashes of keys that only the log of merges refers to."""
    rows = bank.store.rows("SELECT detail FROM audit WHERE verb = 'merge'")
    return {json.loads(detail).get("key_hash", "") for (detail,) in rows}


def _path(bank: Bank, file: Path | None) -> Path:
    if file is not None:
        return file.absolute()
    store = Path(bank.store.path)
    if bank.store.path == ":memory:" or "://" in bank.store.path:
        raise BadInput("there is no folder to write the removed rows to", got=bank.store.where, where="compact",
                       do="say where: compact(file=…)")  # fmt: skip
    number = 1
    while (path := store.with_name(f"{store.name}.removed-{number}.jsonl")).exists():
        number += 1
    return path.absolute()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
