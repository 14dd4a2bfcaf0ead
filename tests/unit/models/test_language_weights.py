"""The real model: de-quantised once, the tokens of llama.cpp, sampled and judged alike."""

import numpy as np
import pytest
import torch

from evolvent import models
from evolvent.models.language import model as language
from evolvent.models.language.model import Row
from evolvent.testing.model import check_model

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def model():
    """SmolLM2-135M, fetched and de-quantised into the cache at first use."""
    return language.load("smollm2-135m", dtype="float32")


def test_conformance(model):
    check_model(model, tolerance=1e-3)


def test_sampler_and_trainer_agree(model):
    prompt = model.chat([{"role": "user", "content": "Name a colour."}])
    other = model.encode("The days of the week are Monday,")
    done = model.sample([prompt, other], n=2, max_tokens=12, seeds=range(4), temperature=0.8)
    rows = [Row((prompt, other)[i // 2], d.token_ids) for i, d in enumerate(done)]
    with torch.no_grad():
        judged = model.logprobs(rows, temperature=0.8).logp_K.numpy()
    assert np.abs(judged - np.concatenate([d.logp for d in done])).max() <= 1e-4


def test_packed_actions_are_those_one_by_one(model):
    context = model.encode("You are in the kitchen. There is a bowl and a tomato. You")
    actions = [model.encode(t) for t in (" take the bowl", " take the tomato", " go to the door")]
    with torch.no_grad():
        (together,) = model.choice_logprobs([context], [actions], normalise="sum")
        alone = []
        for action in actions:
            whole = torch.from_numpy(np.concatenate([context, action]).astype(np.int64))
            log_p = model.network(whole[None], use_cache=False).logits[0].log_softmax(-1)
            places = torch.arange(len(context) - 1, len(whole) - 1)
            alone.append(log_p[places, whole[len(context) :]].sum())
    assert (together - torch.stack(alone).log_softmax(0)).abs().max() < 1e-4


def test_tokens_are_those_of_llama_cpp(model):
    llama = models.load("smollm2-135m", n_ctx=64)
    for text in ("Hello world 12345", "Wie geht's, \u03a9 \u6771\u4eac?\n  tabs\tand spaces  ", "3+45=48, 1,000.25"):
        assert model.encode(text).tolist() == llama.tokenize(text).tolist()
        assert model.decode(model.encode(text)) == text
    llama.close()
