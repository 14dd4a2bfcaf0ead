"""Loading and saving: folders that transformers and peft read as they are, and errors that say what is wrong."""

import json
import shutil

import numpy as np
import pytest
import torch

import tiny_language
from evolvent import models
from evolvent.core.errors import BadInput, MissingExtra, ModelError
from evolvent.learn import checkpoint
from evolvent.models.language import load
from evolvent.models.language import model as language
from evolvent.models.language.model import Row

folder = tiny_language.fixture()


@pytest.fixture
def team(folder):
    return tiny_language.stir(language.load(folder, dtype="float32", adapters=("solver", "checker"), lora_rank=4))


ROW = Row(np.arange(5, 12, dtype=np.int32), np.arange(20, 26, dtype=np.int32))


def logp(model, adapter="policy"):
    with torch.no_grad():
        return model.logprobs([ROW], adapter=adapter).logp_K.cpu()


def plain(network):
    with torch.no_grad():
        whole = torch.tensor(np.concatenate([ROW.context, ROW.tokens])[None].astype(np.int64)).to(network.device)
        logits = network(whole).logits[0].cpu()
    return logits.log_softmax(-1)[np.arange(6, 12), ROW.tokens.astype(np.int64)]


def test_peft_reads_what_was_saved(team, tmp_path):
    import peft

    for name in ("solver", "checker"):
        team.save(tmp_path / name, name)
        theirs = peft.AutoPeftModelForCausalLM.from_pretrained(tmp_path / name)
        assert (plain(theirs.eval()) - logp(team, name)).abs().max() < 1e-4
    assert (logp(team, "solver") - logp(team, "checker")).abs().max() > 0.01


def test_an_adapter_folder_loads_with_its_base_and_trains_on(team, tmp_path):
    team.save(tmp_path / "a", "checker")
    again = language.load(str(tmp_path / "a"), dtype="float32", adapters=("policy", "other"), lora_rank=4)
    assert (logp(again) - logp(team, "checker")).abs().max() < 1e-6
    assert (logp(again, "other") - logp(again, None)).abs().max() == 0  # new adapters begin without effect
    assert all(p.requires_grad for name in again.adapters for p in again.trainable(name))
    again.load_adapter(tmp_path / "a", "other")
    assert (logp(again, "other") - logp(again)).abs().max() == 0


def test_saving_again_replaces_the_folder(team, tmp_path):
    for _ in range(2):
        tiny_language.stir(team)
        team.save(tmp_path / "a", "solver")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (logp(language.load(str(tmp_path / "a"), dtype="float32")) - logp(team, "solver")).abs().max() < 1e-6


def test_transformers_reads_all_weights(folder, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    full = language.load(folder, dtype="float32", lora_rank=0)
    with torch.no_grad():
        for parameter in full.trainable():
            parameter += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)).to(parameter)
    full.save(tmp_path / "full")
    assert (plain(AutoModelForCausalLM.from_pretrained(tmp_path / "full").eval()) - logp(full)).abs().max() < 1e-4
    assert AutoTokenizer.from_pretrained(tmp_path / "full").chat_template == full.tokenizer.chat_template
    assert (logp(language.load(str(tmp_path / "full"), dtype="float32", lora_rank=0)) - logp(full)).abs().max() < 1e-6


def test_one_step_of_an_optimizer_is_seen_by_the_sampler(team):
    before = team.sample([ROW.context], max_tokens=8, seeds=[1], adapter="solver")[0]
    optimizer = torch.optim.SGD(team.trainable("solver"), lr=0.5)
    (-team.logprobs([Row(ROW.context, before.token_ids)], adapter="solver").logp_K.sum()).backward()
    optimizer.step()
    after = team.sample([ROW.context], max_tokens=8, seeds=[1], adapter="solver")[0]
    with torch.no_grad():
        judged = team.logprobs([Row(ROW.context, after.token_ids)], adapter="solver").logp_K
    assert np.abs(judged.numpy() - after.logp).max() < 1e-4 and abs(after.logp[0] - before.logp[0]) > 1e-3
    assert all(p.grad is None for p in team.trainable("checker"))
    assert all(p.grad is None for n, p in team.network.named_parameters() if "lora" not in n)


def test_no_second_copy_of_the_weights(team):
    shared = {p.data_ptr() for p in team.network.parameters()}
    assert {p.data_ptr() for name in team.adapters for p in team.trainable(name)} < shared
    assert len(team.trainable("solver")) == 2 * 2 * 2  # layers, projections, A and B
    assert team.network.lm_head.weight.dtype == torch.float32


def test_state_goes_through_a_checkpoint(folder, team, tmp_path):
    checkpoint.save(tmp_path, 3, {"model": team})
    other = language.load(folder, dtype="float32", adapters=("solver", "checker"), lora_rank=4, seed=5)
    assert (logp(other, "checker") - logp(team, "checker")).abs().max() > 0.01
    checkpoint.load(checkpoint.latest(tmp_path), {"model": other})
    assert (logp(other, "checker") - logp(team, "checker")).abs().max() == 0
    narrow = language.load(folder, dtype="float32", adapters=("solver",), lora_rank=4)
    with pytest.raises(ModelError, match="another model"):
        checkpoint.load(checkpoint.latest(tmp_path), {"model": narrow})


def test_first_weights_follow_the_seed(folder):
    one, two, three = (language.load(folder, adapters=("one", "two"), seed=s) for s in (1, 1, 2))
    a, b, c = (m.trainable("two")[0] for m in (one, two, three))
    assert torch.equal(a, b) and not torch.equal(a, c) and not torch.equal(a, one.trainable("one")[0])


def test_bfloat16_samples_what_it_judges(folder):
    half = tiny_language.stir(language.load(folder, dtype="bfloat16"))
    assert half.network.lm_head.weight.dtype == torch.bfloat16 and half.trainable()[0].dtype == torch.float32
    full = language.load(folder, dtype="bfloat16", lora_rank=0)
    assert full.trainable()[0].dtype == torch.float32
    for model in (half, full):
        (done,) = model.sample([ROW.context], max_tokens=10, seeds=[0])
        judged = model.logprobs([Row(ROW.context, done.token_ids)])
        assert np.abs(judged.logp_K.detach().numpy() - done.logp).max() < 0.2
        judged.logp_K.sum().backward()
        assert all(torch.isfinite(p.grad).all() for p in model.trainable())


def test_an_adapter_of_another_base_is_refused(team, tmp_path):
    team.save(tmp_path / "a", "solver")
    other = language.load(tiny_language.write(tmp_path / "m", seed=9), dtype="float32")
    with pytest.raises(ModelError, match="another base model"):
        other.load_adapter(tmp_path / "a", "solver")
    note = json.loads((tmp_path / "a" / "evolvent.json").read_text()) | {
        "fingerprint": other._engine.adapters.fingerprint()
    }
    (tmp_path / "a" / "evolvent.json").write_text(json.dumps(note))
    wide = language.load(team.name, dtype="float32", lora_rank=4, targets=("q_proj",), adapters=("solver",))
    (tmp_path / "a" / "evolvent.json").unlink()
    with pytest.raises(ModelError, match="does not fit"):
        wide.load_adapter(tmp_path / "a", "solver")


@pytest.mark.parametrize(
    ("spec", "options", "what"),
    [
        ("./nowhere", {}, "no such model folder"),
        ("nowhere.gguf", {}, "no such model file"),
        ("TMP", {}, r"not a model folder[^?]*folder model/ in it"),
        ("MODEL", {"dtype": "int3"}, "no such dtype"),
        ("MODEL", {"lora_rank": -1}, "rank"),
        ("MODEL", {"targets": ("z_proj",)}, "adapter does not fit"),
        ("MODEL", {"adapters": ("same", "same")}, "new adapter"),
    ],
)
def test_bad_specs(folder, tmp_path, spec, options, what):
    spec = {"TMP": str(tmp_path), "MODEL": folder}.get(spec, spec)
    with pytest.raises(BadInput, match=what):
        language.load(spec, **options)


def test_a_damaged_folder(folder, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot be loaded"):
        language.load(str(tmp_path))


def test_without_the_extra(folder, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtra, match="peft"):
        language.load(folder)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match="transformers"):
        language.load(folder)


def test_by_its_name_among_models(folder):
    model = models.load(f"train:{folder}", dtype="float32")
    assert isinstance(model, language.LanguageModel) and model.generate("x", max_tokens=3).finish in ("stop", "length")


def test_adapters_of_a_relative_base_load_from_anywhere(folder, tmp_path, monkeypatch):
    base = tmp_path / "work" / "base"
    shutil.copytree(folder, base)
    monkeypatch.chdir(base.parent)
    language.load("./base", dtype="float32").save("saved")
    saved = base.parent / "saved"
    monkeypatch.chdir(tmp_path)
    assert language.load(str(saved), dtype="float32").name == str(base)
    assert json.loads((saved / "adapter_config.json").read_text())["base_model_name_or_path"] == str(base)
    base.rename(tmp_path / "moved")
    with pytest.raises(BadInput, match=r"base of this adapter is not there(.|\n)*work/base(.|\n)*evolvent\.json"):
        language.load(str(saved), dtype="float32")
    note = json.loads((saved / "evolvent.json").read_text())
    (saved / "evolvent.json").write_text(json.dumps(note | {"base": "runs/work/base"}))  # as earlier versions wrote it
    with pytest.raises(BadInput, match=r"base of this adapter is not there(.|\n)*runs/work/base"):
        language.load(str(saved), dtype="float32")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("smollm-135m", "smollm2-135m"),
        ("SmolLM2-135M", "smollm2-135m"),
        ("smollm2-135", "smollm2-135m"),
        ("gemma-270m", "gemma-3-270m"),
        ("gemma3-270m", "gemma-3-270m"),
        ("qwen-2.5-coder-1.5b", "qwen2.5-coder-1.5b"),
        ("qwen2.5-coder", "qwen2.5-coder-1.5b"),
        ("smolm2-135m", "smollm2-135m"),
        ("Qwen", "qwen2.5-coder-1.5b"),
        ("gemma", "gemma-3-270m"),
        ("135m", "smollm2-135m"),
    ],
)
def test_a_known_name_that_is_misspelt_is_reported_without_asking_the_hub(name, meant, monkeypatch):
    monkeypatch.setattr(load, "optional", lambda *_: pytest.fail("the hub was asked"))
    for place in (lambda: load.source(name), lambda: models.load(f"train:{name}"), lambda: models.load(name)):
        with pytest.raises(BadInput, match=f"no such model(?s:.*)did you mean {meant!r}"):
            place()


@pytest.mark.parametrize(
    "name", ["gpt2", "distilgpt2", "t5-small", "owner/smollm-135m", "HuggingFaceTB/SmolLM2-360M-Instruct"]
)
def test_names_of_the_hub_are_left_to_it(name):
    assert load.source(name) == (name, None)


def test_a_model_is_found_by_the_name_that_searches_have_for_it(folder, team, tmp_path):
    team.save(tmp_path / "a", "checker")
    for place in (folder, str(tmp_path / "a")):
        one, other = (language.load(f"{prefix}{place}", dtype="float32") for prefix in ("", "train:"))
        assert one.name == other.name and torch.equal(logp(one), logp(other))
