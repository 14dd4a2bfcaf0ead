"""Model-written SQL over a read-only database: what it may do, how long it may take, and when two results are equal."""

from __future__ import annotations

import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_SQL_CHARS = 2_000
MAX_ROWS = 200
MAX_RESULT_BYTES = 1_000_000
CACHED_BYTES = 64_000_000
_MAX_VALUE_BYTES, _MAX_COLUMNS = 100_000, 100
_MACHINE = frozenset((sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CANTOPEN))
"""What a query is not to blame for. Its own words stand in the text of an error, so the text says nothing."""
# Pure functions with bounded output: nothing random, nothing that reads files, no format() (it can pad to gigabytes).
_FUNCTIONS = (
    "abs avg ceil ceiling coalesce count cume_dist date datetime dense_rank exp first_value floor glob group_concat "
    "ifnull iif instr julianday lag last_value lead length like ln log lower ltrim max min mod nth_value ntile nullif "
    "percent_rank pow power rank replace round row_number rtrim sign sqrt strftime substr substring sum time total "
    "trim trunc typeof unixepoch upper"
)
FUNCTIONS = frozenset(_FUNCTIONS.split())
Value = int | float | str | bytes | None
Rows = tuple[tuple[Value, ...], ...]
_WALL_FACTOR = 15  # a query may wait this many time limits for the processor before the machine is to blame
_PART = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<end>;|\n\s*\n|\n\s*(?:Q|SQL)\s*:)|(?P<gap>\s+)|.""",
    re.DOTALL,
)


@dataclass(frozen=True)
class Result:
    """Rows of a query, or the error to show. ``valid=False``: the harness failed, the query is not to blame."""

    rows: Rows = ()
    error: str = ""
    valid: bool = True


class ReadOnlyDatabase:
    """One SQLite file, opened read-only, that answers any text with rows or an error and cannot be changed by it.

    The limits on one query: ``time_limit_s`` seconds of processor time (wall time would make results depend on what
    else runs), ``MAX_ROWS`` rows of 100 columns, ``MAX_RESULT_BYTES`` of memory, 100,000 bytes of a value,
    ``MAX_SQL_CHARS`` characters. Results are remembered by the query's text, up to ``CACHED_BYTES``.
    """

    def __init__(self, path: Path, time_limit_s: float, tables: frozenset[str]) -> None:
        self._time_limit_s, self._tables = time_limit_s, tables
        self._cache: dict[str, tuple[Result, int]] = {}
        self._cached_bytes = 0
        self._denied = self._stopped = ""
        uri = path.resolve().as_uri() + "?mode=ro&immutable=1"
        self._connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        self._connection.execute("PRAGMA cache_size=-65536")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _MAX_COLUMNS)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100)
        self._connection.set_authorizer(self._authorize)

    def run(self, sql: str) -> Result:
        """The result of one query; never raises on account of its text."""
        if sql in self._cache:
            return self._cache[sql][0]
        result = self._refuse(sql) or self._execute(sql)
        if result.valid:
            self._remember(sql, result)
        return result

    def _remember(self, sql: str, result: Result) -> None:
        size = 500 + sum(map(sys.getsizeof, (sql, result.error))) + sum(map(_size, result.rows))
        self._cache[sql], self._cached_bytes = (result, size), self._cached_bytes + size
        while self._cached_bytes > CACHED_BYTES:
            self._cached_bytes -= self._cache.pop(next(iter(self._cache)))[1]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _refuse(self, sql: str) -> Result | None:
        if not sql.strip():
            return Result(error="no query")
        if len(sql) > MAX_SQL_CHARS:
            return Result(error=f"the query is longer than {MAX_SQL_CHARS} characters")
        if "\0" in sql or any("\ud800" <= c <= "\udfff" for c in sql):
            return Result(error="the query contains characters that are not text")
        return None

    def _execute(self, sql: str) -> Result:
        self._denied = self._stopped = ""
        self._connection.set_progress_handler(self._clock(), 2_000)
        try:
            cursor = self._connection.execute(sql)
            if cursor.description is None:
                return Result(error="only SELECT is allowed")
            return _read(cursor)
        except (sqlite3.Error, sqlite3.Warning) as error:
            return self._explain(error)
        except MemoryError:
            return Result(error="the query needs too much memory")
        finally:
            self._connection.set_progress_handler(None, 0)

    def _clock(self) -> Callable[[], bool]:
        cpu, wall = time.thread_time(), time.monotonic()

        def too_long() -> bool:
            if time.thread_time() - cpu > self._time_limit_s:
                self._stopped = "time"
            elif time.monotonic() - wall > self._time_limit_s * _WALL_FACTOR:
                self._stopped = "machine"
            return bool(self._stopped)

        return too_long

    def _explain(self, error: Exception) -> Result:
        text, code = str(error), getattr(error, "sqlite_errorcode", 0) & 0xFF
        if self._stopped == "time":
            return Result(error=f"the query took longer than {self._time_limit_s:g} s")
        if self._stopped == "machine":
            return Result(error="the machine was too busy to run the query", valid=False)
        if self._denied:
            return Result(error=f"not allowed: {self._denied}; only SELECT over {', '.join(sorted(self._tables))}")
        if code == sqlite3.SQLITE_INTERRUPT:  # sqlite3 swallows what is raised inside the handler: this was Ctrl-C
            raise KeyboardInterrupt
        return Result(error=text[:200], valid=code not in _MACHINE)

    def _authorize(
        self, action: int, first: str | None, second: str | None, _schema: str | None, _by: str | None
    ) -> int:
        allowed = (
            action == sqlite3.SQLITE_SELECT
            # An empty column means "counts rows only"; there the name may be that of a subquery.
            or (action == sqlite3.SQLITE_READ and (not second or first in self._tables))
            or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FUNCTIONS)
        )
        if allowed:
            return sqlite3.SQLITE_OK
        names = {sqlite3.SQLITE_RECURSIVE: "a recursive query", sqlite3.SQLITE_PRAGMA: "PRAGMA"}
        if action == sqlite3.SQLITE_FUNCTION:
            self._denied = f"the function {second}()"
        elif action == sqlite3.SQLITE_READ:
            self._denied = f"the table {first}"
        else:
            self._denied = names.get(action, "this statement")
        return sqlite3.SQLITE_DENY


def _read(cursor: sqlite3.Cursor) -> Result:
    """The rows, one after the other: no more is read than may be returned."""
    rows: list[tuple[Value, ...]] = []
    room = MAX_RESULT_BYTES
    try:
        for row in cursor:
            room -= _size(row)
            if len(rows) == MAX_ROWS:
                return Result(error=f"the query returns more than {MAX_ROWS} rows")
            if room < 0:
                return Result(error=f"the query returns more than {MAX_RESULT_BYTES:,} bytes")
            rows.append(row)
    finally:
        cursor.close()
    return Result(rows=tuple(rows))


def _size(row: Sequence[Value]) -> int:
    return sys.getsizeof(row) + sum(map(sys.getsizeof, row))


def extract_query(text: str) -> str:
    """The first SQL statement in a model's answer, on one line.

    Strips code fences, prose before the first SELECT or WITH that begins a line, and comments; ends at a semicolon, a
    blank line or the next "Q:" outside quotes.
    """
    if (fence := re.search(r"```[ \t]*\w*[ \t]*\n?(.*?)(?:```|\Z)", text, re.DOTALL)) and fence[1].strip():
        text = fence[1]
    text = re.sub(r"\A\s*(?:SQL\s*:)?\s*", "", text, flags=re.IGNORECASE)
    if start := re.search(r"^[ \t]*(?=(?:select|with)\b)", text, re.IGNORECASE | re.MULTILINE):
        text = text[start.end() :]
    parts: list[str] = []
    for match in _PART.finditer(text):
        if match.lastgroup == "end":
            break
        part = " " if match.lastgroup in ("gap", "comment") else match[0]
        if part != " " or parts[-1:] != [" "]:
            parts.append(part)
    return "".join(parts).strip(" `")


def cell(value: object) -> str:
    """A value as it is shown."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:80]


def same_rows(a: Iterable[Sequence[Value]], b: Iterable[Sequence[Value]], rel: float = 1e-4) -> bool:
    """Whether two results are equal: the order of rows and the names of columns do not matter.

    Two integers must be equal; where a float is involved, |x - y| <= ``rel`` * max(|x|, |y|).
    """
    left, right = list(a), list(b)
    if len(left) != len(right):
        return False
    for row in left:
        match = next((i for i, other in enumerate(right) if _same_row(row, other, rel)), None)
        if match is None:
            return False
        del right[match]
    return True


def _same_row(a: Sequence[Value], b: Sequence[Value], rel: float) -> bool:
    return len(a) == len(b) and all(_same(x, y, rel) for x, y in zip(a, b, strict=True))


def _same(x: Value, y: Value, rel: float) -> bool:
    if isinstance(x, float | int) and isinstance(y, float | int):
        return x == y or (
            (isinstance(x, float) or isinstance(y, float)) and abs(x - y) <= rel * max(abs(x), abs(y)) < float("inf")
        )
    return type(x) is type(y) and x == y
