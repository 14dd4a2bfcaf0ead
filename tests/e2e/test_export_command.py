"""`evolvent export verl`: a run folder becomes a file, or an error that says what to do."""

import numpy as np
import pytest

from evolvent.cli import export
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EvolventError
from evolvent.core.folder import RunFolder
from evolvent.credit import step_group_std, token_bad
from evolvent.learn.export_verl import load

SIZES = {"prompts": 2, "group": 2, "temperature": 0.7, "gamma": 0.9, "trace": 0.8, "model": "some-model"}


def attempt(name, group, reward, tokens=True):
    ep = Episode("task", id=name, env="microwave", group=group)
    for t in range(2):
        ids, logp = ([5, 6 + t], [-0.5, -0.25]) if tokens else ((), ())
        ep.observe("seen", token_ids=[1, 2 + t] if tokens else (), parent=-1)
        ep.act("said", token_ids=ids, logp=logp, reward=reward * t)
    ep.end(terminated=True)
    if tokens:
        ep.note("value", [0.1, 0.2, 0.3, 0.4])
    return ep


@pytest.fixture
def made(tmp_path):
    def make(algo="grpo", tokens=True, attempts=True):
        folder = RunFolder.create(
            tmp_path / algo, algo=algo, config=SIZES, env="microwave", seed=0, command=f"evolvent run {algo}"
        )
        with folder:
            for update in (1, 2):
                folder.log(4 * update, update=update)
                for i in range(2 * update if attempts else 0):
                    folder.episode(attempt(f"{update}.{i}", f"{update}.{i % 2}", float(i), tokens))
        return tmp_path / algo

    return make


def run(*words):
    export.COMMANDS["export"]([str(word) for word in words])


def refused(*words):
    with pytest.raises(EvolventError) as caught:
        run(*words)
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
    told = capsys.readouterr().out
    assert "tokens to train on" in told and "2 of 4 groups are not whole" in told and "--record 4" in told


def test_the_last_update_is_whole(made, tmp_path, capsys):
    run("verl", made("grpo"), "--out", tmp_path / "batch.safetensors", "--last", "--plain")
    batch = load(tmp_path / "batch.safetensors")
    assert set(batch.non_tensors["episode"]) == {"2.0", "2.1", "2.2", "2.3"}
    assert np.count_nonzero(batch.tensors["advantages"]) == 16
    assert "not whole" not in capsys.readouterr().out


def test_a_rule_with_settings_is_named(made, tmp_path):
    folder = made("poad")
    out = tmp_path / "batch.safetensors"
    assert "--rule token_bad:gamma=0.9,trace=0.8" in refused("verl", folder, "--out", out)
    run("verl", folder, "--out", out, "--rule", "token_bad:gamma=0.9,trace=0.8", "--plain")
    credit = token_bad.assign(recorded(folder), token_bad.Config(gamma=0.9, trace=0.8)).values("token")
    assert load(out).tensors["advantages"].ravel().tolist() == pytest.approx(credit.tolist(), rel=1e-6)


def test_what_cannot_be_exported_is_told(made, tmp_path):
    folder, out = made("grpo"), tmp_path / "batch.safetensors"
    assert "did you mean 'step_group_std'?" in refused("verl", folder, "--out", out, "--rule", "step_group_sdt")
    assert "did you mean 'gamma'?" in refused("verl", folder, "--out", out, "--rule", "token_bad:gama=1")
    assert "unknown credit rule" in refused("verl", folder, "--out", out, "--rule", "memory_ema")
    assert "config.json" in refused("verl", tmp_path / "nowhere", "--out", out)
    assert "the target is a folder" in refused("verl", folder, "--out", tmp_path)
    assert "expected: evolvent export verl" in refused("trl", folder)
    assert "no attempts" in refused("verl", made("rloo", attempts=False), "--rule", "step_group_mean", "--out", out)
    assert "no tokens" in refused("verl", made("dr_grpo", tokens=False), "--out", out)
    assert "--rule" in refused("verl", made("dpo"), "--out", out), "pairs are no advantages"
    assert not out.exists()
    with pytest.raises(BadInput, match="unknown format"):
        run()
