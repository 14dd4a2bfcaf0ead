"""Sampling: from the right distribution, by its own seed, with the numbers that judging gives."""

import numpy as np
import pytest
import torch

import tiny_language
from evolvent.core.errors import BadInput, ModelError
from evolvent.models.language import model as language
from evolvent.models.language.model import Row
from evolvent.testing.model import check_model

GAP = 1e-4


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tiny_language.write(tmp_path_factory.mktemp("tiny") / "model", seed=3)
    return tiny_language.stir(language.load(folder, dtype="float32"), 0.1)


@pytest.fixture(scope="module")
def prompts(model):
    texts = ["you see a door. ", "you see a door. it is open", "x", "you see a door. "]
    return [model.encode(t) for t in texts]


def same(a, b):
    assert a.token_ids.tolist() == b.token_ids.tolist() and a.text == b.text and a.finish == b.finish
    assert np.abs(a.logp - b.logp).max() < GAP and np.abs(a.entropy - b.entropy).max() < GAP


ACTIONS = ("take bowl.", "take tomato.", "go.", "take tomb.")


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
@pytest.mark.parametrize("bound", [False, True])
def test_what_was_sampled_is_what_is_judged(model, prompts, temperature, bound):
    choices = tuple(model.encode(a) for a in ACTIONS)
    allowed = [choices if bound and i % 2 else None for i in range(4)]
    done = model.sample(prompts, n=3, max_tokens=20, seeds=range(12), temperature=temperature, allowed=allowed)
    rows = [Row(prompts[i // 3], d.token_ids, allowed[i // 3] or ()) for i, d in enumerate(done)]
    with torch.no_grad():
        judged = model.logprobs(rows, temperature=temperature)
    assert np.abs(judged.logp_K.numpy() - np.concatenate([d.logp for d in done])).max() < GAP
    assert np.abs(judged.entropy_K.numpy() - np.concatenate([d.entropy for d in done])).max() < GAP
    if bound:
        assert all(d.text in ACTIONS and d.finish == "stop" for d in done[3:6])


def test_a_completion_depends_on_its_own_seed_alone(model, prompts):
    together = model.sample(prompts, n=3, max_tokens=15, seeds=[7, 8, 9, 7, 1, 2, 3, 4, 5, 7, 8, 9])
    alone = model.sample([prompts[1]], n=1, max_tokens=15, seeds=[7])[0]
    same(together[3], alone)
    for a, b in zip(together[:3], together[9:], strict=True):  # the same prompt, the same seeds
        same(a, b)
    assert len({d.text for d in together}) > 6
    model.max_kv_tokens, kept = 60, model.max_kv_tokens
    for a, b in zip(
        together, model.sample(prompts, n=3, max_tokens=15, seeds=[7, 8, 9, 7, 1, 2, 3, 4, 5, 7, 8, 9]), strict=True
    ):
        same(a, b)
    model.max_kv_tokens = kept


def test_prompts_pass_through_the_model_once(model, prompts, monkeypatch):
    seen = []
    inside = model._engine.step
    monkeypatch.setattr(model._engine, "step", lambda i, *rest: seen.append(len(i)) or inside(i, *rest))
    done = model.sample(prompts, n=4, max_tokens=6, seeds=range(16))
    assert seen[0] == len(prompts[1]) + len(prompts[2])  # the first and the last are its beginning
    lengths = np.array([len(d.token_ids) for d in done])
    assert seen[1:] == [int((lengths > k).sum()) for k in range(1, 6)]  # those that ended have left


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0.5}, {"top_k": 5}, {"top_p": 0.6}, {"top_k": 8, "top_p": 0.5}]
)
def test_frequencies(model, prompts, settings):
    n = 3000
    done = model.sample([prompts[1]], n=n, max_tokens=1, seeds=range(n), **settings)
    with torch.no_grad():
        logits = model.logprobs([Row(prompts[1], np.array([1]))], want=("logits",)).logits_KV[0].double().numpy()
    p = np.exp(logits / settings.get("temperature", 1.0))
    order = np.argsort(-p)
    kept = order[: settings.get("top_k", len(p))]
    share = p[kept] / p[kept].sum()
    kept = kept[: int(np.searchsorted(np.cumsum(share), settings.get("top_p", 2.0))) + 1]
    truth = np.zeros(len(p))
    truth[kept] = p[kept] / p[kept].sum()
    drawn = np.array([d.token_ids[0] for d in done])
    counts = np.bincount(drawn, minlength=len(p))
    assert (counts[truth == 0] == 0).all()
    assert np.abs(counts - n * truth).max() < 5 * np.sqrt(n * truth.max())
    assert np.abs(np.array([d.logp[0] for d in done]) - np.log(truth[drawn])).max() < GAP
    assert done[0].entropy[0] == pytest.approx(-sum(q * np.log(q) for q in truth if q), abs=GAP)


def test_greedy_takes_the_most_probable(model, prompts):
    done = model.sample(prompts, max_tokens=10, seeds=[0] * 4, temperature=0.0)
    rows = [Row(p, d.token_ids) for p, d in zip(prompts, done, strict=True)]
    with torch.no_grad():
        judged = model.logprobs(rows, want=("logits",))
    assert judged.logits_KV.argmax(-1).tolist() == np.concatenate([d.token_ids for d in done]).tolist()
    assert np.abs(judged.logp_K.numpy() - np.concatenate([d.logp for d in done])).max() < GAP


def test_stop_strings_and_end_tokens(model, prompts):
    free = model.sample(prompts, n=8, max_tokens=40, seeds=range(32))
    ended = [d for d in free if d.finish == "stop"]
    assert ended and all(d.token_ids[-1] in model.end_ids and "<|im_end|>" not in d.text for d in ended)
    assert all(len(d.token_ids) == 40 for d in free if d.finish == "length")
    which = next(i for i, d in enumerate(free) if len(d.text) > 20 and "<" not in d.text[:20])
    one, stop = free[which], free[which].text[5:8]
    cut = model.sample(prompts, n=8, max_tokens=40, seeds=range(32), stop=["never here", stop])[which]
    at = one.text.index(stop)
    assert cut.text == one.text[:at] and cut.finish == "stop"
    assert cut.token_ids.tolist() == one.token_ids[: at + 3].tolist()  # the tokens of the stop string stay


def test_the_context_ends_a_completion(model):
    long = np.resize(model.encode("abc "), 250)
    (done,) = model.sample([long], max_tokens=50, seeds=[3])
    assert len(done.token_ids) <= 6 and (done.finish == "length" or done.token_ids[-1] in model.end_ids)
    with pytest.raises(BadInput, match="does not fit into the context"):
        model.sample([np.resize(long, 256)], max_tokens=5, seeds=[0])


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"seeds": [1]}, "seeds"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"stop": "x"}, "stop"),
        ({"adapter": "nobody"}, "adapter"),
        ({"prompts": [np.empty(0, np.int32)] * 4}, "empty"),
        ({"allowed": [None]}, "choices"),
        ({"allowed": [[]] * 4}, "choices"),
        ({"allowed": [[np.array([3]), np.array([3, 4])]] * 4}, "begins another"),
    ],
)
def test_bad_settings(model, prompts, change, what):
    with pytest.raises(BadInput, match=what):
        model.sample(**({"prompts": prompts, "max_tokens": 4, "seeds": range(4)} | change))


def test_it_is_a_model_like_any_other(model):
    check_model(model, tolerance=1e-3)
    with pytest.raises(ModelError, match="grammar"):
        model.generate("x", grammar='root ::= "y"')
    assert model.generate("x", temperature=2.0, seed=1, max_tokens=5).logp == pytest.approx(
        model.logprobs([Row(model.encode("x"), model.generate("x", temperature=2.0, seed=1, max_tokens=5).token_ids)])
        .logp_K.detach()
        .numpy(),
        abs=GAP,
    )


def test_a_closed_model_says_so(tmp_path):
    other = language.load(tiny_language.write(tmp_path / "m"))
    other.close()
    with pytest.raises(ModelError, match="closed"):
        other.generate("x")


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("Qwen2Config", {}),
        ("Qwen3Config", {"head_dim": 8}),
        ("MistralConfig", {"sliding_window": 6, "head_dim": 8}),
        (
            "Gemma3TextConfig",
            {"sliding_window": 6, "head_dim": 8, "layer_types": ["sliding_attention", "full_attention"]},
        ),
    ],
)
def test_other_kinds_of_models(tmp_path, kind, settings):
    other = language.load(tiny_language.write(tmp_path / "m", kind=kind, **settings), dtype="float32")
    prompts = [other.encode(t) for t in ("a long prompt, longer than the window", "short")]
    done = other.sample(prompts, n=2, max_tokens=12, seeds=range(4))
    rows = [Row(prompts[i // 2], d.token_ids) for i, d in enumerate(done)]
    with torch.no_grad():
        judged = other.logprobs(rows, want=("logits",))
        whole = torch.tensor(np.concatenate([rows[0].context, rows[0].tokens])[None]).long().to(other.device)
        truth = other.network(whole, use_cache=False).logits[0, len(prompts[0]) - 1 : -1]
    assert (judged.logits_KV[: len(truth)] - truth).abs().max() < 1e-3
    assert np.abs(judged.logp_K.numpy() - np.concatenate([d.logp for d in done])).max() < 2 * GAP


def test_a_kind_that_cannot_be_shared_is_refused(tmp_path):
    with pytest.raises(ModelError, match="cannot be sampled and trained"):
        language.load(
            tiny_language.write(tmp_path / "m", kind="Gemma2Config", head_dim=8, final_logit_softcapping=1.0),
            dtype="float32",
        )
