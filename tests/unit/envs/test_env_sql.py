"""The world of queries in steps: experts are right, what cannot be read is told, nothing but two tables is seen."""
# ruff: noqa: E501 - queries in one line

import random

import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Task
from evolvent.envs.text import sql
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


def test_an_attempt_ends_at_its_limit_with_its_last_result(world):
    env = sql.make(step_limit=5)
    (task,) = env.tasks("train", 1, 0)
    right = env.expert(task)[-2]
    turns = played(env, task, ["tables"] * 4 + [right])
    assert turns[-1].truncated and not turns[-1].terminated and turns[-1].success
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
