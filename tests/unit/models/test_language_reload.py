"""An adapter that was trained is loaded again in either precision; one that is not what was saved is refused."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import tiny_language
from evolvent.core.errors import ModelError
from evolvent.models.language import model as language
from evolvent.models.language.attention import Packed, Shared
from evolvent.models.language.model import Row
from evolvent.models.language.network import Network

folder = tiny_language.fixture()


@pytest.fixture
def saved(folder, tmp_path):
    """A folder of an adapter with an effect, and a copy of its base that a test may damage."""
    base = tmp_path / "base"
    shutil.copytree(folder, base)
    tiny_language.stir(language.load(str(base), dtype="float32")).save(tmp_path / "adapter")
    return tmp_path / "adapter"


def changed(file, change, *names):
    tensors = {key: change(t) if any(name in key for name in names) else t for key, t in load_file(file).items()}
    save_file({key: t.contiguous() for key, t in tensors.items()}, file, metadata={"format": "pt"})


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda t: t + 0.02 * torch.randn(t.shape, generator=torch.Generator().manual_seed(0)), ("layers.1.mlp.up",)),
        (lambda t: t.T, ("layers.0.self_attn.q_proj",)),
    ],
    ids=["another layer", "transposed"],
)
def test_a_wrong_base_is_refused_though_its_vocabulary_is_right(saved, dtype, change, names):
    assert language.load(str(saved), dtype=dtype).name == str(saved.with_name("base"))
    changed(saved.with_name("base") / "model.safetensors", change, *names)
    with pytest.raises(ModelError, match="another base model"):
        language.load(str(saved), dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "change",
    [lambda t: t + 0.01, torch.zeros_like, lambda t: t.flip(0)],
    ids=["perturbed", "without effect", "rows in another order"],
)
def test_an_adapter_that_is_not_the_one_saved_is_refused(saved, dtype, change):
    changed(saved / "adapter_model.safetensors", change, "lora_B")
    with pytest.raises(ModelError, match=r"not the one that was saved[^?]*remove evolvent.json"):
        language.load(str(saved), dtype=dtype)
    (saved / "evolvent.json").unlink()
    assert language.load(str(saved), dtype=dtype).adapters == ("policy",)  # on purpose


def test_an_adapter_without_weights_is_refused(saved):
    (saved / "adapter_model.safetensors").unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        language.load(str(saved), dtype="float32")


def test_a_note_of_an_earlier_version_is_enough(saved):
    note = json.loads((saved / "evolvent.json").read_text())
    (saved / "evolvent.json").write_text(json.dumps({key: note[key] for key in ("base", "fingerprint")}))
    assert language.load(str(saved), dtype="float32").adapters == ("policy",)


def scaled(layout):
    attend = layout.attend

    def wrong(self, layer, query, key, value, scale, window):
        return attend(self, layer, query, key, value, 3 * scale, window)

    return wrong


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", [Packed, Shared])
def test_attention_that_computes_something_else_is_refused(saved, dtype, layout, monkeypatch):
    monkeypatch.setattr(layout, "attend", scaled(layout))
    with pytest.raises(ModelError, match=r"cannot be sampled and trained here[^?]*total variation"):
        language.load(str(saved), dtype=dtype)


def test_a_pass_that_forgets_the_adapter_is_refused(saved, monkeypatch):
    forward = Network.forward

    def without(self, packed, places):
        with self.adapters.active(None):
            return forward(self, packed, places)

    monkeypatch.setattr(Network, "forward", without)
    with pytest.raises(ModelError, match="total variation"):
        language.load(str(saved), dtype="float32")


def trained(dtype, lr, steps=50):
    """An adapter after so many steps of AdamW, as runs make them, towards an answer and away from another."""
    model = language.load("smollm2-135m", dtype=dtype, seed=3)
    optimizer = torch.optim.AdamW(model.trainable(), lr=lr, weight_decay=0.0)
    context = model.encode("Numbers: 3 9 4\nLargest:", start=True)
    rows = [Row(context, model.encode(text)) for text in (" 9\n", " 3\n", " 4\n")]
    for _ in range(steps):
        logp = model.logprobs(rows).logp_K
        sums = torch.stack([part.sum() for part in logp.split([len(row.tokens) for row in rows])])
        (-(sums * sums.new_tensor([1.0, -0.05, -0.05])).sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.trainable(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("lr", [5e-4, 1e-3])
def test_fifty_steps_and_loaded_again_in_either_precision(dtype, lr, tmp_path):
    model = trained(dtype, lr)
    model.save(tmp_path / "adapter")
    row = Row(model.encode("Numbers: 3 9 4\nLargest:", start=True), model.encode(" 9\n"))
    with torch.no_grad():
        wanted = model.logprobs([row]).logp_K.numpy()
        for other in ("float32", "bfloat16"):
            again = language.load(str(tmp_path / "adapter"), dtype=other)
            got = again.logprobs([row]).logp_K.numpy()
            assert np.abs(np.exp(got) - np.exp(wanted)).max() < (1e-4 if other == dtype else 0.1)
            assert got.sum() > again.logprobs([row], adapter=None).logp_K.sum() + 0.5  # and it has its effect
