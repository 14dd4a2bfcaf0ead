"""Each example, run as its reader would run it, against the scripted server: what was corrected once is right later."""

import asyncio
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from evolvent import Memory
from evolvent.sandbox import NoSandbox

EXAMPLES = Path(__file__).parents[2] / "examples"
# a task to train on (test_graded_tools.py), what the examples share, and what is no agent: functions to check
# (docs/advantage.md), a kind of run (test_behaviour_cloning.py), data (test_recorded_run.py), a reward, a study, a
# team, a robot and a planner (below)
OTHERS = ("calculator_task", "house", "advantages", "behaviour_cloning", "code_reward", "worth", "team_over_mcp")
OTHERS += ("recorded_data", "robust", "source_search")
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in OTHERS)
BESIDE_A_FRAMEWORK = [pytest.param(name, marks=pytest.mark.frameworks) for name in NAMES if name != "openai_loop"]


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house", EXAMPLES / "house.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module  # where dataclasses look
    spec.loader.exec_module(module)
    yield module
    del sys.modules["house"]


def run(name, *flags):
    """What an example prints: ``{pass: (right, of)}``."""
    pytest.importorskip("openai", reason="the extra 'serve' is not installed")
    command = [sys.executable, "-W", "error::DeprecationWarning:__main__", str(EXAMPLES / f"{name}.py"), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = re.findall(r"^(\w+ pass): (\d+) of (\d+) right$", done.stdout, flags=re.MULTILINE)
    return {name: (int(right), int(of)) for name, right, of in found}


@pytest.mark.parametrize("name", ["openai_loop", *BESIDE_A_FRAMEWORK])
def test_a_lesson_helps_the_next_question(name, tmp_path, house):
    store = tmp_path / "agent.db"
    assert run(name, "--store", str(store)) == {"first pass": (0, 4), "second pass": (8, 8)}
    with Memory(store) as memory:
        lessons = memory.items()
        assert [i.body for i in lessons] == [house.review(q) for q in house.PASSES["first pass"]]
        assert all(i.source == "reviewer" and i.n >= 1 for i in lessons)
        receipts = [memory.explain(f"r{n}").to_dict() for n in range(1, 13)]
        assert [r["query"] for r in receipts] == [q for questions in house.PASSES.values() for q in questions]
        for number, receipt in enumerate(receipts):
            (outcome,) = receipt["outcomes"]
            assert (outcome["reward"], outcome["source"]) == (float(number >= 4), "tests")
            ran = house.condition(receipt["query"], house=number >= 4)
            assert outcome["action"] == ran, "credit needs what the agent did"


def test_without_memory_nothing_is_learned():
    assert run("openai_loop", "--policy", "none") == {"first pass": (0, 4), "second pass": (0, 8)}


def test_every_framework_is_there():
    assert NAMES == ["langgraph_nodes", "openai_agents", "openai_loop", "pydantic_ai_deps", "smolagents_run"]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_stays_short_and_keeps_nothing_global(name):
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert text.count("\n") <= 60
    top = text[: text.index("if __name__")]
    assert not re.search(r"^\w+ *=.*(Memory|OpenAI|ChatModel)\(", top, flags=re.MULTILINE) and "global " not in text


def test_the_task_needs_its_definitions(house):
    for questions in house.PASSES.values():
        for question in questions:
            guess, truth = (house.condition(question, house=known) for known in (False, True))
            assert house.right(question, [truth]) and house.right(question, [guess, truth])
            assert not any(house.right(question, ran) for ran in ([], [guess], [truth, guess], ["nonsense"], [""]))
    assert house.count("1; DROP TABLE customers").startswith("error") and house.count("nonsense").startswith("error")


def test_the_scripted_model_knows_what_its_prompt_says(house):
    def where(*texts):
        (call,) = house.script({"messages": [{"role": "user", "content": text} for text in texts]})
        return call.arguments["where"]

    asked, other = "How many key accounts are in Oslo?", "How many prospects are in Oslo?"
    assert where(asked) == where(house.review(other), asked) == "plan = 'team' AND city = 'Oslo'"
    assert where(house.review(asked), asked) == "spent > 6000 AND city = 'Oslo'"


ANSWER = "Here it is:\n```python\ndef double(x):\n    return {}\n```\nIt doubles."
TESTS = json.dumps([[[1], 2], [[21], 42], [[-3], -6], [[0], 0]])


@pytest.mark.parametrize(
    ("body", "share"), [("2 * x", 1.0), ("x + x if x < 9 else 0", 0.75), ("__import__('os')._exit(0)", 0)]
)
def test_a_reward_for_code_in_three_signatures(body, share):
    spec = importlib.util.spec_from_file_location("code_reward", EXAMPLES / "code_reward.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except NoSandbox as error:
        pytest.skip(str(error))
    text = ANSWER.format(body)
    with module.SANDBOX:
        columns = {"tests": [TESTS] * 2, "function": ["double"] * 2, "trainer_state": None}
        assert module.trl_reward(completions=[text, "no program"], **columns) == [share, 0.0]
        assert (
            module.trl_reward(completions=[[{"role": "assistant", "content": text}], [{"content": "x"}]], **columns)[0]
            == share
        )
        truth = json.dumps({"function": "double", "tests": json.loads(TESTS)})
        assert module.compute_score(data_source="x", solution_str=text, ground_truth=truth, extra_info={}) == share
        task = SimpleNamespace(data=SimpleNamespace(tests=TESTS, function="double"))
        assert asyncio.run(module.verifiers_reward(task, SimpleNamespace(last_reply=text))) == share


def test_the_parts_of_a_workflow(tmp_path):
    """What docs/worth.md prints: planner and large model do the same, the critic nothing."""
    pytest.importorskip("openai", reason="the extra 'serve' is not installed")
    command = [sys.executable, str(EXAMPLES / "worth.py"), "--out", str(tmp_path / "worth")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    page = (EXAMPLES.parent / "docs" / "worth.md").read_text(encoding="utf-8")
    said = page[page.index("planner: earns") : page.index("; …")].splitlines()
    assert len(said) == 4 and all(line in done.stdout for line in said)
    assert (tmp_path / "worth" / "report.html").exists()


def test_a_team_of_which_one_member_is_a_tool():
    pytest.importorskip("mcp", reason="the extra 'protocols' is not installed")
    command = [sys.executable, str(EXAMPLES / "team_over_mcp.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    right, planner, calculator, ran = done.stdout.splitlines()
    assert right == "right: 5 of 5" and ran == "ran: [('planner', 'planner'), ('calculator', 'mcp')]"
    first, second = map(int, planner.removeprefix("planner: ").split(" + "))
    assert calculator == f"calculator: {first + second}"


def test_a_policy_is_played_in_disturbed_worlds():
    pytest.importorskip("mujoco")
    command = [sys.executable, str(EXAMPLES / "robust.py"), "--steps", "2048", "--episodes", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = dict(re.findall(r"^(.+?)\s+return\s+([\d.]+) in", done.stdout, flags=re.MULTILINE))
    assert len(found) == 4 and found["rewards: noise of 1"] == found["undisturbed"]


def test_a_planner_of_ones_own_searches_beside_one_that_is_there():
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, str(EXAMPLES / "source_search.py"), "8"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["drawn", "towards_mean"]
    assert "'success': 0." in done.stdout
