"""How a model decides: what is recorded is what training computes again, and TWOSOME's choice is its formula."""

import numpy as np
import pytest
import torch

import tiny_language
from evolvent.core.protocols import Request
from evolvent.learn.tokens.logprobs import ActionLogprobs, TokenLogprobs
from evolvent.models.language import model as language
from evolvent.models.language.acting import Acting
from evolvent.models.language.model import Row


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tiny_language.write(tmp_path_factory.mktemp("model"))
    return tiny_language.stir(language.load(folder, dtype="float32"))


def asks(model, n=6):
    choices = tuple(model.encode(text) for text in (" go on", " go back", " stop"))
    return [Request(model.encode(f"place {i % 2}"), seed=i, max_tokens=8, choices=choices) for i in range(n)]


@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("way", ["trie", "word", "sum"])
def test_what_is_recorded_is_what_training_computes_again(model, way, temperature):
    wanted = asks(model)
    said = Acting(model, way, temperature)(wanted)
    rows = [Row(a.prompt, s.token_ids, a.choices if way == "trie" else ()) for a, s in zip(wanted, said, strict=True)]
    with torch.no_grad():
        again = TokenLogprobs(model, "policy", temperature)(rows).logp_K.numpy()
    assert np.concatenate([s.logp for s in said]) == pytest.approx(again, abs=1e-4)
    assert all(np.array_equal(a.choices[s.choice], s.token_ids) for a, s in zip(wanted, said, strict=True))


def test_a_choice_has_the_probability_that_actions_are_trained_with(model):
    wanted = asks(model)
    said = Acting(model, "word", 0.7)(wanted)
    rows = [Row(a.prompt, s.token_ids, a.choices) for a, s in zip(wanted, said, strict=True)]
    with torch.no_grad():
        again = ActionLogprobs(model, "policy", 0.7, "word")(rows).logp_K.numpy()
    assert [float(s.notes["action_logp"][0]) for s in said] == pytest.approx(again.tolist(), abs=1e-4)


def test_choices_are_drawn_with_their_probabilities(model):
    one = asks(model, 1)[0]
    acting = Acting(model, "sum", 3.0)
    said = acting([Request(one.prompt, seed, 8, choices=one.choices) for seed in range(300)])
    with torch.no_grad():
        rows = [Row(one.prompt, ids, one.choices) for ids in one.choices]
        p = ActionLogprobs(model, "policy", 3.0, "sum")(rows).logp_K.exp().numpy()
    share = np.bincount([s.choice for s in said], minlength=3) / 300
    assert p.sum() == pytest.approx(1.0, abs=1e-4) and share == pytest.approx(p, abs=0.09)
    assert acting.tokens == sum(len(s.token_ids) for s in said) and acting.seconds > 0


def test_greedy_takes_the_best(model):
    wanted = asks(model, 2)
    best = [s.choice for s in Acting(model, "word", 0.0)(wanted)]
    with torch.no_grad():
        for ask, k in zip(wanted, best, strict=True):
            rows = [Row(ask.prompt, ids, ask.choices) for ids in ask.choices]
            assert int(ActionLogprobs(model, "policy", 1.0, "word")(rows).logp_K.argmax()) == k


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_inside_the_allowed_actions_it_draws_as_the_sampler_does(model, temperature):
    wanted = asks(model, 40)
    said = Acting(model, "trie", temperature)(wanted)
    sampled = model.sample(
        [a.prompt for a in wanted],
        max_tokens=8,
        temperature=temperature,
        seeds=[a.seed for a in wanted],
        allowed=[list(a.choices) for a in wanted],
    )
    assert len({s.choice for s in said}) > 1 or temperature == 0.0
    for one, other in zip(said, sampled, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist() and one.text == other.text
        assert one.logp == pytest.approx(other.logp, abs=1e-4) and len(one.logp) == len(one.token_ids)
        assert one.notes["entropy"] == pytest.approx(other.entropy, abs=1e-4)


@pytest.mark.parametrize("way", ["trie", "word"])
def test_a_situation_is_asked_about_once_until_the_weights_move(model, way, monkeypatch):
    rows = []
    logprobs = model.logprobs
    monkeypatch.setattr(model, "logprobs", lambda some, **how: rows.extend(some) or logprobs(some, **how))
    acting = Acting(model, way)
    first = acting(asks(model))
    assert len(rows) == 2 * 3  # two places, three actions
    again = acting(asks(model))
    assert len(rows) == 6 and [s.choice for s in again] == [s.choice for s in first]
    with torch.no_grad():
        for weight in model.trainable():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)).to(weight))
    try:
        acting.forget()
        moved = acting(asks(model))
        assert len(rows) == 12 and not np.array_equal(moved[0].logp, first[0].logp)
    finally:
        with torch.no_grad():
            for weight in model.trainable():
                weight.sub_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)).to(weight))
