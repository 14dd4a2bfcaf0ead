"""What can be known before the first task is refused before it, and an early refusal leaves no folder."""

import pytest

import evolvent
from evolvent.core.errors import BadInput

WORLD = {"env": "evolvent.demo:make", "model": "evolvent.demo:answer", "train": 4, "heldout": 8, "embedder": "hash"}


def refused(given, **settings):
    with pytest.raises(BadInput) as error:
        evolvent.run("memlift", quiet=True, **{**WORLD, **settings})
    assert given in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train": -3}, "--train"),
        ({"train": 0}, "--train"),
        ({"passes": 0}, "--passes"),
        ({"heldout": -1}, "--heldout"),
        ({"temperature": -1.0}, "--temperature"),
        ({"embedder": "hsah"}, "'hash'"),
    ],
)
def test_settings_without_a_result_leave_nothing(tmp_path, monkeypatch, settings, message):
    monkeypatch.chdir(tmp_path)
    refused(message, **settings)
    refused(message, **settings, out="deep/run")
    refused(message, **settings, seeds=[1, 2])
    assert not list(tmp_path.iterdir()), "no folder above it, either"
    (tmp_path / "mine").mkdir()
    refused(message, **settings, out="mine")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"], "a folder that was there is there, and empty"


def test_a_place_that_cannot_be_a_run_folder_is_distinguished(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "x").write_text("x")
    assert "--resume" not in refused("not a folder", out="file")
    assert "--resume" not in refused("the run folder is not empty", out="photos")
    assert "choose another --out" in refused("cannot be made", out="file/run")
    assert "choose another --out" in refused("cannot be made", out="/proc/no/run")
    assert "choose another --out" in refused("", out="file", seeds=[1, 2])
    evolvent.run("memlift", quiet=True, out="run", **WORLD)
    refused("continue that run with --resume run", out="run")


COMPARING = (
    "aepo",
    "asymre",
    "clip_cov",
    "dapo",
    "dpo",
    "dr_grpo",
    "evol_rl",
    "flow_grpo",
    "grpo",
    "gspo",
    "hapo",
    "kl_cov",
    "nft",
    "opmd",
    "oprl",
    "spear",
    "sppo",
    "tgdpo",
    "policy_gradient",
)


@pytest.mark.parametrize("algo", COMPARING)
def test_a_rule_that_compares_refuses_attempts_alone_before_a_model_is_loaded(tmp_path, algo):
    rule = {"rule": "step_group_mean"} if algo == "policy_gradient" else {}
    with pytest.raises(BadInput, match=r"compared with nothing[^§]*--group 1"):
        evolvent.run(algo, quiet=True, out=tmp_path / "run", model="no-such-model", group=1, **rule)


@pytest.mark.parametrize("rule", ["step_anchor_state", "step_left_out", "step_live_groups"])
def test_so_does_any_rule_that_pays_nothing_to_one_alone(tmp_path, rule):
    with pytest.raises(BadInput, match=r"compared with nothing[^§]*--group 1"):
        evolvent.run("policy_gradient", quiet=True, out=tmp_path / "run", model="no-such-model", group=1, rule=rule)


@pytest.mark.parametrize("algo", ["reinforce", "kto", "rloo", "policy_gradient"])
def test_what_learns_from_single_attempts_does_not(tmp_path, monkeypatch, algo):
    class Loads(Exception):
        pass

    def load(*args, **settings):
        raise Loads

    monkeypatch.setattr("evolvent.models.language.model.load", load)
    rule = {"rule": "step_return_to_go"} if algo == "policy_gradient" else {}
    with pytest.raises(Loads):
        evolvent.run(algo, quiet=True, out=tmp_path / "run", model="no-such-model", group=1, **rule)


@pytest.mark.parametrize("system", ["ippo", "grpo"])
def test_a_device_that_is_not_there_is_named(tmp_path, system):
    with pytest.raises(BadInput, match=r"no such device\n  got: gpu[^?]*--device"):
        evolvent.run(system, device="gpu", out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
