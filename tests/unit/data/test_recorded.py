"""Recorded attempts: whole ones from a run's pieces, a folder and back, an npz of one's own, and what is refused."""

import json
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from evolvent import envs
from evolvent.algos import ippo
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput
from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.data.recorded.episodes import Attempt, Recorded, check_fits
from evolvent.data.recorded.measures import advice, measure, saco, unique_pairs
from evolvent.data.recorded.opening import open_recorded, team_of
from evolvent.data.recorded.recording import record
from evolvent.evaluate.live import Live
from evolvent.runs.team.config import Plan
from run_folders import begin

GRID = "spread:n=2,limit=4,discrete=true"
PENDULUM = "gymnasium:Pendulum-v1"
TEAM = TeamSpec(("a",), 2, (ActionSpec(choices=3),))


def run(path, **more):
    """Updates of 2 copies x 6 steps, which restart after every second."""
    plan = Plan(save_every=2, eval_every=0, eval_episodes=1)
    config = with_fields(ippo.Config(), env=GRID, envs=2, horizon=6, hidden=(8,), plan=plan)
    config = with_fields(config, **more)
    with begin(path, "ippo", config) as folder, Live(plain=True) as live:
        ippo.run(config, folder, live)
    return path


def attempt(steps=4, terminated=True, start=0.0, reward=1.0):
    obs = np.arange(2 * (steps + 1), dtype=np.float32).reshape(steps + 1, 1, 2) + np.float32(start)
    return Attempt(obs, np.arange(steps)[:, None] % 3, np.full((steps, 1), reward, np.float32), terminated)


def data(*attempts, **more):
    return Recorded("mine", TEAM, attempts or (attempt(), attempt(6, False, 9.0, 0.5)), **more)


def same(one, other):
    return all(
        np.array_equal(getattr(a, name), getattr(b, name)) and a.terminated == b.terminated
        for a, b in zip(one.attempts, other.attempts, strict=True)
        for name in ("obs_TAD", "action_TA", "reward_TA", "state_TS", "available_TAN", "active_TA")
        if getattr(a, name) is not None
    )


def test_a_folder_gives_back_what_was_saved(tmp_path):
    made = data(seeds=(2**62, 5), scale={"random": 1.0, "expert": 3.0}, made_by="me", notes=("so",))
    back = open_recorded(made.save(tmp_path / "d"))
    assert same(made, back) and back.seeds == made.seeds
    assert (back.env, back.team, back.scale, back.made_by, back.notes) == ("mine", TEAM, made.scale, "me", ("so",))
    assert back.normalised(2.0) == 50.0 and data().normalised(2.0) is None
    assert [len(one.obs_TAD) for one in back.attempts] == [5, 7]


def test_the_best_attempts_hold_the_share_of_steps():
    made = data(*(attempt(5, reward=reward) for reward in (1, 5, 3, 4, 2, 0, 0, 0, 0, 0)))
    assert [one.gained for one in made.best(0.1).attempts] == [25.0]
    assert [one.gained for one in made.best(0.3).attempts] == [25.0, 15.0, 20.0]
    assert len(made.best(1.0).attempts) == 10


def test_pieces_of_a_run_are_whole_attempts(tmp_path):
    """spread ends after 4 steps; pieces are 6 steps long, and every second update restarts."""
    folder = run(tmp_path / "run", keep_rollouts=0, steps=72)  # six updates, of 2 copies x 6 steps
    found = open_recorded(folder, GRID)
    assert sorted({len(one) for one in found.attempts}) == [4]  # 12 steps between restarts are three attempts
    assert found.steps == 72 and not found.notes
    assert all(len(one.obs_TAD) == 5 and one.truncated for one in found.attempts)
    env = envs.load_team(GRID, 1)
    moved = [one for one in found.attempts if not np.array_equal(one.obs_TAD[0], one.obs_TAD[-1])]
    assert moved and found.team == env.team
    some = run(tmp_path / "some", keep_rollouts=2, steps=72)
    late = open_recorded(some)
    assert late.steps < 72 and any("beginning was not kept" in note for note in late.notes)
    cut = open_recorded(run(tmp_path / "cut", keep_rollouts=0, steps=60))  # the last piece goes on
    assert cut.notes == ("2 attempts were cut by a restart at a checkpoint or by the end of the recording",)
    shutil.rmtree(tmp_path / "cut" / "rollouts")
    with pytest.raises(BadInput, match="has kept no rollouts"):
        open_recorded(tmp_path / "cut")


def test_recording_plays_whole_attempts_and_seeds_decide():
    env = envs.load_team("gymnasium:CartPole-v1", 3)

    def play(frame):
        return (frame.obs_BAD[..., 2] > 0).astype(np.int64)

    found, again = (record(env, play, steps=100, seed=seed) for seed in (4, 4))
    assert sum(map(len, found)) >= 100 and all(one.terminated for one in found)
    assert all(np.array_equal(a.obs_TAD, b.obs_TAD) for a, b in zip(found, again, strict=True))
    other = record(env, play, steps=100, seed=5)
    assert not np.array_equal(found[0].obs_TAD[0], other[0].obs_TAD[0])
    held = Recorded("gymnasium:CartPole-v1", env.team, found)
    assert all(abs(one.obs_TAD[-1, 0, 2]) > 0.2094 or abs(one.obs_TAD[-1, 0, 0]) > 2.4 for one in held.attempts)


# ------------------------------------------------------------------------------------------------ an npz
def flat(steps=12, **changed):
    rng = np.random.default_rng(0)
    columns = {
        "observations": rng.normal(size=(steps, 3)),
        "actions": rng.uniform(-2, 2, (steps, 1)),
        "rewards": rng.normal(size=steps),
        "terminals": np.arange(steps) == 4,
        "timeouts": np.arange(steps) == steps - 1,
    }
    return {name: column for name, column in (columns | changed).items() if column is not None}


def opened(path, columns, env=PENDULUM):
    np.savez(path / "own.npz", **columns)
    return open_recorded(path / "own.npz", env)


def test_own_columns_become_attempts(tmp_path):
    columns = flat()
    first, second = opened(tmp_path, columns).attempts
    assert (len(first), first.terminated, len(second), second.truncated) == (5, True, 6, True)
    assert np.array_equal(second.obs_TAD[:, 0], columns["observations"][5:])  # its last step has no "after"
    assert np.allclose(first.action_TA[:, 0] * 2, columns["actions"][:5], atol=1e-6)
    after = columns["observations"] + 1
    first, second = opened(tmp_path, columns | {"next_observations": after}).attempts
    assert len(second) == 7 and np.array_equal(second.obs_TAD[-1, 0], after[-1])
    sums = [first.gained, second.gained]
    assert opened(tmp_path, columns | {"next_observations": after, "returns": np.array(sums)}).steps == 12


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"terminals": np.zeros(12), "timeouts": np.zeros(12)}, "no ends are marked"),
        ({"rewards": np.zeros(9)}, "rewards is cut short"),
        ({"actions": None}, "columns are missing"),
        ({"observations": np.zeros((12, 4))}, "obs_TAD has the wrong shape"),
        ({"observations": np.full((12, 3), np.nan)}, "obs_TAD is not finite"),
        ({"actions": np.full((12, 1), 5.0)}, "out of its box"),
        ({"returns": np.array([0.0, 99.0])}, "returns do not match the rewards"),
        ({"observations": np.zeros((12, 2, 3))}, "another number of agents"),
    ],
)
def test_own_columns_that_are_wrong_are_named(tmp_path, changed, said):
    with pytest.raises(BadInput, match=said):
        opened(tmp_path, flat(**changed))


def test_files_that_are_cut_short_or_changed_are_refused(tmp_path):
    np.savez(tmp_path / "own.npz", **flat())
    (tmp_path / "own.npz").write_bytes((tmp_path / "own.npz").read_bytes()[:-200])
    with pytest.raises(BadInput, match="the file cannot be read"):
        open_recorded(tmp_path / "own.npz", PENDULUM)
    (blob,) = data().save(tmp_path / "d").glob("*.npz")
    whole = blob.read_bytes()
    blob.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match="the file of attempts cannot be read"):
        open_recorded(tmp_path / "d")
    blob.unlink()
    with pytest.raises(BadInput, match="cannot be read"):
        open_recorded(tmp_path / "d")
    path = tmp_path / "d" / "recorded.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))
    with pytest.raises(BadInput, match="newer version"):
        open_recorded(tmp_path / "d")
    with pytest.raises(BadInput, match="no recorded data"):
        open_recorded(tmp_path)


def test_data_of_another_environment_are_refused():
    fits = partial(check_fits, data())
    fits("mine", TEAM)
    with pytest.raises(BadInput, match="of another environment"):
        fits("other", TEAM)
    with pytest.raises(BadInput, match="another obs_dim"):
        fits("mine", replace(TEAM, obs_dim=3))
    with pytest.raises(BadInput, match="another actions"):
        fits("mine", replace(TEAM, actions=(ActionSpec(choices=4),)))
    with pytest.raises(BadInput, match="another number of agents"):
        fits("mine", replace(TEAM, agents=("a", "b"), actions=TEAM.actions * 2))
    two = replace(TEAM, agents=("a", "b"), actions=TEAM.actions * 2)
    with pytest.raises(BadInput, match="another number of agents"):
        Recorded("mine", two, data().attempts)
    with pytest.raises(BadInput, match="a choice that there is not"):
        data(replace(attempt(), action_TA=np.full((4, 1), 3)))
    with pytest.raises(BadInput, match="no attempts"):
        Recorded("mine", TEAM, ())


# ------------------------------------------------------------------------------------------------ what they are
def test_tq_and_saco_are_those_of_the_paper():
    made = data(*(attempt(5, reward=30.0) for _ in range(4)), scale={"random": 20.0, "expert": 400.0})
    assert measure(made).tq == pytest.approx(0.342105, abs=1e-6)  # (150 - 20) / (400 - 20)
    rng = np.random.default_rng(0)
    reference = rng.permutation(100)[:, None].astype(float)
    assert unique_pairs(reference, reference) == 100
    narrow = np.repeat(np.arange(24.0), 5)[:, None][:100] * 4
    assert saco(reference, reference) == 1.0
    assert saco(narrow, reference) == 20 / 100  # a hundred steps with 20 different pairs


def test_duplicates_ends_and_advice():
    made = data(attempt(), attempt(), attempt(7, False, 3.0))
    found = measure(made, made)
    assert (found.duplicates, found.terminated, found.truncated, found.saco) == (1, 2, 1, 1.0)
    said = " ".join(advice(made, found, 0))
    assert "only 3 attempts" in said and "copies of others" in said
    alike = data(*(attempt(start=i) for i in range(12)))
    assert "earned the same" in " ".join(advice(alike, measure(alike), 0))
    nothing = data(*(attempt(reward=0.0, start=i) for i in range(12)))
    assert "no reward anywhere" in " ".join(advice(nothing, measure(nothing), 0))


# ------------------------------------------------------------------------------------------------ Minari
@pytest.mark.parametrize("env", [PENDULUM, "gymnasium:CartPole-v1"])
def test_minari_there_and_back_loses_nothing(tmp_path, monkeypatch, env):
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    from evolvent.data.recorded import minari as datasets

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    team, rng = team_of(env), np.random.default_rng(0)

    def play(frame):
        shape = (2, 1, *team.action_shape)
        return rng.integers(0, 2, shape) if team.choices else rng.uniform(-1, 1, shape).astype(np.float32)

    scale = {"random": -1000.0, "expert": -150.0}
    made = Recorded(env, team, record(envs.load_team(env, 2), play, steps=150, seed=1), "me", (1, 2**62), scale)
    datasets.write(made, "test/own-v0")
    back = datasets.read("test/own-v0")
    assert same(made, back) and (back.env, back.seeds, back.scale, back.made_by) == (env, made.seeds, scale, "me")
    dataset = minari.load_dataset("test/own-v0")
    assert dataset[0].observations.shape == (len(made.attempts[0]) + 1, team.obs_dim)
    recovered = dataset.recover_environment()
    assert recovered.spec.id == env.partition(":")[2]
    assert all(recovered.action_space.contains(action) for action in dataset[0].actions)
    with pytest.raises(BadInput, match="Minari refuses"):
        datasets.write(made, "test/own-v0")
    with pytest.raises(BadInput, match="no such dataset"):
        datasets.read("test/other-v0")
