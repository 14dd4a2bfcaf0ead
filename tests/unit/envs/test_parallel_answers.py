"""Parallel environments written by hand: what is harmless is taken, the rest is named, and check says what is odd."""

import contextlib
import copy
import time
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Text, Tuple

from evolvent.core.errors import BadInput, EnvError
from evolvent.envs.promises import Promise
from evolvent.envs.runners.checked import Checked
from evolvent.envs.runners.patience import at_most
from evolvent.envs.runners.spaces import row_of
from evolvent.envs.runners.vector import vector
from evolvent.envs.team._parallel import ParallelSolo
from evolvent.testing import command
from evolvent.testing.parallel import oddities


class Hand:
    """Two agents, three steps; ``change`` may alter what reset (t = 0) and step return."""

    possible_agents = ("a", "b")
    space, action = Box(-1, 1, (2,), np.float32), Discrete(3)

    def __init__(self, change=lambda env, shown: shown, empties=True, **named):
        self.change, self.empties, self.agents = change, empties, []
        self.__dict__.update(named)

    def observation_space(self, agent):
        return self.space

    def action_space(self, agent):
        return self.action

    def see(self):
        return np.full(2, self.t / 3, np.float32)

    def reset(self, seed=None, options=None):
        self.t, self.agents, self.acted = 0, list(self.possible_agents), []
        return self.change(self, ({agent: self.see() for agent in self.agents}, {agent: {} for agent in self.agents}))

    def step(self, actions):
        self.t, names = self.t + 1, self.possible_agents
        self.acted.append(actions)
        flags = dict.fromkeys(names, self.t == 3)
        if self.empties and self.t == 3:
            self.agents = []
        shown = {agent: self.see() for agent in names}
        return self.change(
            self, (shown, dict.fromkeys(names, 1.0), flags, dict.fromkeys(names, False), {agent: {} for agent in names})
        )

    def render(self):
        pass

    def close(self):
        pass


def team(**named):
    return Checked(vector(lambda: ParallelSolo(Hand(**named), foreign=True), 2), "hand")


def play(env, steps=6) -> list[Any]:
    """Frames, copied: an environment writes over its own."""
    frames = [copy.deepcopy(env.reset(0))]
    for _ in range(steps):
        open_ = frames[-1].available_BAN
        action = np.zeros((2, 2), np.int64) if open_ is None else open_.argmax(2)
        frames.append(copy.deepcopy(env.step(action)))
    return frames


def on_step(place, value):
    """Replaces one of the five that step returns."""
    return lambda env, shown: shown if len(shown) == 2 else (*shown[:place], value(env, shown), *shown[place + 1 :])


# ------------------------------------------------------------------------------------------------ the end
def ends(first, second, cut=False):
    """Agent a is out after ``first`` steps, b after ``second``."""

    def change(env, shown):
        if len(shown) == 2:
            return shown
        out = {"a": env.t >= first, "b": env.t >= second}
        no = dict.fromkeys(out, False)
        return (*shown[:2], *((no, out) if cut else (out, no)), shown[4])

    return change


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 2), (1, 2), (2, 1)])
def test_an_attempt_ends_with_its_last_agent_though_the_list_stays_full(first, second, cut):
    frames = play(team(change=ends(first, second, cut), empties=False), 2 * max(first, second))
    done = [bool(frame.done_B.all()) for frame in frames[1:]]
    assert done == ([False] * (max(first, second) - 1) + [True]) * 2
    assert frames[max(first, second)].truncated_B.all() == cut
    if first != second:
        alive = frames[min(first, second)].active_BA[0]
        assert alive.tolist() == [first > second, second > first]


def test_agents_that_leave_the_list_without_a_flag_are_out():
    def change(env, shown):
        env.agents = [] if env.t == 2 else env.agents
        return shown

    assert play(team(change=change))[2].terminated_B.all()


def test_an_environment_without_a_list_has_all_its_agents():
    env = Hand()
    solo = ParallelSolo(env, foreign=True)
    listed = type("Unlisted", (), {name: getattr(env, name) for name in ("reset", "step", "change")})()
    solo.env = listed
    assert list(solo.reset(0).obs) == ["a", "b"]
    assert [solo.step(np.zeros(2, np.int64)).terminated for _ in range(3)] == [False, False, True]


def test_nobody_after_reset_is_named():
    def nobody(env, shown):
        env.agents = [] if len(shown) == 2 else env.agents
        return shown

    with pytest.raises(EnvError, match=r"nobody is there after reset(?s:.*)possible_agents"):
        team(change=nobody).reset(0)


# ------------------------------------------------------------------------------------------------ forms
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda env, shown: shown[:4] if len(shown) == 5 else shown, r"step returned 4 values(?s:.*)terminations"),
        (lambda env, shown: shown[:3] if len(shown) == 5 else shown, "step returned 3 values"),
        (lambda env, shown: shown[0] if len(shown) == 5 else shown, "step returned one dict"),
        (lambda env, shown: None if len(shown) == 5 else shown, "step returned one NoneType"),
        (lambda env, shown: (*shown, 1) if len(shown) == 2 else shown, "reset returned 3 values"),
        (lambda env, shown: [1.0] if len(shown) == 2 else shown, "reset returned 1 values"),
        (on_step(2, lambda env, shown: True), "terminations of step are no dictionary"),
        (on_step(1, lambda env, shown: 1.0), "rewards of step are no dictionary"),
        (on_step(2, lambda env, shown: {"__all__": True}), "changed its agents"),
        (on_step(1, lambda env, shown: {"a": 1.0}), "no reward for an agent"),
        (on_step(0, lambda env, shown: {"a": env.see()}), "no observation for an agent"),
        (on_step(1, lambda env, shown: {"a": np.ones(2), "b": 1.0}), r"no single number(?s:.*)step, agent a"),
        (on_step(1, lambda env, shown: {"a": None, "b": 1.0}), "no single number"),
        (on_step(1, lambda env, shown: {"a": "much", "b": 1.0}), "no single number"),
        (on_step(0, lambda env, shown: {"a": None, "b": env.see()}), "another size|not in its space"),
        (on_step(0, lambda env, shown: {"a": np.ones(5), "b": env.see()}), r"another size than(?s:.*)agent a"),
        (on_step(4, lambda env, shown: {"a": {"success": "yes"}}), "a success that is none"),
        (on_step(4, lambda env, shown: {"a": {"action_mask": [1, 1, 1]}}), "none in those of reset"),
    ],
)
def test_what_does_not_fit_is_named_without_a_traceback(change, message):
    env = None
    with pytest.raises(EnvError, match=message) as error:
        env = team(change=change)
        play(env)
    told = Promise("environment hand", "").failure("step 1", error.value, "no exception")  # as check says it
    assert "Traceback" not in str(error.value) and error.value.what in str(told)


@pytest.mark.parametrize(
    "change",
    [
        lambda env, shown: shown[0] if len(shown) == 2 else shown,
        lambda env, shown: (shown[0], None) if len(shown) == 2 else shown,
        on_step(1, lambda env, shown: {agent: np.array([1.0]) for agent in "ab"}),
        on_step(1, lambda env, shown: {agent: np.float32(1.0) for agent in "ab"}),
        on_step(1, lambda env, shown: {agent: np.array([[1]]) for agent in "ab"}),
        on_step(1, lambda env, shown: dict.fromkeys("ab", True)),
        on_step(3, lambda env, shown: {}),
        on_step(4, lambda env, shown: None),
        on_step(2, lambda env, shown: {agent: np.array([env.t == 3]) for agent in "ab"}),
        lambda env, shown: list(shown) if len(shown) == 5 else shown,
    ],
)
def test_what_is_harmless_is_taken(change):
    frames = play(team(change=change))
    assert frames[3].terminated_B.all()
    assert (frames[1].reward_BA == 1.0).all()


@pytest.mark.parametrize(
    ("trouble", "got"),
    [
        (lambda: {}["x"], "KeyError"),
        (lambda: [][1], "IndexError: list index"),
        (lambda: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_an_exception_is_reported_with_its_line(trouble, got):
    with pytest.raises(EnvError, match=rf"an environment broke\n  got: {got}(?s:.*)test_parallel_answers.py, line \d+"):
        play(team(change=on_step(0, lambda env, shown: trouble())))


# ------------------------------------------------------------------------------------------------ what is seen
@pytest.mark.parametrize(
    ("space", "seen", "row"),
    [
        (Discrete(4), 2, [0, 0, 1, 0]),
        (Discrete(3, start=5), np.int64(5), [1, 0, 0]),
        (MultiDiscrete([2, 3]), np.array([1, 0]), [0, 1, 1, 0, 0]),
        (MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (Tuple([Discrete(2), Box(-9, 9, (1,))]), (1, np.array([3.5], np.float32)), [0, 1, 3.5]),
        (Dict({"at": Box(-9, 9, (2,)), "who": Discrete(2)}), {"at": [4.0, 5.0], "who": 0}, [4, 5, 1, 0]),
        (Dict({"in": Dict({"x": Discrete(2)}), "y": Box(0, 9, (1, 2))}), {"in": {"x": 1}, "y": [[7, 8]]}, [0, 1, 7, 8]),
        (Box(0, 255, (2,), np.uint8), np.array([0, 255], np.uint8), [0, 1]),
        (Box(-1, 1, ()), 0.5, [0.5]),
    ],
)
def test_spaces_become_rows(space, seen, row):
    width, flat = row_of(space, "agent a")
    assert width == len(row)
    np.testing.assert_allclose(flat(seen), row)


@pytest.mark.parametrize(
    ("space", "seen"),
    [
        (Discrete(4), 4),
        (Discrete(4), -1),
        (Discrete(4), 1.5),
        (Discrete(4, start=1), 0),
        (Discrete(4), None),
        (MultiDiscrete([2, 3]), np.array([2, 0])),
        (Dict({"a": Discrete(2), "b": Discrete(2)}), {"a": 1}),
        (Tuple([Discrete(2), Discrete(3)]), (1,)),
        (Dict({"a": Discrete(2), "b": Discrete(2)}), 1),
    ],
)
def test_what_is_not_in_its_space_is_named(space, seen):
    with pytest.raises(EnvError, match=r"not in its space(?s:.*)agent a"):
        row_of(space, "agent a").flat(seen)


@pytest.mark.parametrize(
    "space",
    [
        Box(0, 255, (84, 84, 3), np.uint8),
        Box(0, 1, (64, 64)),
        Dict({"eye": Box(0, 1, (210, 160)), "n": Discrete(2)}),
        Tuple([Box(0, 255, (3, 40, 40), np.uint8)]),
        Box(0, 1, (20_000,)),
        Discrete(100_000),
    ],
)
def test_pictures_and_endless_rows_are_refused_with_what_to_do(space):
    with pytest.raises(BadInput, match=r"agent a\n  do: show"):
        row_of(space, "agent a")
    with pytest.raises(BadInput, match="do: show"):
        ParallelSolo(Hand(space=space), foreign=True)


def test_small_grids_are_flattened_and_odd_spaces_refused():
    assert row_of(Box(0, 1, (7, 7, 3)), "").width == 147
    for space in (Text(4), Sequence(Discrete(2)), Dict({"word": Text(3)})):
        with pytest.raises(EnvError, match=r"not supported(?s:.*)as numbers"):
            row_of(space, "")


def test_agents_see_one_hot_numbers():
    frames = play(team(space=Discrete(4), see=lambda: 3), 1)
    assert frames[0].obs_BAD.tolist() == [[[0, 0, 0, 1]] * 2] * 2


# ------------------------------------------------------------------------------------------------ infos
def masks(*agents):
    """Only choice ``t % 3`` is open, as the infos say."""

    def change(env, shown):
        facts = {agent: {"action_mask": np.arange(3) == env.t % 3} for agent in agents}
        return (*shown[:-1], facts)

    return change


@pytest.mark.parametrize("agents", [("a", "b"), ("a",)])
def test_a_mask_in_the_infos_is_the_mask(agents):
    frames = play(team(change=masks(*agents)))
    assert [frame.available_BAN[0, 0].tolist() for frame in frames[:3]] == np.eye(3, dtype=bool).tolist()
    assert frames[1].available_BAN[0, 1].sum() == (1 if "b" in agents else 3)


@pytest.mark.parametrize(
    ("mask", "action"), [([1, 0], Discrete(3)), ([1, 0, 1], Box(-1, 1, (2,))), ("abc", Discrete(3))]
)
def test_a_mask_that_does_not_fit_is_named(mask, action):
    def change(env, shown):
        return (*shown[:-1], {"a": {"action_mask": mask}})

    with pytest.raises(EnvError, match="mask of actions that does not fit"):
        team(change=change, action=action).reset(0)


def test_a_mask_beside_other_parts_of_an_observation_is_taken_out_of_it():
    space = Dict({"at": Box(-1, 1, (2,)), "who": Discrete(2), "action_mask": MultiBinary(3)})
    env = team(space=space, see=lambda: {"at": [0.5, 0.5], "who": 1, "action_mask": np.array([0, 1, 0], np.int8)})
    frame = env.reset(0)
    assert frame.obs_BAD[0, 0].tolist() == [0.5, 0.5, 0, 1] and frame.available_BAN is not None
    assert frame.available_BAN[0, 0].tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("infos", "success"),
    [
        ({"a": {"success": True}, "b": {"success": False}}, 0.5),
        ({"a": {"is_success": 1.0}}, 1.0),
        ({"a": {"success": np.array([0])}, "b": {}}, 0.0),
        ({}, np.nan),
        ({"a": {"score": 3}}, np.nan),
    ],
)
def test_success_in_the_infos_is_the_success_of_the_attempt(infos, success):
    frames = play(team(change=on_step(4, lambda env, shown: infos)), 3)
    np.testing.assert_array_equal(frames[3].info["success"], np.full(2, success, np.float32))


# ------------------------------------------------------------------------------------------------ time
def spin():
    while True:
        with contextlib.suppress(Exception):  # as an environment may
            time.sleep(0.001)


@pytest.mark.parametrize("hang", [spin, partial(time.sleep, 60), lambda: [0 for _ in iter(int, 1)]])
def test_a_step_that_never_returns_is_an_error_with_its_line(hang):
    env = team(change=on_step(0, lambda env, shown: hang()))
    env._step_s = 0.2
    env.reset(0)
    with pytest.raises(
        EnvError, match=r"a step of the environment did not return(?s:.*)test_parallel_answers.py, line"
    ):
        env.step(np.zeros((2, 2), np.int64))
    with pytest.raises(EnvError, match="broke before"):
        env.step(np.zeros((2, 2), np.int64))


def test_the_limit_leaves_no_alarm_and_no_other_is_touched():
    import signal

    with at_most(5.0, "x", ""):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    signal.setitimer(signal.ITIMER_REAL, 50.0)
    try:
        with at_most(0.01, "x", ""):
            time.sleep(0.05)
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 50.0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


# ------------------------------------------------------------------------------------------------ what check says
@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"empties": False}, "agents still lists a, b"),
        ({"change": lambda env, shown: shown[0] if len(shown) == 2 else shown}, "reset returns no infos"),
        ({"change": on_step(4, lambda env, shown: {"a": {"score": 1}})}, "nothing reads: score"),
        ({"change": on_step(4, lambda env, shown: {"success": True})}, "infos of nobody: success"),
        ({"change": on_step(2, lambda env, shown: dict.fromkeys("ab", False)), "empties": False}, "no attempt ended"),
    ],
)
def test_what_is_odd_is_reported(named, message):
    assert any(message in odd for odd in oddities(team(**named), steps=20))


def test_nothing_is_odd_about_a_sound_one():
    assert oddities(team()) == oddities(team(change=masks("a", "b"))) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (on_step(2, lambda env, shown: {7: True}), "changed its agents(?s:.*)0, 1"),
        (on_step(0, lambda env, shown: {0: env.see(), 1: env.see(), 2: env.see()}), "changed its agents"),
        (on_step(4, lambda env, shown: {0: {"action_mask": [1, 1, 1]}}), "agents 0"),
        (on_step(1, lambda env, shown: {0: "x", 1: 1.0}), "agent 0"),
    ],
)
def test_agents_may_be_called_by_numbers(change, message):
    agents = {"possible_agents": (0, 1)}
    assert play(team(**agents))[3].terminated_B.all()
    assert any("lists 0, 1" in odd for odd in oddities(team(empties=False, **agents)))
    with pytest.raises(EnvError, match=message):
        play(team(change=change, **agents))


WORLD = """
import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

class World(ParallelEnv):
    metadata, possible_agents = {"name": "world"}, ["a", "b"]
    def observation_space(self, agent): return Box(-9, 9, (2,), np.float32)
    def action_space(self, agent): return Discrete(3)
    def all(self, value): return {agent: value for agent in self.possible_agents}
    def reset(self, seed=None, options=None):
        self.agents, self.t, self.start = list(self.possible_agents), 0, START
        return self.all(np.full(2, self.start, np.float32)), self.all({})
    def step(self, actions):
        self.t += 1
        self.agents = [] if self.t == 4 else self.agents
        return self.all(np.full(2, self.start, np.float32)), self.all(REWARD), self.all(self.t == 4), self.all(False), self.all({})
"""  # noqa: E501


@pytest.mark.parametrize(
    ("start", "chance"),
    [("0.0", False), ("0.5 * 2", False), ("np.random.default_rng(seed).uniform(-1, 1)", True)],
)
@pytest.mark.parametrize("reward", ["1.0", "float(self.t)"])
def test_a_world_without_chance_breaks_no_promise(tmp_path, start, chance, reward):
    path, said = tmp_path / "world.py", []
    path.write_text(WORLD.replace("START", start).replace("REWARD", reward))
    done = command._env(str(path), 2, 0, said.append)
    assert ("other seed" in done) == chance == (not any("every seed gives the same" in odd for odd in said))
