"""The world of queries in steps: experts are right, what cannot be read is reported, nothing but two tables is seen."""
# ruff: noqa: E501 - queries in one line

import random
import sqlite3
import tracemalloc
from pathlib import Path

import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Task
from evolvent.envs.text import analyst_sql, sql
from evolvent.testing.env import check_env


@pytest.fixture
def world():
    env = sql.make()
    yield env
    env.close()


def played(env, task, commands):
    env.reset(task)
    turns = []
    for command in commands:
        turns.append(env.step(command))
        if turns[-1].done:
            break
    return turns


def test_the_world_keeps_its_promises(world):
    check_env(world)
    check_env(world, act=lambda task, turn: "tables")


def test_an_expert_is_always_right_and_whoever_does_not_look_is_not(world):
    found = world.tasks("train", 120, 0) + world.tasks("heldout", 60, 0)
    assert {task.kind for task in found} == set(sql.KINDS) and {t.meta["base"] for t in found} == set(sql.BASES)
    parts = [{task.repeats or task.id for task in world.tasks(s, 300, 1)} for s in ("train", "heldout")]
    assert not parts[0] & parts[1] and sum(map(len, parts)) == sum(map(len, sql.KINDS.values())) * len(sql.BASES)
    draw = random.Random(0)
    for task in found:
        turns = played(world, task, world.expert(task))
        assert turns[-1].success and turns[-1].reward == 1.0 and turns[-2].info["rewards"]["overlap"] == 1.0
        assert not any(turn.observation.startswith("Output: error") for turn in turns), task
        guess = played(world, task, [f"SELECT {draw.randrange(400)}", "done"])
        assert not guess[-1].success or guess[-2].info["rewards"]["overlap"] == 1.0
    answers = [played(world, t, world.expert(t))[-2].observation for t in found]
    assert len(set(answers)) > 80, "questions have different answers"


WORDS = {
    "tables": "Output: ord, cust",
    "describe cust": "Output: cid INTEGER, nm TEXT, town TEXT",
    "describe nothing": "Output: no table nothing; there is ord, cust",
    "SELECT * FROM sqlite_master": "Output: error: not allowed",
    "SELECT count(*) FROM pupils": "Output: error:",
    "DROP TABLE cust": "Output: error:",
    "PRAGMA table_info(cust)": "Output: error:",
    "ATTACH '/etc/passwd' AS x": "Output: error:",
    "SELECT 1": "Output: 1",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c": "Output: error: not allowed",
    "SELECT cid FROM cust WHERE cid < 7": "Output: 0; 1; 2; 3; 4 … (7 rows)",
    "SELECT * FROM ord": "Output: error: the query returns more than 200 rows",
    "SELECT cid FROM cust WHERE cid < 0": "Output: no rows",
    "I would look first.": "Output: error:",
    "": "Output: error: no query",
}


@pytest.mark.parametrize("command", WORDS)
def test_a_command_says_what_became_of_it_and_ends_nothing(world, command):
    task = next(t for t in world.tasks("train", 100, 0) if t.meta["base"] == "shop")
    (turn,) = played(world, task, [command])
    assert turn.observation.startswith(WORDS[command]) and turn.valid and not turn.done and turn.follows
    assert turn.info["rewards"]["runs"] == float("error" not in turn.observation and "no table" not in turn.observation)


def test_a_query_that_never_ends_is_ended(world):
    (task,) = world.tasks("train", 1, 0)
    table = world.expert(task)[1].removeprefix("describe ")
    (turn,) = played(world, task, [f"SELECT count(*) FROM {', '.join(f'{table} {a}' for a in 'abcdef')}"])
    # a machine that gives it no second in a quarter of a minute is to blame itself: then nothing is learned
    assert "took longer than 1 s" in turn.observation or not turn.valid
    assert not turn.done


VOID = [
    "SELECT malformed FROM cust",
    "SELECT [disk I/O error] FROM cust",
    'SELECT a."unable to open" FROM cust a',
    "SELECT [database disk image is malformed] FROM nowhere",
    "SELECT interrupted FROM cust",
]


@pytest.mark.parametrize("query", VOID)
def test_no_query_makes_its_own_failure_count_for_nothing(world, query):
    task = next(t for t in world.tasks("train", 100, 0) if t.meta["base"] == "shop")
    turns = played(world, task, [query, "done"])
    assert turns[0].observation.startswith("Output: error: no such") and all(turn.valid for turn in turns)


def test_a_database_that_is_damaged_is_not_the_querys_fault(tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE t (a TEXT)")
        made.executemany("INSERT INTO t VALUES (?)", [("x" * 3000,)] * 9)
    made.close()
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 4096 + path.read_bytes()[8192:])
    database = analyst_sql.ReadOnlyDatabase(path, 5.0, frozenset("t"))
    result = database.run("SELECT a FROM t")
    assert "malformed" in result.error and not result.valid
    database.close()


LONG = "(SELECT group_concat(a.nm || b.nm) g FROM cust a, cust b WHERE a.cid < {n})"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (f"SELECT g, g || no FROM {LONG.format(n=45)}, ord LIMIT 199", "more than 1,000,000 bytes"),
        (f"SELECT {', '.join('g' * 90)} FROM {LONG.format(n=45)}, ord LIMIT 199", "more than 1,000,000 bytes"),
        (f"SELECT {', '.join('g' * 600)} FROM {LONG.format(n=45)}", "too many columns"),
        (f"SELECT replace(g, ' ', '{'x' * 90}') FROM {LONG.format(n=45)}", "too big"),
        (f"SELECT length(g) FROM {LONG.format(n=45)}", "60074"),
    ],
)
def test_what_a_query_returns_is_bounded(world, query, words):
    task = next(t for t in world.tasks("train", 100, 0) if t.meta["base"] == "shop")
    tracemalloc.start()
    (turn,) = played(world, task, [query])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert words in turn.observation and turn.valid and most < 12e6, turn


def test_results_are_remembered_up_to_a_size(monkeypatch):
    monkeypatch.setattr(analyst_sql, "CACHED_BYTES", 100_000)
    database = analyst_sql.ReadOnlyDatabase(Path(sql._built().name) / "shop.db", 5.0, frozenset(("cust", "ord")))
    for i in range(50):
        assert database.run(f"SELECT {i}, nm FROM cust").rows and database._cached_bytes <= 100_000
    assert 1 < len(database._cache) < 20
    monkeypatch.setattr(analyst_sql, "CACHED_BYTES", 1_000)
    assert database.run("SELECT nm FROM cust").rows and not database._cache and database._cached_bytes == 0
    database.close()


def test_a_query_that_sqlite_has_no_memory_for_is_reported(world, monkeypatch):
    def none(cursor):
        raise MemoryError

    monkeypatch.setattr(analyst_sql, "_read", none)
    (turn,) = played(world, world.tasks("train", 1, 0)[0], ["SELECT 1"])
    assert "too much memory" in turn.observation and turn.valid


def test_an_attempt_ends_at_its_limit_with_its_last_result(world):
    env = sql.make(step_limit=5)
    (task,) = env.tasks("train", 1, 0)
    right = env.expert(task)[-2]
    turns = played(env, task, ["tables"] * 4 + [right])
    assert turns[-1].truncated and not turns[-1].terminated and turns[-1].success
    assert played(env, task, [f"Command: {right}", "Done."])[-1].success
    turns = played(env, task, [right, "SELECT 1", "done"])
    assert turns[-1].terminated and not turns[-1].success, "the last result counts"
    with pytest.raises(EnvError):
        env.step("tables")
    with pytest.raises(BadInput, match="not a task"):
        env.reset(Task("a", "a"))
    env.close()


def test_rows_in_common():
    assert sql.overlap(((1,), (1,), (2,)), ((1,), (3,))) == 0.25
    assert sql.overlap((), ()) == 1.0 and sql.overlap(((1, "a"),), ((1, "a"),)) == 1.0


@pytest.mark.parametrize("spec", ["sql:step_limit=2", "sql:base=shop"])
def test_unknown_options_are_refused(spec):
    with pytest.raises(BadInput):
        envs.load(spec)
