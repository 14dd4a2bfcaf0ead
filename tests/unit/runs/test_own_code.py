"""Mistakes in a world and an agent of one's own: one message with file, line and task; mended, the run goes on."""

import json
from typing import Any, cast

import pytest

import evolvent
from evolvent import envs
from evolvent.cli import main
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.folder import RunFolder
from evolvent.evaluate.index import state_of
from evolvent.testing.env import check_env
from run_folders import stable

WORLD = """
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Correction, Task, Turn

CAPITALS = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Norway": "Oslo", "Peru": "Lima", "Cuba": "Havana"}

class Capitals:
    name, instructions, labels = "capitals", "Name the capital.\\n\\n", ("Q", "A")
    stop, max_tokens, reward_range = ("\\n",), 10, (0.0, 1.0)
    task = None

    def tasks(self, split, n, seed):
        if split not in ("train", "heldout"):
            raise BadInput("unknown split", got=split)
        names = list(CAPITALS)[:4] if split == "train" else list(CAPITALS)[4:]
        return [Task(name, f"Capital of {name}?", split=split) for name in names[:n]]

    def reset(self, task, seed=0):
        self.task = task
        return Turn(task.text)

    def step(self, action):
        if self.task is None:
            raise EnvError("the attempt has ended")
        task, self.task = self.task, None
        right = action == CAPITALS[task.id]
        return Turn("Right" if right else "Wrong", reward=float(right), success=right, terminated=True)

    def review(self, task, seed=0):
        return Correction(CAPITALS[task.id])

    def advance(self, number):
        pass

    def close(self):
        pass

def make():
    return Capitals()

def answer(prompt):
    before, _, asked = prompt.rpartition("Q: ")
    known = before.rpartition(f"Q: {asked.splitlines()[0]}\\nA: ")[2]
    return known.partition("\\n")[0] if known != before else "Paris"
"""
SETTINGS: dict[str, Any] = {
    "env": "my.py:make",
    "model": "my.py:answer",
    "embedder": "hash",
    "train": 4,
    "heldout": 2,
    "quiet": True,
}
STEP = "        right = action"
# what is changed; what is said of it; on which line; and whether the run has begun
MISTAKES = {
    "step raises": (
        STEP,
        f'        task.id == "Italy" and 1 / 0\n{STEP}',
        "task Italy raises ZeroDivisionError",
        'in step: task.id == "Italy" and 1 / 0',
        True,
    ),
    "reset raises": (
        "self.task = task\n",
        "self.task = self.by_id[task.id]\n",
        "reset of task France raises Attribute",
        "in reset: self.task = self.by_id[task.id]",
        False,
    ),
    "a tuple": (
        'return Turn("Right" if right else "Wrong"',
        'return dict(observation=""',
        "not a turn",
        "task Peru",
        False,
    ),
    "a text as reward": ("reward=float(right)", 'reward="1"', "got: '1'", "step 1 of task Peru", False),
    "not a number": (
        "reward=float(right)",
        'reward=float("nan") if task.id == "Italy" else 1.0 * right',
        "got: nan",
        "step 1 of task Italy",
        True,
    ),
    "no success": ("success=right, ", "", "the highest reward, and no success", "step 1 of task France", True),
    "no reward": ("reward=float(right), ", "", "a success with the lowest reward", "step 1 of task France", True),
    "beyond the range": ("float(right)", "5.0 * right", "total reward outside (0.0, 1.0)", "task France", True),
    "never ends": (", terminated=True", "", "success of an attempt that goes on", "step 1 of task France", True),
    "ends at once": ("Turn(task.text)", "Turn(task.text, terminated=True)", "ended at reset", "reset of task", False),
    "a text as review": (
        "return Correction(CAPITALS[task.id])",
        "return CAPITALS[task.id]",
        "is no Correction",
        "review of task Italy",
        True,
    ),
    "no tasks": ("        return [Task", "        return []\n        return [Task", "got: 0", "tasks('train'", False),
    "no list": ("        return [Task", "        return\n        return [Task", "is no list", "got: None", False),
    "too many": ("names[:n]]", "CAPITALS]", "got: 6\n  expected: 1 to 4", "tasks[:n]", False),
    "ids twice": ("Task(name, f", 'Task("x", f', "task ids repeat", "tasks('train', 4, 0)", False),
    "seen before": ("else list(CAPITALS)[4:]", "else list(CAPITALS)[:4]", "share tasks", "['France', 'Italy']", False),
    "seen, renamed": (
        "[4:]\n        return [Task(name",
        "[:4]\n        return [Task(split + name",
        "share tasks",
        "heldoutFrance",
        False,
    ),
    "no reply": ('else "Paris"', "else None", "the agent's reply is not a text", "Capital of Peru?", False),
    "a zero byte": ('f"Capital of', 'f"Capital\\0 of', "the text of a task holds a zero byte", "tasks('train'", False),
    "half a character": (
        'Turn("Right" if right else "Wrong"',
        'Turn("\\ud83d"',
        "of a turn holds half a character",
        "step 1 of task Peru",
        False,
    ),
    "half a review": (
        "Correction(CAPITALS[task.id])",
        'Correction("\\ud83d")',
        "a correction holds half a character",
        "review of task Italy",
        True,
    ),
    "agent raises": (
        "    before, _",
        "    prompt.nothing\n    before, _",
        "the agent my.py:answer failed",
        "in answer: prompt.nothing; asked 'Name the capital.",
        False,
    ),
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(**settings) -> dict[str, Any]:
    return cast("Any", evolvent.run("memlift", **SETTINGS | settings)).summary


def resumed() -> dict[str, Any]:
    return cast("Any", evolvent.run("memlift", resume="run", quiet=True)).summary


def refused(**settings):
    with pytest.raises(BadInput) as error:
        evolvent.run("memlift", **{**SETTINGS, "out": "run", **settings})
    return "\n".join([str(error.value), *getattr(error.value, "__notes__", ())])


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_with_its_place_and_the_run_goes_on_when_it_is_mended(here, name, monkeypatch):
    old, new, what, place, begun = MISTAKES[name]
    assert WORLD.count(old) == 1
    (here / "my.py").write_text(WORLD.replace(old, new))
    said = refused()
    assert what in said and place in said and "my.py" in said and (here / "run").exists() == begun
    assert ("evolvent run memlift --resume run" in said) == begun
    if begun:
        assert state_of(here / "run") == "failed" and "Traceback" in RunFolder.open("run").error
        refused(out=None, resume="run")
        assert state_of(here / "run") == "failed", "as long as it is not mended"
    (here / "my.py").write_text(WORLD)
    resumed() if begun else ran(out="run")
    ran(out="whole")
    assert stable(here / "run") == stable(here / "whole") and state_of(here / "run") == "finished"
    note = json.loads((here / "run/task/source.json").read_text())
    assert (here / "run/task/my.py").read_text() == WORLD and ("before" in note) == begun
    if begun:
        assert (here / "run/task" / note["before"][0]["copy"]).read_text() == WORLD.replace(old, new)


def test_the_command_line_prints_the_message_and_no_traceback(here, capsys):
    old, new, *_ = MISTAKES["step raises"]
    (here / "my.py").write_text(WORLD.replace(old, new))
    arguments = (
        "--env",
        "my.py:make",
        "--model",
        "my.py:answer",
        "--embedder",
        "hash",
        "--train",
        "4",
        "--heldout",
        "2",
    )
    with pytest.raises(SystemExit, match="2"):
        main(["run", "memlift", *arguments, "--out", "run"])
    said = capsys.readouterr().err
    assert said.startswith("error: ") and "it goes on with\n       evolvent run memlift --resume run" in said
    assert "Traceback" not in said


def test_a_file_that_changes_without_an_error_is_refused_as_before(here):
    (here / "my.py").write_text(WORLD)
    ran(out="run")
    (here / "run/summary.json").unlink()
    (here / "my.py").write_text(WORLD + "# changed")
    assert "has changed since the run began" in refused(out=None, resume="run") and not RunFolder.open("run").error


def test_a_run_that_was_killed_before_its_first_task_takes_a_mended_file(here):
    (here / "my.py").write_text(WORLD)
    ran(out="run")
    for name in ("metrics.jsonl", "episodes.jsonl", "memory.db", "summary.json"):
        (here / "run" / name).unlink()
    (here / "my.py").write_text(WORLD + "# mended")
    resumed()
    assert (here / "run/task/my.py").read_text().endswith("# mended")


def test_what_stands_beside_the_file_can_be_imported(here):
    (here / "my_cities.py").write_text('CAPITAL = "Paris"')
    (here / "my.py").write_text(WORLD.replace('"Paris", ', "__import__('my_cities').CAPITAL, "))
    assert envs.load("my.py:make").tasks("train", 1, 0)


# ------------------------------------------------------------------------------------------- the world, not the agent
def broken_at(*tasks):
    text = f'        if task.id in {tasks}:\n            raise EnvError("the database is down")\n'
    return WORLD.replace(STEP, text + STEP)


def test_an_attempt_that_the_world_broke_does_not_count_and_the_run_goes_on(here, capsys):
    (here / "my.py").write_text(broken_at("Spain"))
    summary = ran(quiet=False, out="run")
    rows = stable(here / "run")
    (spain, *again) = [row for row in rows if row["task"] == "Spain"]
    assert spain["valid"] == 0 and spain["success"] == 0 and "the database is down" in spain["error"]
    assert len(again) == 2 and summary["broken"] == 3 and [phase["n"] for phase in summary["phases"]] == [2, 2, 3]
    assert len((here / "run/episodes.jsonl").read_text().splitlines()) == len(rows) - 3
    said = capsys.readouterr().out
    assert "3 attempts broke, not counted: the database is down where: step('Paris'), step 1 of task Spain" in said
    assert "broke" in said.partition("Stream")[2], "where it happened, too"


def test_where_most_attempts_break_the_run_ends_and_those_are_tried_again(here):
    (here / "my.py").write_text(broken_at("Peru", "Cuba", "France", "Italy", "Spain", "Norway"))
    with pytest.raises(EnvError, match=r"3 of 3 attempts at the last tasks broke: the database is down(.|\n)*my\.py"):
        ran(out="run")
    (here / "my.py").write_text(WORLD)
    assert resumed()["broken"] == 0
    ran(out="whole")
    assert stable(here / "run") == stable(here / "whole")


def test_an_agent_whose_server_fails_says_so_too(here):
    (here / "my.py").write_text(
        WORLD.replace("    before, _", '    if "Cuba" in prompt: raise EnvError("no answer")\n    before, _')
    )
    assert ran(out="run")["broken"] == 2


def test_a_reply_that_no_store_can_hold_is_an_answer_like_any_other(here):
    """A zero byte or half of a character, once in a night, is what a model said: not a mistake of its owner."""
    (here / "my.py").write_text(WORLD.replace('else "Paris"', 'else "\\0 Paris \\ud83d"'))
    assert ran(out="run")["broken"] == 0
    assert "\ufffd Paris \ufffd" in (here / "run/episodes.jsonl").read_text()


def test_an_evaluation_does_not_count_it_either(here, capsys):
    (here / "my.py").write_text(broken_at("Cuba"))
    ran(out="run")
    main(["eval", "run"])
    assert json.loads((here / "run/eval.json").read_text())["n"] == 1 and "1 attempt broke" in capsys.readouterr().out


# ----------------------------------------------------------------------------------------------- `evolvent check env`
@pytest.mark.parametrize("name", [name for name in MISTAKES if "agent" not in name and name != "no reply"])
def test_check_env_finds_it_before_the_run(here, name):
    old, new, *_ = MISTAKES[name]
    (here / "my.py").write_text(WORLD.replace(old, new))
    with pytest.raises(BadInput):
        check_env(envs.load("my.py:make"), n=2)


def test_check_env_finds_a_world_that_goes_on_after_the_end(here):
    mended = WORLD.replace("task, self.task = self.task, None", "task = self.task").replace(
        "right = action ==", "right = action !="
    )
    (here / "my.py").write_text(mended.replace("return Correction(CAPITALS[task.id])", "return None"))
    with pytest.raises(BadInput, match="a step after the end is accepted"):
        check_env(envs.load("my.py:make"), n=2)


def test_the_world_itself_keeps_its_promises(here):
    (here / "my.py").write_text(WORLD)
    assert len(check_env(envs.load("my.py:make"), n=2)) == 6
    with pytest.raises(BadInput, match="where there are no more: --n 2"):
        check_env(envs.load("my.py:make"), n=4)


ENDLESS = """
from {__name__} import *

class Endless(Capitals):
    steps = 0

    def step(self, action):
        self.steps += 1
        return Turn({shown})

def make():
    return Endless()
"""


@pytest.mark.parametrize(
    ("shown", "message", "steps"),
    [
        ("'again'", "the same turn 200 times", 201),
        ("f'turn {self.steps}'", "2,000 steps", 2_000),
        ("'tick' if self.steps % 2 else 'tock'", "2,000 steps", 2_000),
    ],
)
def test_an_attempt_without_an_end_is_cut_off_and_said_once(here, shown, message, steps):
    (here / "capitals_world.py").write_text(WORLD)
    (here / "my.py").write_text(ENDLESS.replace("{__name__}", "capitals_world").replace("{shown}", shown))
    env, taken = envs.load("my.py:make"), []
    with pytest.warns(UserWarning, match=f"no end: {message}") as said:
        for task in env.tasks("train", 2, 0):
            turn, count = env.reset(task), 0
            while not turn.done:
                turn, count = env.step("Paris"), count + 1
            taken.append(count)
            assert turn.truncated and not turn.terminated
    assert taken == [steps] * 2 and len(said) == 1 and said[0].filename.endswith("my.py")


def test_a_run_in_a_world_without_an_end_ends(here):
    (here / "my.py").write_text(
        WORLD.replace("task, self.task = self.task, None", "task = self.task")
        .replace("success=right, terminated=True", "terminated=False")
        .replace("float(right)", "0.0")
    )
    with pytest.warns(UserWarning, match="no end"):
        assert ran()["steps"] > 0


def test_fewer_tasks_than_asked_for_are_reported(here, capsys):
    (here / "my.py").write_text(WORLD)
    assert ran(quiet=False, train=36, heldout=2, out="run")["steps"] == 2 + 4 + 4 + 2 + 4
    said = capsys.readouterr().out
    assert "capitals has fewer training tasks than the 36 asked for: 4" in said and "held-out tasks than" not in said


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"Right" if right', 'None if right else "Wrong" if 0', "observation of a turn is no str"),
        ("reward=float(right)", "reward=50.0", "total reward outside (0.0, 1.0)"),
        (
            "        task, self.task =",
            '        raise EnvError("the server is away")\n        task, self.task =',
            "step 1 of task France raises EnvError\n  got: the server is away",
        ),
    ],
)
def test_the_check_names_the_promise_and_the_line_and_not_itself(tmp_path, capsys, old, new, message):
    (tmp_path / "mine.py").write_text(WORLD.replace(old, new))
    with pytest.raises(SystemExit):
        main(["check", "env", f"{tmp_path}/mine.py:make", "--n", "2"])
    err = capsys.readouterr().err
    assert message in err
    assert err.count("breaks its protocol") == 1 and "promises.py" not in err and "checked.py" not in err
