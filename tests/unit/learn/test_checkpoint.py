"""Checkpoints: everything comes back, a kill leaves the one before, a damaged one is refused by name."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from evolvent.core.errors import BadInput, ModelError
from evolvent.learn import checkpoint
from run_folders import Killed


def learner(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    return {
        "net": net,
        "adam": torch.optim.Adam(net.parameters(), lr=0.01),
        "generator": torch.Generator().manual_seed(seed),
        "numpy": np.random.default_rng(seed),
    }


def train(parts, steps=3):
    """Uses every generator there is; returns what it saw."""
    seen = []
    for _ in range(steps):
        x = torch.randn(8, 3, generator=parts["generator"]) + 0.1 * torch.randn(8, 3)
        loss = (parts["net"](x) ** 2).mean() + float(parts["numpy"].random())
        parts["adam"].zero_grad()
        loss.backward()
        parts["adam"].step()
        seen.append(loss.item())
    return seen


def test_training_goes_on_as_if_nothing_had_happened(tmp_path):
    parts = learner(0)
    train(parts)
    state = {"updates": 3, "best": -math.inf, "name": "é", "pair": (1, [None, True]), "seen": np.arange(4.0), 7: "int"}
    path = checkpoint.save(tmp_path / "new" / "checkpoints", 3, parts, state)
    want = train(parts)
    again = learner(99)
    torch.manual_seed(5)
    back = checkpoint.load(path, again)
    assert train(again) == want
    np.testing.assert_array_equal(back.pop("seen"), state.pop("seen"))
    assert back == state


def test_tensors_that_share_memory_are_saved_apart(tmp_path):
    tied = nn.Linear(3, 3)
    other = nn.Linear(3, 3)
    other.weight = tied.weight
    path = checkpoint.save(tmp_path, 0, {"a": tied, "b": other}, {"view": tied.weight.detach()[:, 1]})
    assert torch.equal(checkpoint.load(path, {})["view"], tied.weight[:, 1])


def test_the_last_n_are_kept(tmp_path):
    for step in (1, 5, 20, 300):
        checkpoint.save(tmp_path, step, {}, {"step": step}, keep=2)
    assert [p.name for p in checkpoint.checkpoints(tmp_path)] == ["step-000000020", "step-000000300"]
    checkpoint.save(tmp_path, 300, {}, {"step": "anew"}, keep=2)
    assert checkpoint.load(checkpoint.latest(tmp_path), {}) == {"step": "anew"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000000020", "step-000000300"]
    assert checkpoint.latest(tmp_path / "nowhere") is None


@pytest.mark.parametrize("moment", ["_digest", "_sync", "_appear"])
def test_a_kill_before_the_rename_keeps_the_one_before(tmp_path, monkeypatch, moment):
    checkpoint.save(tmp_path, 1, learner(0), {"n": 1})

    def kill(*_):
        raise Killed

    with monkeypatch.context() as during:
        during.setattr(checkpoint, moment, kill)
        with pytest.raises(Killed):
            checkpoint.save(tmp_path, 2, learner(0), {"n": 2})
    assert len(list(tmp_path.glob(".step-*"))) == 1  # the kill came in the middle
    assert checkpoint.load(checkpoint.latest(tmp_path), learner(1)) == {"n": 1}
    checkpoint.save(tmp_path, 2, learner(0), {"n": 2})
    assert checkpoint.load(checkpoint.latest(tmp_path), learner(1)) == {"n": 2}
    assert not list(tmp_path.glob(".step-*"))


@pytest.mark.parametrize("file", ["tensors.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_one_is_refused_and_the_one_before_named(tmp_path, file, damage):
    for step in (1, 2):
        checkpoint.save(tmp_path, step, learner(step), {"n": step})
    path = checkpoint.latest(tmp_path) / file
    body = path.read_bytes()
    at = body.index(b'"n"') + 1 if file == "manifest.json" else len(body) - 3
    changed = {"flip": body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :], "cut": body[: len(body) // 2], "gone": b""}
    path.write_bytes(changed[damage])
    if damage == "gone":
        path.unlink()
    with pytest.raises(ModelError, match=r"damaged[\s\S]*step-000000001"):
        checkpoint.load(checkpoint.latest(tmp_path), learner(0))
    assert checkpoint.load(tmp_path / "step-000000001", learner(0)) == {"n": 1}


def test_what_does_not_fit_is_named(tmp_path):
    path = checkpoint.save(tmp_path, 1, {"net": nn.Linear(3, 4)})
    with pytest.raises(ModelError, match="does not fit 'net'"):
        checkpoint.load(path, {"net": nn.Linear(4, 4)})
    with pytest.raises(ModelError, match="lacks a part"):
        checkpoint.load(path, {"critic": nn.Linear(3, 4)})
    with pytest.raises(BadInput, match="without a state"):
        checkpoint.save(tmp_path, 2, {"x": object()})
    with pytest.raises(BadInput, match="cannot be saved"):
        checkpoint.save(tmp_path, 2, {}, {"x": {"y": {1, 2}}})
    assert checkpoint.latest(tmp_path) == path
