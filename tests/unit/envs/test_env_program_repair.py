"""Programs to repair and to predict: what is asked for is broken, what is right passes, all of others is jailed."""
# ruff: noqa: E501 - programs in one line

import gzip
import importlib.util
import json
from dataclasses import replace

import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, MissingExtra
from evolvent.envs.text import program
from evolvent.envs.text.program_problems import Problem
from evolvent.envs.text.program_repair import Kinds, fails_here, line_labels
from evolvent.envs.text.program_sources import Folder
from evolvent.envs.text.program_tasks import BY_NAME, LONG
from evolvent.sandbox import Case, NoSandbox
from evolvent.sandbox.mutants import normal
from evolvent.testing.env import check_env

try:
    program.make()
except NoSandbox as error:  # pragma: no cover - a machine without a jail
    pytest.skip(f"programs cannot be judged here: {error}", allow_module_level=True)


def tried(env, task, answer):
    env.reset(task)
    return env.step(answer)


def check_tasks(env, tasks):
    """What is asked for fails a call that may be shown and a hidden one; the right program passes."""
    for task in tasks:
        problem = env.problem(task)
        assert tried(env, task, problem.source).success
        turn = tried(env, task, problem.given)
        passed = [turn.info["rewards"][f"test:{i}"] for i in range(len(problem.cases))]
        wrong = {case.hidden for case, one in zip(problem.cases, passed, strict=True) if not one}
        assert wrong == {True, False}, (task.id, turn)
        assert problem.given in task.text and problem.shown in task.text
        assert not any(repr(case.inputs)[1:-1] in task.text for case in problem.cases[5:] if len(repr(case.inputs)) > 9)


def test_generated_programs_are_broken_in_one_line_and_can_be_repaired():
    env = program.make("repair", kinds=4)
    check_env(env)
    tasks = env.tasks("train", 6, 0)
    check_tasks(env, tasks)
    for task in tasks:
        problem = env.problem(task)
        lines = zip(problem.given.splitlines(), problem.source.splitlines(), strict=True)
        assert sum(a != b for a, b in lines) == 1
    parts = [{t.meta["program"] for t in env.tasks(split, 60, 1)} for split in ("train", "heldout")]
    assert parts[0] and parts[1] and not parts[0] & parts[1]
    env.close()


def test_more_tasks_than_changes_come_again_as_repetitions():
    env = program.make("repair", kinds=1)
    tasks = env.tasks("heldout", 400, 0)
    names = [task.id for task in tasks]
    first = {task.id for task in tasks if not task.repeats}
    assert len(set(names)) == 400 and {t.repeats for t in tasks if t.repeats} <= first and len(first) < 400
    env.close()


def test_a_loop_without_end_is_a_fault_that_ends():
    source = Kinds(LONG)
    problem = source.found("halvings-5")
    assert problem is not None
    assert all(fails_here("def halvings(x):\n    while True:\n        x = x * 2", problem))
    assert not any(fails_here(problem.source, problem))
    assert source.found("halvings-999") is None and source.found("late_fee-5") is None


# ------------------------------------------------------------------------------------------------ CodeI/O
ROW = {
    "task_description": "How much is a after b doublings?",
    "input_output_spec": "Input: `a` (int), `b` (int)\n\nOutput: int",
    "code_sample": "import random\nimport math  # used\n\ndef main_solution(a, b):\n    'Doc.'\n    return math.floor(a * 2 ** b)",
    "input_generator": "def generate_inputs(rng: Random) -> dict:\n    return {'b': rng.randint(0, 9), 'a': rng.randint(1, 99)}",
}


def codeio(folder, *codes):
    rows = [ROW | {"code_sample": code} for code in codes] or [
        ROW | {"task_description": f"{i}?", "code_sample": ROW["code_sample"] + " " + "+ 0 " * i} for i in range(8)
    ]
    with gzip.open(folder / "codeio.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_programs_of_codeio_are_repaired_and_predicted(tmp_path):
    env = program.make("codeio", folder=str(codeio(tmp_path)))
    tasks = env.tasks("train", 3, 0) + env.tasks("heldout", 1, 0)
    check_tasks(env, tasks)
    assert "main_solution(a, b): " in tasks[0].text and "import random" not in tasks[0].text
    env.close()
    env = program.make("predict", folder=str(tmp_path))
    (task,) = env.tasks("train", 1, 0)
    problem = env.problem(task)
    (case,) = problem.cases
    assert f"Call: main_solution({case.inputs[0]}, {case.inputs[1]})" in task.text and problem.given in task.text
    for answer, right in (
        (f" `{case.expected}`\nbecause", True),
        (f"```\n{case.expected}\n```", True),
        (f"Value: {case.expected}", True),
        (f"{case.expected + 1}", False),
        (f"{case.expected}.0", False),
        ("__import__('os')._exit(0)", False),
        ("", False),
    ):
        turn = tried(env, task, answer)
        assert turn.success == right and str(case.expected) not in turn.observation, answer
        assert turn.info["rewards"]["compiles"] == (1.0 if answer[:1].strip() not in ("_", "") or right else 0.0)
    env.close()


UNFIT = {
    "chance": "import random\ndef main_solution(a, b):\n    return random.random()",
    "other answers": "import itertools\nn = itertools.count()\ndef main_solution(a, b):\n    return next(n)",
    "begins otherwise": "x = 1\ndef main_solution(a, b):\n    return a + b + x",
    "a set": "def main_solution(a, b):\n    return sum(set([a, b]))",
    "raises": "def main_solution(a, b):\n    return a / 0",
    "one answer": "def main_solution(a, b):\n    return 1",
    "no value": "def main_solution(a, b):\n    return main_solution",
    "does not parse": "def main_solution(a, b)",
    "other names": "def main_solution(x, y):\n    return x",
    "ends": "import os\ndef main_solution(a, b):\n    os._exit(0)",
    "long": "def main_solution(a, b):\n    return a" + " + 1" * 300,
    "never ends": "def main_solution(a, b):\n    while True:\n        a += 1",
}


@pytest.mark.parametrize("why", UNFIT)
def test_programs_that_cannot_be_asked_for_are_left_out(tmp_path, why):
    env = envs.load(f"program:codeio,folder={codeio(tmp_path, UNFIT[why])}")
    with pytest.raises(BadInput, match="no program of this split"):
        env.tasks("train", 1, 0)
        env.tasks("heldout", 1, 0)
    env.close()


def test_a_file_that_is_none_and_a_missing_package_are_reported(tmp_path, monkeypatch):
    (tmp_path / "codeio.jsonl.gz").write_bytes(b"no gzip")
    env = envs.load(f"program:codeio,folder={tmp_path}")
    with pytest.raises(BadInput, match="cannot be read"):
        env.tasks("train", 1, 0)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match="reasoning-gym"):
        program.make("codeio")


# ------------------------------------------------------------------------------------------------ folders
def test_quixbugs_is_read_from_its_folder(tmp_path):
    for part in ("python_programs", "correct_python_programs", "json_testcases"):
        (tmp_path / part).mkdir()
    for name, right, wrong in (("largest", "max(xs)", "min(xs)"), ("lazy", "(yield 1)", "(yield 2)")):
        for part, body in (("correct_python_programs", right), ("python_programs", wrong)):
            doc = "The largest." if part == "python_programs" else f"def {name}(xs): another right one"
            (tmp_path / part / f"{name}.py").write_text(f'def {name}(xs):\n    return {body}\n\n"""\n{doc}\n"""\n')
        rows = [json.dumps([[[i, i + 2, 1]], 0]) for i in range(8)]
        (tmp_path / "json_testcases" / f"{name}.json").write_text("\n".join(rows))
    env = program.make("repair", folder=str(tmp_path))
    source = Folder(tmp_path, lambda: program._PLACE.enter(env), program._LIMITS)
    found = [source.found(name) for name in ("largest", "lazy", "no such")]
    assert found[0] is not None and found[1] is found[2] is None  # a generator's values do not cross
    split = source.split("largest")
    (task,) = env.tasks(split, 1, 0)
    assert task.text.startswith("largest(xs): The largest.\nlargest([0, 2, 1]) == 2") and "another" not in task.text
    assert found[0].given == "def largest(xs):\n    return min(xs)" and len(found[0].cases) == 8
    check_tasks(env, [task])
    env.close()


def test_exercism_is_read_from_its_folder_and_its_tests_are_not_run(tmp_path):
    test = (
        "from two_fer import two_fer\nraise SystemExit\nclass T:\n    def test(self):\n"
        + "".join(f"        self.assertEqual(two_fer({i}), {2 * i + (i == 3 and wrong)})\n" for i in range(6))
        + "        self.assertEqual(two_fer(open('x')), 1)\n"
        for wrong in (0, 1)
    )
    for name, text in zip(("two-fer", "bad-one"), test, strict=True):
        home = tmp_path / "exercises" / "practice" / name
        (home / ".meta").mkdir(parents=True)
        (home / ".docs").mkdir()
        (home / ".meta" / "example.py").write_text("def two_fer(number):\n    return number * 2\n")
        (home / ".docs" / "instructions.md").write_text("# Instructions\n\nTwice the number.\n")
        (home / f"{name.replace('-', '_')}_test.py").write_text(text)
    env = program.make("repair", folder=str(tmp_path))
    source = Folder(tmp_path, lambda: program._PLACE.enter(env), program._LIMITS)
    problem = source.found("two-fer")
    assert problem is not None and [case.expected for case in problem.cases] == [0, 2, 4, 6, 8, 10]
    assert source.found("bad-one") is None, "its tests do not agree with its right program"
    check_tasks(env, env.tasks(source.split("two-fer"), 1, 0))
    env.close()


def test_a_folder_without_programs_says_what_to_download(tmp_path):
    with pytest.raises(BadInput, match=r"git clone https://github.com/jkoppel/QuixBugs"):
        envs.load(f"program:repair,folder={tmp_path}")


def test_the_worked_examples_are_right():
    parts = program.REPAIR.split("Task: ")[1:]
    for part in parts:
        calls, _, rest = part.partition("\nBroken program:\n")
        broken, _, right = rest.partition("\nProgram: ")
        for text, fits in ((broken, False), (right, True)):
            space = {}
            exec(text, space)
            assert all(eval(line, space) for line in calls.splitlines()[1:]) == fits or "is_short" in text
    assert normal(BY_NAME["halvings"].source(3)).startswith("def halvings(x):\n    steps = 0\n    while x >= 3:")


# ------------------------------------------------------------------------------------------------ labels of lines
def test_lines_are_labelled_by_what_their_change_does():
    problem = Problem(
        "k",
        "f",
        "",
        tuple(Case((x,), x + 2 if x > 3 else x) for x in range(9)),
        "def f(x):\n    if x > 3:\n        x += 2\n    return x",
    )
    rows = line_labels(problem, lambda source: fails_here(source, problem))
    ends = [(line, text.splitlines()[line].strip(), label) for text, line, label in rows]
    assert ends == [
        (0, "def f(x):", True),
        (1, "if x > 3:", True),
        (2, "x += 2", True),
        (3, "return x", True),
        (1, "if 3 < x:", True),
        (2, "x = x + 2", True),
        (1, "if not x > 3:", False),
        (1, "if x >= 3:", False),
        (1, "if x < 3:", False),
        (1, "if x > 4:", False),
        (1, "if x > 2:", False),
        (2, "pass", False),
        (2, "x -= 2", False),
        (2, "x += 3", False),
        (2, "x += 1", False),
        (3, "return None", False),
    ]
    # whole numbers only: what a change of the bound would do between them is not tested, so it survives
    gap = replace(problem, cases=tuple(case for case in problem.cases if case.inputs[0] not in (3, 4)))
    rows = line_labels(gap, lambda source: fails_here(source, gap))
    found = {text.splitlines()[line].strip(): label for text, line, label in rows}
    assert [found[f"if x {c}:"] for c in (">= 3", "> 4", "> 2", "< 3")] == [True, True, True, False]


@pytest.mark.parametrize("variant", ["house", "easy", "repair"])
def test_the_labels_of_a_task_are_those_of_the_jail(variant):
    env = program.make(variant, kinds=3)
    (task,) = env.tasks("train", 1, 5)
    problem, rows = env.problem(task), env.line_labels(task)
    assert {label for *_, label in rows} == {True, False}
    jailed = line_labels(
        problem, lambda s: [not o.passed for o in program.judged(s, problem, program._PLACE.enter(env)).outcomes]
    )
    assert rows == jailed
    env.close()


def test_values_have_no_lines(tmp_path):
    env = program.make("predict", folder=str(codeio(tmp_path)))
    with pytest.raises(BadInput, match="no lines"):
        env.line_labels(env.tasks("train", 1, 0)[0])
    env.close()
