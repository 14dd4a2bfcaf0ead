"""A team's run stores its newest rollout, and `evolvent credit` credits it again with what the critics said."""

import json
from importlib import import_module

import numpy as np
import pytest

from evolvent.cli.credit import COMMANDS
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput
from evolvent.core.rollout_codec import load_columns, load_rollout, save_rollout
from evolvent.credit import agent_gae
from evolvent.evaluate.live import Live
from evolvent.runs.team.config import Plan
from evolvent.testing.rollout_credit import sample_rollout
from run_folders import begin

GRID = "spread:n=2,limit=4,discrete=true"
PLAN = Plan(save_every=2, eval_every=0, eval_episodes=1)


def run(path, algo, **more):
    """Three updates of 2 copies x 6 steps, checkpoints after the second and the last."""
    module = import_module(f"evolvent.algos.{algo}")
    config = with_fields(module.Config(), env=GRID, steps=36, envs=2, horizon=6, plan=PLAN)
    config = with_fields(config, **more)
    with begin(path, algo, config) as folder, Live(plain=True) as live:
        module.run(config, folder, live)
    return path


def credit(path, *arguments):
    COMMANDS["credit"]([str(w) for w in (path, *arguments, "--json", path / "c.json", "--plain")])
    return json.loads((path / "c.json").read_text())["rules"]


def test_the_newest_rollout_is_credited_as_the_run_did(tmp_path):
    path = run(tmp_path / "mat", "mat", width=8)
    assert len(list(path.glob("rollout.*.npz"))) == 1, "the newest alone"
    rollout = load_rollout(path / "rollout.json")
    assert rollout.shape == (6, 2, 2)
    assert rollout.parts == ("distance", "touching") and rollout.part_TBAR.shape == (6, 2, 2, 2)
    assert rollout.final_obs_EAD.shape == (rollout.done_TB.sum(), *rollout.obs_TBAD.shape[2:])
    assert rollout.done_TB.sum() == 2 and rollout.last_obs_BAD.shape == rollout.obs_TBAD.shape[1:]
    ledger = agent_gae.assign(rollout, agent_gae.Config(0.99, 0.95))
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    last = next(row for row in rows if row.get("update") == 3)
    assert [round(one.share, 4) for one in ledger.by_agent().values()] == last["credit"]
    (printed,) = credit(path, "--rule", "agent_gae")
    assert {one["unit"]: one["credit"] for one in printed["units"]} == {
        name: pytest.approx(one.signed) for name, one in ledger.by_agent().items()
    }
    assert printed["total"] == pytest.approx(ledger.total("step"))
    assert printed["paid"] == pytest.approx(float(rollout.reward_TBA.sum()))


def test_rollouts_of_several_checkpoints_are_kept(tmp_path):
    every = {"save_every": 1, "steps": 60}  # five updates, a checkpoint after each
    some = run(tmp_path / "some", "ippo", hidden=(8,), keep_rollouts=2, **every)
    assert [path.name for path in sorted((some / "rollouts").glob("*.json"))] == [
        "update-000004.json",
        "update-000005.json",
    ]
    assert len(list((some / "rollouts").glob("*.npz"))) == 2, "with their arrays"
    newest, before = (load_rollout(some / "rollouts" / f"update-00000{n}.json") for n in (5, 4))
    assert np.array_equal(newest.obs_TBAD, load_rollout(some / "rollout.json").obs_TBAD)
    assert not np.array_equal(newest.obs_TBAD, before.obs_TBAD)
    whole = run(tmp_path / "all", "ippo", hidden=(8,), keep_rollouts=0, **every)
    assert len(list((whole / "rollouts").glob("*.json"))) == len(list((whole / "rollouts").glob("*.npz"))) == 5
    assert not (run(tmp_path / "one", "ippo", hidden=(8,), **every) / "rollouts").exists()
    with pytest.raises(BadInput, match="keep-rollouts"):
        run(tmp_path / "none", "ippo", hidden=(8,), keep_rollouts=-1)


def test_rules_that_ask_for_a_joint_critic_find_it_or_say_which_runs_have_one(tmp_path):
    with_q = run(tmp_path / "coma", "coma", hidden=(8,), critic_hidden=(8,), critic_steps=2)
    rules = ("agent_gae", "agent_counterfactual", "agent_optimal_baseline", "agent_counterfactual:target=return")
    printed = credit(with_q, "--rule", *rules)
    assert [one["rule"] for one in printed] == list(rules)
    assert all(len(one["units"]) == 2 for one in printed)
    assert len({one["total"] for one in printed}) == 4
    without = run(tmp_path / "happo", "happo", hidden=(8,))
    with pytest.raises(BadInput, match="expected: q_TBAN, policy_TBAN"):
        credit(without, "--rule", "agent_counterfactual")
    with pytest.raises(BadInput, match="coma has one"):
        credit(without, "--rule", "agent_optimal_baseline")


def test_a_rule_of_your_own_reads_it_and_other_rules_say_what_is_missing(tmp_path):
    path = run(tmp_path / "ippo", "ippo", hidden=(8,))
    (tmp_path / "mine.py").write_text(
        'LEVEL, RECORD = "agent", "rollout"\nfrom evolvent.core.rollout_ledger import RolloutLedger\n'
        "def assign(rollout):\n    ledger = RolloutLedger.for_rollout(rollout)\n"
        '    ledger.set("step", rollout.reward_TBA)\n    return ledger\n'
    )
    (printed,) = credit(path, "--rule", tmp_path / "mine.py")
    assert printed["balanced"]
    with pytest.raises(BadInput, match="no attempts"):
        credit(path, "--rule", "step_gae")
    (path / "rollout.json").unlink()
    with pytest.raises(BadInput, match="recorded no rollout"):
        credit(path, "--rule", "agent_gae")


def test_further_columns_come_back_beside_the_rollout(tmp_path):
    rollout, more = sample_rollout()
    save_rollout(tmp_path / "r.json", rollout, more)
    back = load_columns(tmp_path / "r.json")
    assert list(back) == list(more)
    assert all(np.array_equal(back[name], more[name]) for name in more)
    assert np.array_equal(load_rollout(tmp_path / "r.json").reward_TBA, rollout.reward_TBA)
    save_rollout(tmp_path / "r.json", rollout)
    assert load_columns(tmp_path / "r.json") == {}
