"""Where vLLM is installed: it samples from the adapters that are trained, with the log-probabilities they have."""

import os
import string

import numpy as np
import pytest
import torch

import tiny_language
from evolvent.core.errors import BadInput
from evolvent.models.language import model as language
from evolvent.models.language.model import Row

os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}  # read when it is imported
pytest.importorskip("vllm", reason="vLLM needs an environment of its own: docs/vllm.md")

PROMPTS = [np.arange(5, 15, dtype=np.int32), np.arange(20, 28, dtype=np.int32)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    # vLLM's attention has kernels for heads of 32 and more
    size = {"hidden_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1}
    model = language.load(tiny_language.write(folder, **size), dtype="float32", adapters=("policy", "other"))
    from evolvent.models.language.vllm import VllmSampler

    model.sampler = VllmSampler(tiny_language.stir(model), enforce_eager=True, max_num_seqs=16)
    yield model
    model.sampler.close()


def drawn(model, adapter="policy", temperature=1.0, **settings):
    """Completions, and how far their log-probabilities are from those that are trained."""
    out = model.sample(
        PROMPTS, seeds=range(8), n=4, max_tokens=12, adapter=adapter, temperature=temperature, **settings
    )
    rows = [Row(PROMPTS[i // 4], one.token_ids) for i, one in enumerate(out)]
    with torch.no_grad():
        judged = model.logprobs(rows, adapter=adapter, temperature=temperature).logp_K.numpy()
    return out, float(np.abs(judged - np.concatenate([one.logp for one in out])).max())


def test_what_is_sampled_is_what_is_trained(made):
    for settings in ({}, {"adapter": "other"}, {"adapter": None}, {"temperature": 0.7}):
        assert drawn(made, **settings)[1] < 1e-4


def test_weights_that_moved_are_handed_over(made, monkeypatch):
    assert drawn(made)[1] < 1e-4
    tiny_language.stir(made, seed=9)
    with monkeypatch.context() as patch:
        patch.setattr(made.sampler, "sync", lambda adapter: None)
        assert drawn(made)[1] > 0.1, "the weights have moved on"
    assert drawn(made)[1] < 1e-4
    monkeypatch.setattr(made.sampler, "_write", lambda adapter: 1 / 0)
    drawn(made)  # nothing moved: nothing is written


def test_draws_follow_their_seeds(made):
    first, again = drawn(made)[0], drawn(made)[0]
    assert all(np.array_equal(a.token_ids, b.token_ids) for a, b in zip(first, again, strict=True))
    assert len({tuple(one.token_ids) for one in first}) > 4
    ended = {True: "stop", False: "length"}
    assert all(one.finish == ended[int(one.token_ids[-1]) in made.end_ids] for one in first)
    assert all(len(one.logp) == len(one.token_ids) <= 12 and np.isnan(one.entropy).all() for one in first)


def test_stop_strings_and_end_tokens_are_in_the_tokens_and_not_in_the_text(made):
    stop = list(string.ascii_letters)
    out = made.sample(PROMPTS, seeds=range(32), n=16, max_tokens=40, stop=stop)
    ended = [one for one in out if int(one.token_ids[-1]) in made.end_ids]
    stopped = [one for one in out if one not in ended and one.finish == "stop"]
    assert stopped and all(set(made.decode(one.token_ids[-1:])) & set(stop) for one in stopped)
    assert not any(set(made.decode(one.token_ids[:-1])) & set(stop) for one in stopped)
    assert not any(set(one.text) & set(stop) for one in stopped)
    assert all(one.finish == "stop" and "<|im_end|>" not in one.text for one in ended)


def test_bad_input(made):
    with pytest.raises(BadInput, match="do not fit"):
        made.sample([np.ones(256, np.int32)], seeds=[0], max_tokens=1)
    with pytest.raises(BadInput, match="do not fit"):
        made.sample(PROMPTS, seeds=[0], max_tokens=1)


def test_among_allowed_actions_the_model_draws_itself(made):
    words = [np.array([5, 6], np.int32), np.array([7], np.int32)]
    out = made.sample(PROMPTS[:1], seeds=range(4), n=4, max_tokens=4, allowed=[words])
    assert all(one.token_ids.tolist() in ([5, 6], [7]) and not np.isnan(one.entropy).any() for one in out)
