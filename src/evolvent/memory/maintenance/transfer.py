"""A whole memory, to a file and back, or from one engine to the other: every row of every table, checked by digest.

An export is JSON lines: a header, one line for each row (tables in the order of ``schema.layout``, rows by primary
key), and a last line with the number of rows and the SHA-256 of all lines before it. Equal stores give equal bytes,
whichever engine they are in and whenever they are exported; that SHA-256 is what ``digest`` returns.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.store import schema, upgrade
from evolvent.memory.store.engine import Progress, Store
from evolvent.memory.store.opening import open_store
from evolvent.memory.store.schema import Table

FORMAT = "evolvent memory"
_READ = 50  # rows read at once, of which each may be a long text
_WRITTEN, _BYTES = 2000, 8_000_000  # rows written at once, or so much text
_MAKE_AGAIN = "make the export again, or use an undamaged copy; nothing was imported"


@dataclass(frozen=True)
class Moved:
    """What was exported, imported or migrated: rows by table, and the digest of the whole."""

    rows: dict[str, int]
    digest: str


def digest(store: Store) -> str:
    """SHA-256 of a store's content, as 64 hex digits: equal for equal stores, in whichever engine."""
    sha = hashlib.sha256()
    for line, _, _ in _content(store):
        sha.update(line)
    return sha.hexdigest()


def export_jsonl(store: Store, out: str | Path | BinaryIO, *, progress: Progress | None = None) -> Moved:
    """Write the whole store, of one moment. A file appears when it is complete; bytes go to a stream as they come.

    Raises:
        BadInput: the file is the store itself.
        StoreError: the store cannot be read, or the file cannot be written.
    """
    if not isinstance(out, str | Path):
        return _export(store, out, progress)
    path = Path(out)
    if path.exists() and os.path.exists(store.path) and path.samefile(store.path):
        raise BadInput(
            "that file is the memory itself",
            got=str(path),
            expected="another file",
            where="export_jsonl",
            code="same_store",
        )
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                exported = _export(store, stream, progress)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(draft, path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        do = "check the folder, its permissions and the room on the disk"
        raise StoreError(
            "the export cannot be written", got=str(error), where=str(path), do=do, code="not_written"
        ) from error
    return exported


def import_jsonl(target: str | Path, source: str | Path, *, progress: Progress | None = None) -> Moved:
    """Read an export into a new or empty store: all of it, with its ids and its history, or nothing.

    The file is checked as a whole before the store is opened, and the store against the file before it commits. An
    export of an older schema is read as one of this.

    Args:
        target: path or URL of a store that is new or empty.
        source: the export.
        progress: called as ``progress(rows done, rows in all, table)``.

    Raises:
        StoreError: the store is not empty; the file is damaged, cut off, of another version, or no export.
    """
    path = Path(source)
    try:
        total, version = _checked(path)
        with path.open("rb") as stream, _to_fill(target) as store:
            return _fill(store, _read(stream, str(path), version), total, progress)
    except OSError as error:
        raise StoreError("the export cannot be read", got=str(error), where=str(path), code="bad_export") from error


def migrate(source: str | Path, target: str | Path, *, progress: Progress | None = None) -> Moved:
    """Copy a store of one moment into a new one, in either engine: all of it or nothing, compared by digest.

    Args:
        source: path or URL of a memory.
        target: path or URL of a store that is new or empty.
        progress: called as ``progress(rows done, rows in all, table)``.

    Raises:
        StoreError: there is no memory at ``source``, ``target`` is not empty, or one of them fails.
    """
    if str(source) == str(target):
        raise BadInput("source and target are the same", got=str(source), where="migrate", code="same_store")
    with closing(open_store(source, create=False)) as old, _to_fill(target) as new, old.snapshot():
        return _fill(new, _content(old), sum(_counts(old).values()), progress)


# -------------------------------------------------------------------------------------------------------- writing
def _export(store: Store, stream: BinaryIO, progress: Progress | None) -> Moved:
    sha, rows = hashlib.sha256(), _counts(store, zero=True)
    for line, table, _ in _content(store, progress):
        sha.update(line)
        stream.write(line)
        if table is not None:
            rows[table.name] += 1
    stream.write(_line({"end": {"rows": sum(rows.values()), "sha256": sha.hexdigest()}}))
    return Moved(rows, sha.hexdigest())


def _content(store: Store, progress: Progress | None = None) -> Iterator[tuple[bytes, Table | None, list[Any]]]:
    """Every line but the last, with the row that it holds; the first line holds none."""
    with store.snapshot():
        total, done = sum(_counts(store).values()) if progress else 0, 0
        yield _header(store), None, []
        for table in schema.layout():
            names, order = ", ".join(table.columns), ", ".join(table.key)
            for piece in store.chunks(f"SELECT {names} FROM {table.name} ORDER BY {order}", size=_READ):
                for cells in piece:
                    row = to_json(table, cells)
                    yield _line({table.name: dict(zip(table.columns, row, strict=True))}), table, row
                done += len(piece)
                if progress is not None:
                    progress(done, total, table.name)


def _header(store: Store) -> bytes:
    prefix = "reward_range:"
    ranges = {
        name[len(prefix) :]: json.loads(body)
        for name, body in store.rows("SELECT name, body FROM meta ORDER BY name")
        if name.startswith(prefix)
    }
    head = {"format": FORMAT, "schema": schema.VERSION, "embedder": store.meta_get("embedder"), "reward_range": ranges}
    return _line(head)


def _counts(store: Store, *, zero: bool = False) -> dict[str, int]:
    names = [table.name for table in schema.layout()]
    return {name: 0 if zero else store.rows(f"SELECT count(*) FROM {name}")[0][0] for name in names}


def _line(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode() + b"\n"


# -------------------------------------------------------------------------------------------------------- reading
def _checked(path: Path) -> tuple[int, int]:
    """Rows that the last line of an export promises, after they and its SHA-256 were found true, and its schema."""
    sha, last, number, version = hashlib.sha256(), b"", 0, 0
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if number == 1:
                version = _check_header(line, str(path))
            else:
                sha.update(last)
            last = line
    end = _parsed(last, f"{path}:{number}") if number > 1 else {}
    promised = end.get("end") if isinstance(end, dict) else None
    if not isinstance(promised, dict) or not last.endswith(b"\n"):
        got = f"{number} lines, the last one {_short(last)}"
        raise StoreError(
            "the export is cut off",
            got=got,
            expected='a last line {"end":…}',
            where=str(path),
            do=_MAKE_AGAIN,
            code="bad_export",
        )
    if promised.get("sha256") != sha.hexdigest() or promised.get("rows") != number - 2:
        got = f"{number - 2} rows, SHA-256 {sha.hexdigest()}"
        expected = f"{promised.get('rows')} rows, SHA-256 {promised.get('sha256')}"
        raise StoreError(
            "the export is damaged", got=got, expected=expected, where=str(path), do=_MAKE_AGAIN, code="bad_export"
        )
    return number - 2, version


def _check_header(line: bytes, where: str) -> int:
    head = _parsed(line, f"{where}:1")
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        expected = f'a first line with "format":"{FORMAT}"'
        raise StoreError(
            "not the export of a memory", got=_short(line), expected=expected, where=where, code="bad_export"
        )
    version = head.get("schema")
    version = version if isinstance(version, int) else 0
    if version not in upgrade.OLDER:
        schema.check_version(version, where)
    return version


def _read(stream: BinaryIO, where: str, version: int) -> Iterator[tuple[bytes, Table | None, list[Any]]]:
    """What ``_content`` gave, line by line, of this schema whatever the ``version`` of the export."""
    tables = {table.name: table for table in schema.layout()}
    for number, line in enumerate(stream, 1):
        value = _parsed(line, f"{where}:{number}")
        if number == 1:
            yield _line({**value, "schema": schema.VERSION}), None, []
            continue
        name = next(iter(value), "") if isinstance(value, dict) else ""
        if name == "end":
            return
        if version == 3 and name in upgrade.GONE:
            continue
        table = tables.get(name)
        if table is not None and version in upgrade.OLDER:
            value = {name: upgrade.row(version, name, value[name])}
            line = _line(value)
        if table is None or list(value[name]) != list(table.columns):
            do = "it was written by another version, or by hand; nothing was imported"
            got, at = f"{name or _short(line)}: {_names(value, name)}", f"{where}:{number}"
            raise StoreError(
                "unknown table or columns", got=got, expected=", ".join(tables), where=at, do=do, code="bad_export"
            )
        yield line, table, list(value[name].values())


@contextmanager
def _to_fill(target: str | Path) -> Iterator[Store]:
    """Open a store to write a copy into. A file that this made is removed where no copy came of it."""
    made = "://" not in str(target) and not os.path.exists(target)
    try:
        with closing(open_store(target)) as store:
            yield store
    except BaseException:
        if made and not os.path.exists(f"{target}-wal"):  # the log stays where somebody else has opened it meanwhile
            Path(target).unlink(missing_ok=True)
        raise


def _fill(
    store: Store, lines: Iterator[tuple[bytes, Table | None, list[Any]]], total: int, progress: Progress | None
) -> Moved:
    """Write rows into an empty store, and commit when it then has the digest of their lines."""
    counts, sha = _counts(store, zero=True), hashlib.sha256()

    def rows() -> Iterator[tuple[Table, list[Any]]]:
        for line, table, row in lines:
            sha.update(line)
            if table is not None:
                yield table, row

    with store.write():
        for name, n in _counts(store).items():
            if n:
                do = "give a path or URL that does not exist yet; Memory(…) itself makes a store that is not empty"
                raise StoreError(
                    "the target is not empty", got=f"{n} rows in {name}", where=store.where, do=do, code="not_empty"
                )
        for table, batch in _batches(rows()):
            store.load(table, batch)
            counts[table.name] += len(batch)
            if progress is not None:
                progress(sum(counts.values()), total, table.name)
        made = digest(store)
        if made != sha.hexdigest():
            raise StoreError(
                "the copy differs from its source",
                got=made,
                expected=sha.hexdigest(),
                where=store.where,
                code="copy_differs",
            )
    return Moved(counts, made)


def _batches(rows: Iterator[tuple[Table, list[Any]]]) -> Iterator[tuple[Table, list[list[Any]]]]:
    """Rows of one table at a time, as the store takes them, bounded in number and in size."""
    batch: list[list[Any]] = []
    at: Table | None = None
    size = 0
    for table, row in rows:
        if at is not None and batch and (table is not at or len(batch) >= _WRITTEN or size > _BYTES):
            yield at, batch
            batch, size = [], 0
        cells = from_json(table, row)
        batch.append(cells)
        size += sum(len(cell) for cell in cells if isinstance(cell, str | bytes))
        at = table
    if at is not None and batch:
        yield at, batch


def to_json(table: Table, cells: Sequence[Any]) -> list[Any]:
    """One row as JSON values, the same from every engine."""
    kinds = table.columns.values()
    return [None if c is None else _TO_JSON[kind](c) for kind, c in zip(kinds, cells, strict=True)]


def from_json(table: Table, row: Sequence[Any]) -> list[Any]:
    """The inverse of ``to_json``, for ``Store.load``.

    Raises:
        StoreError: a value of another type.
    """
    kinds = table.columns.values()
    try:
        return [None if c is None else _FROM_JSON[kind](c) for kind, c in zip(kinds, row, strict=True)]
    except (TypeError, ValueError) as error:
        raise StoreError(
            "a row that no export holds", got=_short(str(row)), where=table.name, code="bad_export"
        ) from error


def _parsed(line: bytes, where: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise StoreError(
            "the export is damaged", got=_short(line), expected="JSON", where=where, do=_MAKE_AGAIN, code="bad_export"
        ) from error


def _names(value: Any, name: str) -> str:
    return ", ".join(value[name]) if isinstance(value, dict) and isinstance(value.get(name), dict) else ""


def _short(line: bytes | str) -> str:
    text = line.decode(errors="replace") if isinstance(line, bytes) else line
    return ascii(text[:80])


_TO_JSON: dict[str, Callable[[Any], Any]] = {
    "TEXT": str,
    "INTEGER": int,
    "REAL": float,
    "BOOLEAN": bool,
    "BLOB": lambda b: base64.b64encode(b).decode("ascii"),
}


def _exactly(kind: type) -> Callable[[Any], Any]:
    def check(cell: Any) -> Any:
        if type(cell) is not kind:
            raise TypeError(f"{cell!r} is no {kind.__name__}")
        return cell

    return check


_FROM_JSON: dict[str, Callable[[Any], Any]] = {
    "TEXT": _exactly(str),
    "INTEGER": _exactly(int),
    "REAL": _exactly(float),
    "BOOLEAN": _exactly(bool),
    "BLOB": lambda text: base64.b64decode(text, validate=True),
}
