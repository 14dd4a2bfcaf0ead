"""Copies of a team environment, here and in workers: the same numbers, and troubles reported by name."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError
from evolvent.envs.runners.vector import vector
from toy_team import Trio, assert_same, counters, play


def test_last_observation_is_kept_and_the_next_attempt_has_another_seed():
    env = counters(n_envs=1)
    frame = env.reset(0)
    starts, length = [frame.obs_BAD[0, 0, 0]], 0
    for _ in range(30):
        frame = env.step(np.zeros((1, 2), np.int64))
        length += 1
        if frame.done_B[0]:
            assert frame.final_obs_BAD[0, 0, 1] == length == frame.info["ages"][0]  # the age when it ended …
            assert frame.final_state_BS[0, 0] == 10 * length
            assert frame.final_obs_BAD[0, 0, 0] == starts[-1]
            assert frame.obs_BAD[0, 0, 1] == 0  # … and the restart
            assert frame.terminated_B[0] != frame.truncated_B[0]
            starts.append(frame.obs_BAD[0, 0, 0])
            length = 0
        else:
            assert frame.final_obs_BAD is None
    assert len(starts) > 5
    assert len(set(starts)) > len(starts) // 2


def test_shorter_observations_are_padded_and_dead_agents_masked():
    env = counters(n_envs=2)
    frame = env.reset(1)
    assert frame.active_BA.all()
    assert not frame.available_BAN[:, 1, 2].any()  # agent b has two choices
    frame = env.step(np.zeros((2, 2), np.int64))
    assert not frame.active_BA[:, 1].any()
    assert not frame.obs_BAD[:, 1].any()  # nothing of the dead agent's last observation is left
    assert not frame.available_BAN[:, 0, 2].any()
    with pytest.raises(BadInput, match=r"copy 0 of 2, agent a, step 1"):
        env.step(np.array([[2, 0], [0, 0]]))


@pytest.mark.parametrize("workers", [1, 3])
def test_processes_give_the_same_numbers(workers):
    env = counters("processes", workers)
    try:
        here = play(counters())
        assert_same(here, play(env))
        assert_same(here, play(env))  # after a second reset too
        assert env.render().shape == (2, 2, 3)
    finally:
        env.close()


@pytest.mark.parametrize("place", ["here", "processes"])
def test_parts_of_a_reward_are_shown_beside_it(place):
    env = vector(Trio, 3, place, 2)
    try:
        assert not env.reset(0).part_BAR.any()
        frame = env.step(np.array([[[1, 0, 0], [0, 0.2, 0.75], [1, 0, 0.0]]] * 3, np.float32))
        np.testing.assert_array_equal(frame.part_BAR, np.broadcast_to(np.float32([1.0, -0.25, 1.0]), (3, 3, 3)))
        np.testing.assert_array_equal(frame.reward_BA, 1.75)
        assert not env.reset(0).part_BAR.any()
    finally:
        env.close()


def test_parts_of_a_reward_that_change_are_reported():
    class Changing(Trio):
        def _seen(self, *paid):
            return replace(super()._seen(*paid), parts={"choice": {"a": 1.0}, "luck": 0.0})

    env = vector(Changing, 2)
    env.reset(0)
    with pytest.raises(EnvError, match=r"parts of its reward(?s:.*)choice, luck(?s:.*)both, choice, number"):
        env.step(np.zeros((2, 3, 3), np.float32))


def test_a_frame_outlives_its_environment():
    env = counters("processes", 2)
    frame = env.reset(0)
    kept = frame.obs_BAD.copy()
    env.close()
    np.testing.assert_array_equal(frame.obs_BAD, kept)


@pytest.mark.parametrize("place", ["here", "processes"])
@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("raise", r"(?s)the physics exploded.*copy [0-5]"),
        ("nan", r"observation is not finite(?s:.*)agent a, step 2"),
        ("inf reward", r"a reward is not finite(?s:.*)agent a, step 2"),
        ("new agent", r"changed its agents(?s:.*)a, c(?s:.*)a, b"),
        ("longer", "changed what its agents see"),
    ],
)
def test_trouble_is_reported(place, trouble, message):
    env = counters(place, 2, n_envs=6, trouble=trouble)
    env.reset(0)
    try:
        with pytest.raises(EnvError, match=message):
            for _ in range(60):
                env.step(np.zeros((6, 2), np.int64))
        with pytest.raises(EnvError, match="broke before"):
            env.step(np.zeros((6, 2), np.int64))
    finally:
        env.close()


def test_a_worker_that_dies_is_named():
    env = counters("processes", 2, n_envs=6, trouble="exit")
    env.reset(0)
    with pytest.raises(EnvError, match=r"worker died(?s:.*)exit code 7(?s:.*)worker [01] of 2, copies [03] to [25]"):
        for _ in range(60):
            env.step(np.zeros((6, 2), np.int64))
    with pytest.raises(EnvError, match="closed"):
        env.reset(0)


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts things behind itself ignores it
sys.path.insert(0, {tests!r})
import numpy as np
from toy_team import counters
if __name__ == "__main__":
    env = counters("processes", 2)
    env.reset(0)
    print("ready", flush=True)
    try:
        while True:
            env.step(np.zeros((5, 2), np.int64))
    except KeyboardInterrupt:
        env.close()
        print("closed", flush=True)
"""


def test_an_interrupt_ends_the_workers_in_silence(tmp_path):
    here = Path(__file__).parent
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED.format(tests=str(here)))
    env = os.environ | {"PYTHONPATH": str(here.parents[1])}
    pipe = subprocess.PIPE
    run = subprocess.Popen(
        [sys.executable, script], stdout=pipe, stderr=pipe, text=True, env=env, start_new_session=True
    )
    assert run.stdout.readline() == "ready\n"
    time.sleep(0.1)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: the parent and every worker get it
    try:
        out, err = run.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        raise
    assert (out, err, run.returncode) == ("closed\n", "", 0)


def test_wrong_specs_are_reported():
    with pytest.raises(BadInput, match="spread"):
        envs.load_team("spred", 2)
    with pytest.raises(BadInput, match="for one agent"):
        envs.load_team("analyst", 2)
    with pytest.raises(BadInput, match="team environment"):
        envs.load("spread:n=3")
    with pytest.raises(BadInput, match="climbing"):
        envs.load_team("matrix:climb", 2)
    with pytest.raises(BadInput, match="unknown option"):
        envs.load_team("spread:agents=3", 2)
    for n_envs, workers in [(0, 0), (2, 3), (2, -1), (2, "rai"), (2, "ray:5")]:
        with pytest.raises(BadInput):
            envs.load_team("mpe", n_envs, workers=workers)
    with pytest.raises(BadInput, match="leave --workers out"):
        envs.load_team("spread", 4, workers=2)


def test_listing_shows_both_kinds():
    rows = {row.name: row for row in envs.available()}
    assert rows["analyst"].kind == "tasks"
    assert rows["matrix"].kind == "team"
    assert rows["matrix"].options.startswith("VARIANT='climbing', k=-100.0")
    assert "n_envs" not in rows["spread"].options


def test_listing_imports_none_of_the_packages():
    code = (
        "import sys; from evolvent import envs; envs.available(); "
        "assert not {'torch', 'gymnasium', 'evolvent.envs.team.vmas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_actions_are_clipped_and_the_callers_array_is_not():
    env, other = envs.load_team("spread", 2), envs.load_team("spread", 2)
    env.reset(0), other.reset(0)
    beyond = np.full((2, 3, 2), 5.0)
    np.testing.assert_array_equal(env.step(beyond).obs_BAD, other.step(np.ones((2, 3, 2))).obs_BAD)
    assert (beyond == 5).all()


def test_spread_sees_the_same_for_any_number_of_agents():
    widths = {envs.load_team(f"spread:n={n}", 1).team.obs_dim for n in (1, 3, 5, 8)}
    assert len(widths) == 1


def test_spread_pays_for_covering():
    env = envs.load_team("spread:n=3", 1)
    env.reset(0)
    world = env.env
    world._position, world._velocity = world._landmark.copy(), np.zeros_like(world._velocity)
    world._position[0, 0] += 0.01
    apart = np.abs(world._landmark[0, :, None] - world._landmark[0]).max(axis=2) + 9 * np.eye(3)
    assert apart.min() > 0.2  # nobody touches
    frame = env.step(np.zeros((1, 3, 2), np.float32))
    assert frame.reward_BA[0] == pytest.approx(-np.hypot(0.01, 0.01) / 3, abs=1e-6)
    assert frame.obs_BAD[0, 1, 4:6] == pytest.approx(0, abs=1e-6)  # the nearest landmark is under agent 1


@pytest.mark.parametrize(
    ("spec", "action", "pay"),
    [
        ("permutation:n=3", [[0, 1, 2], [2, 0, 1], [1, 1, 2]], [1, 1, 0]),
        ("split:n=4", [[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1], [1, 1, 1, 1]], [1, 1, 0, 0]),
        ("matrix:climbing", [[0, 0], [0, 1], [1, 1], [1, 2], [2, 1], [2, 2]], [11, -30, 7, 6, 0, 5]),
        ("matrix:penalty,k=-5", [[0, 0], [0, 2], [1, 1], [2, 0], [0, 1]], [10, -5, 2, -5, 0]),
    ],
)
def test_games_pay(spec, action, pay):
    env = envs.load_team(spec, len(action))
    frame = env.reset(0)
    assert (frame.obs_BAD == frame.obs_BAD[:, :1]).all()  # everybody sees the same
    frame = env.step(np.array(action))
    np.testing.assert_array_equal(frame.reward_BA, np.repeat(np.array(pay)[:, None], frame.reward_BA.shape[1], axis=1))
    assert frame.terminated_B.all()
    np.testing.assert_array_equal(frame.info["success"], np.array(pay) >= max(pay))
