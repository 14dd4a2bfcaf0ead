"""Where verl is installed: it reads the export, and its losses have the gradient that ours have on the same record."""

import json
from importlib import import_module

import numpy as np
import pytest
import torch
from safetensors import safe_open
from test_export_verl import conversation, fresh

from evolvent.core.ledger import Ledger
from evolvent.learn.tokens.batch import token_batch
from evolvent.learn.tokens.export_verl import save, verl_batch
from evolvent.learn.tokens.objective import Objective

verl = pytest.importorskip("verl", reason="verl needs an environment of its own: docs/verl.md")
core_algos = import_module("verl.trainer.ppo.core_algos")
losses, padding = (import_module(f"verl.workers.utils.{name}") for name in ("losses", "padding"))
tensordict_utils, model_utils = (import_module(f"verl.utils.{name}") for name in ("tensordict_utils", "model"))
config = import_module("verl.workers.config")

ADV = np.random.default_rng(0).normal(size=18)


def read(path):
    """What docs/verl.md shows."""
    with safe_open(path, "pt") as file:
        head = json.loads(file.metadata()["evolvent"])
        return verl.DataProto.from_dict(
            {name: file.get_tensor(name) for name in file.keys()},  # noqa: SIM118 - not a mapping
            {name: np.array(values, dtype=object) for name, values in head["non_tensors"].items()},
            head["meta_info"],
        )


def exported(tmp_path, made):
    episodes = [made(name) for name in "xyz"]
    ledger = Ledger.for_episodes(episodes)
    ledger.set("token", ADV)
    save(tmp_path / "batch.safetensors", verl_batch(episodes, ledger, level="token", meta_info={"temperature": 1.0}))
    return read(tmp_path / "batch.safetensors"), token_batch(episodes, ledger, level="token")


def actor_config(aggregate):
    return config.ActorConfig(
        strategy="fsdp", ppo_micro_batch_size_per_gpu=1, rollout_n=1, clip_ratio_c=3.0, loss_agg_mode=aggregate
    )


def test_data_proto_reads_keeps_and_splits_it(tmp_path):
    data, _ = exported(tmp_path, fresh)
    assert len(data) == 9 and data.meta_info["temperature"] == 1.0
    assert torch.equal(
        model_utils.compute_position_id_with_mask(data.batch["attention_mask"]), data.batch["position_ids"]
    )
    data.save_to_disk(tmp_path / "proto.pkl")
    again = verl.DataProto.load_from_disk(tmp_path / "proto.pkl")
    assert torch.equal(again.batch["advantages"], data.batch["advantages"])
    assert again.non_tensor_batch["uid"].tolist() == ["g"] * 9
    whole = verl.DataProto.concat(data.chunk(3))
    assert all(torch.equal(whole.batch[name], tensor) for name, tensor in data.batch.items())
    flat = padding.left_right_2_no_padding(data.to_tensordict())
    kept = data.batch["attention_mask"].bool()
    assert torch.equal(flat["input_ids"].values(), data.batch["input_ids"][kept])


@pytest.mark.parametrize("moved", [0.0, 0.5])
@pytest.mark.parametrize(
    ("made", "theirs", "ours", "settings"),
    [
        (fresh, "token-mean", "token_mean", {}),
        (conversation, "token-mean", "token_mean", {}),
        (conversation, "seq-mean-token-sum", "seq_mean_token_sum", {}),
        (conversation, "seq-mean-token-mean", "seq_mean_token_mean", {}),
        (conversation, "seq-mean-token-sum-norm", "const", {"length": 40}),
    ],
)
def test_the_gradient_is_ours(tmp_path, made, theirs, ours, settings, moved):
    data, batch = exported(tmp_path, made)
    mask = data.batch["response_mask"].bool()
    noise = moved * torch.randn(int(mask.sum()), generator=torch.Generator().manual_seed(0))
    logp = torch.zeros(mask.shape).masked_scatter(mask, batch.units.old_logp + noise).requires_grad_()
    actor = actor_config(theirs)
    actor.global_batch_info["loss_scale_factor"] = settings.get("length")
    loss, metrics = core_algos.compute_policy_loss_vanilla(
        data.batch["old_log_probs"], logp, data.batch["advantages"], data.batch["response_mask"], theirs, actor
    )
    (slope,) = torch.autograd.grad(loss, logp)

    flat = (batch.units.old_logp + noise).requires_grad_()
    objective = Objective(aggregate=ours, dual=3.0, **settings)
    terms = objective.terms(objective.prepare(batch.units), flat, torch.zeros(len(flat)))
    (expected,) = torch.autograd.grad(terms.loss, flat)
    torch.testing.assert_close(loss, terms.loss)
    torch.testing.assert_close(slope[mask], expected)
    assert (slope[~mask] == 0).all() and (metrics["actor/pg_clipfrac"] > 0) == (moved > 0)


@pytest.mark.parametrize("made", [fresh, conversation])
def test_an_actor_update_of_verl_moves_a_model_as_ours_does(tmp_path, made):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=40, initializer_range=0.4, **size))
    data, batch = exported(tmp_path, made)

    flat = padding.left_right_2_no_padding(data.to_tensordict())
    n_tokens, seen = int(data.batch["response_mask"].sum()), data.batch["attention_mask"].bool()
    tensordict_utils.assign_non_tensor(flat, dp_size=1, batch_num_tokens=n_tokens, global_batch_size=len(data))
    columns = {name: data.batch[name] for name in ("input_ids", "attention_mask", "position_ids")}
    said = model(**columns).logits[:, :-1].log_softmax(-1).gather(-1, columns["input_ids"][:, 1:, None])[..., 0]
    said = torch.nn.functional.pad(said, (0, 1))[seen]  # entry i is about token i + 1, as verl's engines return it
    nested = torch.nested.nested_tensor_from_jagged(said, offsets=flat["input_ids"].offsets())
    loss, _ = losses.ppo_loss(actor_config("token-mean"), {"log_probs": nested}, flat)
    theirs = torch.autograd.grad(loss, list(model.parameters()))

    logp = []
    for row in batch.rows:  # every decision by itself, without padding
        ids = torch.tensor([*row.context, *row.tokens])[None]
        logits = model(input_ids=ids).logits[0, len(row.context) - 1 : -1].log_softmax(-1)
        logp.append(logits.gather(-1, ids[0, len(row.context) :, None])[:, 0])
    objective = Objective(aggregate="token_mean", dual=3.0)
    terms = objective.terms(objective.prepare(batch.units), torch.cat(logp), torch.zeros(n_tokens))
    ours = torch.autograd.grad(terms.loss, list(model.parameters()))
    torch.testing.assert_close(loss, terms.loss)
    assert max(float(g.abs().max()) for g in ours) > 1e-3
    for a, b in zip(theirs, ours, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
