"""`evolvent export verl`: a run folder becomes a file, or an error that says what to do."""

import numpy as np
import pytest

from evolvent.cli import export, main
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EvolventError
from evolvent.core.folder import RunFolder
from evolvent.credit import agent_sequential, step_group_std, token_bad
from evolvent.learn.tokens.export_verl import load

SIZES = {"prompts": 2, "group": 2, "temperature": 0.7, "gamma": 0.9, "gae_lambda": 0.8, "model": "some-model"}


def attempt(name, group, reward, tokens=True, agents=("agent", "agent")):
    ep = Episode("task", id=name, env="microwave", group=group)
    for t in range(2):
        ids, logp = ([5, 6 + t], [-0.5, -0.25]) if tokens else ((), ())
        ep.observe("seen", token_ids=[1, 2 + t] if tokens else (), parent=-1)
        ep.act("said", agent=agents[t], token_ids=ids, logp=logp, reward=reward * t)
    ep.end(terminated=True)
    if tokens:
        ep.note("value", [0.1, 0.2, 0.3, 0.4])
    return ep


@pytest.fixture
def made(tmp_path):
    def make(algo="grpo", tokens=True, attempts=True, ended=True, agents=("agent", "agent"), **settings):
        path = tmp_path / f"{algo}{len(list(tmp_path.iterdir()))}"
        folder = RunFolder.create(
            path, algo=algo, config=SIZES | settings, env="microwave", seed=0, command=f"evolvent run {algo}"
        )
        with folder:
            for update in (1, 2):
                folder.log(4 * update, update=update)
                for i in range((2 * update if ended else 2) if attempts else 0):
                    folder.episode(attempt(f"{update}.{i}", f"{update}.{i % 2}", float(i), tokens, agents))
            if ended:
                folder.write_summary({"algo": algo})
        return path

    return make


def run(*arguments):
    export.COMMANDS["export"]([str(word) for word in arguments])


def refused(*arguments):
    with pytest.raises(EvolventError) as caught:
        run(*arguments)
    return str(caught.value)


def recorded(folder):
    with RunFolder.open(folder) as opened:
        return [Episode.from_dict(row) for row in opened.read_episodes()]


def test_the_rule_that_trained_is_the_default(made, tmp_path, capsys):
    folder = made("grpo")
    run("verl", folder, "--out", tmp_path / "batch.safetensors", "--plain")
    batch = load(tmp_path / "batch.safetensors")
    assert len(batch) == 12 and set(batch.non_tensors["uid"]) == {"1.0", "1.1", "2.0", "2.1"}
    credit = step_group_std.assign(recorded(folder)).values("step")
    assert batch.tensors["advantages"][:, 0].tolist() == pytest.approx(credit.tolist())
    assert batch.meta_info["temperature"] == 0.7 and batch.meta_info["rule"] == "step_group_std"
    printed = capsys.readouterr().out
    assert "tokens to train on" in printed and "2 of 4 groups are not whole" in printed and "--record 4" in printed


def test_credit_says_which_groups_are_not_whole(made, capsys):
    folder = made("grpo")
    main(["credit", str(folder), "--rule", "step_group_std", "--plain"])
    assert "2 of 4 groups are not whole" in capsys.readouterr().out
    main(["credit", str(folder), "--rule", "step_group_std", "--plain", "--last"])
    assert "not whole" not in capsys.readouterr().out


def test_the_last_update_is_whole(made, tmp_path, capsys):
    run("verl", made("grpo"), "--out", tmp_path / "batch.safetensors", "--last", "--plain")
    batch = load(tmp_path / "batch.safetensors")
    assert set(batch.non_tensors["episode"]) == {"2.0", "2.1", "2.2", "2.3"}
    assert np.count_nonzero(batch.tensors["advantages"]) == 16
    assert "not whole" not in capsys.readouterr().out


def test_a_rule_with_settings_is_named(made, tmp_path):
    folder = made("poad")
    out = tmp_path / "batch.safetensors"
    assert "--rule token_bad:gamma=0.9,gae_lambda=0.8" in refused("verl", folder, "--out", out)
    run("verl", folder, "--out", out, "--rule", "token_bad:gamma=0.9,gae_lambda=0.8", "--plain")
    credit = token_bad.assign(recorded(folder), token_bad.Config(gamma=0.9, gae_lambda=0.8)).values("token")
    assert load(out).tensors["advantages"].ravel().tolist() == pytest.approx(credit.tolist(), rel=1e-6)


def test_a_run_of_several_agents_is_exported_one_by_one(made, tmp_path, capsys):
    out, team = tmp_path / "batch.safetensors", {"agents": ("solver", "checker")}
    folder = made("marft", level="action", kappa=0.7, **team)
    rule = "agent_sequential:gamma=0.9,gae_lambda=0.8,kappa=0.7"
    assert rule in refused("verl", folder, "--out", out)
    assert "--rule token_sequential:" in refused("verl", made("marft", level="token", **team), "--out", out)
    assert "--agent solver" in refused("verl", folder, "--out", out, "--rule", rule)
    assert "['solver', 'checker']" in refused("verl", folder, "--out", out, "--rule", rule, "--agent", "critic")
    run("verl", folder, "--out", out, "--rule", rule, "--agent", "checker", "--plain")
    config = agent_sequential.Config(gamma=0.9, gae_lambda=0.8, kappa=0.7)
    credit = agent_sequential.assign(recorded(folder), config).values("step")[1::2]
    assert load(out).tensors["advantages"][:, 0].tolist() == pytest.approx(credit.tolist())


def test_of_a_run_that_has_not_ended_there_is_no_whole_update(made, tmp_path, capsys):
    run("verl", made("grpo", ended=False), "--out", tmp_path / "batch.safetensors", "--last", "--plain")
    printed = capsys.readouterr().out
    assert "2 of 2 groups are not whole" in printed and "has not ended" in printed and "--last takes" not in printed


def test_what_cannot_be_exported_is_reported(made, tmp_path):
    folder, out = made("grpo"), tmp_path / "batch.safetensors"
    assert "did you mean 'step_group_std'?" in refused("verl", folder, "--out", out, "--rule", "step_group_sdt")
    assert "did you mean 'gamma'?" in refused("verl", folder, "--out", out, "--rule", "token_bad:gama=1")
    for rule in ("memrl", "agent_gae"):
        assert "pays nothing that verl trains" in refused("verl", folder, "--out", out, "--rule", rule)
    assert "config.json" in refused("verl", tmp_path / "nowhere", "--out", out)
    assert "the target is a folder" in refused("verl", folder, "--out", tmp_path)
    assert "expected: evolvent export verl" in refused("csv", folder)
    assert "no attempts" in refused("verl", made("rloo", attempts=False), "--rule", "step_group_mean", "--out", out)
    assert "no tokens" in refused("verl", made("dr_grpo", tokens=False), "--out", out)
    assert "--rule" in refused("verl", made("dpo"), "--out", out), "pairs are no advantages"
    assert not out.exists()
    with pytest.raises(BadInput, match="unknown format"):
        run()
