"""Replay: sums of rewards end where attempts end, cut-offs are bootstrapped from what was seen last, the ring wraps."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.core.errors import BadInput
from evolvent.core.team import ActionSpec, Frame, TeamSpec
from evolvent.learn.checkpoint import load, save
from evolvent.learn.team.replay import Replay
from evolvent.learn.team.steps import Steps
from evolvent.learn.team.targets import best_value, follow, smoothed, td_target
from evolvent.learn.team.views import Views

TEAM = TeamSpec(("a", "b"), 1, (ActionSpec(choices=3), ActionSpec(choices=3)), state_dim=1)
VIEWS = Views(TEAM, ids=False, device=torch.device("cpu"))
ON, OVER, CUT = range(3)


def frame(seen, reward=0.0, ends=(ON, ON), last=None):
    """Every number that is seen names its step: what was seen last in an attempt is ``last``."""
    obs = np.repeat(np.float32(seen)[:, None, None], 2, axis=1)
    final = None if last is None else np.repeat(np.float32(last)[:, None, None], 2, axis=1)
    ends = np.array(ends)
    masks = {"available_BAN": np.ones((2, 2, 3), bool) & (obs % 2 == 0) | (np.arange(3) == 0)}
    return Frame(
        obs,
        np.float32([[reward, -reward]] * 2),
        ends == OVER,
        ends == CUT,
        state_BS=obs[:, 0],
        final_obs_BAD=final,
        final_state_BS=None if final is None else final[:, 0],
        final_available_BAN=None if final is None else np.ones((2, 2, 3), bool),
        **masks,
    )


def filled(ends_TB, capacity=1_000, n_step=1, cuts=()):
    """Copy b sees ``t + 100 b`` before step t, earns t + 1, and sees a half more where its attempt ends."""
    replay, steps = Replay(VIEWS, capacity, 2, n_step=n_step, gamma=0.5), Steps(VIEWS, len(ends_TB), 2)
    steps.see(frame([0, 100]), 0)
    for t, ends in enumerate(ends_TB):
        seen = np.array([t + 1, t + 101])
        steps.add(torch.full((2, 2), t % 3), torch.zeros(2, 2, 1), None, frame(seen, t + 1.0, ends, seen - 0.5))
        replay.add(steps)
        if t in cuts:
            replay.cut()
    return replay


def at(replay, *where):
    rows, copies = (torch.tensor(x) for x in zip(*where, strict=True))
    return replay.transitions(rows, copies)


def test_one_step_has_what_was_seen_done_and_earned_and_what_came_after():
    replay = filled([(ON, ON), (OVER, CUT), (ON, ON)])
    assert len(replay) == 6
    got = at(replay, (0, 0), (1, 0), (1, 1), (2, 1))
    assert got.view.obs[:, 0, 0].tolist() == [0, 1, 101, 102]
    assert got.view.state[:, 0].tolist() == [0, 1, 101, 102]
    assert got.action[:, 1].tolist() == [0, 1, 1, 2]
    assert got.reward.tolist() == [[1, -1], [2, -2], [2, -2], [3, -3]]
    assert got.discount.tolist() == [0.5, 0, 0.5, 0.5]  # over: nothing follows; cut off: something does
    assert got.after.obs[:, 0, 0].tolist() == [1, 1.5, 101.5, 103]  # not the restart
    assert got.after.state[:, 0].tolist() == [1, 1.5, 101.5, 103]
    assert got.after.available[2].all()  # of what was seen last
    assert got.after.available[0, 0].tolist() == [True, False, False]


def test_several_steps_stop_at_ends_at_cuts_and_at_the_newest_row():
    replay = filled([(ON, ON), (ON, CUT), (OVER, ON), (ON, ON), (ON, ON)], n_step=3, cuts=(3,))
    got = at(replay, (0, 0), (0, 1), (2, 1), (3, 0), (4, 0))
    assert got.reward[:, 0].tolist() == [1 + 2 / 2 + 3 / 4, 1 + 2 / 2, 3 + 4 / 2, 4, 5]
    assert got.discount.tolist() == [0, 0.25, 0.25, 0.5, 0.5]
    assert got.after.obs[:, 0, 0].tolist() == [2.5, 101.5, 104, 4, 5]


def test_the_ring_drops_the_oldest_and_goes_on_beyond_its_end():
    replay = filled([(ON, ON)] * 5, capacity=6, n_step=2)
    assert len(replay) == 6
    got = at(replay, (0, 0), (1, 0), (2, 0))  # steps 3, 4 (the newest) and 2
    assert got.view.obs[:, 0, 0].tolist() == [3, 4, 2]
    assert got.reward[:, 0].tolist() == [4 + 5 / 2, 5, 3 + 4 / 2]
    assert got.after.obs[:, 0, 0].tolist() == [5, 5, 4]


@settings(max_examples=60, deadline=None)
@given(
    ends=st.lists(st.tuples(*[st.sampled_from((ON, ON, ON, OVER, CUT))] * 2), min_size=1, max_size=14),
    n_step=st.integers(1, 5),
    capacity=st.integers(2, 30),
)
def test_any_course_is_what_a_walk_along_it_says(ends, n_step, capacity):
    replay, total = filled(ends, capacity, n_step), len(ends)
    kept = max(1, capacity // 2)
    for t in range(max(0, total - kept), total):
        for b in range(2):
            reward, discount, k = 0.0, 1.0, t
            while True:
                reward, discount = reward + discount * (k + 1), discount / 2
                if ends[k][b] != ON or k == total - 1 or k == t + n_step - 1:
                    break
                k += 1
            got = at(replay, (t % kept, b))
            assert got.view.obs[0, 0].item() == t + 100 * b
            assert got.reward[0].tolist() == [reward, -reward]
            assert got.discount.item() == (0.0 if ends[k][b] == OVER else discount)
            assert got.after.obs[0, 1].item() == k + 1 + 100 * b - (0.5 if ends[k][b] != ON else 0.0)


def test_all_transitions_are_drawn_and_a_seed_decides_which():
    replay = filled([(ON, ON)] * 4)
    draw = replay.sample(400, torch.Generator().manual_seed(1)).view.obs[:, 0, 0]
    assert set(draw.tolist()) == {0, 1, 2, 3, 100, 101, 102, 103}
    assert torch.equal(draw, replay.sample(400, torch.Generator().manual_seed(1)).view.obs[:, 0, 0])


@pytest.mark.parametrize("steps", [2, 5])
def test_a_checkpoint_brings_it_back(tmp_path, steps):
    replay = filled([(ON, CUT)] * steps, capacity=6, n_step=2)
    save(tmp_path, 1, {"replay": replay})
    again = Replay(VIEWS, 6, 2, n_step=2, gamma=0.5)
    load(tmp_path / "step-000000001", {"replay": again})
    for one, other in zip(*(x.sample(50, torch.Generator().manual_seed(3)) for x in (replay, again)), strict=True):
        pairs = [(one, other)] if isinstance(one, torch.Tensor) else [(one.obs, other.obs), (one.state, other.state)]
        for a, b in pairs:
            assert torch.equal(a, b)
    assert again.state_dict()["at"] == replay.state_dict()["at"]


def test_courses_go_on_over_the_end_of_the_ring_and_are_as_long_as_there_are_steps():
    replay = filled([(ON, ON), (ON, ON), (OVER, ON), (ON, ON), (ON, ON)], capacity=8)  # steps 1 to 4 are there
    got = replay.courses(200, 3, torch.Generator().manual_seed(0))
    seen = {tuple(course) for course in got.view.obs[..., 0, 0].tolist()}
    assert seen == {(1, 2, 3), (2, 3, 4), (101, 102, 103), (102, 103, 104)}
    mine = (got.view.obs[:, 0, 0, 0] == 1).nonzero()[0, 0]
    assert got.discount[mine].tolist() == [0.5, 0, 0.5] and got.after.obs[mine, :, 0, 0].tolist() == [2, 2.5, 4]
    assert replay.courses(3, 9, torch.Generator()).reward.shape == (3, 4, 2)


def test_another_size_is_refused_by_name():
    with pytest.raises(BadInput, match=r"another size(?s:.*)4 steps(?s:.*)3, those of the checkpoint(?s:.*)--buffer"):
        Replay(VIEWS, 8, 2).load_state_dict(filled([(ON, ON)] * 2, capacity=6).state_dict())


# ------------------------------------------------------------------------------------------------ targets
def test_targets_by_hand():
    q = torch.tensor([[[1.0, 5.0, 3.0]], [[2.0, 0.0, 4.0]]])
    by = torch.tensor([[[9.0, 0.0, 1.0]], [[0.0, 7.0, 1.0]]])
    open_ = torch.tensor([[[True, False, True]], [[True, True, True]]])
    assert best_value(q).tolist() == [[5], [4]]
    assert best_value(q, open_).tolist() == [[3], [4]]
    assert best_value(q, by=by).tolist() == [[1], [0]]  # double: chosen by another
    assert best_value(q, torch.tensor([False, True, True]), by=by).tolist() == [[3], [0]]
    reward, discount = torch.tensor([[1.0], [2.0]]), torch.tensor([0.5, 0.0])
    assert td_target(reward, discount, best_value(q)).tolist() == [[3.5], [2.0]]


def test_smoothing_is_clipped_twice_and_following_is_a_mean():
    action = torch.tensor([[[0.0], [0.95]]]).expand(500, 2, 1)
    noisy = smoothed(action, 0.2, 0.3, torch.Generator().manual_seed(0))
    assert noisy[:, 0].abs().max() == pytest.approx(0.3)
    assert noisy[:, 0].std().item() == pytest.approx(0.19, abs=0.02)
    assert noisy[:, 1].max() == 1.0
    old, new = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    want = 0.75 * old.weight.detach() + 0.25 * new.weight.detach()
    follow(old, new, 0.25)
    torch.testing.assert_close(old.weight.detach(), want)
    follow(old, new, 1.0)
    assert torch.equal(old.bias, new.bias)
