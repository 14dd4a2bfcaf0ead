"""In bfloat16 sampler and trainer round differently, and so does the trainer in other company: nothing may learn it."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch

import tiny_language
from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit import token_implicit
from evolvent.evaluate.live import Live
from evolvent.learn.preference.objective import Preference
from evolvent.learn.tokens.batch import token_batch
from evolvent.learn.tokens.logprobs import TokenLogprobs
from evolvent.learn.tokens.objectives_of_papers import GRPO, GSPO
from evolvent.learn.tokens.policy_gradient import improve, reference_kl
from evolvent.models.language import model as language
from evolvent.runs.language.config import LanguageConfig, Plan
from run_folders import begin

pytestmark = pytest.mark.usefixtures("one_thread")
folder = tiny_language.fixture(max_position_embeddings=1024, hidden_size=64, num_hidden_layers=3)
NOTHING = """
PROMPTS = [{"prompt": "Say " + "abcdefghij"[i] * (i + 1)} for i in range(10)]
MAX_TOKENS = 8
def reward(completion, prompt):
    return 0.0
"""


def models(folder, adapters=("policy", "prm")):
    """The same weights, computed with in bfloat16 and in float32."""
    coarse, fine = (language.load(folder, dtype=dtype, adapters=adapters) for dtype in ("bfloat16", "float32"))
    with torch.no_grad():
        for a, b in zip(fine.network.parameters(), coarse.network.parameters(), strict=True):
            a.copy_(b)
    return coarse, fine


def attempts(model, n=4):
    """Answers of 8 tokens to a few prompts, in groups of ``n``, as the model samples them."""
    prompts = [model.encode(f"Tell me {i * 7919}. ") for i in range(4)]
    said = model.sample(prompts, seeds=range(4 * n), max_tokens=8, n=n)
    episodes = []
    for i, one in enumerate(said):
        e = Episode("t", id=str(i), group=str(i // n))
        e.observe("seen", token_ids=prompts[i // n], parent=-1)
        e.act(one.text, token_ids=one.token_ids, logp=one.logp)
        e.end(terminated=True, success=i % 2 == 0)
        episodes.append(e)
    return episodes


def batch_of(episodes):
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", np.random.default_rng(0).normal(size=len(episodes)))
    return token_batch(episodes, ledger, level="step")


def off(a, b):
    return float((a - b).abs().max())


def test_what_the_sampler_said_is_not_what_the_trainer_says_nor_in_other_company(folder):
    """If this fails on some machine, the tests below show nothing there."""
    coarse, _ = models(folder)
    batch, judge = batch_of(attempts(coarse)), TokenLogprobs(coarse)
    whole = batch.looked_up(judge)[0]
    assert off(batch.units.old_logp, whole) > 1e-3
    some = batch.select(range(5, 9))
    assert off(some.looked_up(judge)[0], whole[batch.units_in(range(5, 9))]) > 1e-3


def test_a_judge_can_be_exact_in_any_format_and_leaves_the_weights_as_they_were(folder):
    coarse, fine = models(folder)
    tiny_language.stir(coarse), tiny_language.stir(fine)
    batch = batch_of(attempts(coarse))
    before = batch.looked_up(TokenLogprobs(coarse))[0]
    weights = {name: (p.dtype, p.detach().clone()) for name, p in coarse.network.named_parameters()}
    for adapter in ("policy", "prm", None):
        exact = batch.looked_up(TokenLogprobs(coarse, adapter, exact=True), 64)[0]
        want = batch.looked_up(TokenLogprobs(fine, adapter))[0]
        assert off(exact, want) < 1e-4 < off(batch.looked_up(TokenLogprobs(coarse, adapter))[0], want)
    assert not TokenLogprobs(coarse, exact=True)(batch.rows).logp_K.requires_grad
    assert off(batch.looked_up(TokenLogprobs(coarse))[0], before) == 0.0
    for name, p in coarse.network.named_parameters():
        assert p.dtype == weights[name][0] and torch.equal(p, weights[name][1]), name


@pytest.mark.parametrize("kind", ["broken", "full"])
def test_an_exact_pass_that_fails_or_trains_all_weights_leaves_the_format(folder, kind):
    if kind == "full":
        model = language.load(folder, dtype="bfloat16", lora_rank=0)
        batch = batch_of(attempts(model))
        fine = language.load(folder, dtype="float32", lora_rank=0)
        assert off(batch.looked_up(TokenLogprobs(model, exact=True))[0], batch.looked_up(TokenLogprobs(fine))[0]) < 1e-4
        return
    model = language.load(folder, dtype="bfloat16")
    layer = model.network.get_input_embeddings()
    stop = layer.register_forward_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("stopped")))
    with pytest.raises(RuntimeError, match="stopped"):
        TokenLogprobs(model, exact=True)(batch_of([short(model)]).rows)
    stop.remove()
    assert layer.weight.dtype == torch.bfloat16 and not layer._forward_pre_hooks


def short(model):
    e = Episode("t", group="g")
    e.observe("seen", token_ids=model.encode("Why? "), parent=-1)
    e.act("b", token_ids=model.encode("b"), logp=[-1.0])
    e.end(terminated=True)
    return e


@pytest.mark.parametrize("minibatches", [1, 3])
@pytest.mark.parametrize("micro_tokens", [40, 8192])
@pytest.mark.parametrize("loss", [GSPO, replace(GRPO, kl=1.0)], ids=["gspo", "grpo"])
def test_the_first_pass_has_ratio_one_and_divergence_zero_whatever_the_minibatch(
    folder, loss, minibatches, micro_tokens
):
    coarse, _ = models(folder)
    batch = batch_of(attempts(coarse))
    still = torch.optim.SGD(coarse.trainable("policy"), lr=0.0)
    metrics = improve(
        loss,
        batch.fresh_until(len(batch.rows)),
        TokenLogprobs(coarse),
        still,
        epochs=1,
        minibatches=minibatches,
        micro_tokens=micro_tokens,
        generator=torch.Generator().manual_seed(3),
        reference=TokenLogprobs(coarse, None) if loss.needs_reference else None,
    )
    assert metrics["ratio_min"] == metrics["ratio_max"] == 1.0 and metrics["clip_low"] == metrics["clip_high"] == 0.0
    assert metrics["approx_kl"] == 0.0 and metrics.get("kl_ref", 0.0) == 0.0 and metrics["gap"] > 1e-3
    assert reference_kl(batch, TokenLogprobs(coarse), TokenLogprobs(coarse, None), micro_tokens=40, which=1) == 0.0


def test_pairs_are_compared_with_a_reference_that_was_judged_alike(folder):
    coarse, _ = models(folder)
    episodes = attempts(coarse, n=2)
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", np.tile([1.0, -1.0], 4))
    batch = token_batch(episodes, ledger, level="step")
    still = torch.optim.SGD(coarse.trainable("prm"), lr=0.0)
    metrics = improve(
        Preference("dpo", beta=5.0),
        batch,
        TokenLogprobs(coarse, "prm"),
        still,
        minibatches=2,
        micro_tokens=60,
        generator=torch.Generator().manual_seed(0),
        reference=TokenLogprobs(coarse, "policy"),
    )
    assert metrics["loss"] == pytest.approx(np.log(2.0), abs=1e-6) and metrics["margin"] == 0.0


def test_implicit_rewards_in_a_coarse_format_are_those_of_float32(folder):
    coarse, fine = models(folder)
    episodes = attempts(coarse)
    batch = batch_of(episodes)

    def rewards(model, *, exact, old=None):
        with torch.no_grad():
            for parameter, size in zip(model.trainable("prm"), torch.linspace(0.5, 1.5, 99), strict=False):
                parameter.copy_(tiny[parameter.shape] * size)
        judged = [batch.looked_up(TokenLogprobs(model, name, exact=exact))[0] for name in ("prm", "policy")]
        return (judged[0] - (judged[1] if old is None else old)).numpy()

    draws = torch.Generator().manual_seed(5)
    tiny = {p.shape: 2e-2 * torch.randn(p.shape, generator=draws) for p in coarse.trainable("prm")}
    want = rewards(fine, exact=False)
    assert np.abs(want).max() > 1e-3
    found, as_it_was = rewards(coarse, exact=True), rewards(coarse, exact=False, old=batch.units.old_logp)
    assert np.corrcoef(found, want)[0, 1] > 0.99 > 0.8 > np.corrcoef(as_it_was, want)[0, 1]


def test_what_is_smaller_than_rounding_is_not_scaled_up():
    def paid(size):
        es = []
        for i in range(4):
            e = Episode("t", id=str(i), group="g")
            e.act("x", token_ids=[1, 2, 3], logp=[-5.0] * 3)
            e.note("policy_logp", [-1.0] * 3)
            e.note("prm_logp", np.full(3, -1.0) + size * np.array([1.0, -1.0, 1.0]) * (-1) ** i)
            e.end(terminated=True)
            es.append(e)
        return np.abs(token_implicit.assign(es).values("token")).max()

    assert paid(0.0) == 0.0
    assert paid(1e-6) < 0.01  # what float32 leaves, a hundredth of the resolution
    assert paid(0.1) == pytest.approx(paid(0.01), rel=1e-3)  # what was learned is scaled as published
    assert paid(0.1) > 1.0
    assert np.isfinite(paid(1.0))


def run_on_nothing(name, folder, tmp_path, **more):
    (tmp_path / "task.py").write_text(NOTHING)
    module = import_module(f"evolvent.algos.{name}")
    base = {"env": f"graded:{tmp_path / 'task.py'}", "model": folder, "updates": 3, "prompts": 3, "group": 3}
    plan = Plan(dtype="bfloat16", eval_every=0, eval_tasks=2, micro_tokens=64)
    config: LanguageConfig = module.Config(**base | more, plan=plan)
    with begin(tmp_path / "run", name, config) as made, Live(plain=True) as live:
        module.run(config, made, live)
        return [row for row in made.read_metrics() if "update" in row]


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("oprl", {}),
        ("rloo", {}),
        ("rloo", {"minibatches": 2}),
        ("grpo", {}),
        ("grpo", {"minibatches": 2, "epochs": 2}),
        ("etpo", {}),
        ("flow_grpo", {}),
        ("loop", {}),
        ("gspo", {}),
        ("tgdpo", {"reward_updates": 1}),
        ("kl_cov", {}),
    ],
)
def test_where_nothing_is_ever_paid_a_coarse_policy_stays_where_it_is(name, more, folder, tmp_path):
    rows = run_on_nothing(name, folder, tmp_path, **more)
    assert len(rows) == 3
    for row in rows:
        assert row.get("grad_norm", 0.0) < 1e-6, row
        assert abs(row.get("kl_ref", 0.0)) == 0.0 and row.get("kl_attempt", 0.0) == 0.0
