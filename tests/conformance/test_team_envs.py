"""Every team environment keeps its promises, wherever its copies live."""

import importlib.util
from functools import partial

import numpy as np
import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.team import Frame
from evolvent.envs.runners.checked import Checked
from evolvent.envs.runners.vector import vector
from evolvent.envs.team._parallel import ParallelSolo
from evolvent.testing.team_env import check_team_env, random_action
from toy_parallel import Dwindling
from toy_team import Counter

BUILT_IN = {
    "permutation": {},
    "permutation:n=3,ids=true": {},
    "split:n=6": {},
    "bandit": {"random_start": False},
    "matrix:climbing": {"random_start": False},
    "matrix:penalty,k=-10,ids=true": {"random_start": False},
    "jssp:train=3x2": {},
    "ste:wide,particles=50,limit=12": {},
    "disrupt:[spread:n=2],obs=gaussian:0.1,action=uniform:0.1": {},
    "matrix:nonmonotone": {"random_start": False},
    "two_step": {"random_start": False},
    "cue:n=3,choices=4": {},
    "spread": {},
    "spread:n=5,discrete=true": {},
    "spread:n=1,near=2,limit=7": {},
}
PACKAGES = {
    "mamujoco:HalfCheetah-2x3": {"steps": 1001, "n_envs": 1},
    "mamujoco:HalfCheetah-6x1,obsk=0": {"steps": 10, "ends": False},
    "mamujoco:Ant-4x2": {},
    "mamujoco:Ant-2x4": {},
    "mamujoco:Hopper-3x1": {},
    "mamujoco:Walker2d-2x3": {},
    "mamujoco:Walker2d,factorization=0+1|2+3|4+5": {},
    "mamujoco:Humanoid-9|8": {},  # unequal observations and actions, bounds of 0.4
    "mamujoco:Reacher-2x1": {},  # the package gives no plan of its observations: its own step is used
    "mpe": {},
    "mpe:simple_spread,n=10,continuous=true": {"n_envs": 2, "steps": 30},
    "mpe:simple_speaker_listener": {},  # unequal choices
    "mpe:simple_speaker_listener,continuous=true,limit=9": {"steps": 20},
    "mpe:simple_tag": {"steps": 30},
    "vmas:simple_spread,limit=12": {"steps": 30},
    "vmas:balance,n=4,limit=12": {"steps": 30},
    "vmas:transport,continuous=false,limit=9": {"steps": 20},
    "vmas:simple_speaker_listener,limit=9": {"steps": 20},
    "lbf": {},
    "lbf:Foraging-10x10-3p-3f-v3": {},
    "rware": {"steps": 501, "n_envs": 1},
    "rware:tiny-4ag-v2": {"steps": 10, "ends": False},
    "pettingzoo:sisl.multiwalker_v9": {"n_envs": 2, "steps": 80},
    "pettingzoo:sisl.pursuit_v5,limit=5": {"n_envs": 1, "steps": 8},
    "pettingzoo:toy_parallel": {},
    "gymnasium:CartPole-v1": {},
    "gymnasium:Pendulum-v1,max_episode_steps=40": {},
    "gymnasium:Hopper-v5": {},
    "gymnasium:FrozenLake-v1": {},
    "gymnasium:FrozenLake-v1,is_slippery=false": {"random_start": False},
    "gymnasium:MountainCarContinuous-v0,max_episode_steps=30": {},
    "gymnasium:Blackjack-v1": {},  # a tuple of spaces, no time limit
}


VMAS = pytest.mark.skipif(importlib.util.find_spec("vmas") is None, reason="needs the extra vmas, which is GPL-3.0")


@pytest.mark.parametrize(
    "spec", [pytest.param(spec, marks=VMAS if spec[:4] == "vmas" else ()) for spec in [*BUILT_IN, *PACKAGES]]
)
def test_environment_keeps_its_promises(spec):
    assert check_team_env(partial(envs.load_team, spec), **(BUILT_IN | PACKAGES)[spec])


@pytest.mark.skipif(importlib.util.find_spec("jaxmarl") is None, reason="needs the extra jax")
@pytest.mark.parametrize("spec", ["smax:3m", "smax:2s3z"])
def test_smax_keeps_its_promises(spec):
    assert check_team_env(partial(envs.load_team, spec), steps=110)


def test_every_team_environment_is_tried():
    tried = {spec.partition(":")[0] for spec in [*BUILT_IN, *PACKAGES]} | {"smax"}
    assert tried == {row.name for row in envs.available() if row.kind == "team"}


def test_agents_of_a_parallel_environment_die_and_are_masked():
    env = envs.load_team("pettingzoo:toy_parallel", 1)
    frame = env.reset(0)
    alive = []
    for _ in range(5):
        assert frame.obs_BAD.max() <= 1  # pictures are scaled
        alive.append(frame.active_BA[0].tolist())
        frame = env.step(frame.available_BAN.argmax(axis=2))
        assert (frame.reward_BA[0] > 0).tolist() == alive[-1]
    assert alive == [[True] * 3, [True] * 3, [False, True, True], [False, False, True], [False, False, True]]
    assert frame.truncated_B[0]
    assert not frame.terminated_B[0]
    assert not frame.final_obs_BAD[0, :2].any()
    assert frame.final_obs_BAD[0, 2].any()
    assert frame.final_active_BA[0].tolist() == [False, False, True]
    assert frame.final_available_BAN[0, 2].any()


@pytest.mark.parametrize(("place", "message"), [(0, "no observation for an agent"), (1, "no reward for an agent")])
def test_an_agent_that_acted_without_a_reward_or_lives_unseen_is_reported(place, message):
    class Forgetful(Dwindling):
        def step(self, actions):
            shown = super().step(actions)
            shown[place].pop("three")
            return shown

    solo = ParallelSolo(Forgetful(), foreign=True)
    mask = solo.reset(0).available["one"]
    with pytest.raises(EnvError, match=rf"{message}(?s:.*)three"):
        solo.step(np.full(3, mask.argmax()))


def test_copies_that_die_mask_and_differ_in_size_keep_their_promises():
    def make(n_envs):
        return Checked(vector(Counter, n_envs), "counter")

    assert check_team_env(make, steps=30)


class Broken:
    """A spread that breaks one promise."""

    def __init__(self, fault, n_envs):
        self._env, self._fault = envs.load_team("spread:limit=5", n_envs), fault
        self.name, self.n_envs, self.team = "broken", n_envs, self._env.team
        self.render, self.close = self._env.render, self._env.close

    def reset(self, seed):
        return self._spoilt(self._env.reset(0 if self._fault == "one seed" else seed))

    def step(self, action):
        if self._fault == "any action":
            action = np.zeros((self.n_envs, self.team.n_agents, self.team.dims), np.float32)
        return self._spoilt(self._env.step(action))

    def _spoilt(self, frame):
        columns = {name: getattr(frame, name) for name in Frame.__dataclass_fields__}
        if self._fault == "final is the restart" and frame.done_B.any():
            columns["final_obs_BAD"] = columns["obs_BAD"]
        if self._fault == "no final":
            columns["final_obs_BAD"] = None
        if self._fault == "both":
            columns["terminated_B"] = columns["truncated_B"]
        if self._fault == "dtype":
            columns["reward_BA"] = columns["reward_BA"].astype(np.float64)
        if self._fault == "shape":
            columns["obs_BAD"] = columns["obs_BAD"][..., :-1]
        if self._fault == "parts":
            columns["part_BAR"] = columns["part_BAR"] + np.float32(0.01)
        if self._fault == "no parts":
            columns["part_BAR"] = None
        if self._fault == "no choice":
            columns["active_BA"] = np.zeros((self.n_envs, self.team.n_agents), np.bool_)
            columns["final_active_BA"] = columns["active_BA"]
        if self._fault == "chance":
            columns["obs_BAD"] = columns["obs_BAD"] + np.random.default_rng().random(dtype=np.float32)
        if self._fault == "never ends":
            columns["truncated_B"] = np.zeros(self.n_envs, np.bool_)
        return Frame(**columns)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("one seed", "another seed gives the same course"),
        ("any action", "wrong action is accepted"),
        ("final is the restart", "last observation is that of the restart"),
        ("no final", "final_obs_BAD is missing"),
        ("both", "terminated and truncated at once"),
        ("dtype", "dtype of reward_BA"),
        ("shape", "shape of obs_BAD"),
        ("parts", "parts do not sum to the reward"),
        ("no parts", "part_BAR is missing"),
        ("no choice", "without an active agent"),
        ("chance", "the same seed"),
        ("never ends", "limit of 5 steps"),
    ],
)
def test_the_check_finds(fault, message):
    with pytest.raises(BadInput, match=message):
        check_team_env(partial(Broken, fault), steps=12)


def play(env, steps=40):
    generator, frame, out = np.random.default_rng(0), env.reset(7), []
    for _ in range(steps):
        frame = env.step(random_action(env.team, frame, generator))
        done = frame.done_B
        last = None if frame.final_obs_BAD is None else frame.final_obs_BAD[done].copy()
        columns = (frame.obs_BAD, frame.reward_BA, frame.terminated_B, frame.truncated_B, frame.state_BS)
        out.append([*(None if column is None else column.copy() for column in columns), last])
    return out


def same(first, second):
    return all(np.array_equal(a, b) for x, y in zip(first, second, strict=True) for a, b in zip(x, y, strict=True))


@pytest.mark.parametrize("spec", ["mamujoco:Hopper-3x1", "mpe"])
def test_workers_give_the_same_numbers(spec):
    here, there = envs.load_team(spec, 3), envs.load_team(spec, 3, workers=2)
    try:
        assert same(play(here), play(there))
    finally:
        there.close()


def test_robots_see_what_the_package_shows():
    from gymnasium_robotics import mamujoco_v1

    theirs = mamujoco_v1.parallel_env("HalfCheetah", "6x1", 1)
    ours = envs.load_team("mamujoco:HalfCheetah-6x1", 1)
    frame, generator = ours.reset(0), np.random.default_rng(0)
    seen, _ = theirs.reset(seed=0)
    robot, other = theirs.single_agent_env.unwrapped, ours.env.solos[0]._robot.unwrapped
    robot.set_state(other.data.qpos.copy(), other.data.qvel.copy())
    for _ in range(20):
        action = generator.uniform(-1, 1, (1, 6, 1)).astype(np.float32)
        frame = ours.step(action)
        seen, reward, _, _, _ = theirs.step({agent: action[0, i] for i, agent in enumerate(theirs.possible_agents)})
        for i, agent in enumerate(theirs.possible_agents):
            assert frame.obs_BAD[0, i, : len(seen[agent])] == pytest.approx(seen[agent], rel=1e-6)
        assert frame.state_BS[0] == pytest.approx(theirs.state(), rel=1e-6)
        assert frame.reward_BA[0] == pytest.approx(list(reward.values()), rel=1e-5)


@VMAS
def test_two_vmas_do_not_share_their_chance():
    one, other = envs.load_team("vmas:balance,limit=10", 2), envs.load_team("vmas:balance,limit=10", 2)
    alone = play(envs.load_team("vmas:balance,limit=10", 2), 25)
    generator, frame, out = np.random.default_rng(0), one.reset(7), []
    for _ in range(25):
        other.reset(3)
        frame = one.step(random_action(one.team, frame, generator))
        out.append(frame.obs_BAD.copy())
    assert all(np.array_equal(a, b[0]) for a, b in zip(out, alone, strict=True))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mamujoco:HalfCheeta-6x1", "HalfCheetah"),
        ("mamujoco:HalfCheetah-5x1", "cannot be made"),
        ("mamujoco:Ant,factorization=0+1|2", "each of 0, 1, 2"),
        ("mamujoco:Ant", "ROBOT-PARTITION"),
        ("mpe:simple_spraed", "simple_spread"),
        ("mpe:simple_tag,n=3", "fixed number"),
        pytest.param("vmas:balanc", "balance", marks=VMAS),
        ("lbf:Foraging-8x8-2p-2f-v9", "Foraging-8x8-2p-2f-v3"),
        ("rware:tiny-2ag-v9", "rware-tiny-2ag-v2"),
        ("pettingzoo:sisl.multiwalkr_v9", "sisl.multiwalker_v9"),
        ("mpe:simple_spread,n=-3", "does not start"),
        ("mamujoco:HalfCheetah-6x2", "2x3 or 6x1"),
        ("pettingzoo:classic.tictactoe_v3", "turn-based"),
        ("pettingzoo", "NAME:VARIANT"),
        pytest.param("vmas:balance,device=nowhere", "nowhere", marks=VMAS),
    ],
)
def test_wrong_names_are_reported(spec, message):
    with pytest.raises((BadInput, EnvError), match=message):
        envs.load_team(spec, 2)


OWN = """
import numpy as np
from gymnasium.spaces import Box, Discrete

class Mine:
    possible_agents, agents = ["a", "b"], []
    def observation_space(self, agent): return Box(-1, 1, (2,), np.float32)
    def action_space(self, agent): return Discrete(2)
    def reset(self, seed=None, options=None):
        self.t, self.agents = 0, ["a", "b"]
        return self.see(), {}
    def see(self): return {agent: [self.t / 5, 0.5] for agent in self.agents}
    def step(self, actions):
        self.t += 1
        seen, reward, names = self.see(), dict.fromkeys(self.agents, float(sum(actions.values()))), self.agents
        self.agents = [] if self.t == 5 else names
        return seen, reward, dict.fromkeys(names, False), dict.fromkeys(names, self.t == 5), {}
    def render(self): pass
    def close(self): pass

"""


@pytest.mark.parametrize(
    "made",
    [
        "def parallel_env(): return Mine()",
        "parallel_env = Mine",
        "def parallel_env(**options): return Mine(**options)",
        "def parallel_env(render_mode=None): return Mine()",
    ],
)
def test_a_file_of_ones_own_is_an_environment(tmp_path, monkeypatch, made):
    (tmp_path / "my, env.py").write_text(OWN + made)
    monkeypatch.chdir(tmp_path)
    for spec in ("pettingzoo:./my, env.py", f"pettingzoo:{tmp_path}/my, env.py"):
        assert check_team_env(partial(envs.load_team, spec), random_start=False)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("", "subclass of pettingzoo.ParallelEnv"),
        ("parallel_env = 3", "parallel_env: int"),
        ("def env(): pass", "turn-based"),
        ("def parallel_env(): return None", "NoneType without possible_agents"),
        ("x = 1 +", "does not run"),
        ("def parallel_env(): raise ValueError('no luck')", "no luck"),
        ("import nothing_like_it", "nothing_like_it"),
        ("def parallel_env(): return 1 + 'a'", "unsupported operand"),
        (
            "def parallel_env():\n    from pettingzoo.classic.rps.rps import raw_env\n    return raw_env()",
            "aec_to_parallel",
        ),
        ("def parallel_env(n): return Mine()", "an option is missing.*: n"),
    ],
)
def test_what_is_wrong_with_a_file_of_ones_own_is_reported(tmp_path, made, message):
    (tmp_path / "my.py").write_text(OWN + made)
    with pytest.raises((BadInput, EnvError), match=f"(?s){message}"):
        envs.load_team(f"pettingzoo:{tmp_path}/my.py", 1)


@pytest.mark.parametrize("name", ["nowhere.py", "./nowhere", ".", ".x", "a..b", "a b", "sisl.", "/"])
def test_what_is_neither_file_nor_module_is_reported(name):
    with pytest.raises(BadInput, match="no such"):
        envs.load_team(f"pettingzoo:{name}", 1)


def test_a_limit_must_be_taken(tmp_path):
    (tmp_path / "my.py").write_text(OWN + "def parallel_env(): return Mine()")
    with pytest.raises(BadInput, match="leave limit out"):
        envs.load_team(f"pettingzoo:{tmp_path}/my.py,limit=3", 1)


def test_an_agent_that_may_do_nothing_is_named():
    """Unless it does not take part."""

    class Shut(Counter):
        def _seen(self, reward=0.0, broken=""):
            seen = super()._seen(reward, broken)
            seen.available["b"] = np.zeros(2, bool)
            return seen

    env = Checked(vector(Shut, 2, "here", 1), "shut")
    with pytest.raises(EnvError, match=r"no choice is available(?s:.*)copy 0 of 2, agent b, step 0"):
        env.reset(3)
