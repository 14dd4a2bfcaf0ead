"""Storage of a team's steps: what is written is what a Rollout says, and time limits are valued where they stopped."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from evolvent.core.team import ActionSpec, Frame, TeamSpec
from evolvent.learn.team.steps import Steps
from evolvent.learn.team.views import Views
from evolvent.runs.team.evaluation import random_act
from joint_cases import KINDS, team_of

TEAM = TeamSpec(("a", "b"), 3, (ActionSpec(choices=4), ActionSpec(choices=2)))


def frame(rng, **changes):
    parts = {
        "obs_BAD": rng.normal(size=(2, 2, 3)).astype(np.float32),
        "reward_BA": rng.normal(size=(2, 2)).astype(np.float32),
        "terminated_B": np.zeros(2, bool),
        "truncated_B": np.zeros(2, bool),
    }
    return Frame(**(parts | changes))


def act(rng):
    action = torch.from_numpy(rng.integers(0, 2, (2, 2)))
    return action, torch.from_numpy(rng.normal(size=(2, 2, 1)).astype(np.float32)), torch.ones(2, 2)


def filled(rng, horizon=3, ids=True):
    steps = Steps(Views(TEAM, ids=ids, device=torch.device("cpu")), horizon, 2)
    frames = [frame(rng) for _ in range(horizon + 1)]
    cut = rng.normal(size=(2, 2, 3)).astype(np.float32)
    frames[2] = frame(rng, truncated_B=np.array([False, True]), final_obs_BAD=cut)
    steps.see(frames[0], 0)
    acts = [act(rng) for _ in range(horizon)]
    for t in range(horizon):
        steps.add(*acts[t], frames[t + 1])
    return steps, frames, acts, cut


def first_number(view):
    return view.obs[..., 0]


def test_who_was_alive_where_an_attempt_was_cut_off_is_valued_with_the_choices_left():
    rng = np.random.default_rng(1)
    steps = Steps(Views(TEAM, ids=False, device=torch.device("cpu")), 1, 2)
    everybody, open_ = np.ones((2, 2), bool), np.ones((2, 2, 4), bool)
    alive, left = np.array([[True, True], [False, True]]), rng.random((2, 2, 4)) < 0.5
    steps.see(frame(rng, active_BA=everybody, available_BAN=open_), 0)
    cut = frame(
        rng,
        active_BA=everybody,
        available_BAN=open_,
        truncated_B=np.array([False, True]),
        final_obs_BAD=np.ones((2, 2, 3), np.float32),
        final_active_BA=alive,
        final_available_BAN=left,
    )
    steps.add(*act(rng), cut)
    alive[:], left[:] = True, True  # an environment may reuse its arrays
    found = []
    steps.batch(lambda view: (found.append(view), first_number(view))[1])
    last = found[-1]
    assert last.active.tolist() == [[False, True]]
    assert last.available.shape == (1, 2, 4)
    assert not last.available.all()


def test_a_batch_holds_what_was_seen_done_and_paid():
    steps, frames, acts, cut = filled(np.random.default_rng(0))
    batch = steps.batch(first_number, lambda v: 10 * v)
    assert batch.view.obs.shape == (3, 2, 2, 3)
    for t in range(3):
        np.testing.assert_array_equal(batch.view.obs[t], frames[t].obs_BAD)
        np.testing.assert_array_equal(batch.rollout.action_TBA[t], acts[t][0])
        np.testing.assert_array_equal(batch.rollout.reward_TBA[t], frames[t + 1].reward_BA)
        np.testing.assert_array_equal(batch.view.state[t], frames[t].obs_BAD.reshape(2, -1))
    np.testing.assert_array_equal(batch.rollout.available_TBAN, batch.view.available)
    assert batch.rollout.available_TBAN.sum() == 3 * 2 * (4 + 2) and batch.rollout.state_TBS is None
    np.testing.assert_array_equal(batch.rollout.truncated_TB, [[0, 0], [0, 1], [0, 0]])
    np.testing.assert_allclose(batch.rollout.value_TBA, 10.0)
    np.testing.assert_allclose(batch.rollout.bootstrap_BA, 10 * frames[3].obs_BAD[..., 0], rtol=1e-6)
    # after the step that was cut off stands the value of where it stopped, not of the fresh start
    np.testing.assert_allclose(batch.rollout.next_value_TBA[1, 1], 10 * cut[1, :, 0], rtol=1e-6)


def test_a_rollout_keeps_what_was_seen_after_it_and_where_attempts_ended():
    rng = np.random.default_rng(7)
    team = TeamSpec(("a", "b"), 3, (ActionSpec(choices=4),) * 2, state_dim=5)
    steps = Steps(Views(team, ids=True, device=torch.device("cpu")), 3, 2)
    shown = [frame(rng, state_BS=rng.normal(size=(2, 5)).astype(np.float32)) for _ in range(7)]
    last, seen_last = rng.normal(size=(7, 2, 2, 3)).astype(np.float32), rng.normal(size=(7, 2, 5)).astype(np.float32)
    flags = {"terminated_B": [(2, 0), (5, 1)], "truncated_B": [(2, 1), (3, 1)]}
    for t in range(1, 7):
        ends = {name: np.array([(t, b) in at for b in range(2)]) for name, at in flags.items()}
        shown[t] = replace(shown[t], **ends, final_obs_BAD=last[t].copy(), final_state_BS=seen_last[t].copy())
    steps.see(shown[0], 0)
    for rows, ends in ((range(1, 4), [(2, 0), (2, 1), (3, 1)]), (range(4, 7), [(5, 1)])):
        steps.begin()
        for t in rows:
            steps.add(*act(rng), shown[t])
            shown[t].final_obs_BAD[:] = 0.0  # an environment may reuse its arrays
        rollout = steps.batch(first_number).rollout
        assert np.argwhere(rollout.done_TB).tolist() == [[t - rows[0], b] for t, b in ends]
        np.testing.assert_array_equal(rollout.final_obs_EAD, [last[t, b] for t, b in ends])
        np.testing.assert_array_equal(rollout.final_state_ES, [seen_last[t, b] for t, b in ends])
        np.testing.assert_array_equal(rollout.last_obs_BAD, shown[rows[-1]].obs_BAD)
        np.testing.assert_array_equal(rollout.last_state_BS, shown[rows[-1]].state_BS)


def test_an_environment_that_shows_no_last_state_leaves_that_column_out():
    rng = np.random.default_rng(8)
    team = TeamSpec(("a", "b"), 3, (ActionSpec(choices=4),) * 2, state_dim=5)
    steps, state = Steps(Views(team, ids=True, device=torch.device("cpu")), 1, 2), np.zeros((2, 5), np.float32)
    steps.see(frame(rng, state_BS=state), 0)
    steps.add(*act(rng), frame(rng, state_BS=state, terminated_B=np.ones(2, bool), final_obs_BAD=np.ones((2, 2, 3))))
    rollout = steps.batch(first_number).rollout
    assert rollout.final_state_ES is None and rollout.final_obs_EAD.all()


def test_choices_an_agent_lacks_are_never_available():
    steps, *_ = filled(np.random.default_rng(1))
    assert steps.view(0).available.tolist() == [[[True] * 4, [True, True, False, False]]] * 2
    assert steps.views.of(frame(np.random.default_rng(2))).available[0, 1].tolist() == [True, True, False, False]


def test_the_next_update_starts_from_what_was_seen_last():
    rng = np.random.default_rng(3)
    steps, frames, *_ = filled(rng)
    steps.begin()
    np.testing.assert_array_equal(steps.view(0).obs[..., :3], frames[-1].obs_BAD)
    for _ in range(3):
        steps.add(*act(rng), frame(rng))
    assert not steps.batch(first_number).rollout.truncated_TB.any()


def test_the_state_of_an_environment_is_kept():
    rng = np.random.default_rng(6)
    team = TeamSpec(("a", "b"), 3, (ActionSpec(choices=4),) * 2, state_dim=5)
    steps = Steps(Views(team, ids=False, device=torch.device("cpu")), 1, 2)
    state = rng.normal(size=(2, 5)).astype(np.float32)
    steps.see(frame(rng, state_BS=state), 0)
    steps.add(*act(rng), frame(rng, state_BS=state + 1))
    rollout = steps.batch(first_number).rollout
    np.testing.assert_array_equal(rollout.state_TBS, state[None])
    assert rollout.available_TBAN is None


def test_minibatches_are_a_partition_and_one_is_no_copy():
    steps, *_ = filled(np.random.default_rng(4))
    batch = steps.batch(first_number)
    generator = torch.Generator().manual_seed(0)
    parts = list(batch.passes(1, 4, generator))
    assert sorted(torch.cat(parts).tolist()) == list(range(6))
    (whole,) = batch.passes(1, 1, generator)
    assert batch.view.flat()[whole].obs.data_ptr() == steps.obs.data_ptr()


def test_evaluation_views_do_not_touch_the_storage():
    rng = np.random.default_rng(5)
    steps, *_ = filled(rng)
    before = steps.obs.clone()
    other = frame(rng)
    view = steps.views.of(other)
    other.obs_BAD[:] = 0.0
    assert view.obs[..., :3].abs().sum() > 0
    assert torch.equal(before, steps.obs)


@pytest.mark.parametrize("cut", [False, True])
def test_everything_a_policy_sees_is_on_its_device(cut):
    """The device "meta" stands for one that is not the processor's."""
    rng = np.random.default_rng(6)
    steps = Steps(Views(TEAM, ids=True, device=torch.device("meta")), 2, 2)
    shown = frame(rng, active_BA=np.ones((2, 2), bool))
    views = [steps.see(shown, 0), steps.views.of(shown)]
    if cut:
        shown = frame(rng, truncated_B=np.ones(2, bool), final_obs_BAD=shown.obs_BAD)
        views += [steps.add(*(x.to("meta") for x in act(rng)), shown), steps._cut[0][2]]
    columns = [x for view in views for x in (view.obs, view.state, view.available, view.active) if x is not None]
    assert len(columns) >= 8
    assert {x.device.type for x in columns} == {"meta"}


@pytest.mark.parametrize("kind", KINDS)
def test_random_actions_fit_every_kind_of_team(kind):
    team, n = team_of(kind, obs_dim=3), 50
    steps = Steps(Views(team, ids=False, device=torch.device("cpu")), 1, n)
    seen = steps.views.of(Frame(np.zeros((n, 4, 3), np.float32), np.zeros((n, 4), np.float32), *np.zeros((2, n), bool)))
    action = random_act(team)(seen, False, torch.Generator().manual_seed(0)).numpy()
    assert action.shape == (n, 4, *team.action_shape)
    if team.choices:
        choice = action if team.kind == "discrete" else action[..., 0]
        drawn = [sorted(set(choice[:, i].astype(int).tolist())) for i in range(4)]
        assert drawn == [list(range(max(spec.choices, 1))) for spec in team.actions]
    if team.dims:
        assert -1 <= action[..., -team.dims :].min() < -0.8 and 0.8 < action[..., -team.dims :].max() <= 1
