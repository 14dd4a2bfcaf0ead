"""Judging: packed, de-duplicated and in pieces it is the plain forward pass of transformers, gradients included."""

import itertools

import numpy as np
import pytest
import torch

import tiny_language
from evolvent.core.errors import BadInput
from evolvent.models.language import head as heads
from evolvent.models.language import model as language
from evolvent.models.language.choices import action_log_probs, units_of
from evolvent.models.language.model import Row

TOLERANCE = 1e-4
folder = tiny_language.fixture()


@pytest.fixture(scope="module")
def model(folder):
    return tiny_language.stir(language.load(folder, dtype="float32", adapters=("policy", "checker")))


def ids(text):
    return np.array([ord(c) % 90 + 3 for c in text], np.int32)


HEAD = "you are in a room; "
ROWS = [
    Row(ids(HEAD + "a door is open"), ids("go north")),
    Row(ids(HEAD + "a door is open"), ids("go south now")),
    Row(ids(HEAD + "a door is open"), ids("look")),
    Row(ids("something else"), ids("x")),
    Row(ids(HEAD + "a door is open"), ids("go north")),  # again
    Row(ids(HEAD + "a door is open" + "go north" + "and then"), ids("wait here")),  # the conversation goes on
    Row(ids(HEAD), ids("")),
    Row(ids("s"), ids("something else, quite long " * 4)),
]


def plain(model, rows, adapter="policy", temperature=1.0):
    """One row a sequence, through the model as transformers has it: logits [K, V] divided by the temperature."""
    out = []
    with model._engine.adapters.active(adapter):
        for row in rows:
            whole = torch.tensor(np.concatenate([row.context, row.tokens])[None], dtype=torch.int64).to(model.device)
            first = len(row.context) - 1
            out.append(model.network(whole).logits[0, first : first + len(row.tokens)].float() / temperature)
    return torch.cat(out)


def tokens_of(rows):
    return torch.tensor(np.concatenate([row.tokens for row in rows]), dtype=torch.int64)


def logp_entropy(logits, tokens):
    log_p = logits.log_softmax(-1)
    return log_p.gather(1, tokens[:, None].to(logits.device))[:, 0], -(log_p.exp() * log_p).sum(-1)


def gradients(model, adapter, loss):
    parameters = model.trainable(adapter)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters, retain_graph=True)])


@pytest.mark.parametrize("adapter", ["policy", "checker"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_values_and_gradients_are_those_of_the_plain_pass(model, adapter, temperature):
    weights = torch.linspace(-1, 1, len(tokens_of(ROWS)), device=model.device)
    judged = model.logprobs(ROWS, adapter=adapter, temperature=temperature)
    logp, entropy = logp_entropy(plain(model, ROWS, adapter, temperature), tokens_of(ROWS))
    assert judged.logp_K.dtype == judged.entropy_K.dtype == torch.float32
    assert (judged.logp_K - logp).abs().max() < TOLERANCE and (judged.entropy_K - entropy).abs().max() < TOLERANCE
    for mine, theirs in [(judged.logp_K, logp), (judged.logp_K - judged.entropy_K, logp - entropy)]:
        ours, truth = (gradients(model, adapter, (x * weights).sum()) for x in (mine, theirs))
        assert truth.abs().max() > 0.1 and (ours - truth).abs().max() < TOLERANCE * truth.abs().max()


def test_the_adapters_differ_and_none_is_the_base(model, folder):
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(folder).to(model.device)
    with torch.no_grad():
        by = {name: model.logprobs(ROWS, adapter=name).logp_K for name in ("policy", "checker", None)}
        row = torch.tensor(np.concatenate([ROWS[1].context, ROWS[1].tokens])[None], dtype=torch.int64).to(model.device)
        truth = logp_entropy(base(row).logits[0, len(ROWS[1].context) - 1 : -1], tokens_of(ROWS[1:2]))[0]
    n = len(ROWS[0].tokens)
    assert (by[None][n : n + len(truth)] - truth).abs().max() < TOLERANCE
    for a, b in itertools.combinations(by.values(), 2):
        assert (a - b).abs().max() > 0.01


def test_pieces_change_nothing(model, monkeypatch):
    whole = model.logprobs(ROWS)
    truth = gradients(model, "policy", (whole.logp_K + whole.entropy_K).sum())
    monkeypatch.setattr(model, "max_tokens_per_pass", 30)
    monkeypatch.setattr(heads, "PIECE", 500)
    parts = model.logprobs(ROWS)
    assert (whole.logp_K - parts.logp_K).abs().max() < TOLERANCE
    assert (whole.entropy_K - parts.entropy_K).abs().max() < TOLERANCE
    ours = gradients(model, "policy", (parts.logp_K + parts.entropy_K).sum())
    assert (ours - truth).abs().max() < TOLERANCE * truth.abs().max()


def test_shared_beginnings_pass_through_the_model_once(model, monkeypatch):
    seen = []
    inside = model._engine.step
    monkeypatch.setattr(model._engine, "step", lambda i, *rest: seen.append(len(i)) or inside(i, *rest))
    context = ids("a prompt of forty letters or thereabouts")
    model.logprobs([Row(context, ids(t)) for t in ("north", "south", "south", "n")])
    assert seen == [len(context) + 4 + 4]  # the last token of an answer predicts nothing; "n" is a beginning


def test_hidden_states_and_logits(model):
    judged = model.logprobs(ROWS, want=("hidden", "logits"), temperature=0.5)
    truth = plain(model, ROWS, temperature=0.5)
    assert (judged.logits_KV - truth).abs().max() < 2 * TOLERANCE
    logp, entropy = logp_entropy(truth, tokens_of(ROWS))
    assert (judged.logp_K - logp).abs().max() < 2 * TOLERANCE
    assert (judged.entropy_K - entropy).abs().max() < 2 * TOLERANCE
    assert judged.hidden_KD.shape == (len(logp), model.width)
    assert (model.states(ROWS, adapter="policy") - judged.hidden_KD).abs().max() < TOLERANCE
    seen = model.states([Row(ROWS[0].context, ids("q"))], adapter="policy")[0]
    assert (seen - judged.hidden_KD[0]).abs().max() < TOLERANCE


ACTIONS = tuple(ids(t) for t in ("take bowl.", "take tomato.", "go.", "take tomb.", "go."))


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_choices_renormalise_over_what_continues_one(model, temperature):
    rows = [Row(row.context, action, ACTIONS) for row in ROWS[:4] for action in ACTIONS]
    logits = plain(model, rows, temperature=temperature)
    masked, at = torch.full_like(logits, float("-inf")), 0
    for row in rows:
        for k in range(len(row.tokens)):
            after = {int(a[k]) for a in ACTIONS if a[:k].tolist() == row.tokens[:k].tolist() and len(a) > k}
            masked[at, list(after)] = logits[at, list(after)]
            at += 1
    truth = masked.log_softmax(-1)
    entropy = -torch.where(truth.isinf(), 0, truth.exp() * truth).sum(-1)
    truth = truth.gather(1, tokens_of(rows)[:, None].to(truth.device))[:, 0]
    weights = torch.linspace(-1, 1, len(truth), device=truth.device)
    expected = gradients(model, "policy", (weights * truth).sum())
    judged = model.logprobs(rows, temperature=temperature)
    assert (judged.logp_K - truth).abs().max() < TOLERANCE and (judged.entropy_K - entropy).abs().max() < TOLERANCE
    assert (gradients(model, "policy", (weights * judged.logp_K).sum()) - expected).abs().max() < TOLERANCE * 10
    whole = model.logprobs(rows, temperature=temperature, want=("hidden",))
    assert (whole.logp_K - judged.logp_K).abs().max() < TOLERANCE
    sums = torch.stack([part.sum() for part in judged.logp_K[: sum(map(len, ACTIONS))].split(list(map(len, ACTIONS)))])
    assert abs(float(sums[:4].detach().exp().sum()) - 1) < 1e-5  # the tree is a distribution over actions


@pytest.mark.parametrize("normalise", ["word", "token", "sum"])
def test_all_actions_at_once(model, normalise):
    contexts = [row.context for row in ROWS[:4]]
    texts = ["take the bowl", "take", "go to the door", "take the bowl away"]
    choices = [[model.encode(t) for t in texts[: 2 + i % 3]] for i in range(4)]
    ours = model.choice_logprobs(contexts, choices, normalise=normalise)
    for context, some, mine in zip(contexts, choices, ours, strict=True):
        rows = [Row(context, choice) for choice in some]
        logp = logp_entropy(plain(model, rows), tokens_of(rows))[0]
        sums = torch.stack([part.sum() for part in logp.split([len(c) for c in some])])
        by = {"word": [len(t.split()) for t in texts], "token": [len(t) for t in texts], "sum": [1] * 4}[normalise]
        truth = (sums / sums.new_tensor(by[: len(some)])).log_softmax(0)
        assert (mine - truth).abs().max() < TOLERANCE
        ours_g, truth_g = gradients(model, "policy", mine[0]), gradients(model, "policy", truth[0])
        assert (ours_g - truth_g).abs().max() < TOLERANCE * 10


def test_twosome_golden():
    sums = torch.tensor([-3.0, -2.0, -2.5])
    texts, lengths = ["open", "put food", "close"], [2, 4, 1]
    golden = {
        "sum": [0.186324, 0.506480, 0.307196],
        "token": [0.244728, 0.665241, 0.090031],
        "word": [0.099624, 0.736125, 0.164252],
    }
    for way, expected in golden.items():
        units = torch.tensor(units_of(texts, lengths, way), dtype=torch.float32)
        assert action_log_probs(sums, units).exp().tolist() == pytest.approx(expected, abs=1e-6)


def test_checkpointing_acts_with_the_adapter_of_the_first_pass(folder, model):
    again = tiny_language.stir(
        language.load(folder, dtype="float32", adapters=("policy", "checker"), gradient_checkpointing=True)
    )
    truth = gradients(model, "policy", model.logprobs(ROWS).logp_K.sum())
    loss = again.logprobs(ROWS).logp_K.sum()
    with torch.no_grad():
        again.logprobs(ROWS, adapter=None)
        again.logprobs(ROWS, adapter="checker")
    ours = gradients(again, "policy", loss)
    assert (ours - truth).abs().max() < TOLERANCE * truth.abs().max()
    assert not any(m.training for m in again.network.modules() if isinstance(m, torch.nn.Linear))


def test_all_weights_trained(folder):
    full = language.load(folder, dtype="float32", lora_rank=0)
    weights = torch.linspace(-1, 1, len(tokens_of(ROWS)), device=full.device)
    for entropy in (False, True):
        judged = full.logprobs(ROWS)
        logits = full.network.float()
        logp, spread = logp_entropy(plain_full(logits, ROWS), tokens_of(ROWS))
        ours = gradients(full, "policy", ((judged.logp_K + entropy * judged.entropy_K) * weights).sum())
        truth = gradients(full, "policy", ((logp + entropy * spread) * weights).sum())
        assert (ours - truth).abs().max() < TOLERANCE * truth.abs().max()
    with pytest.raises(BadInput, match="reference"):
        full.logprobs(ROWS, adapter=None)


def plain_full(network, rows):
    out = []
    for row in rows:
        whole = torch.tensor(np.concatenate([row.context, row.tokens])[None], dtype=torch.int64, device=network.device)
        out.append(network(whole).logits[0, len(row.context) - 1 :][: len(row.tokens)])
    return torch.cat(out)


def test_micro_batches_cover_the_rows(model):
    groups = model.micro_batches(ROWS, 40)
    assert sorted(i for g in groups for i in g) == list(range(len(ROWS))) and len(groups) > 2


@pytest.mark.parametrize(
    ("rows", "options", "what"),
    [
        ([Row(ids(""), ids("a"))], {}, "context"),
        ([Row(ids("a" * 250), ids("a" * 7))], {}, "context"),
        ([Row(np.array([5000]), ids("a"))], {}, "vocabulary"),
        ([Row(np.array([0.5]), ids("a"))], {}, "token ids"),
        ([Row(ids("a"), ids("go"), ACTIONS[:2])], {}, "choices"),
        ([], {"temperature": 0.0}, "temperature"),
        ([], {"want": ("everything",)}, "want"),
        ([], {"adapter": "nobody"}, "adapter"),
    ],
)
def test_bad_rows(model, rows, options, what):
    with pytest.raises(BadInput, match=what):
        model.logprobs(rows, **options)


def test_no_rows(model):
    assert model.logprobs([]).logp_K.shape == (0,) and model.logprobs([ROWS[6]]).logp_K.shape == (0,)
