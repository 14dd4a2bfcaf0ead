"""One spelling for every kind of environment in a file, ``file.py[:NAME]``: recognised by what the file holds."""

import pytest

import evolvent
from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.runs.sources import pinned
from evolvent.testing import command

RAN = "from pathlib import Path\nwith (Path(__file__).parent / 'ran').open('a') as out:\n    out.write('x')\n"
TEAM = (
    RAN
    + """
import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

class Pick(ParallelEnv):
    metadata = {"name": "pick"}
    def __init__(self, long: int = 5, max_cycles: int = 0):
        self.possible_agents, self.agents, self.max_cycles = ["a", "b"], [], max_cycles or long
    def observation_space(self, agent): return Box(-9, 9, (2,), np.float32)
    def action_space(self, agent): return Discrete(2)
    def see(self): return {agent: np.array([self.t, self.shift], np.float32) for agent in self.agents}
    def reset(self, seed=None, options=None):
        self.t, self.shift, self.agents = 0, np.random.default_rng(seed).random(), ["a", "b"]
        return self.see(), {agent: {} for agent in self.agents}
    def step(self, actions):
        self.t += 1
        names, paid, over = self.agents, float(actions["a"] != actions["b"]), self.t == self.max_cycles
        seen = self.see()
        self.agents = [] if over else names
        return (seen, dict.fromkeys(names, paid), dict.fromkeys(names, False), dict.fromkeys(names, over),
                {agent: {} for agent in names})
    def state(self): return np.zeros(3, np.float32)
    def render(self): pass
"""
)
GRADED = (
    RAN
    + """
PROMPTS = [{"prompt": f"Say {i}.", "answer": str(i)} for i in range(10)]
def reward(completion, prompt, answer): return float(completion == answer)
"""
)
WORD = (
    RAN
    + """
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Task, Turn

class Word:
    name, instructions, labels, stop, max_tokens, reward_range = "word", "Say it.", ("Q", "A"), ("\\n",), 4, (0.0, 1.0)
    over = True
    def tasks(self, split, n, seed):
        if split not in ("train", "heldout"):
            raise BadInput("unknown split", got=split)
        return [Task(f"{split}-{seed}-{i}", f"{split} {i}?", split=split, seed=seed + i) for i in range(n)]
    def reset(self, task, seed=0):
        self.over = False
        return Turn("Which word?", admissible=("yes", "no"))
    def step(self, action):
        if self.over:
            raise EnvError("over")
        self.over = True
        return Turn("done", reward=float(action == "yes"), terminated=True, success=action == "yes")
    def review(self, task, seed=0): return None
    def advance(self, pass_number): pass
    def close(self): pass
"""
)
MADE = "def make(long: int = 5): return Pick(long)"
FILES = {  # name: (text, what is asked for behind the file, kind)
    "one class": (TEAM, "", envs.TEAM),
    "a class by name": (TEAM + "class Other(Pick): ...\n", ":Pick", envs.TEAM),
    "a class of its own base": (TEAM.replace("class Pick", "class _Base") + "class Mine(_Base): ...\n", "", envs.TEAM),
    "a class with options": (TEAM, ",long=7,state=true", envs.TEAM),
    "a class with a limit": (TEAM, ":Pick,limit=7", envs.TEAM),
    "parallel_env": (TEAM + "def parallel_env(render_mode): return Pick()", "", envs.TEAM),
    "a class parallel_env": (TEAM + "class parallel_env(Pick): ...", "", envs.TEAM),
    "make of a team": (TEAM + MADE, "", envs.TEAM),
    "make of a team by name": (TEAM + MADE, ":make,long=7", envs.TEAM),
    "a function of another name": (TEAM + MADE.replace("make", "build"), ":build,long=7", envs.TEAM),
    "make_solo of PettingZoo": (TEAM + MADE.replace("make", "make_solo"), "", envs.TEAM),
    "make_solo": (
        "from evolvent.envs.team import mpe\ndef make_solo(): return mpe.make_solo('simple_spread')",
        "",
        envs.TEAM,
    ),
    "make_team": ("from evolvent.envs.team.spread import make_team", "", envs.TEAM),
    "make of tasks": (WORD + "def make(): return Word()", "", envs.TASKS),
    "a class of tasks by name": (WORD, ":Word", envs.TASKS),
    "prompts and reward": (GRADED, "", envs.TASKS),
    "prompts by name": (GRADED + "def make(n): ...", ":PROMPTS", envs.TASKS),
    "reward by name": (GRADED, ":reward", envs.TASKS),
    "a function of prompts": (GRADED.replace("PROMPTS =", "def prompts(): return"), "", envs.TASKS),
}


def team_of(spec):
    env = envs.load_team(spec, 2)
    env.reset(0)
    env.close()
    return env.team


@pytest.mark.parametrize("name", ["my_env.py", "two words, and a comma.py", "a=b.py"])
@pytest.mark.parametrize("held", FILES)
def test_whatever_a_file_holds_is_recognised_checked_and_run_once(held, name, tmp_path, monkeypatch):
    text, rest, kind = FILES[held]
    (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    spec = f"{name}{rest}"
    envs.check(spec, kind, "--env")
    assert envs.kind_of(spec, "here") == kind and command._env(spec, 2, 0, lambda odd: None)
    (tmp_path / "run").mkdir()
    kept = pinned(RunFolder(tmp_path / "run"), spec)
    assert (tmp_path / "run/task" / name).read_text() == text
    if kind == envs.TEAM:
        assert team_of(kept).n_agents == team_of(spec).n_agents
    else:
        assert len(envs.load(kept).tasks("train", 3, 0)) == len(envs.load(spec).tasks("train", 3, 0))
    if "ran" in text:
        assert (tmp_path / "ran").read_text() == "x"
    with pytest.raises(BadInput, match="(?s)is a team.*run it" if kind == envs.TEAM else "(?s)of tasks.*run it"):
        envs.load(spec) if kind == envs.TEAM else envs.load_team(spec, 1)


@pytest.mark.parametrize(
    ("alias", "held", "more", "kind"),
    [
        ("pettingzoo:", "one class", "", envs.TEAM),
        ("pettingzoo:", "a class by name", "", envs.TEAM),
        ("pettingzoo:", "a class with a limit", GRADED, envs.TEAM),
        ("pettingzoo:", "make of a team", "", envs.TEAM),
        ("pettingzoo:variant=", "parallel_env", "", envs.TEAM),
        ("graded:", "prompts and reward", "", envs.TASKS),
        ("graded:", "prompts and reward", "def make(n): ...", envs.TASKS),
        ("graded:variant=", "a function of prompts", "", envs.TASKS),
    ],
)
def test_the_kind_may_stand_before_the_file(alias, held, more, kind, tmp_path):
    text, rest, _ = FILES[held]
    (tmp_path / "my.py").write_text(text + more.replace(RAN, ""))
    spec = f"{alias}{tmp_path}/my.py{rest}"
    (tmp_path / "run").mkdir()
    kept = pinned(RunFolder(tmp_path / "run"), spec)
    assert (tmp_path / "run/task/my.py").exists() and envs.kind_of(kept, "here") == kind == envs.kind_of(spec, "here")
    assert team_of(kept) if kind == envs.TEAM else envs.load(kept).tasks("train", 2, 0)
    assert (tmp_path / "ran").read_text() == "x"


def test_options_of_a_class_reach_it(tmp_path):
    (tmp_path / "my.py").write_text(TEAM)
    limits = [team_of(f"{tmp_path}/my.py{rest}").limit for rest in ("", ",long=7", ":Pick,limit=3", ",max_cycles=4")]
    assert limits == [5, 7, 3, 4]
    assert team_of(f"{tmp_path}/my.py,state=true").state_dim == 3 and team_of(f"{tmp_path}/my.py").state_dim == 0


@pytest.mark.parametrize(
    ("text", "rest", "message"),
    [
        (TEAM + "class Other(Pick): ...\n", "", "several environments.*with Pick, Other.*my.py:Pick or .*my.py:Other"),
        (TEAM + MADE + "\ndef make_solo(): ...", "", "several environments.*my.py:make or .*my.py:make_solo"),
        (TEAM + GRADED, "", "several environments.*my.py:Pick or .*my.py:PROMPTS"),
        (GRADED + "def make(): ...", "", "several environments.*my.py:make or .*my.py:PROMPTS"),
        ("x = 1", "", "nothing in the file is an environment.*with nothing.*ParallelEnv.*make.*PROMPTS and reward"),
        ("class Thing: ...\nPROMPTS = []", "", "nothing in the file is an environment.*with Thing, PROMPTS"),
        ("class _Base: ...\ndef env(): ...", "", "turn-based"),
        ("from pettingzoo import ParallelEnv", "", "nothing in the file is an environment"),
        (TEAM, ":Pik", "not in the file.*did you mean 'Pick'"),
        (TEAM, ":Pick,lon=3", "did you mean 'long'"),
        (TEAM + "PROMPTS = [1]", ":PROMPTS", "not a maker of environments"),
        (TEAM + "thing = 3", ":thing", "not a maker of environments"),
        (TEAM + "def make(): return 3", "", "int without"),
        (GRADED, ",long=3", "unknown option|of tasks for one agent"),
        ("1 / 0", "", "does not run.*ZeroDivisionError.*line 1"),
        ("import nothing_like_it", ":make", "does not run.*nothing_like_it"),
    ],
)
@pytest.mark.parametrize("kind", [envs.TASKS, envs.TEAM, ""])
def test_what_is_wrong_with_a_file_is_reported(text, rest, message, kind, tmp_path):
    (tmp_path / "my.py").write_text(text)
    spec = f"{tmp_path}/my.py{rest}"
    with pytest.raises(BadInput, match=f"(?s){message}"):
        if kind:
            envs.load(spec) if kind == envs.TASKS and "Pick,lon" not in spec else envs.load_team(spec, 1)
        else:
            command._env(spec, 2, 0, lambda odd: None)


def test_a_team_of_a_file_is_run_and_a_run_is_judged_on_it(tmp_path, monkeypatch):
    (tmp_path / "my.py").write_text(TEAM + MADE)
    monkeypatch.chdir(tmp_path)
    few = {"steps": 20, "envs": 2, "horizon": 5, "hidden": (8,), "eval_every": 0, "eval_episodes": 2, "quiet": True}
    run = evolvent.run("ippo", env="my.py:make,long=4", out="run", **few)
    assert run.summary["env"] == "my.py:make,long=4" and (tmp_path / "run/task/my.py").exists()
    from evolvent.cli.evaluate import evaluate

    evaluate(tmp_path / "run", episodes=2, env="my.py:Pick")
    assert list((tmp_path / "run").glob("eval-my.py-Pick.json"))
    with pytest.raises(BadInput, match=r"my.py is a team environment"):
        evolvent.run("memlift", env="my.py", model="none", out="other", quiet=True)
    assert not (tmp_path / "other").exists()
