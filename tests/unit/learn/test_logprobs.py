"""A language model as a judge: tokens and whole actions, trained through the engine on a tiny random Llama."""

import math

import numpy as np
import pytest
import torch

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.learn.tokens.batch import token_batch
from evolvent.learn.tokens.logprobs import ActionLogprobs, TokenLogprobs
from evolvent.learn.tokens.objective import Objective
from evolvent.learn.tokens.policy_gradient import improve
from evolvent.models.language import model as language
from evolvent.models.language.model import Row

WORDS = [f"w{i}" for i in range(24)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    pytest.importorskip("peft")
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("tiny")
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS) + 2,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        bos_token_id=0,
        eos_token_id=1,
        initializer_range=0.5,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    vocabulary = {word: i for i, word in enumerate(["<s>", "</s>", *WORDS])}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="<s>")
    words = tokenizers.Tokenizer(model)
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>").save_pretrained(
        path
    )
    return str(path)


@pytest.fixture
def model(folder):
    torch.set_num_threads(1)
    return language.load(folder, dtype="float32")


def sampled(model, n=4):
    prompts = [np.array([2, 3, 4, 5 + i % 2], np.int32) for i in range(n)]
    said = model.sample(prompts, max_tokens=5, seeds=range(n))
    episodes = []
    for prompt, one in zip(prompts, said, strict=True):
        ep = Episode("task")
        ep.observe("seen", token_ids=prompt, parent=-1)
        ep.act(one.text, token_ids=one.token_ids, logp=one.logp)
        ep.end(terminated=True)
        ep.note("entropy", one.entropy)
        episodes.append(ep)
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", np.where(np.arange(n) % 2, 1.0, -1.0))
    return token_batch(episodes, ledger, level="step")


def test_what_was_sampled_is_what_is_trained(model):
    batch, judge = sampled(model), TokenLogprobs(model)
    batch = batch.with_reference(TokenLogprobs(model, adapter=None))
    before = [p.detach().clone() for p in model.trainable()]
    gradients = []
    for micro_tokens in (1, 12, 10_000):
        sgd = torch.optim.SGD(model.trainable(), lr=1.0)
        metrics = improve(Objective(kl=0.1), batch, judge, sgd, micro_tokens=micro_tokens, grad_clip=0.0)
        assert metrics["gap"] < 1e-4 and metrics["kl_ref"] == pytest.approx(0.0, abs=1e-6)
        gradients.append(
            torch.cat([(p.detach() - b).flatten() for p, b in zip(model.trainable(), before, strict=True)])
        )
        with torch.no_grad():
            for p, b in zip(model.trainable(), before, strict=True):
                p.copy_(b)
    assert gradients[0].abs().max() > 1e-4
    for other in gradients[1:]:
        assert (gradients[0] - other).abs().max() < 1e-5 * max(1.0, float(other.abs().max()))
    adam = torch.optim.AdamW(model.trainable(), lr=1e-2)
    objective = Objective(surrogate="is")
    start = improve(objective, batch, judge, adam)["loss"]
    assert improve(objective, batch, judge, adam, epochs=5)["loss"] < start
    with torch.no_grad():  # the reference is where it was
        again = batch.with_reference(TokenLogprobs(model, adapter=None))
    assert torch.equal(again.units.ref_logp, batch.units.ref_logp)


def test_whole_actions_are_twosomes(model):
    context, choices = np.array([2, 3], np.int32), [np.array(c, np.int32) for c in ([4], [5, 6], [7, 8, 9])]
    rows = [Row(context, choice, tuple(choices)) for choice in choices]
    with torch.no_grad():
        logp = model.logprobs([Row(context, c) for c in choices]).logp_K
        sums = torch.stack([part.sum() for part in logp.split([1, 2, 3])])
        for way, by in (("sum", 1), ("token", sums.new_tensor([1, 2, 3])), ("word", sums.new_tensor([1, 2, 3]))):
            expected = torch.log_softmax(sums / by / 0.7, -1)
            result = ActionLogprobs(model, temperature=0.7, way=way)(rows)
            assert result.logp_K.tolist() == pytest.approx(expected.tolist(), abs=1e-5)
            assert result.entropy_K.tolist() == pytest.approx([-(expected.exp() @ expected).item()] * 3, abs=1e-5)
        free = ActionLogprobs(model, way="token")([Row(context, choices[2]), rows[0]])
        assert free.logp_K[0].item() == pytest.approx(
            sums[2].item(), abs=1e-5
        )  # what a record of its tokens adds up to
    with pytest.raises(BadInput, match="not among"):
        ActionLogprobs(model)([Row(context, np.array([9, 9]), tuple(choices))])


def test_a_choice_is_learned(model):
    context, choices = [2, 3], [[4], [5, 6]]
    episodes = []
    for k, ids in enumerate(choices):
        ep = Episode("task", id=str(k))
        ep.observe("seen", token_ids=context, parent=-1)
        ep.act("act", token_ids=ids, choices=choices)
        ep.end(terminated=True)
        episodes.append(ep)
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", [-1.0, 1.0])
    judge = ActionLogprobs(model)
    batch = token_batch(episodes, ledger, level="step", unit="action").with_old(judge)
    first = math.exp(batch.units.old_logp[1])
    improve(Objective(), batch, judge, torch.optim.AdamW(model.trainable(), lr=1e-2), epochs=3)
    assert math.exp(batch.with_old(judge).units.old_logp[1]) > first


class Scored(language.LanguageModel):
    """Gives three actions the log-probabilities of a worked example; their texts have 1, 2 and 1 words."""

    def __init__(self):
        self.device = torch.device("cpu")

    def logprobs(self, rows, *, adapter="policy", temperature=1.0, want=()):
        known = {4: [-1.0, -2.0], 6: [-0.5] * 4, 8: [-2.5]}
        flat = torch.tensor([x for row in rows for x in known[int(row.tokens[0])]])
        return language.Logprobs(flat, torch.zeros_like(flat))

    def decode(self, ids):
        return {4: "open", 6: "walk on", 8: "wait"}[int(ids[0])]


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("sum", [0.186324, 0.506480, 0.307196]),
        ("token", [0.244728, 0.665241, 0.090031]),
        ("word", [0.099624, 0.736125, 0.164252]),
    ],
)
def test_probabilities_of_actions_by_hand(way, expected):
    choices = tuple(np.array(ids, np.int32) for ids in ([4, 5], [6, 7, 7, 7], [8]))
    rows = [Row(np.array([2]), ids, choices) for ids in choices]
    assert ActionLogprobs(Scored(), way=way)(rows).logp_K.exp().tolist() == pytest.approx(expected, abs=1e-5)
