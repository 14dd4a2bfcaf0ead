"""The engine: the gradient is that of the loss whatever the portions, guards hold, what it tells is right."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, ModelError
from evolvent.core.ledger import Ledger
from evolvent.learn.preference.objective import Preference
from evolvent.learn.tokens.batch import token_batch
from evolvent.learn.tokens.objective import Objective
from evolvent.learn.tokens.policy_gradient import improve
from evolvent.testing.exact import small_task

WORDS = 5


class Bigrams(nn.Module):
    """A policy whose next token depends on the last one and, through a sum, on all before."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.last = nn.Parameter(0.7 * torch.randn(WORDS, WORDS))
        self.before = nn.Parameter(0.3 * torch.randn(WORDS, WORDS))
        self.seen = []

    def __call__(self, rows):
        logp, entropy = [], []
        self.seen += [tuple(row.tokens.tolist()) for row in rows]
        for row in rows:
            ids = torch.as_tensor(np.concatenate([row.context, row.tokens]), dtype=torch.int64)
            for k in range(len(row.context), len(ids)):
                all_logp = torch.log_softmax(self.last[ids[k - 1]] + self.before[ids[:k]].mean(0), -1)
                logp.append(all_logp[ids[k]])
                entropy.append(-(all_logp.exp() * all_logp).sum())
        return SimpleNamespace(logp_K=torch.stack(logp), entropy_K=torch.stack(entropy))


def episodes_of(policy, n=6, seed=0):
    """Attempts of one to three turns and one to four tokens, recorded with the log-probabilities of ``policy``."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        ep, entropies = Episode("task", id=str(i), group=f"g{i // 2}"), []
        for _ in range(1 + i % 3):
            context, tokens = rng.integers(0, WORDS, 2), rng.integers(0, WORDS, int(rng.integers(1, 5)))
            with torch.no_grad():
                result = policy([SimpleNamespace(context=context, tokens=tokens)])
            ep.observe("seen", token_ids=context, parent=-1)
            ep.act("act", token_ids=tokens, logp=result.logp_K.numpy())
            entropies.append(result.entropy_K.numpy())
        ep.end(terminated=True)
        ep.note("entropy", np.concatenate(entropies))
        out.append(ep)
    policy.seen.clear()
    return out


def batch_of(episodes, seed=1, level="token"):
    ledger = Ledger.for_episodes(episodes)
    ledger.set(level, np.random.default_rng(seed).normal(size=ledger.size(level)))
    return token_batch(episodes, ledger, level=level)


def moved(policy, by=0.3):
    """The policy a little later, so that ratios are not 1 and clips bite."""
    later = Bigrams()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for mine, theirs in zip(later.parameters(), policy.parameters(), strict=True):
            mine.copy_(theirs + by * torch.randn(theirs.shape, generator=generator))
    return later


def step_of(objective, batch, policy, **settings):
    """The change of the parameters in one step of plain descent, and what was logged."""
    before = [p.detach().clone() for p in policy.parameters()]
    sgd = torch.optim.SGD(policy.parameters(), lr=1.0)
    metrics = improve(objective, batch, policy, sgd, grad_clip=0.0, **settings)
    change = torch.cat([(p.detach() - b).flatten() for p, b in zip(policy.parameters(), before, strict=True)])
    with torch.no_grad():
        for p, b in zip(policy.parameters(), before, strict=True):
            p.copy_(b)
    return change, metrics


OBJECTIVES = {
    "ppo": Objective(),
    "dr_grpo": Objective(aggregate="const", length=12),
    "sequence mean": Objective(aggregate="seq_mean_token_mean", entropy=0.05, kl=0.1),
    "turn ratio": Objective(ratio="turn"),
    "of turns": Objective(ratio="turn", aggregate="turn_mean", normalise="turns"),
    "trajectory ratio": Objective(ratio="trajectory", aggregate="seq_mean_token_mean"),
    "gspo": Objective(ratio="seq_geo", aggregate="seq_mean_token_mean"),
    "gspo, mostly clipped": Objective(ratio="seq_geo", clip_low=3e-4, clip_high=4e-4, entropy=0.1),
    "gmpo": Objective(surrogate="gmpo", aggregate="seq_mean_token_mean"),
    "clip_cov": Objective(keep="clip_cov", keep_share=0.2, keep_range=(0.0, 50.0)),
    "kl_cov": Objective(surrogate="is", kl_cov=0.2, entropy=0.1),
    "hapo": Objective(surrogate="adaptive", redistribute=True, dual=10.0),
    "top_entropy": Objective(keep="top_entropy", keep_share=0.3),
    "neg_seq_kl": Objective(keep="neg_seq_kl", keep_range=(0.05, 0.0)),
    "normalised": Objective(normalise="minibatch"),
    "pg": Objective(surrogate="pg", ratio="none", aggregate="seq_mean_token_sum"),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_gradient_does_not_depend_on_the_portions(name):
    acted = Bigrams()
    batch = batch_of(episodes_of(acted)).with_reference(Bigrams(seed=3))
    policy = moved(acted)

    def step(micro_tokens):
        return step_of(OBJECTIVES[name], batch, policy, micro_tokens=micro_tokens, generator=torch.Generator())

    whole, metrics = step(10_000)
    assert whole.abs().max() > 1e-4
    for size in (1, 7, 20):
        change, again = step(size)
        assert torch.allclose(change, whole, atol=2e-6)
        assert again.keys() == metrics.keys()
        assert again == pytest.approx(metrics, abs=1e-5)


def test_of_turns_each_counts_once_however_many_tokens_it_has():
    acted = Bigrams()
    batch, policy = batch_of(episodes_of(acted), level="step"), moved(acted)
    units, logp = batch.units, policy(batch.rows).logp_K
    turns = [units.row == row for row in range(len(batch.rows))]
    adv = torch.stack([units.adv[turn][0] for turn in turns])
    adv = (adv - adv.mean()) / adv.std(correction=0)
    ratio = torch.stack([(logp[turn] - units.old_logp[turn]).sum().exp() for turn in turns])
    loss = -torch.minimum(adv * ratio, adv * ratio.clamp(0.8, 1.2)).mean()  # OpenR's loss of actions
    want = torch.cat([g.flatten() for g in torch.autograd.grad(loss, [*policy.parameters()])])
    change, metrics = step_of(OBJECTIVES["of turns"], batch, policy)
    assert torch.allclose(change, -want, atol=1e-6)
    kl = float((ratio - 1 - ratio.log()).mean().detach())
    assert metrics["approx_kl"] == pytest.approx(kl, abs=1e-5)
    assert step_of(OBJECTIVES["of turns"], batch, policy, kl_stop=0.9 * kl)[1]["discarded"] == 1.0


def test_the_whole_gradient_is_that_of_the_loss():
    acted = Bigrams()
    batch, policy = batch_of(episodes_of(acted)), moved(acted)
    judged = policy(batch.rows)
    ratio = (judged.logp_K - batch.units.old_logp).exp()
    adv = batch.units.adv
    loss = -torch.minimum(ratio * adv, ratio.clamp(0.8, 1.28) * adv).mean()
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(policy.parameters()))])
    change, metrics = step_of(Objective(clip_high=0.28), batch, policy, micro_tokens=5)
    assert torch.allclose(change, -gradient, atol=1e-6)
    assert metrics["loss"] == pytest.approx(float(loss.detach()), abs=1e-6)
    assert metrics["grad_norm"] == pytest.approx(float(gradient.norm()), rel=1e-4)
    with torch.no_grad():
        assert metrics["ratio_mean"] == pytest.approx(float(ratio.mean()), abs=1e-5)
        assert metrics["ratio_max"] == pytest.approx(float(ratio.max()), abs=1e-5)
        assert metrics["clip_high"] == pytest.approx(float(((ratio > 1.28) & (adv > 0)).float().mean()))
        assert metrics["clip_low"] == pytest.approx(float(((ratio < 0.8) & (adv < 0)).float().mean()))
        assert metrics["approx_kl"] == pytest.approx(float((ratio - 1 - ratio.log()).mean()), abs=1e-5)
        assert metrics["ess"] == pytest.approx(float(ratio.sum() ** 2 / (ratio**2).sum()) / len(ratio), abs=1e-5)
        assert metrics["entropy"] == pytest.approx(float(judged.entropy_K.mean()), abs=1e-5)
        assert metrics["gap"] == pytest.approx(float(ratio.log().abs().max()), abs=1e-5)
    assert metrics["tokens"] == len(adv) and metrics["updates"] == 1 and metrics["untrained"] == 0


class Choices(nn.Module):
    """The policy of the enumerated small task: log-odds at each choice point; token ``2 d + option``."""

    def __init__(self, task):
        super().__init__()
        self.logit = nn.Parameter(torch.tensor(task.logit_D))

    def __call__(self, rows):
        token = torch.as_tensor(np.concatenate([row.tokens for row in rows]), dtype=torch.int64)
        logp = torch.nn.functional.logsigmoid(self.logit[token // 2] * (2.0 * (token % 2) - 1.0))
        return SimpleNamespace(logp_K=logp, entropy_K=-logp)


@pytest.mark.parametrize(
    ("ratio", "aggregate"),
    # a unit of a long segment carries the ratio of the whole, so averaging over the segment counts it once
    [("none", "seq_mean_token_sum"), ("token", "seq_mean_token_sum"), ("trajectory", "seq_mean_token_mean")],
)
def test_from_ledger_to_parameters_it_is_the_true_policy_gradient(ratio, aggregate):
    task = small_task(0)
    episodes = [task.episode(n, group="g", id=str(n)) for n in range(len(task.paths))]
    # every trajectory once, with its probability in the credit, is the expectation over what could be sampled
    ledger = Ledger.for_episodes(episodes)
    returns = np.array([e.total_reward for e in episodes])
    ledger.set("step", (task.probability_N * returns * len(episodes))[ledger.episode_index("step")])
    objective = Objective(surrogate="pg" if ratio == "none" else "is", ratio=ratio, aggregate=aggregate)
    batch = token_batch(episodes, ledger, level="step")
    change, metrics = step_of(objective, batch, Choices(task), micro_tokens=9)
    assert change.numpy() == pytest.approx(task.true_gradient_D, abs=1e-6)
    assert metrics["gap"] < 1e-6


def test_rows_without_advantage_are_not_judged_and_nothing_changes():
    acted = Bigrams()
    episodes = episodes_of(acted)
    ledger = Ledger.for_episodes(episodes)
    credit = np.zeros(ledger.size("step"))
    credit[:2] = [1.0, -1.0]
    ledger.set("step", credit)
    batch, policy = token_batch(episodes, ledger, level="step"), moved(acted)
    batch = batch.with_reference(Bigrams(seed=3))
    policy.seen.clear()
    change, metrics = step_of(Objective(), batch, policy)
    assert len(policy.seen) == 2 < len(batch.rows)
    assert metrics["zero_advantage"] == pytest.approx(float((batch.units.adv == 0).float().mean())) != 0
    # the same as with everything judged, which an entropy of no weight to speak of asks for
    policy.seen.clear()
    full, _ = step_of(Objective(entropy=1e-12), batch, policy)
    assert len(policy.seen) == len(batch.rows)
    assert torch.allclose(change, full, atol=1e-7)
    # a long ratio needs its whole trajectory: the first two episodes have 1 and 2 decisions
    policy.seen.clear()
    step_of(Objective(ratio="trajectory"), batch, policy)
    assert len(policy.seen) == 3
    policy.seen.clear()
    step_of(Objective(kl=0.1), batch, policy)
    assert len(policy.seen) == len(batch.rows)


def test_a_step_that_has_moved_too_far_is_discarded():
    acted = Bigrams()
    batch = batch_of(episodes_of(acted))
    policy = moved(acted)
    for micro_tokens in (1, 10_000):
        for objective in (Objective(), Objective(ratio="seq_geo")):
            change, metrics = step_of(objective, batch, policy, kl_stop=1e-3, micro_tokens=micro_tokens)
            assert change.abs().max() == 0.0
            assert metrics["discarded"] == 1 and metrics["updates"] == 0 and "grad_norm" not in metrics
            assert metrics["approx_kl"] > 1e-3
    change, metrics = step_of(Objective(), batch, acted, kl_stop=1e-3)
    assert change.abs().max() > 0.0 and metrics["updates"] == 1 and metrics["gap"] < 1e-5
    # later passes are measured against the policy that sampled
    far = step_of(Objective(), batch, acted, kl_stop=1e-4, epochs=4)[1]
    assert far["updates"] == 1 and far["discarded"] == 3 and far["gap"] < 1e-5


def test_nothing_to_learn_moves_nothing():
    policy = Bigrams()
    episodes = episodes_of(policy)
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", 0.0)
    batch = token_batch(episodes, ledger, level="step")
    adam = torch.optim.Adam(policy.parameters(), lr=0.1)
    improve(Objective(), batch_of(episodes), policy, adam)  # gives Adam a momentum
    before = [p.detach().clone() for p in policy.parameters()]
    metrics = improve(Objective(), batch, policy, adam)
    assert all(torch.equal(p, b) for p, b in zip(policy.parameters(), before, strict=True))
    assert metrics["empty"] == 1 and metrics["updates"] == 0 and metrics["zero_advantage"] == 1.0
    assert all(math.isfinite(value) for value in metrics.values())


def test_a_broken_judge_is_an_error_before_the_step():
    acted = Bigrams()
    batch = batch_of(episodes_of(acted))
    before = acted.last.detach().clone()

    def broken(rows):
        result = acted(rows)
        return SimpleNamespace(logp_K=result.logp_K * math.nan, entropy_K=result.entropy_K)

    sgd = torch.optim.SGD(acted.parameters(), lr=1.0)
    with pytest.raises(ModelError, match="not finite"):
        improve(Objective(), batch, broken, sgd)

    def steep(rows):  # a finite loss whose gradient is not
        result = acted(rows)
        return SimpleNamespace(logp_K=result.logp_K + (acted.last * 0.0).abs().sqrt().sum(), entropy_K=result.entropy_K)

    with pytest.raises(ModelError, match="gradient is not finite"):
        improve(Objective(), batch, steep, sgd)
    assert torch.equal(acted.last, before)


def test_bad_settings():
    policy = Bigrams()
    episodes = episodes_of(policy)
    nothing = token_batch(episodes, Ledger.for_episodes(episodes), level="step")
    sgd = torch.optim.SGD(policy.parameters(), lr=1.0)
    with pytest.raises(BadInput, match="nothing to train on"):
        improve(Objective(), nothing, policy, sgd)
    with pytest.raises(BadInput, match="at least 1"):
        improve(Objective(), batch_of(episodes), policy, sgd, epochs=0)


def test_minibatches_keep_trajectories_whole():
    policy = Bigrams()
    batch = batch_of(episodes_of(policy, n=7))
    parts = []

    class Watching(Objective):
        def prepare(self, units):
            parts.append(sorted(set(units.trajectory.tolist())))
            return super().prepare(units)

    def order(seed, n=3):
        parts.clear()
        metrics = step_of(Watching(), batch, policy, minibatches=n, generator=torch.Generator().manual_seed(seed))[1]
        return [tuple(part) for part in parts], metrics

    first, metrics = order(0)
    assert sorted(i for part in first for i in part) == list(range(7))
    assert sorted(len(part) for part in first) == [2, 2, 3] and metrics["updates"] == 3
    assert order(0)[0] == first != order(1)[0]
    assert len(order(0, n=50)[0]) == 7


def test_gradient_clip():
    acted = Bigrams()
    batch = batch_of(episodes_of(acted))
    sgd = torch.optim.SGD(acted.parameters(), lr=1.0)
    before = [p.detach().clone() for p in acted.parameters()]
    metrics = improve(Objective(), batch, acted, sgd, grad_clip=0.01)
    size = sum(float(((p - b) ** 2).sum().detach()) for p, b in zip(acted.parameters(), before, strict=True)) ** 0.5
    assert metrics["grad_norm"] > 0.01 and size == pytest.approx(0.01, rel=1e-3)


def test_unknown_log_probabilities_are_no_gap():
    policy = Bigrams()
    ep = Episode("task")
    ep.observe("seen", token_ids=[1], parent=-1)
    ep.act("act", token_ids=[2, 3])
    ep.end(terminated=True)
    ledger = Ledger.for_episodes([ep])
    ledger.set("step", 1.0)
    batch = token_batch([ep], ledger, level="step")
    metrics = step_of(Objective(surrogate="pg", ratio="none"), batch, policy)[1]
    assert "gap" not in metrics and all(math.isfinite(value) for value in metrics.values())
    with pytest.raises(BadInput, match="as sampled"):
        step_of(Objective(), batch, policy)
    assert step_of(Objective(), batch.with_old(policy), policy)[1]["gap"] == 0.0


@pytest.mark.parametrize("kind", ["dpo", "ipo", "robust", "sppo", "kto"])
def test_preferences_are_learned_in_any_portions(kind):
    policy = Bigrams()
    episodes = episodes_of(policy)  # three groups of two
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", np.array([1.0, -1.0] * 3)[ledger.episode_index("step")] * (0.5 if kind == "sppo" else 1.0))
    batch = token_batch(episodes, ledger, level="step").with_reference(policy)
    rule = Preference(kind, flipped=0.1 if kind == "robust" else 0.0)
    later = moved(policy, by=0.1)
    whole = step_of(rule, batch, later)[0]
    assert torch.allclose(step_of(rule, batch, later, micro_tokens=4)[0], whole, atol=1e-5)
    adam = torch.optim.Adam(policy.parameters(), lr=0.02)
    start = improve(rule, batch, policy, adam)
    end = improve(rule, batch, policy, adam, epochs=20, minibatches=3, generator=torch.Generator())
    assert start["margin"] == pytest.approx(0.0, abs=1e-5)
    final = step_of(rule, batch, policy)[1]
    assert final["margin"] > 0.1 and final["loss"] < start["loss"] and final["accuracy"] > 0.6
    assert end["updates"] == 60


def test_whole_actions():
    """Which of two actions to take, judged as a whole: the credit of the better one makes it likelier."""
    preferred = nn.Parameter(torch.zeros(2))

    def judge(rows):
        taken = [[c.tolist() for c in row.choices].index(row.tokens.tolist()) for row in rows]
        logp = torch.log_softmax(preferred, -1)
        return SimpleNamespace(logp_K=logp[taken], entropy_K=-(logp.exp() * logp).sum().expand(len(rows)))

    episodes = []
    for k in (0, 1):
        ep, choices = Episode("task", id=str(k)), [[1, 2, 3], [4]]
        ep.observe("seen", token_ids=[0], parent=-1)
        ep.act("act", token_ids=choices[k], logp=[-1.0] * len(choices[k]), choices=choices)
        ep.end(terminated=True)
        ep.note("action_logp", [math.log(0.5)] * len(choices[k]))
        episodes.append(ep)
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", [1.0, -1.0])
    batch = token_batch(episodes, ledger, level="step", unit="action")
    metrics = improve(Objective(), batch, judge, torch.optim.SGD([preferred], lr=1.0), grad_clip=0.0)
    assert metrics["gap"] < 1e-6 and metrics["entropy"] == pytest.approx(math.log(2))
    # d/dz of mean(-r A) at r = 1: both actions push the same way, (1 - p) / 2 each
    assert preferred.tolist() == pytest.approx([0.5, -0.5])
