"""Environments and credit rules with every fault that a newcomer makes: each is named in one sentence."""

import dataclasses
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.ledger import Ledger
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.core.team import ActionSpec, Frame, TeamSpec
from evolvent.testing.credit import check_credit
from evolvent.testing.env import check_env
from evolvent.testing.team_env import check_team_env


class Word:
    """A sound environment: three turns, one of two words; faults are put in by attribute."""

    name, instructions, labels, stop, max_tokens, reward_range = "word", "Say it.", ("Q", "A"), ("\n",), 4, (0.0, 1.0)

    def __init__(self):
        self.draws = 0

    def tasks(self, split, n, seed):
        if split not in ("train", "heldout"):
            raise BadInput("unknown split", got=split)
        return [Task(f"{split}-{seed}-{i}", f"Word {i}?", split=split, seed=seed + i) for i in range(n)]

    def reset(self, task, seed=0):
        self.turn, self.target = 0, task.seed % 2
        return Turn("Which word?", admissible=("yes", "no"))

    def step(self, action):
        if self.turn >= 3:
            raise EnvError("the attempt has ended", where="word")
        self.turn += 1
        over = self.turn == 3
        right = over and action == ("yes", "no")[self.target]
        return Turn("And now?", admissible=("yes", "no"), reward=float(right), terminated=over, success=right)

    def review(self, task, seed=0):
        return Correction("say yes")

    def advance(self, pass_number):
        pass

    def close(self):
        pass


def shows(**changed):
    """A step that shows something else."""

    def step(self, action):
        return dataclasses.replace(Word.step(self, action), **changed)

    return step


def by_chance(self, action):
    self.draws += 1
    return dataclasses.replace(Word.step(self, action), observation=f"draw {self.draws}")


def over_and_over(self, action):
    return Turn("done", terminated=True) if self.turn else Word.step(self, action)


def at_the_end(self, action, **changed):
    turn = Word.step(self, action)
    return dataclasses.replace(turn, **changed) if turn.done else turn


def given(*tasks):
    return lambda self, split, n, seed: list(tasks)


ENVS = {
    "a missing method": ({"review": None}, "review is not a method"),
    "a wrong range": ({"reward_range": (1.0, 0.0)}, "reward_range"),
    "a range of words": ({"reward_range": ("low", "high")}, "two finite numbers"),
    "a range of one": ({"reward_range": 1.0}, "two finite numbers"),
    "no name": ({"name": None}, "name"),
    "one label": ({"labels": ("Q",)}, "labels are two words"),
    "labels of None": ({"labels": None}, "labels are two words"),
    "stop is a word": ({"stop": "\n"}, "a tuple of texts"),
    "no tokens": ({"max_tokens": 0}, "max_tokens"),
    "tokens of None": ({"max_tokens": None}, "whole number above 0"),
    "tasks fail": ({"tasks": lambda self, split, n, seed: {}["x"]}, r"tasks\('train', 4, 0\) raises KeyError"),
    "tasks take nothing": ({"tasks": lambda self: []}, "raises TypeError"),
    "tasks are None": ({"tasks": lambda self, split, n, seed: None}, "is no list"),
    "tasks are texts": ({"tasks": given("a", "b", "c", "d")}, "something else than tasks"),
    "too few tasks": ({"tasks": given(Task("a", "b"))}, "gives another number"),
    "ids repeat": ({"tasks": lambda self, split, n, seed: [Task("a", "b", split=split)] * n}, "task ids repeat"),
    "shared tasks": (
        {"tasks": lambda self, split, n, seed: [Task(f"{i}", "b", split=split) for i in range(n) if split[:2] != "no"]},
        "train and heldout share tasks",
    ),
    "overlapping splits": (
        {
            "tasks": lambda self, split, n, seed: [
                dataclasses.replace(t, id=t.id.partition("-")[2]) for t in Word.tasks(self, split, n, seed)
            ]
        },
        "train and heldout share tasks",
    ),
    "another split": (
        {"tasks": lambda self, split, n, seed: [Task(f"{split}{i}", "b") for i in range(n)]},
        "without its split or text",
    ),
    "tasks by chance": (
        {"tasks": lambda self, split, n, seed: [Task(str(np.random.random()), "b", split=split) for _ in range(n)]},
        "the same seed gives other tasks",
    ),
    "meta is no JSON": (
        {
            "tasks": lambda self, split, n, seed: [
                dataclasses.replace(t, meta={"a": {1}}) for t in Word.tasks(self, split, n, seed)
            ]
        },
        "meta is not JSON",
    ),
    "a split that breaks": (
        {"tasks": lambda self, split, n, seed: Word.tasks(self, {"train": split, "heldout": split}[split], n, seed)},
        "raises KeyError",
    ),
    "reset gives text": ({"reset": lambda self, task, seed=0: "hello"}, "not a turn"),
    "reset fails": (
        {"reset": lambda self, task, seed=0: task.nothing},
        "raises AttributeError(.|\n)*test_malformed.py, line",
    ),
    "reset has ended": ({"reset": lambda self, task, seed=0: Turn("x", terminated=True)}, "has ended at reset"),
    "step gives a tuple": ({"step": lambda self, action: ("x", 0.0, True)}, "not a turn(.|\n)*step 1 of task"),
    "step fails": ({"step": lambda self, action: 1 / 0}, "raises ZeroDivisionError"),
    "a reward of NaN": ({"step": shows(reward=float("nan"))}, "a reward\n  got: nan"),
    "a reward of None": ({"step": shows(reward=None)}, "a finite number"),
    "a reward of numpy": ({"step": shows(reward=np.float32(1.0))}, "a finite number"),
    "a reward out of range": ({"step": shows(reward=1.0)}, "total reward outside"),
    "no observation": ({"step": shows(observation="")}, "an empty observation"),
    "an observation of numbers": ({"step": shows(observation=3)}, "observation of a turn"),
    "done of numpy": ({"step": shows(terminated=np.True_)}, "terminated of a turn"),
    "both ends": ({"step": shows(terminated=True, truncated=True)}, "terminated and truncated at once"),
    "success without an end": ({"step": shows(success=True, terminated=False)}, "success of an attempt that goes on"),
    "nothing admissible": ({"step": shows(admissible=())}, "admissible is empty"),
    "admissible is a list": ({"step": shows(admissible=["yes"])}, "a tuple of texts"),
    "admissible repeats": ({"step": shows(admissible=("yes", "yes"))}, "admissible repeats"),
    "by chance": ({"step": by_chance}, "not reproducible"),
    "on after the end": ({"step": over_and_over}, "a step after the end is accepted"),
    "another error after the end": (
        {"step": lambda self, action: Word.step(self, action) if self.turn < 3 else {}["x"]},
        "step after the end raises KeyError",
    ),
    "a review of text": ({"review": lambda self, task, seed=0: "say no"}, "Correction or None"),
    "an empty review": ({"review": lambda self, task, seed=0: Correction(" ")}, "a correction without body"),
    "a review by chance": ({"review": lambda self, task, seed=0: Correction(str(np.random.random()))}, "for one seed"),
    "passes fail": ({"advance": lambda self: None}, r"advance\(1\) raises TypeError"),
}


def test_a_sound_environment_passes():
    assert "attempts" in check_env(Word())


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (
            {"tasks": lambda self, split, n, seed: Word.tasks(self, split if split[0] in "th" else "train", n, seed)},
            "no such split",
        ),
        ({"step": lambda self, action: Turn("again")}, "no end after 200 steps"),
        ({"step": lambda self, action: Turn(f"turn {len(action)}")}, "no end after 200 steps"),
    ],
)
def test_what_may_be_meant_is_a_warning_once(faults, message):
    env, said = Word(), []
    for name, value in faults.items():
        setattr(env, name, value.__get__(env))
    assert "attempts" in check_env(env, warn=said.append)
    assert len(said) == 1 and message in said[0] and "environment " in said[0]


@pytest.mark.parametrize("fault", ENVS)
def test_what_is_wrong_with_an_environment_is_named(fault):
    faults, message = ENVS[fault]
    env = Word()
    for name, value in faults.items():
        setattr(env, name, value.__get__(env) if callable(value) else value)
    with pytest.raises(BadInput, match=message) as error:
        check_env(env)
    assert "environment " in str(error.value) and "where: " in str(error.value)


def test_missing_members_are_named():
    with pytest.raises(BadInput, match=r"members of the protocol are missing\n  got: \['name', .*'close'\]"):
        check_env(object())


# ------------------------------------------------------------------------------------------------- team environments
def team(**faults):
    """Two agents in two copies that end after two steps."""
    spec = TeamSpec(("a", "b"), 1, (ActionSpec(2), ActionSpec(2)), limit=2)

    def frame(t, end=False):
        obs, zeros = np.full((2, 2, 1), t, np.float32), np.zeros(2, np.bool_)
        return Frame(
            obs * 0 if end else obs,
            np.zeros((2, 2), np.float32),
            zeros,
            ~zeros if end else zeros,
            final_obs_BAD=obs if end else None,
        )

    env = SimpleNamespace(name="two", n_envs=2, team=spec, render=lambda: None, close=lambda: None, t=0)

    def reset(seed):
        env.t = 0
        return frame(0)

    def step(action):
        if action.shape != (2, 2) or action.dtype.kind not in "iu" or action.min() < 0 or action.max() > 1:
            raise BadInput("an action")
        env.t = env.t % 2 + 1
        return frame(env.t, env.t == 2)

    env.reset, env.step = reset, step
    for name, fault in faults.items():
        setattr(env, name, fault) if fault is not None else delattr(env, name)
    return env


TEAMS = {
    "a missing method": ({"render": None}, r"are missing\n  got: \['render'\]"),
    "another number of copies": ({"n_envs": 3}, "n_envs is not the number asked for"),
    "no team": ({"team": "two"}, "name or team"),
    "reset gives None": ({"reset": lambda seed: None}, r"reset\(0\) returns no frame"),
    "reset fails": ({"reset": lambda seed: {}["x"]}, r"reset\(0\) raises KeyError"),
    "step fails": ({"step": lambda action: 1 / 0}, "step 1 raises ZeroDivisionError"),
    "step gives a tuple": ({"step": lambda action: (1, 2)}, "step 1 returns no frame"),
    "lists for arrays": ({"reset": lambda seed: Frame([[0.0]], [[0.0]], [False], [False])}, "obs_BAD of reset"),
    "a reward for each copy": (
        {"reset": lambda seed: Frame(np.zeros((2, 2, 1)), np.zeros(2), np.zeros(2), np.zeros(2))},
        "shape of reward_BA",
    ),
}


def test_a_sound_team_passes():
    assert check_team_env(lambda n: team(), n_envs=2, steps=6, random_start=False)


@pytest.mark.parametrize("fault", TEAMS)
def test_what_is_wrong_with_a_team_environment_is_named(fault):
    faults, message = TEAMS[fault]
    with pytest.raises(BadInput, match=message):
        check_team_env(lambda n: team(**faults), n_envs=2, steps=6, random_start=False)


def test_a_maker_that_fails_is_named():
    with pytest.raises(BadInput, match=r"make\(2\) raises ZeroDivisionError"):
        check_team_env(lambda n: 1 / 0, n_envs=2)


# -------------------------------------------------------------------------------------------------------------- rules
def to_steps(value):
    def assign(episodes):
        ledger = Ledger.for_episodes(episodes)
        owner = ledger.episode_index("step")
        per = np.array([value(e) if e.valid else np.nan for e in episodes], dtype=np.float64)
        ledger.set("step", per[owner] if len(episodes) else [])
        return ledger

    return assign


def changes(episodes):
    for episode in episodes:
        episode.add_reward(1.0)
    return to_steps(lambda e: e.total_reward)(episodes)


def by_order(episodes):
    return to_steps(lambda e: episodes.index(e) + 0.0)(episodes)


def across(episodes):
    mean = np.mean([e.total_reward for e in episodes if e.valid] or [0.0])
    return to_steps(lambda e: e.total_reward - mean)(episodes)


def with_invalid(episodes):
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", 1.0)
    return ledger


def at(level, values):
    def assign(episodes):
        ledger = Ledger.for_episodes(episodes)
        ledger.set(level, values)
        return ledger

    return assign


def whole(e):
    return e.total_reward


RULES = {
    "no level": ({"LEVEL": None}, "LEVEL is not a level"),
    "a wrong level": ({"LEVEL": "turn"}, "LEVEL is not a level"),
    "no claim": ({"UNBIASED": None}, "UNBIASED is not declared"),
    "no docstring": ({"__doc__": None}, "no docstring"),
    "no assign": ({"assign": None}, "no function assign"),
    "an open Config": ({"Config": dict}, "Config is not a frozen dataclass"),
    "another record": ({"RECORD": "table"}, "RECORD is not a record"),
    "assign fails": ({"assign": lambda episodes: episodes[0].nothing}, "AttributeError(.|\n)*test_malformed.py, line"),
    "assign takes nothing": ({"assign": lambda: None}, "TypeError"),
    "numbers for a ledger": ({"assign": lambda episodes: [1.0]}, "must return a ledger"),
    "of other episodes": ({"assign": lambda episodes: Ledger.for_episodes(episodes[1:])}, "of other episodes"),
    "nothing scored": ({"assign": Ledger.for_episodes}, "no credit at any level"),
    "another level scored": ({"assign": at("component", 1.0)}, "got: credit at level component"),
    "another length": ({"assign": at("step", [1.0, 2.0])}, "wrong number of values"),
    "infinite": ({"assign": at("step", np.inf)}, "value is infinite"),
    "texts for numbers": ({"assign": at("step", ["a"])}, "not numbers"),
    "changes its input": ({"assign": changes}, "assign changed an episode"),
    "by chance": ({"assign": to_steps(lambda e: np.random.random())}, "two calls with one input differ"),
    "credits the invalid": ({"assign": with_invalid}, "an invalid episode was credited"),
    "fails on nothing": (
        {"assign": lambda episodes: [episodes[0]] and to_steps(whole)(episodes)},
        "IndexError",
    ),
    "depends on the order": ({"assign": by_order}, "changed the credit"),
    "looks at other groups": ({"assign": across}, "another group changed the credit"),
    "claims too much": ({"assign": to_steps(lambda e: whole(e) ** 3)}, "the exact gradient is not what is declared"),
    "claims too little": ({"UNBIASED": False}, "the exact gradient is not what is declared"),
}


def rule(**faults):
    sound = {
        "LEVEL": "step",
        "UNBIASED": True,
        "assign": to_steps(whole),
        "__doc__": "Whole return.",
        "__name__": "mine",
    }
    return SimpleNamespace(**(sound | faults))


def test_a_sound_rule_passes():
    assert "exact gradient" in check_credit(rule())


@pytest.mark.parametrize("fault", RULES)
def test_what_is_wrong_with_a_rule_is_named(fault):
    faults, message = RULES[fault]
    with pytest.raises(BadInput, match=message):
        check_credit(rule(**faults))


# ------------------------------------------------------------------------------------------------------- command line
def test_the_command_line_checks_both(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from evolvent.credit.step_return_to_go import *\nfrom evolvent.credit.step_return_to_go import assign, LEVEL\n"
        "UNBIASED = True\nx = {}\n\n\ndef wrong(episodes):\n    'Wrong.'\n    return x['y']\n"
    )

    def checked(*arguments):
        arguments = [sys.executable, "-m", "evolvent", "check", *map(str, arguments), "--plain"]
        done = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path, timeout=600)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr

    assert checked("env", "arithmetic:largest")[0] == 0
    assert checked("credit", "step_return_to_go")[0] == 0
    code, said = checked("credit", "mine.py:wrong")
    assert code == 2 and "KeyError: 'y'" in said and "mine.py, line 9" in said
    code, said = checked("envs", "arithmetic")
    assert code == 2 and "did you mean 'env'" in said
