"""Model-written SQL: what it cannot do, how long it may take, how answers are cut out and compared."""

import hashlib
import sqlite3
import time

import pytest

from evolvent.envs.text.analyst_flights import SOURCE
from evolvent.envs.text.analyst_sql import MAX_ROWS, MAX_SQL_CHARS, ReadOnlyDatabase, extract_query, same_rows


@pytest.fixture
def database(flights_db):
    db = ReadOnlyDatabase(flights_db, 0.3, frozenset(SOURCE.tables))
    yield db
    db.close()


@pytest.fixture
def patient(flights_db):
    """With a time limit that no useful query comes near to, however busy the machine is."""
    db = ReadOnlyDatabase(flights_db, 30.0, frozenset(SOURCE.tables))
    yield db
    db.close()


FORBIDDEN = [
    "INSERT INTO airlines VALUES('XX','x')",
    "UPDATE flights SET dep_delay=0",
    "DELETE FROM flights",
    "DROP TABLE flights",
    "CREATE TABLE t(a)",
    "CREATE TEMP TABLE t(a)",
    "CREATE TEMP VIEW v AS SELECT 1",
    "ALTER TABLE flights RENAME TO f",
    "ATTACH DATABASE ':memory:' AS other",
    "DETACH DATABASE main",
    "PRAGMA query_only=0",
    "PRAGMA table_info(flights)",
    "VACUUM",
    "VACUUM INTO 'copy.db'",
    "REINDEX",
    "ANALYZE",
    "BEGIN",
    "SAVEPOINT s",
    "SELECT load_extension('x')",
    "SELECT writefile('x', 'y')",
    "SELECT readfile('/etc/passwd')",
    "SELECT random()",
    "SELECT printf('%.9999999c', 'x')",
    "SELECT hex(zeroblob(900000000))",
    "SELECT sql FROM sqlite_master",
    "SELECT name FROM pragma_table_info('flights')",
    "SELECT COUNT(*) FROM pragma_database_list",
    "SELECT value FROM json_each('[1,2]')",
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM t) SELECT COUNT(*) FROM t",
    "WITH t(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM t) SELECT x FROM t LIMIT 3",
    "SELECT 1; DROP TABLE flights",
    "EXPLAIN DELETE FROM flights",
]


@pytest.mark.parametrize("sql", FORBIDDEN)
def test_nothing_but_reading(database, flights_db, sql):
    before = flights_db.stat()
    result = database.run(sql)
    assert result.error and not result.rows and result.valid
    after = flights_db.stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    assert database.run("SELECT COUNT(*) FROM airlines").rows == ((16,),)


def test_a_refusal_names_what_is_refused(database):
    assert "PRAGMA" in database.run("PRAGMA table_info(flights)").error
    assert "load_extension" in database.run("SELECT load_extension('x')").error
    assert "sqlite_master" in database.run("SELECT sql FROM sqlite_master").error
    assert "recursive" in database.run(FORBIDDEN[-4]).error


def test_the_file_is_unchanged_by_all_of_it(database, flights_db):
    digest = hashlib.sha256(flights_db.read_bytes()).hexdigest()
    for sql in FORBIDDEN:
        database.run(sql)
    assert hashlib.sha256(flights_db.read_bytes()).hexdigest() == digest
    assert not list(flights_db.parent.glob("*-wal")) + list(flights_db.parent.glob("*-journal"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM flights a, flights b",
        "SELECT COUNT(*) FROM flights a JOIN flights b ON a.dep_time<b.dep_time",
        "SELECT a.tailnum FROM flights a, flights b ORDER BY a.distance*b.distance LIMIT 5",
    ],
)
def test_bombs_end_at_the_time_limit(database, sql):
    started = time.monotonic()
    result = database.run(sql)
    assert "took longer than 0.3 s" in result.error and result.valid
    assert time.monotonic() - started < 5
    started = time.monotonic()
    assert database.run(sql) == result
    assert time.monotonic() - started < 0.05  # remembered


def test_other_limits(database):
    assert f"more than {MAX_ROWS} rows" in database.run("SELECT * FROM flights").error
    assert str(MAX_SQL_CHARS) in database.run("SELECT 1 -- " + "x" * MAX_SQL_CHARS).error
    assert database.run(
        "SELECT replace(replace(replace(group_concat(tailnum),'N',name),'N',name),'N',name) FROM flights, airlines"
    ).error
    assert database.run("SELECT " + "(" * 400 + "1" + ")" * 400).error


NO_QUERIES = ["", "   ", "I do not know.", "SELECT", "SELECT '", "\0", "SELECT '\ud800'", "SELECT 'é' FROM", "🦜", "?"]
NO_QUERIES += ["SELECT CAST(x'ff' AS TEXT)", "SELECT ?", "SELECT :a", "-- only a comment"]


@pytest.mark.parametrize("text", NO_QUERIES)
def test_no_text_raises(database, text):
    result = database.run(text)
    assert result.error and result.valid


def test_harness_failures_are_not_remembered(patient, monkeypatch):
    monkeypatch.setattr("evolvent.envs.text.analyst_sql._WALL_FACTOR", 0.0)
    real = time.thread_time
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)
    sql = "SELECT COUNT(*) FROM flights a, airlines b"
    assert not patient.run(sql).valid
    monkeypatch.setattr(time, "thread_time", real)
    monkeypatch.setattr("evolvent.envs.text.analyst_sql._WALL_FACTOR", 100.0)
    assert patient.run(sql).rows == ((336_776 * 16,),)


def test_useful_queries_work(patient):
    rows = patient.run(
        "WITH late AS (SELECT carrier, AVG(arr_delay>30) share FROM flights GROUP BY carrier) "
        "SELECT name, ROUND(share, 3) FROM late JOIN airlines USING(carrier) ORDER BY share DESC LIMIT 2"
    ).rows
    assert len(rows) == 2 and isinstance(rows[0][0], str)
    ranked = "SELECT dest, RANK() OVER (ORDER BY COUNT(*) DESC) r FROM flights GROUP BY dest ORDER BY r LIMIT 1"
    assert patient.run(ranked).rows == (("ORD", 1),)
    assert patient.run("SELECT COUNT(*) FROM (SELECT DISTINCT dest FROM flights)").rows == ((105,),)
    assert patient.run("SELECT COUNT(*) FROM planes WHERE year IS NULL AND UPPER(type) LIKE '%WING%'").rows


def test_the_database_is_the_published_one(flights_db):
    db = sqlite3.connect(f"file:{flights_db}?mode=ro", uri=True)
    for sql, expected in {
        "SELECT COUNT(*) FROM flights": 336_776,
        "SELECT COUNT(*) FROM flights WHERE dep_time IS NULL": 8_255,
        "SELECT COUNT(*) FROM flights WHERE air_time IS NULL": 9_430,
        "SELECT COUNT(*) FROM flights WHERE carrier='UA'": 58_665,
        "SELECT SUM(seats) FROM planes": 512_639,
        "SELECT typeof(wind_speed) FROM weather LIMIT 1": "real",
        "SELECT COUNT(*) FROM flights WHERE tailnum IN ('', 'NA')": 0,
    }.items():
        assert db.execute(sql).fetchone()[0] == expected, sql
    db.close()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (" SELECT 1", "SELECT 1"),
        ("SELECT 1;\n\nQ: x", "SELECT 1"),
        ("SELECT a,\n  b\nFROM t\n\nThis query…", "SELECT a, b FROM t"),
        ("SELECT 1\nQ: What?\nSQL: SELECT 2", "SELECT 1"),
        ("SELECT ';  --x' AS a, \"b;\" FROM t; x", "SELECT ';  --x' AS a, \"b;\" FROM t"),
        ("SELECT 'it''s;  ok'", "SELECT 'it''s;  ok'"),
        ("```sql\nSELECT 1;\n```\nDone.", "SELECT 1"),
        ("```\nSELECT 1", "SELECT 1"),
        ("Sure! Here is the query:\n\n```SQL\nselect 1 -- one\nfrom t\n```", "select 1 from t"),
        ("The query is:\n\nWITH a AS (SELECT 1) SELECT * FROM a", "WITH a AS (SELECT 1) SELECT * FROM a"),
        ("SQL: SELECT 1", "SELECT 1"),
        ("SELECT 1 /* all\n\nof; it */ FROM t", "SELECT 1 FROM t"),
        ("`SELECT 1`", "SELECT 1"),
        ("", ""),
        ("DROP TABLE t; SELECT 1", "DROP TABLE t"),
    ],
)
def test_extract_query(text, query):
    assert extract_query(text) == query


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ([(1,)], [(1,)], True),
        ([(1,)], [(2,)], False),
        ([(30_000,)], [(30_001,)], False),  # integers are exact
        ([(30_000.0,)], [(30_001,)], True),  # a float is involved: 1e-4 relative
        ([(0.5,)], [(0.50004,)], True),
        ([(0.5,)], [(0.5002,)], False),
        ([(5,)], [(5.0,)], True),
        ([(0.0,)], [(0,)], True),
        ([(0.0,)], [(1e-9,)], False),
        ([("A",), ("B",)], [("B",), ("A",)], True),
        ([("A",), ("A",)], [("A",), ("B",)], False),
        ([("A", 1.0), ("B", 2.0)], [("B", 2.0001), ("A", 1.0)], True),
        ([("A",)], [("A", 1)], False),
        ([(None,)], [(None,)], True),
        ([(None,)], [(0,)], False),
        ([("1",)], [(1,)], False),
        ([], [], True),
        ([], [(1,)], False),
        ([(float("inf"),)], [(1.0,)], False),
        ([(-2.0,)], [(2.0,)], False),
    ],
)
def test_same_rows(a, b, equal):
    assert same_rows(a, b) is equal
    assert same_rows(b, a) is equal
