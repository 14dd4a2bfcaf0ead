"""Environments of ``verifiers``: the caller answers for the agent, the package's own hooks ask and score."""

import importlib.util
import sys

import pytest

from evolvent.core.errors import BadInput, EnvError, MissingExtra
from evolvent.envs import load

SUMS = """
import verifiers.v1 as vf

class Data(vf.TaskData):
    answer: str

class Sum(vf.Task[Data]):
    @vf.reward(weight=0.75)
    async def right(self, trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.reward(weight=0.25)
    async def short(self, trace) -> float:
        return float(len(trace.last_reply) < 4)

    @vf.metric
    async def length(self, trace) -> float:
        return float(len(trace.last_reply))

class Config(vf.TasksetConfig):
    size: int = 5

class Sums(vf.Taskset[Sum, Config]):
    def load(self):
        for i in range(self.config.size ** 2):
            a, b = divmod(i, self.config.size)
            data = Data(prompt=f"What is {a} + {b}? <|im_end|>", system_prompt="Digits only.", answer=str(a + b))
            yield Sum(data, self.config.task)

__all__ = ["Sums"]
"""
GUESS = """
import itertools
import verifiers.v1 as vf

class Data(vf.TaskData):
    secret: int

class Guess(vf.Task[Data]):
    pass

class Guesses(vf.Taskset[Guess, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        for i in itertools.count():
            yield Guess(Data(name=f"guess {i}", prompt="Guess a number from 0 to 8.", secret=i % 9), self.config.task)

class Config(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()

class Game(vf.Env[Config]):
    async def run(self, task, agents):
        async with agents.player.interaction(task) as talk:
            segment = await talk.turn()
            while not segment.terminated and segment.last_reply != str(task.data.secret):
                if segment.last_reply == "crash":
                    raise RuntimeError("the game broke")
                low = int(segment.last_reply) < task.data.secret
                segment = await talk.turn("higher" if low else "lower")
        talk.trace.record_reward("found", float(not segment.terminated), 1.0)

__all__ = ["Guesses", "Game"]
"""
TOOLS = SUMS.replace("    @vf.metric", "    NEEDS_CONTAINER = True\n\n    @vf.metric")


@pytest.fixture
def packages(tmp_path, monkeypatch):
    pytest.importorskip("verifiers", reason="its extra does not live beside the others")
    for name, text in (("evolvent_sums", SUMS), ("evolvent_guess", GUESS), ("evolvent_tools", TOOLS)):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))


def halve(task, turn, state={}):  # noqa: B006 (the bounds of the running attempt)
    if turn.observation.startswith("Guess"):
        state.update(low=0, high=8)
    elif turn.observation == "higher":
        state["low"] = state["guess"] + 1
    else:
        state["high"] = state["guess"] - 1
    state["guess"] = (state["low"] + state["high"]) // 2
    return str(state["guess"])


def test_single_turn_and_multi_turn_environments_keep_the_promises(packages):
    from evolvent.testing.env import check_env

    assert "attempts" in check_env(load("verifiers:evolvent-sums"))
    assert "attempts" in check_env(load("verifiers:evolvent-guess"), act=halve)


def test_the_packages_rewards_pay_right_and_wrong_answers(packages):
    env = load("verifiers:evolvent-sums,settings=size=3")
    for task in env.tasks("heldout", 2, seed=0):
        assert env.reset(task).observation == "Digits only.\n\n" + task.text
        assert task.text.endswith("<|im_end|>")  # plain text as it stands
        a, b = (int(word.strip("?")) for word in task.text.split() if word.strip("?").isdigit())
        right = env.step(str(a + b))
        assert right.success and right.terminated and right.reward == 1.0
        assert right.info["scores"] == {"right": 0.75, "short": 0.25, "length": 1.0}
        env.reset(task)
        wrong = env.step("a long wrong answer")
        assert wrong.reward == 0.0 and not wrong.success
        with pytest.raises(EnvError, match="over"):
            env.step("again")
    assert len(env.tasks("train", 5, 0)) == 5
    with pytest.raises(BadInput, match="too many"):
        env.tasks("train", 10, 0)


def test_the_environments_own_loop_answers_between_steps(packages):
    env = load("verifiers:evolvent-guess,max_turns=4")
    for task in env.tasks("train", 6, seed=0):
        turn = env.reset(task)
        while not turn.done:
            turn = env.step(halve(task, turn))
        assert turn.success and turn.info["scores"] == {"found": 1.0}
    high = next(task for task in env.tasks("train", 30, seed=0) if task.seed % 9 == 8)
    env.reset(high)
    seen = [env.step("0") for _ in range(4)]
    assert [turn.observation for turn in seen[:3]] == ["higher"] * 3
    assert seen[3].truncated and not seen[3].terminated and seen[3].reward == 0.0
    env.reset(high)
    with pytest.raises(EnvError, match="the game broke"):
        env.step("crash")
    env.reset(high)
    env.close()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("verifiers:evolvent-nothing", "evolvent_nothing"),
        ("verifiers:evolvent-sums,settings=sise=2", "sise"),
        ("verifiers:evolvent-sums,settings=size=two", "size"),
        ("verifiers:evolvent-tools", "container"),
        ("verifiers:evolvent-sums,max_turns=0", "max_turns"),
    ],
)
def test_what_it_cannot_run_is_refused(packages, spec, words):
    with pytest.raises(BadInput, match=words):
        load(spec)


def test_rewards_outside_the_range_are_an_error(packages):
    env = load("verifiers:evolvent-sums,high=0.5")
    task = env.tasks("train", 1, 0)[0]
    a, b = (int(word.strip("?")) for word in task.text.split() if word.strip("?").isdigit())
    env.reset(task)
    with pytest.raises(EnvError, match="high="):
        env.step(str(a + b))


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"\.\[verifiers\]"):
        load("verifiers:some-env")
