"""Rows of one's own as messages, with tools, and as a table of the package ``datasets``."""

import json

import pytest
from test_graded_env import made

from evolvent.core.errors import BadInput
from evolvent.testing.env import check_env

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
ROWS = """
SYSTEM = {"role": "system", "content": "Be brief."}
PROMPTS = [{"messages": [SYSTEM, {"role": "user", "content": f"{i} + 1 ="}], "answer": str(i + 1)} for i in range(10)]
GOT = []
"""
REWARD = """
def reward(completion, prompt, answer):
    GOT.append(prompt)
    return float(completion == answer)
"""


def test_rows_may_be_messages(tmp_path):
    env = made(tmp_path, ROWS + REWARD)
    assert "attempts" in check_env(env, n=2)
    task = env.tasks("heldout", 2, 0)[0]
    number = int(task.text.split("user: ")[1].split()[0])
    turn = env.reset(task)
    assert turn.observation == task.text == f"system: Be brief.\nuser: {number} + 1 ="
    assert [m["role"] for m in turn.chat.messages] == ["system", "user"] and turn.chat.tools == ()
    assert env.step(str(number + 1)).success
    texts = [{t.text for t in env.tasks(split, 20, 0)} for split in ("train", "heldout")]
    assert not texts[0] & texts[1] and [len(t) for t in texts] == [8, 2]


def test_a_reward_of_trl_gets_messages_for_messages(tmp_path):
    env = made(
        tmp_path,
        ROWS
        + """
def reward(prompts, completions, answer):
    (prompt,), ((said,),), (right,) = prompts, completions, answer
    assert prompt[0] == SYSTEM and said["role"] == "assistant"
    return [float(said["content"] == right)]
""",
    )
    task = env.tasks("train", 1, 0)[0]
    env.reset(task)
    assert env.step(str(int(task.text.split("user: ")[1].split()[0]) + 1)).success


def test_rows_may_offer_tools_whose_calls_the_reward_judges(tmp_path):
    row = {"prompt": [{"role": "user", "content": "Oslo?"}], "tools": json.dumps([TOOL])}
    code = f"PROMPTS = [{{**{row!r}, 'n': i, 'split': 'train'}} for i in range(2)]\n"
    env = made(tmp_path, code + "def reward(completion, prompt, n, tools): return float('weather' in completion)")
    turn = env.reset(env.tasks("train", 1, 0)[0])
    assert turn.chat.tools == (TOOL,) and '"name": "weather"' in turn.observation and "Oslo?" in turn.observation
    assert env.step('[{"name": "weather", "arguments": {}}]').success


class Table:
    """What a ``datasets.Dataset`` is to its reader: columns that all rows have, ``None`` where a row lacks one."""

    column_names = ("messages", "tools", "answer")

    def __len__(self):
        return 10

    def __iter__(self):
        for i in range(10):
            message = {"role": "user", "content": f"{i} + 1 =", "tool_calls": None, "tool_call_id": None}
            yield {"messages": [message], "tools": None, "answer": str(i + 1)}


def test_a_dataset_is_a_list_of_rows(tmp_path):
    env = made(tmp_path, f"from {__name__} import Table\nPROMPTS, GOT = Table(), []\n{REWARD}")
    turn = env.reset(env.tasks("train", 1, 0)[0])
    assert turn.chat.messages[0] == {"role": "user", "content": turn.observation}


def test_the_real_datasets_package(tmp_path):
    pytest.importorskip("datasets")
    code = f"""
from datasets import Dataset
from {__name__} import Table
def prompts(): return Dataset.from_list(list(Table()))
GOT = []
{REWARD}"""
    env = made(tmp_path, code)
    task = env.tasks("train", 1, 0)[0]
    assert env.reset(task).chat.messages == ({"role": "user", "content": task.text},)
    assert env.step(str(int(task.text.split()[0]) + 1)).success


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"messages": []}, r"no messages[^§]*PROMPTS\[0\]"),
        ({"messages": "hi"}, "not a prompt"),
        ({"messages": [{"role": "robot", "content": "x"}]}, r"unknown role[^§]*PROMPTS\[0\]"),
        ({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}, "nothing is asked"),
        ({"messages": [{"role": "user", "content": "x"}], "tools": "[{"}, "tools are no JSON"),
        ({"messages": [{"role": "user", "content": "x"}], "tools": [TOOL, TOOL]}, "two tools of one name"),
        ({"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "f"}]}, "not a tool"),
        ({"messages": None}, "not a prompt"),
    ],
)
def test_bad_rows_are_named(tmp_path, row, says):
    with pytest.raises(BadInput, match=says):
        made(tmp_path, f"PROMPTS = [{row!r}]\ndef reward(completion, prompt, **rest): return 1")


def test_several_splits_are_refused_with_their_names(tmp_path):
    code = "PROMPTS = {'train': [], 'test': []}\ndef reward(completion, prompt): return 1"
    with pytest.raises(BadInput, match=r"take one of its splits: 'train', 'test'"):
        made(tmp_path, code)


def test_tools_to_call_and_tools_to_judge_are_not_mixed(tmp_path):
    row = {"messages": [{"role": "user", "content": "x"}], "tools": [TOOL]}
    code = f"PROMPTS = [{row!r}]\ndef f(x: str): 'A tool.'\nTOOLS = [f]\ndef reward(c, p, **rest): return 1"
    with pytest.raises(BadInput, match="tools in the file and in its rows"):
        made(tmp_path, code)
