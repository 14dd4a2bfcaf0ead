"""Several rewards by name: their weighted sum is the task's, and each is recorded apart."""

import pytest
from test_graded_env import made

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.reward_kinds import reward_total
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted
from evolvent.play.attempt import play
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.runs.copies import Played
from evolvent.runs.language.evaluation import summarise
from evolvent.runs.language.log import update_row

ROWS = 'PROMPTS = [{"prompt": f"{i} + 1 =", "answer": str(i + 1)} for i in range(10)]\n'
CODE = f"""{ROWS}
def form(completion, prompt, answer):
    return float(completion.isdigit())
def right(prompts, completions, answer):
    return [float(c == a) for c, a in zip(completions, answer)]
def length(completion, prompt, **rest):
    return len(completion) / 10
REWARDS = {{"form": form, "right": right, "length": length}}
WEIGHTS = {{"form": 0.25, "length": 0}}
"""


def attempt(env, task, says):
    player = play(env, task, AttemptSettings(Text()), seed=0)
    engine, request = Served(Scripted(lambda prompt: says)), next(player)
    while True:
        try:
            request = player.send(engine([request])[0])
        except StopIteration as done:
            return done.value


def test_the_sum_is_the_reward_and_each_is_logged(tmp_path):
    env = made(tmp_path, CODE)
    assert env.reward_range == (0.0, 1.25)
    task = env.tasks("train", 1, 0)[0]
    good = str(int(task.text.split()[0]) + 1)
    episodes = [attempt(env, task, good), attempt(env, task, "77"), attempt(env, task, "what")]
    assert [e.total_reward for e in episodes] == [1.25, 0.25, 0.0]
    assert [e.success for e in episodes] == [True, False, False]
    assert [reward_total(e, "right") for e in episodes] == [1.0, 0.0, 0.0]
    means = summarise(episodes)
    assert means["reward_form_mean"] == pytest.approx(2 / 3) and means["reward_right_mean"] == pytest.approx(1 / 3)
    assert means["reward_length_mean"] == pytest.approx((len(good) + 2 + 4) / 30), "weight 0: logged, not paid"
    row = update_row(episodes, Played(episodes), {"act": 1.0, "learn": 1.0})
    assert row["reward_right_mean"] == means["reward_right_mean"] and row["return"] == pytest.approx(0.5)


def test_a_penalty_has_a_negative_weight(tmp_path):
    env = made(tmp_path, CODE.replace('"length": 0', '"length": -0.5'))
    assert env.reward_range == (-0.5, 1.25)
    task = env.tasks("train", 1, 0)[0]
    assert attempt(env, task, "x" * 10).total_reward == -0.5
    env = made(tmp_path, CODE.replace('"length": 0', '"length": -0.5') + "SUCCESS = 1.0\n")
    right = attempt(env, task, str(int(task.text.split()[0]) + 1))
    assert right.success and 1.1 < right.total_reward < 1.25


def test_an_attempt_that_ends_in_a_call_has_the_lowest_of_all(tmp_path):
    tools = "def look(x: str):\n    'A look.'\n    return x\nTOOLS, MAX_TURNS = [look], 2\n"
    code = f"{CODE}{tools}".replace('"length": 0', '"length": -0.5').replace(
        "(completion, prompt, answer)", "(completion, prompt, **rest)"
    )
    env = made(tmp_path, code.replace("completions, answer)", "completions, answer, calls)"))
    done = attempt(env, env.tasks("train", 1, 0)[0], "look(1)")
    assert done.total_reward == env.reward_range[0] == -0.5 and reward_total(done, "length") == 1.0


@pytest.mark.parametrize("value", ["float('nan')", "2.0", "None"])
def test_what_is_no_reward_is_named(tmp_path, value):
    env = made(tmp_path, CODE.replace("float(completion.isdigit())", value))
    with pytest.raises(EnvError, match=r"not a reward[^§]*where: [^\n]*form"):
        attempt(env, env.tasks("train", 1, 0)[0], "1")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("REWARDS = {}", "not rewards by name"),
        ("REWARDS = [len]", "not rewards by name"),
        ("REWARDS = {'a b': form}", "not rewards by name"),
        ("REWARDS = {'form': 1}", "not rewards by name"),
        ("WEIGHTS = {'fomr': 1}", "a weight of no reward[^§]*did you mean 'form'"),
        ("WEIGHTS = {'form': float('nan')}", "not a weight"),
        ("WEIGHTS = {'form': float('inf')}", "not a weight"),
        ("WEIGHTS = {'form': '1'}", "not a weight"),
        ("WEIGHTS = [1, 2, 3]", "not weights by name"),
        ("WEIGHTS = dict.fromkeys(REWARDS, 0)", "all weights are 0"),
        ("SUCCESS = 3", r"above 0, at most 1\.25"),
        ("def reward(completion, prompt): return 1", "reward and REWARDS in one file"),
        ("del REWARDS\ndef reward(completion, prompt, answer): return 1", "weights of one reward"),
        ("REWARDS['other'] = lambda completion, prompt: 1", "does not take the keys of a row[^§]*other"),
    ],
)
def test_a_file_with_wrong_rewards_is_refused(tmp_path, code, says):
    with pytest.raises(BadInput, match=says):
        made(tmp_path, f"{CODE}\n{code}\n")
