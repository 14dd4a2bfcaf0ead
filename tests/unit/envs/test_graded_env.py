"""Prompts and a reward function of one's own: what it must return, and what is said when it does not."""

import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError
from evolvent.testing.env import check_env

GOOD = """
PROMPTS = [{"prompt": f"{i} + 1 =", "answer": str(i + 1)} for i in range(10)]
INSTRUCTIONS = "Add.\\n"
def reward(completion, prompt, answer):
    return float(completion.strip() == answer)
"""


def made(tmp_path, code):
    path = tmp_path / "my_task.py"
    path.write_text(code)
    return envs.load(f"graded:{path}")


def test_it_keeps_the_promises_of_an_environment(tmp_path):
    env = made(tmp_path, GOOD)
    assert "attempts" in check_env(env, n=2)
    task = env.tasks("train", 1, 0)[0]
    env.reset(task)
    turn = env.step(f" {int(task.text.split()[0]) + 1}")
    assert turn.success and turn.reward == 1.0 and turn.terminated
    assert len({t.text for t in env.tasks("train", 8, 0)}) == 8 and len(env.tasks("heldout", 2, 0)) == 2


@pytest.mark.parametrize(
    "value",
    [
        "None",
        "'1'",
        "float('nan')",
        "2.0",
        "1 / 0",
        "sys.exit(3)",
        "pytest.fail('no')",
        "(lambda: (_ for _ in ()).throw(BaseException('no')))()",
        "Decimal('nan')",
        "Decimal('snan')",
        "[1.0]",
        "np.ones(2)",
        "np.array(['1'])",
        "1j",
        "{0: 1.0}",
        "(yield)",
    ],
)
def test_a_reward_that_is_none_is_named(tmp_path, value):
    head = 'import sys, pytest\nfrom decimal import Decimal\nimport numpy as np\nPROMPTS = [{"prompt": "x"}] * 5\n'
    env = made(tmp_path, f"{head}def reward(completion, prompt): return {value}")
    env.reset(env.tasks("train", 1, 0)[0])
    with pytest.raises(EnvError, match="reward"):
        env.step("anything")


NUMBERS = [
    "np.float32(1)",
    "np.int64(1)",
    "np.array('b') == 'b'",
    "np.array([1.0])",
    "torch.tensor(1.0)",
    "torch.ones(1, requires_grad=True)",
    "torch.tensor(True)",
    "True",
    "1",
    "Fraction(1)",
    "Decimal('1.0')",
]


@pytest.mark.parametrize("value", NUMBERS)
def test_numbers_of_numpy_and_torch_are_rewards(tmp_path, value):
    head = "import numpy as np, torch\nfrom decimal import Decimal\nfrom fractions import Fraction\n"
    env = made(tmp_path, f'{head}PROMPTS = [{{"prompt": "x"}}] * 5\ndef reward(completion, prompt): return {value}')
    env.reset(env.tasks("train", 1, 0)[0])
    turn = env.step("anything")
    assert turn.reward == 1.0 and type(turn.reward) is float and turn.success


@pytest.mark.parametrize(
    "taken", ["completion, prompt", "completion, prompt, anwser", "completion, prompt, answer, more"]
)
def test_a_reward_function_that_does_not_take_the_keys_is_refused_at_once(tmp_path, taken):
    with pytest.raises(BadInput, match=r"keys of a row[^§]*expected: def reward\(completion, prompt, answer\)"):
        made(tmp_path, GOOD.replace("(completion, prompt, answer)", f"({taken})"))
    made(tmp_path, GOOD.replace("(completion, prompt, answer)", "(completion, prompt, **answer)"))


@pytest.mark.parametrize(
    ("value", "bounds", "earned", "right"),
    [
        ("0.7 + 0.2 + 0.1", (0, 1), 1.0, True),  # a hair below
        ("0.1 * 3 + 0.2 * 3 + 0.1", (0, 1), 1.0, True),  # a hair above
        ("1 - 0.7 - 0.2 - 0.1 - 1e-16", (0, 1), 0.0, False),
        ("0.3 - 0.1 * 3", (0, 1), 0.0, False),  # below the least
        ("sum([0.1] * 10)", (-1, 1), 1.0, True),
        ("3 * 1.1 - 0.3 + 7e-16", (0.5, 3), 3.0, True),
        ("-0.1 - 0.2 - 0.7", (-1, 1), -1.0, False),
        ("0.999999", (0, 1), 0.999999, False),  # not by rounding
    ],
)
def test_rewards_are_held_against_their_range_to_rounding(tmp_path, value, bounds, earned, right):
    head = f'REWARD_RANGE = {bounds}\nPROMPTS = [{{"prompt": str(i)}} for i in range(9)]\n'
    env = made(tmp_path, f"{head}def reward(completion, prompt): return {value}")
    env.reset(env.tasks("train", 1, 0)[0])
    turn = env.step("anything")
    assert (turn.reward, turn.success) == (earned, right)


@pytest.mark.parametrize(("least", "right"), [("0.1 + 0.2", True), ("0.3", True), ("0.31", False)])
def test_the_reward_from_which_an_answer_is_right_is_reached_to_rounding(tmp_path, least, right):
    code = f"SUCCESS = {least}\nPROMPTS = [{{'prompt': str(i)}} for i in range(9)]\n"
    env = made(tmp_path, f"{code}def reward(completion, prompt): return 0.3")
    env.reset(env.tasks("train", 1, 0)[0])
    assert env.step("anything").success == right


LISTS = [
    "prompts, completions, answer",
    "completions, prompts, answer, **kw",
    "completions, **kw",
    "*, prompts, completions, answer",
    "**kw",
]


RETURNED = [
    "marks",
    "tuple(marks)",
    "np.array(marks)",
    "torch.tensor(marks)",
    "[torch.tensor(m) for m in marks]",
    "[np.float32(m) for m in marks]",
]


@pytest.mark.parametrize("taken", LISTS)
@pytest.mark.parametrize("returned", RETURNED)
def test_a_reward_of_trl_gets_lists_by_name(tmp_path, taken, returned):
    code = f"""
import numpy as np, torch
PROMPTS = [{{"prompt": f"{{i}}", "answer": f"a{{i}}"}} for i in range(10)]
def reward({taken}):
    kw = locals() | locals().get("kw", {{}})
    assert isinstance(kw["prompts"], list)
    marks = [float(c == a) for c, a in zip(kw["completions"], kw["answer"])]
    return {returned}
"""
    env = made(tmp_path, code)
    task = env.tasks("train", 1, 0)[0]
    env.reset(task)
    assert env.step(f"a{task.text}").success
    env.reset(task)
    assert env.step(task.text).reward == 0.0


@pytest.mark.parametrize(
    "returned", ["1.0", "[]", "[1.0, 1.0]", "None", "[None]", "{0: 1.0}", "'1'", "np.ones((1, 1, 2))"]
)
def test_a_reward_of_trl_returns_a_list_of_one(tmp_path, returned):
    head = 'import numpy as np\nPROMPTS = [{"prompt": str(i)} for i in range(9)]\n'
    env = made(tmp_path, f"{head}def reward(prompts, completions, **kw): return {returned}")
    env.reset(env.tasks("train", 1, 0)[0])
    with pytest.raises(EnvError, match=r"not a reward[^§]*for each completion"):
        env.step("anything")


@pytest.mark.parametrize(
    "taken", ["prompts, completions", "completions, answer", "prompts, completions, answer, completion_ids"]
)
def test_a_reward_of_trl_that_does_not_take_the_keys_is_refused_at_once(tmp_path, taken):
    with pytest.raises(BadInput, match=r"keys of a row[^§]*expected: def reward\(prompts, completions, answer\)"):
        made(tmp_path, GOOD.replace("(completion, prompt, answer)", f"({taken})"))


@pytest.mark.parametrize("taken", ["completion, prompt", "prompts, completions"])
def test_a_reward_may_be_a_coroutine(tmp_path, taken):
    mark = "float('a' in completion)" if "completion," in taken else "['a' in c for c in completions]"
    code = f"""
import asyncio
PROMPTS = [{{"prompt": str(i)}} for i in range(9)]
async def reward({taken}):
    await asyncio.sleep(0)
    return {mark}
"""
    env = made(tmp_path, code)
    for said, earned in (("a", 1.0), ("b", 0.0)):
        env.reset(env.tasks("train", 1, 0)[0])
        assert env.step(said).reward == earned


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_reward_has_a_time_limit_and_the_next_one_is_as_before(tmp_path, kind):
    code = f"""
REWARD_TIMEOUT_S = 0.2
PROMPTS = [{{"prompt": str(i)}} for i in range(9)]
{kind} reward(completion, prompt):
    while completion == "long":
        pass
    return 1.0
"""
    env = made(tmp_path, code)
    env.reset(env.tasks("train", 1, 0)[0])
    with pytest.raises(EnvError, match=r"took too long[^§]*0\.2 s[^§]*REWARD_TIMEOUT_S"):
        env.step("long")
    env.reset(env.tasks("train", 1, 0)[0])
    assert env.step("short").success


def test_a_file_that_exits_does_not_run(tmp_path):
    with pytest.raises(BadInput, match=r"does not run[^§]*SystemExit: 3[^§]*line 1"):
        made(tmp_path, "import sys; sys.exit(3)\n" + GOOD)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nowhere_to_be_found", "does not run"),
        ("def prompts(): return 1 / 0\ndef reward(c, p): return 1", "does not run"),
        ("def reward(completion, prompt): return 1", "no prompts"),
        ("PROMPTS = [{'prompt': 'x'}]", "no reward function"),
        ("PROMPTS = [{'question': 'x'}]\ndef reward(c, p): return 1", "not a prompt"),
        ("PROMPTS = [{'prompt': 'x', 'split': 'test'}]\ndef reward(c, p): return 1", r"no such split[^§]*'test'"),
        (
            "PROMPTS = [{'prompt': 'x', 'split': s} for s in ('train', 'heldout')]\ndef reward(c, p): return 1",
            "one prompt in both splits",
        ),
        (f"{GOOD}\nSTOP = ''", "ends an answer"),
        (f"{GOOD}\nSTOP = ('a', 3)", "ends an answer"),
        (f"{GOOD}\nMAX_TOKENS = -1", "MAX_TOKENS >= 1"),
        (f"{GOOD}\nREWARD_RANGE = (1, 0)", "REWARD_RANGE"),
        (f"{GOOD}\nREWARD_RANGE = 1", "REWARD_RANGE"),
        (f"{GOOD}\nREWARD_TIMEOUT_S = 0", "REWARD_TIMEOUT_S"),
        (f"{GOOD}\nREWARD_TIMEOUT_S = None", "REWARD_TIMEOUT_S"),
        (f"{GOOD}\nREWARD_TIMEOUT_S = float('inf')", "REWARD_TIMEOUT_S"),
        (f"{GOOD}\nSUCCESS = 'high'", "SUCCESS = 'high'"),
        (f"{GOOD}\nSUCCESS = 2", "above 0, at most 1"),
        (f"{GOOD}\nSUCCESS = 0", "above 0, at most 1"),
        (f"{GOOD}\nSUCCESS = float('nan')", "SUCCESS = nan"),
    ],
)
def test_a_file_that_lacks_something_is_refused(tmp_path, code, said):
    with pytest.raises(BadInput, match=said):
        made(tmp_path, code)


@pytest.mark.parametrize(("stop", "stops"), [("'END'", ("END",)), ("['a', 'bc']", ("a", "bc")), ("()", ())])
def test_what_ends_an_answer_is_one_text_or_several(tmp_path, stop, stops):
    assert made(tmp_path, f"{GOOD}\nSTOP = {stop}").stop == stops


def test_equal_prompts_are_in_one_split(tmp_path):
    code = "PROMPTS = [{'prompt': str(i // 2)} for i in range(20)]\ndef reward(completion, prompt): return 1"
    env = made(tmp_path, code)
    train, heldout = ({task.text for task in env.tasks(split, 20, 0)} for split in ("train", "heldout"))
    assert len(heldout) == 2 and not train & heldout


OTHERS = ["'id': i", "'answer': str(i), 'source': [i]", "'tests': {'x': i}"]


def split(tmp_path, rows, options=""):
    (tmp_path / "my_task.py").write_text(f"PROMPTS = {rows}\ndef reward(completion, prompt, **row): return 1")
    env = envs.load(f"graded:{tmp_path / 'my_task.py'}{options}")
    return [[task.text for task in env.tasks(split, 60, 0)] for split in ("train", "heldout")]


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("prompt", ["f'{i % 10} + 1 ='", "f'{i % 10}' + ' ' * (1 + i % 3) + '+ 1\\n'"])
def test_what_the_model_sees_is_held_out_whatever_else_stands_in_the_rows(tmp_path, prompt, others):
    train, heldout = split(tmp_path, f"[{{'prompt': {prompt}, {others}}} for i in range(60)]")
    seen, judged = ({" ".join(text.split()) for text in texts} for texts in (train, heldout))
    assert len(judged) == 2 and len(seen) == 8 and not seen & judged


@pytest.mark.parametrize("period", [2, 5, 10])
def test_data_that_cycles_is_held_out_from_all_of_its_kinds(tmp_path, period):
    rows = f"[{{'prompt': f'kind {{i % {period}}}, question {{i}}'}} for i in range(300)]"
    (tmp_path / "my_task.py").write_text(f"PROMPTS = {rows}\ndef reward(completion, prompt): return 1")
    heldout = envs.load(f"graded:{tmp_path / 'my_task.py'}").tasks("heldout", 60, 0)
    assert {task.text.split(",")[0] for task in heldout} == {f"kind {i}" for i in range(period)}
    assert len({task.text for task in heldout}) == 60  # a fifth


def test_rows_that_are_moved_keep_their_side_and_another_seed_draws_others(tmp_path):
    rows = [{"prompt": f"question {i}"} for i in range(50)]
    first, again, other = (
        set(split(tmp_path, r, o)[1]) for r, o in ((rows, ""), (rows[::-1], ""), (rows, ",split_seed=1"))
    )
    assert len(first) == len(other) == 10 and first == again and first != other


def test_one_prompt_cannot_be_put_on_both_sides(tmp_path):
    rows = [{"prompt": "x", "id": i, "split": s} for i, s in enumerate(("train", "heldout"))]
    with pytest.raises(BadInput, match="one prompt in both splits"):
        split(tmp_path, rows)


def test_all_attempts_have_the_same_prompts_however_they_are_drawn(tmp_path):
    code = "import random\ndef prompts(): return [{'prompt': str(random.random())} for _ in range(5)]\n"
    first = made(tmp_path, f"{code}def reward(completion, prompt): return 1")
    second = envs.load(f"graded:{tmp_path / 'my_task.py'}")
    assert first.tasks("train", 4, 0) == second.tasks("train", 4, 0)


def test_no_such_file():
    with pytest.raises(BadInput, match="no such file"):
        envs.load("graded:nowhere.py")
