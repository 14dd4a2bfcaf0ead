"""The world of programs: the house's programs are right, the usual ones are not, and no trick is believed."""
# ruff: noqa: E501 - programs in one line

import pytest

from evolvent import envs
from evolvent.algos import memlift
from evolvent.core.config import to_json
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Task
from evolvent.core.reward_kinds import reward_total
from evolvent.credit import step_test_weighted
from evolvent.envs.text import program, program_problems
from evolvent.envs.text.program_answers import extract
from evolvent.envs.text.program_tasks import BY_NAME, EASY, HOUSE, LONG
from evolvent.evaluate.live import Live
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted
from evolvent.play.attempt import play
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.play.together import run_players
from evolvent.runs.memory.attempt import Agent, attempt
from evolvent.runs.memory.lifelong import note
from evolvent.sandbox import NoSandbox
from evolvent.testing.env import check_env
from evolvent.testing.sandbox.cheats import CHEATS

try:
    program.make()
except NoSandbox as error:  # pragma: no cover - a machine without a jail
    pytest.skip(f"programs cannot be judged here: {error}", allow_module_level=True)


@pytest.fixture
def world():
    env = program.make("easy", reviewer="tests")
    yield env
    env.close()


def square(world):
    """A task that asks for x² + n."""
    return next(task for task in world.tasks("train", 40, 0) if task.kind == "square_plus")


def tried(world, task, answer):
    world.reset(task)
    return world.step(answer)


# ------------------------------------------------------------------------------------------------ tasks and tests
@pytest.mark.parametrize("kind", [*HOUSE, *EASY, *LONG], ids=lambda kind: kind.name)
def test_cases_are_those_of_the_house_and_what_is_shown_does_not_give_its_rule_away(kind):
    splits = [program_problems.split_of(kind, n) for n in kind.constants]
    assert min(splits.count("train"), splits.count("heldout")) >= 2
    for n in kind.constants:
        cases = program_problems.tests(kind.name, n)
        assert [case.hidden for case in cases] == [False] * 5 + [True] * 8
        assert len({repr(case.inputs) for case in cases}) == 13
        house, plain = kind.function(n), kind.function(n, plain=True)
        assert all(house(*case.inputs) == case.expected for case in cases)
        turn = [plain(*case.inputs) != case.expected for case in cases]
        counts = [sum(turn[:2]), sum(turn[2:5]), sum(turn[5:])]
        assert counts == ([0, 2, 4] if kind.house else [0, 0, 0]) and bool(kind.house) == bool(kind.rule)


@pytest.mark.parametrize("variant", ["house", "told", "easy"])
def test_the_world_keeps_its_promises_and_judges_each_kind(variant):
    env, kinds = program.make(variant), EASY if variant == "easy" else HOUSE
    check_env(env)
    train, heldout = ({t.id.partition("#")[0] for t in env.tasks(s, 900, 1)} for s in ("train", "heldout"))
    assert not train & heldout and len(train) > 300 and len(heldout) > 150
    parts = [{(t.kind, t.meta["n"]) for t in env.tasks(s, 900, 2)} for s in ("train", "heldout")]
    assert not parts[0] & parts[1], "a function is asked for in both splits in other words"
    tasks = env.tasks("heldout", len(kinds), 0)
    assert {task.kind for task in tasks} == {kind.name for kind in kinds}
    for task in tasks:
        kind, n = BY_NAME[task.kind], task.meta["n"]
        right = tried(env, task, f" {kind.source(n)}\n")
        assert right.success and right.reward == 1.0 and right.key == task.text.partition("\n")[0]
        assert (kind.rule in task.text) == (variant == "told" or not kind.rule)
        usual = tried(env, task, kind.source(n, plain=True))
        assert usual.success == (variant == "easy") and (usual.success or ", expected " in usual.observation)
    env.close()


def test_worked_examples_of_the_easy_ones_are_right_and_no_tasks(world):
    parts = world.instructions.split("Task: ")[1:]
    assert [part.partition("(")[0] for part in parts] == list(program.WORKED)
    assert all(1 not in BY_NAME[name].constants for name in program.WORKED)
    for name, part in zip(program.WORKED, parts, strict=True):
        shown, _, source = part.partition("\nProgram: ")
        space = {}
        exec(source, space)
        assert all(eval(line, space) for line in shown.splitlines()[1:]) and space[name]


def test_splits_are_the_same_for_every_seed_and_tasks_come_again_as_repetitions():
    env = program.make("house", kinds=2)
    found = env.tasks("heldout", 200, 3)
    names = {task.id for task in found if not task.repeats}
    assert {task.repeats for task in found if task.repeats} <= names and len({t.id for t in found}) == 200
    assert names == {task.id for task in env.tasks("heldout", 200, 4) if not task.repeats}


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        (" def f(x):\n    return 1", "def f(x):\n    return 1"),
        (
            "Sure:\n```python\nimport math\n\ndef f(x):\n    return 1\n```\nIt returns 1.",
            "import math\n\ndef f(x):\n    return 1",
        ),
        ("```\ndef f(x):\n    return 1", "def f(x):\n    return 1"),
        ("Here it is.\ndef f(x):\n    return 1\n", "def f(x):\n    return 1"),
        ("```bash\npip install x\n```\nthen\n```Python3 \ndef f(x):\n    return 1\n```\n", "def f(x):\n    return 1"),
        ("```python\r\ndef f(x):\r\n    return 1\r\n```\r\nDone.", "def f(x):\n    return 1"),
        ("\ufeffdef f(x):\n\treturn 1", "def f(x):\n\treturn 1"),
        ("```python\nRATE = 3\n\ndef f(x):\n    return RATE\n```", "RATE = 3\n\ndef f(x):\n    return RATE"),
        ("```python\nif True:\n    def f(x):\n        return 1\n```", "if True:\n    def f(x):\n        return 1"),
        ("So:\n~~~python\nf = lambda x: 1\n~~~\n", "f = lambda x: 1"),
        ("1. This:\n   ```py\n   def f(x):\n       return 1\n   ```\n", "def f(x):\n    return 1"),
        ("RATE = 3\ndef f(x):\n    return RATE", "RATE = 3\ndef f(x):\n    return RATE"),
        ("def f(x):\n    return 1\n\nThis function returns 1.\n\nf(2)", "def f(x):\n    return 1"),
        ("def f(x):\n    return 1\n\nONE = f(0)\n\nNote, it is 1.", "def f(x):\n    return 1\n\nONE = f(0)"),
        ('import os\n\nWHY = """\n\nThis is text.\n"""', 'import os\n\nWHY = """\n\nThis is text.\n"""'),
        ("def f(x):\n    return 1\n```\nThis is it.", "def f(x):\n    return 1"),
        ("```python\ndef f(x):\n    return 1```", "def f(x):\n    return 1"),
        ("I would add them up.", ""),
        ("", ""),
        (
            "```python\nimport math\n```\nand\n```python\ndef f(x):\n    return 1\n```",
            "import math\n\ndef f(x):\n    return 1",
        ),
        (
            "Usage:\n```python\nfrom solution import f\nf(3)\n```\n```python\ndef f(x):\n    return 1\n```",
            "def f(x):\n    return 1",
        ),
        (
            "```python\ndef f(x):\n    return 1\n```\nor\n```python\ndef f(x):\n    return 2\n```",
            "def f(x):\n    return 1",
        ),
        ("rate: int = 1\ndef f(x):\n    return rate", "rate: int = 1\ndef f(x):\n    return rate"),
        ("from what I see it is easy:\n\ndef f(x):\n    return 1", "def f(x):\n    return 1"),
        ("Sure\nimport os\ndef f(x):\n    return 1", "import os\ndef f(x):\n    return 1"),
        ("    import os\n    def f(x):\n        return 1", "import os\ndef f(x):\n    return 1"),
        ('"""Text."""\nf = lambda x: 1', '"""Text."""\nf = lambda x: 1'),
        ("def f(x)\n    return 1", "def f(x)\n    return 1"),
    ],
)
def test_the_program_is_found_in_an_answer(answer, source):
    assert extract(answer, "f") == source


@pytest.mark.parametrize("spec", ["easy", "repair"])
def test_a_label_that_is_repeated_is_no_part_of_a_program(spec):
    env = program.make(spec)
    for task in env.tasks("train", 3, 0):
        for said in ("Program: ", "Program:\n", " Program: "):
            env.reset(task)
            assert env.step(said + env.problem(task).source).success


# ------------------------------------------------------------------------------------------------ verdicts
OUTCOMES = {
    "no program": ("It is easy.", 0, 0, "no program"),
    "does not parse": ("def square_plus(x)\n    return x", 0, 0, "SyntaxError"),
    "another name": ("def f(x):\n    return x", 1, 0, "no attribute"),
    "raises": ("def square_plus(x):\n    return y", 1, 0, "NameError"),
    "another type": ("def square_plus(x):\n    return float(x * x + {n})", 1, 1, ", expected"),
    "shown calls by heart": ("def square_plus(x):\n    return {shown}[x]", 1, 0, "KeyError"),
    "open calls by heart": ("def square_plus(x):\n    return {open}.get(x, 0)", 1, 1, "a hidden one is not"),
    "right": ("def square_plus(x):\n    return x * x + {n}", 1, 1, "right"),
    "a long line that cannot be read": (
        "def square_plus(x): return " + "(" * 201 + "0" + ")" * 201 + "#" + "y" * 6000,
        0,
        0,
        "nested",
    ),
    "a syntax error of a call": ("def square_plus(x):\n    return eval('1 1')", 1, 0, "SyntaxError"),
    "a syntax error that it makes up": (
        "import math\nraise SyntaxError('x')\ndef square_plus(x): return 1",
        1,
        0,
        "SyntaxError",
    ),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_an_outcome_has_words_and_kinds_of_reward(world, case):
    answer, compiles, runs, words = OUTCOMES[case]
    task = square(world)
    cases = program_problems.tests("square_plus", task.meta["n"])
    known = {name: {c.inputs[0]: c.expected for c in cases[:k]} for name, k in (("shown", 2), ("open", 5))}
    for name, value in {**known, "n": task.meta["n"]}.items():
        answer = answer.replace(f"{{{name}}}", str(value))
    turn = tried(world, task, answer)
    result = turn.info["rewards"]
    assert (result["compiles"], result["runs"], turn.success) == (compiles, runs, case == "right"), turn
    assert words in turn.observation and turn.valid and turn.terminated
    assert result["share"] == pytest.approx(sum(result[f"test:{i}"] for i in range(13)) / 13)
    hidden = [repr(c.inputs) for c in cases if c.hidden]
    assert not any(inputs in turn.observation for inputs in hidden), "a hidden case was shown"
    review = world.review(task, 0)
    result = {f"# square_plus({c.inputs[0]}) == {c.expected}" for c in cases[:5]}
    assert (review is None) == (case in ("right", "no program", "open calls by heart"))
    assert review is None or (set(review.body.splitlines()) <= result and len(review.body.splitlines()) == 3)
    # what the question does not show comes first
    assert review is None or review.body.startswith(f"# square_plus({cases[2].inputs[0]})")


def test_a_reviewer_of_the_house_hands_over_the_right_program_and_none_nothing():
    for reviewer in ("house", "none", ""):
        env = program.make("house", reviewer=reviewer) if reviewer else program.make("house")
        (task,) = env.tasks("train", 1, 0)
        tried(env, task, f"def {BY_NAME[task.kind].head}:\n    return None")
        review = env.review(task, 0)
        assert (review is None) == (reviewer == "none")
        assert review is None or tried(env, task, review.body).success
        env.close()


TRICKS = {
    "ends well": "import sys\ndef square_plus(x):\n    sys.exit(0)",
    "ends at once": "import os\nos._exit(0)\ndef square_plus(x):\n    return 0",
    "equals all": "class A(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\ndef square_plus(x):\n    return A(0)",
    "answers twice": 'import os\ndef square_plus(x):\n    os.write(3, b\'{"id":"import","value":0}\\n\')\n    return 0',
    "searches frames": "import sys\ndef square_plus(x):\n    f = sys._getframe()\n    while f:\n        for v in f.f_locals.values():\n            if hasattr(v, 'expected'): return v.expected\n        f = f.f_back\n    return 0",
    "searches memory": "import gc\ndef square_plus(x):\n    return next((o.expected for o in gc.get_objects() if type(o).__name__ == 'Case'), 0)",
    "reads the world": "import evolvent.envs.text.program_tasks as t\ndef square_plus(x):\n    return 0",
    "learns from calls": "seen = []\ndef square_plus(x):\n    seen.append(x)\n    return len(seen)",
    "never ends": "def square_plus(x):\n    while True: pass",
    "asks the network": "import urllib.request\ndef square_plus(x):\n    return int(urllib.request.urlopen('http://localhost').read())",
    "patches print": "import builtins, json\njson.dumps = lambda *a, **k: 'true'\nbuiltins.sum = lambda *a: 13\ndef square_plus(x):\n    return True",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_is_believed(world, trick):
    turn = tried(world, square(world), TRICKS[trick])
    assert turn.reward == 0.0 and not turn.success and turn.valid, turn


SLOW = ("sleeps until nobody waits", "never ends")  # tried above, and on the judge itself
SUITE = [c for c in CHEATS if c.group == "function" and c.sign == "cheat" and c.name not in SLOW]


@pytest.mark.parametrize("cheat", SUITE, ids=lambda c: c.name)
def test_no_cheat_of_the_suite_is_believed(world, cheat):
    turn = tried(world, square(world), f"```python\nimport os\n{cheat.code.replace('solve', 'square_plus')}\n```")
    assert not turn.success and turn.reward == 0.0


def test_worlds_share_a_sandbox_until_the_last_is_closed(monkeypatch):
    monkeypatch.setattr(program, "_PLACE", program.Place(program.Sandbox))
    one, other = program.make("easy"), program.make("easy")
    task = square(one)
    answer = BY_NAME["square_plus"].source(task.meta["n"])
    assert tried(one, task, answer).success
    one.close()
    assert tried(other, task, answer).success
    other.close()
    other.close()
    assert program._PLACE._sandbox is None


@pytest.mark.parametrize(
    "spec",
    [
        "program:hard",
        "program:kinds=99",
        "program:easy,folder=/tmp",
        "program:repair,folder=/no/such",
        "program:predict,folder=/no/such",
        "program:reviewer=me",
        "program:colour=red",
    ],
)
def test_unknown_options_are_refused(spec):
    with pytest.raises(BadInput):
        envs.load(spec)


def test_a_foreign_task_and_a_step_too_many_are_refused(world):
    with pytest.raises(BadInput, match="not a task of this world"):
        world.reset(Task("a", "a"))
    tried(world, square(world), "no program")
    with pytest.raises(EnvError):
        world.step("again")


def test_a_machine_without_a_jail_is_reported_before_anything_begins(monkeypatch):
    def nothing(*_):
        raise NoSandbox("nothing on this machine confines a program; model-written code was not run")

    monkeypatch.setattr(program, "choose", nothing)
    with pytest.raises(NoSandbox, match="confines"):
        envs.load("program")


# ------------------------------------------------------------------------------------------------ in runs
def test_rules_over_tests_read_what_the_world_pays(world):
    task = square(world)
    right = BY_NAME["square_plus"].source(task.meta["n"])
    answers = [right, "def square_plus(x):\n    return 0", "nothing"]
    players = [play(world, task, AttemptSettings(Text()), seed=i, group="g") for i in range(3)]
    engines = [Served(Scripted({"*": answer})) for answer in answers]
    ended = [run_players([player], engine)[0] for player, engine in zip(players, engines, strict=True)]
    episodes = [episode for episode in ended if isinstance(episode, Episode)]
    assert [reward_total(e, "share") for e in episodes] == [1.0, 0.0, 0.0]
    assert [reward_total(e, "runs") for e in episodes] == [1.0, 1.0, 0.0]
    adv = step_test_weighted.assign(episodes).values("step")
    assert adv[0] > adv[1] == adv[2]


def test_a_memory_learns_from_what_the_tests_say(tmp_path):
    config = memlift.Config(env="program:kinds=2,reviewer=tests", model="none", train=4, heldout=2, passes=2)
    folder = RunFolder.create(
        tmp_path / "run",
        algo="memlift",
        config=to_json(config),
        env=config.env,
        seed=0,
        kind=config.KIND,
        command="test",
    )
    model = Scripted({"*": "def late_fee(days):\n    return 0"})
    with folder, Live(plain=True) as live:
        memlift.run(config, folder, live, model=model)
        rows = folder.read_metrics()
    assert {row["lesson"] for row in rows if row["phase"] == "stream"} == {"corrected"}
    assert any(row["shown"] for row in rows if row["phase"] == "stream" and row["pass"] == 2)


def test_what_the_shown_calls_say_of_a_program_is_distinguished_from_what_the_hidden_ones_say(world):
    task = world.tasks("heldout", 1, seed=0)[0]
    problem = world.problem(task)
    by_heart = {repr(case.inputs): case.expected for case in problem.cases[: world.n_shown]}
    world.reset(task)
    turn = world.step(f"def {problem.function}(*a):\n    return {by_heart!r}.get(repr(a), 'nothing')")
    assert turn.info["rewards"]["shown"] == 1.0 and turn.info["rewards"]["share"] < 1.0 and not turn.success


def test_why_a_program_failed_stands_in_its_line_and_its_episode(world):
    task = square(world)
    agent = Agent(Served(Scripted(lambda prompt: "def square_plus(x):\n    return y\n"), 0.0))
    failed = attempt(world, task, agent, None, seed=0)
    assert "NameError" in failed.episode.meta["words"] and note(failed).startswith(failed.episode.meta["words"])
    assert Episode.from_dict(failed.episode.to_dict()).meta == failed.episode.meta
    right = Agent(Served(Scripted(lambda prompt: world.problem(task).source), 0.0))
    assert note(attempt(world, task, right, None, seed=0)) == "nothing recalled"
