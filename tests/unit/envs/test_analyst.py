"""The analyst world: tasks, splits, attempts, the reviewer, drift."""

import json
import re
from dataclasses import replace

import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError
from evolvent.envs.text.analyst import DATABASES, make, split_of
from evolvent.envs.text.analyst_flights import FLIGHTS
from evolvent.envs.text.analyst_kinds import VARIANTS
from evolvent.testing.env import check_env

KINDS = FLIGHTS.kinds
BY_NAME = {kind.name: kind for kind in KINDS}
N = len(KINDS)


def world(flights_db, **options):
    return make(data=str(flights_db.parent), **options)


def test_keeps_the_protocol(analyst):
    done = check_env(analyst, act=lambda task, _: analyst.review(task, 0).body)
    assert "attempts" in done and "passes" in done
    check_env(analyst)  # the default action is no SQL at all


def test_the_long_schema_has_what_the_instructions_leave_out(analyst):
    lines = analyst.schema().splitlines()
    assert len(lines) == 5 and lines[0].startswith("CREATE TABLE flights(year INTEGER, month INTEGER")
    assert "carrier TEXT" in lines[0] and "such as 2013, 1, 1, 517" in lines[0] and "NULL" in lines[4]


def test_thirty_kinds_with_words_of_their_own():
    assert N >= 24
    assert all(len(set(kind.wordings)) >= 3 for kind in KINDS)
    assert len(BY_NAME) == N
    questions = [(kind.name, w) for kind in KINDS for w in kind.wordings]
    assert len({w for _, w in questions}) == len(questions)
    joins = [k for k in KINDS if "JOIN" in k.sql]
    assert len(joins) >= 8 and {"planes", "airlines", "airports", "weather"} <= {
        word for k in KINDS for word in re.findall(r"(?:FROM|JOIN) (\w+)", k.sql)
    }
    for kind in KINDS:
        assert len(set(kind.rules)) == 3
        for wording in kind.wordings:
            assert set(re.findall(r"{(\w)n}", wording)) == set(kind.slots), wording


FUNCTION_WORDS = re.findall(
    r"\w+",
    "a about after all among an and any as at be by could count did do does during each for from give had "
    "happened have hours how i if in into is it its least list long many me month more most much my name "
    "number of off often on one or our out over per please shall should so some tell than that the their them "
    "there they this those three through throughout time times to total under up was we were what when where "
    "which while who whom with would you ",
)


def content(wording):
    """Stems of the words that carry the meaning."""
    found = re.findall(r"[a-z]+", re.sub(r"{\w+}('s)?", " ", wording.lower()))
    return {word[:5].rstrip("s") for word in found if word not in FUNCTION_WORDS}


@pytest.mark.parametrize("database", DATABASES)
def test_free_wordings_are_not_the_short_ones_again(database):
    kinds = DATABASES[database].kinds
    every = [w for kind in kinds for w in (*kind.wordings, *kind.free_wordings)]
    assert len(set(every)) == len(every) == 11 * N
    for kind in kinds:
        short = set().union(*map(content, kind.wordings))
        for wording in kind.free_wordings:
            assert set(re.findall(r"{(\w)n}", wording)) == set(kind.slots), wording
        for wording in kind.free_wordings[4:]:
            assert not short & content(wording), (kind.name, wording, short & content(wording))


def test_words_choose_which_wordings_are_asked(flights_db):
    worlds = {words: world(flights_db, words=words) for words in ("short", "free", "any")}
    asked = {words: {t.meta["wording"] for t in world.tasks("train", 600, 0)} for words, world in worlds.items()}
    assert asked == {"short": set(range(3)), "free": set(range(3, 11)), "any": set(range(11))}
    task = worlds["free"].tasks("heldout", 1, 0)[0]
    assert task.text == BY_NAME[task.kind].question(task.meta["wording"], task.meta["constants"])
    for one in worlds.values():
        one.close()
    with pytest.raises(BadInput, match="free"):
        world(flights_db, words="fre")


def test_every_kind_runs_and_its_three_definitions_differ(analyst):
    tasks = analyst.tasks("train", 2 * N, 0) + analyst.tasks("heldout", 2 * N, 0)
    seen = {kind.name: 0 for kind in KINDS}
    for task in tasks:
        kind, constants = BY_NAME[task.kind], task.meta["constants"]
        rewards = {}
        for variant in VARIANTS:
            analyst.reset(task)
            turn = analyst.step(kind.query(variant, constants))
            assert not turn.info["error"], turn
            assert turn.info["rows"] and turn.info["rows"][0][0] not in (None, 0)
            rewards[variant] = turn.reward
        assert rewards == {"gold": 1.0, "wrong": 0.0, "drift": 0.0}, task
        seen[task.kind] += 1
    assert min(seen.values()) >= 4


def test_queries_are_one_short_line():
    for kind in KINDS:
        for constants in list(kind.constants())[:3]:
            query = kind.query("gold", constants)
            assert "\n" not in query and ";" not in query and len(query) <= 175


def test_tasks_cycle_the_kinds_and_are_stable(analyst):
    tasks = analyst.tasks("train", 2 * N, 7)
    for first in range(0, 2 * N, N):
        assert {t.kind for t in tasks[first : first + N]} == set(BY_NAME)
    assert [t.kind for t in tasks[:N]] != [t.kind for t in tasks[N : 2 * N]]
    assert analyst.tasks("train", N + 5, 7) == tasks[: N + 5]
    other = analyst.tasks("train", N, 8)
    assert {t.id for t in other} != {t.id for t in tasks[:N]}
    assert len({t.text for t in tasks}) == len(tasks)


def test_a_task_does_not_depend_on_what_was_asked_before(flights_db):
    first, second = world(flights_db), world(flights_db)
    second.tasks("heldout", 20, 3)
    assert first.tasks("train", 40, 0) == second.tasks("train", 40, 0)


def test_splits_are_disjoint_in_questions_and_constants(analyst):
    def seen(split):
        tasks = [t for seed in range(3) for t in analyst.tasks(split, 2 * N, seed)]
        return {t.text for t in tasks}, {(t.kind, tuple(t.meta["constants"].values())) for t in tasks}

    for train, held in zip(seen("train"), seen("heldout"), strict=True):
        assert not train & held
    for kind in KINDS:
        splits = [split_of(kind, c) for c in kind.constants()]
        assert 0.2 < splits.count("heldout") / len(splits) < 0.5, kind.name


def test_constants_come_back_in_other_words_until_all_is_asked(analyst, monkeypatch):
    weather = [kind for kind in KINDS if "FROM weather" in kind.sql]
    monkeypatch.setattr(analyst, "kinds", tuple(weather))
    with pytest.raises(BadInput, match="more tasks than there are") as caught:
        analyst.tasks("heldout", 1_000_000, 0)
    most = int(re.search(r"at most (\d+)", str(caught.value))[1])
    tasks = analyst.tasks("heldout", most, 0)
    assert len({t.text for t in tasks}) == len({t.id for t in tasks}) == most
    assert most >= 3 * 8 * len(weather)
    with pytest.raises(BadInput, match="negative"):
        analyst.tasks("train", -1, 0)
    assert analyst.tasks("train", 0, 0) == []


def test_any_model_text_is_an_answer(analyst):
    task = analyst.tasks("train", 1, 0)[0]
    gold = analyst.review(task, 0).body
    for text in (gold, f" {gold};\nQ: next", f"```sql\n{gold}\n```", f"Here it is:\n\n{gold};", f"SQL: {gold}\n\nQ: x"):
        analyst.reset(task)
        turn = analyst.step(text)
        assert turn.success and turn.info["sql"] == gold, text


def test_a_failed_query_says_why_and_ends_the_attempt(analyst):
    task = analyst.tasks("train", 1, 0)[0]
    assert analyst.reset(task).observation == task.text
    turn = analyst.step("SELECT nonsense FROM flights")
    assert (turn.terminated, turn.success, turn.reward, turn.valid) == (True, False, 0.0, True)
    assert "no such column: nonsense" in turn.observation
    with pytest.raises(EnvError, match="without reset"):
        analyst.step("SELECT 1")
    with pytest.raises(BadInput, match="not a task"):
        analyst.reset(replace(task, kind="unheard of"))


def test_what_a_turn_says_can_be_recorded(analyst):
    task = analyst.tasks("train", 1, 0)[0]
    analyst.reset(task)
    turn = analyst.step(
        "SELECT x'00ff', 9e999, NULL, 1, 0.5, replace('aaaaaaaaaa', 'a', name || name) FROM airlines LIMIT 9"
    )
    assert len(turn.info["rows"]) == 5 and len(turn.observation) < 1000
    assert json.loads(json.dumps(turn.info, allow_nan=False)) == turn.info


def test_a_harness_failure_is_not_the_agents(analyst, monkeypatch):
    task = analyst.tasks("train", 1, 0)[0]
    monkeypatch.setattr("evolvent.envs.text.analyst_sql._WALL_FACTOR", 0.0)
    monkeypatch.setattr("time.thread_time", lambda: 0.0)
    analyst.reset(task)
    turn = analyst.step("SELECT COUNT(*) FROM flights a, planes b")
    assert turn.done and not turn.valid and not turn.success


def test_the_reviewer(flights_db):
    env = world(flights_db, reviewer_answers=0.5, reviewer_wrong=0.3)
    tasks = env.tasks("train", 2 * N, 0)
    answers = [env.review(task, seed) for seed in range(10) for task in tasks]
    assert answers == [env.review(task, seed) for seed in range(10) for task in tasks]
    given = [a for a in answers if a]
    assert 0.44 < len(given) / len(answers) < 0.56
    assert 0.23 < sum(a.wrong for a in given) / len(given) < 0.37
    assert env.review(tasks[0], 0) is None or isinstance(env.review(tasks[0], 0).body, str)
    always = world(flights_db)
    assert not any(always.review(t, 0).wrong for t in tasks)
    mistaken = world(flights_db, reviewer_wrong=1.0)
    for task in tasks[:N]:
        correction = mistaken.review(task, 0)
        mistaken.reset(task)
        assert correction.wrong and not mistaken.step(correction.body).success


def test_the_wrong_corrections_of_a_lower_rate_are_among_those_of_a_higher(flights_db):
    """Arms that differ in the rate alone stay comparable: the same draw decides."""
    low, high = world(flights_db, reviewer_wrong=0.2), world(flights_db, reviewer_wrong=0.4)
    tasks = low.tasks("train", 2 * N, 0)
    wrong = [{t.id for t in tasks if env.review(t, 1).wrong} for env in (low, high)]
    assert wrong[0] < wrong[1]


def test_drift_changes_half_of_the_definitions_from_a_pass_on(flights_db):
    env = world(flights_db, drift=0.5, drift_at=2)
    assert len(env.drifting) == N // 2
    tasks = env.tasks("train", N, 0)
    before = {t.kind: env.review(t, 0).body for t in tasks}
    for number, changed in ((1, False), (2, True), (3, True), (1, False)):
        env.advance(number)
        for task in tasks:
            correction = env.review(task, 0)
            assert (correction.body != before[task.kind]) == (changed and task.kind in env.drifting)
            env.reset(task)
            assert env.step(before[task.kind]).success == (not changed or task.kind not in env.drifting)
            env.reset(task)
            assert env.step(correction.body).success
    assert env.definition("ontime") in (BY_NAME["ontime"].meaning, BY_NAME["ontime"].meaning_drift)


def test_drift_by_hand(flights_db):
    env = world(flights_db, drift=1.0)
    env.advance(9)
    assert not env.drifted and env.definition("ontime") == BY_NAME["ontime"].meaning
    assert env.drift() == set(BY_NAME)
    assert env.definition("ontime") == BY_NAME["ontime"].meaning_drift
    env.advance(1)
    assert env.drifted
    assert world(flights_db, drift=0.5, seed=1).drifting != world(flights_db, drift=0.5, seed=2).drifting


@pytest.mark.parametrize("options", ["drift=1.5", "reviewer_wrong=-0.1", "time_limit_s=0", "drift_at=-1"])
def test_options_out_of_range(options):
    with pytest.raises(BadInput):
        envs.load(f"analyst:{options}")


def test_the_prompt_head_is_short_and_names_every_code(analyst):
    assert len(analyst.instructions) < 850
    for kind in KINDS:
        for constants in kind.constants():
            for slot in set(kind.slots) - {"m", "f"}:
                assert constants[slot] in analyst.instructions
    assert not any(rule in analyst.instructions for kind in KINDS for rule in kind.rules[:1] if len(rule) > 8)
