"""The dispatcher's network has no size and knows no names; a run judges it on problems that it did not play."""

import numpy as np
import pytest
import torch

from evolvent import envs
from evolvent.algos import jssp
from evolvent.algos.jssp.graph_net import ShopNet
from evolvent.algos.jssp.judged import CP_SAT, DRAWN, LEARNED, RANDOM, dispatch, gantt, mean_gap, solved
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput
from evolvent.envs.team.jssp import FEATURES
from evolvent.evaluate import blocks
from evolvent.evaluate.live import Live
from evolvent.formulas.job_shop import RULES, Instance, makespan
from evolvent.learn.team.views import Views
from run_folders import begin

pytestmark = pytest.mark.usefixtures("one_thread")
SHOP = Instance("x", np.array([[0, 1], [1, 0], [0, 1]]), np.array([[3, 2], [2, 4], [1, 1]]), (8, 8))


def shops(size, seed=0):
    env = envs.load_team(f"jssp:train={size}", 3)
    frame = env.reset(seed)
    for _ in range(2):
        frame = env.step(frame.available_BAN.argmax(axis=2))
    return torch.from_numpy(frame.obs_BAD)


@pytest.mark.parametrize("value", [False, True])
def test_jobs_and_machines_have_no_names(value):
    torch.manual_seed(0)
    net, seen = ShopNet(5, 16, 2, value=value), shops("5x4")
    jobs, machines = torch.randperm(5), torch.randperm(4)
    x = seen.view(3, 5, 4, len(FEATURES))[:, jobs].clone()
    x[..., 0] = machines[x[..., 0].long()].float()
    with torch.no_grad():
        plain, renamed = net(seen), net(x.view(3, 1, -1))
    torch.testing.assert_close(renamed, plain if value else plain[..., jobs], rtol=1e-4, atol=1e-6)
    assert plain.shape == ((3, 1) if value else (3, 1, 5))


def test_operations_hear_of_their_job_and_of_their_machine_alone():
    """After one round a score depends on the operation, its neighbours, its machine, and the mean over the shop."""
    torch.manual_seed(0)
    net, x = ShopNet(3, 16, 1), torch.zeros(1, 3, 3, len(FEATURES))
    x[..., 0] = torch.tensor([[0, 1, 2], [1, 2, 0], [0, 2, 1]])  # every first operation is its job's next
    x[..., 3] = torch.rand(1, 3, 3)
    heard = []
    net.leave.register_forward_hook(lambda _, inputs, __: heard.append(inputs[0][..., :16].detach()))
    for at in (None, (2, 0), (1, 1), (1, 2)):  # job 2 shares machine 0, so does the last operation of job 1
        y = x.clone()
        if at:
            y[0, at[0], at[1], 3] += 1
        net(y.view(1, 1, -1))
    changed = [bool((one[0, 0] - heard[0][0, 0]).abs().max() > 1e-6) for one in heard[1:]]
    assert changed == [True, False, True]


def test_weights_fit_every_size():
    config = jssp.Config(width=8)
    small, large = (
        jssp.make_actors(
            config, Views(envs.load_team(f"jssp:train={n}", 1).team, ids=False, device=torch.device("cpu"))
        )
        for n in ("3x2", "7x5")
    )
    large.load_state_dict(small.state_dict())
    action, _ = large.act(shops("7x5"), greedy=True)
    assert action.shape == (3, 1)
    starts = dispatch(lambda views: jssp.make_actors(config, views), large, SHOP, 5)
    assert len(starts) == 5 and all(makespan(SHOP, one) >= 8 for one in starts)


def test_cp_sat_finds_the_optimum():
    pytest.importorskip("ortools", reason="the extra 'scheduling' is not installed")
    start = solved(SHOP, 5.0)
    assert start is not None and makespan(SHOP, start) == 8


def test_a_mean_excess_is_of_all_problems_or_of_none():
    rows = {"a": {"learned": 11, "SPT": 12, "bounds": [9, 10]}, "b": {"learned": 26, "bounds": [20, 20]}}
    assert mean_gap(rows, "learned") == pytest.approx(0.2)
    assert mean_gap(rows, "SPT") is None
    assert mean_gap({"a": {"learned": 11, "bounds": [0, 0]}}, "learned") is None


def test_a_gantt_chart_has_every_operation_where_it_is():
    drawn = gantt(SHOP, np.array([[0, 3], [0, 3], [7, 8]]), "by hand", 9, 9)
    assert drawn.rows[0] == ("M0", ((0.0, 3.0, 0, "0"), (3.0, 7.0, 1, "1"), (7.0, 8.0, 2, "2")))


def test_a_run_judges_itself_on_other_problems(tmp_path):
    file = tmp_path / "two.txt"
    file.write_text("3 2\n0 3 1 2\n1 2 0 4\n0 1 1 1\n")
    config = jssp.Config(env=f"jssp:train=3x3,test={file}", steps=64, envs=4, horizon=8, width=8, minibatches=2)
    with begin(tmp_path / "run", "jssp", config) as folder, Live(plain=True) as live:
        summary = jssp.run(config, folder, live)
    assert set(summary["tests"]["two"]) - {CP_SAT} == {LEARNED, DRAWN, *RULES, RANDOM, "seconds", "bounds"}
    assert summary["gaps"] == {}  # nothing is known of this file
    page = blocks.read(folder.path / "tests")
    assert page is not None and len(page.of(blocks.Spans)) == 2
    judged = jssp.evaluate(folder, Live(plain=True), 4, env="jssp:train=5x2")
    assert judged["greedy"]["n"] == 4


@pytest.mark.parametrize(
    ("settings", "said"), [({"env": "spread:n=3"}, "not a job shop"), ({"normalise_obs": "on"}, "addresses")]
)
def test_what_it_does_not_take(settings, said):
    config = with_fields(jssp.Config(), **settings)
    with pytest.raises(BadInput, match=said):
        jssp.check_shop(config)
