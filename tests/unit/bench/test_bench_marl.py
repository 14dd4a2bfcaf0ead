"""The benchmark of teams measures what it says, small."""

import copy

import numpy as np
import torch
from speed import _marl_update as update
from speed import _marl_whole as whole
from speed import marl as bench

from evolvent.core.rollout import Rollout
from evolvent.credit import agent_gae
from evolvent.models.team.joint import JointPolicy

torch.set_num_threads(1)


def test_it_runs_small_and_tells_what_was_reached(monkeypatch):
    monkeypatch.setattr(bench, "COPIES", 32)
    monkeypatch.setattr(bench, "PASSES", 1)
    monkeypatch.setattr(update, "HORIZON", 5)
    monkeypatch.setattr(bench, "_whole_runs", lambda *_: {})
    lines = []
    result = bench.run(seed=1, sizes=(3,), rounds=2, progress=lines.append)
    assert len(lines) == 2
    for kind in bench.KINDS:
        for name in ("act", "redecoding", "act_local", "separate", "separate_one_by_one", "update", "plain", "gae"):
            assert result["milliseconds"][f"{name}_{kind}_3"]["cpu"] > 0
        # the same network, less the projections folded together: the plain side multiplies more
        assert 0 < result["gflop"][f"update_{kind}_3"] < result["gflop"][f"plain_{kind}_3"]
    assert result["ratios"]["redecoding_over_act_discrete_3"] > 0.5
    targets = {name for name in bench.TARGETS if name.endswith("_3")}
    assert {name.rpartition("_of_")[0] for name in result["checks"]} == targets
    reached = result["ratios"]["plain_over_update_discrete_3"] >= bench.TARGETS["plain_over_update_discrete_3"]
    assert result["checks"]["plain_over_update_discrete_3_of_2"] is reached


def test_both_sides_of_an_update_do_the_same_to_the_policy():
    """One pass from the same weights: the same rows, clip and entropy, so nearly the same step of Adam."""
    team = bench.shape(3, "discrete")
    torch.manual_seed(0)
    policy = JointPolicy(team, team.obs_dim, width=16)
    sides = update.make(team, policy, bench.frames(team, 5, 4, 0), torch.device("cpu"), 0)
    before = copy.deepcopy(policy.state_dict())
    moved = []
    for side in (sides.ours, sides.plain):
        side(1)
        learner = next(
            cell.cell_contents for cell in side.__closure__ if isinstance(cell.cell_contents, torch.nn.Module)
        )
        moved.append((learner.head[-1].weight - before["head.3.weight"]).detach().flatten())
    assert float(torch.cosine_similarity(*moved, dim=0)) > 0.9


def test_the_plain_advantage_is_ours_where_nothing_is_cut_off():
    rng = np.random.default_rng(0)
    shape = (6, 4, 3)
    ended = rng.random(shape[:2]) < 0.2
    value = rng.standard_normal(shape).astype(np.float32)
    rollout = Rollout(
        obs_TBAD=np.zeros((*shape, 1), np.float32),
        action_TBA=np.zeros(shape, np.int64),
        reward_TBA=rng.standard_normal(shape).astype(np.float32),
        terminated_TB=ended,
        truncated_TB=np.zeros_like(ended),
        value_TBA=value,
        bootstrap_BA=np.zeros(shape[1:]),
    )
    # values in units of reward on our side are what the other side brings back from its own scale
    mean, sd = value.mean(), max(np.sqrt((value**2).mean() - value.mean() ** 2), 0.1)
    scaled = Rollout(**{**vars(rollout), "value_TBA": value * sd + mean, "bootstrap_BA": np.full(shape[1:], mean)})
    want = agent_gae.assign(scaled, agent_gae.Config(0.99, 0.95)).values("step")
    np.testing.assert_allclose(update.plain_gae(rollout)(), want, atol=1e-3)


def test_a_share_is_not_more_than_its_products_allow():
    """A slower environment leaves more time for the products of acting, and those of learning come on top."""
    runs = {"mat_mamujoco": {"random": 16_000}}
    found = bench._ceilings(runs, 3)
    assert set(found) == {"mat_mamujoco_share_collect", "mat_mamujoco_share_whole"}
    assert 0 < found["mat_mamujoco_share_whole"] < found["mat_mamujoco_share_collect"] < 1
    slower = bench._ceilings({"mat_mamujoco": {"random": 160}}, 3)
    assert slower["mat_mamujoco_share_whole"] > found["mat_mamujoco_share_whole"]


def test_a_whole_run_is_measured_between_stretches_of_random_actions():
    from evolvent.algos import mat

    config = mat.Config(env="spread:n=2", envs=4, horizon=3, epochs=1)
    result = whole.against_random(mat, config, lambda: whole.team_random("spread:n=2", 4, 3), 3, rounds=3)
    assert result["random"] > result["collect"] > result["whole"] > 0
    assert 0 < result["share_whole_cpu"] < 1
    assert 0 < result["share_whole"] < result["share_collect"] < 1
