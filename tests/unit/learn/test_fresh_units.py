"""Where sampling and training round differently, what the policy has just sampled does not look as if it had moved."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.learn.tokens.batch import token_batch
from evolvent.learn.tokens.imitation import WithReplay
from evolvent.learn.tokens.objective import Objective
from evolvent.learn.tokens.policy_gradient import improve, reference_kl

WORDS, N = 5, 6
OFF = 0.05
GSPO = Objective(ratio="seq_geo", clip_low=3e-4, clip_high=4e-4)
TOKEN = Objective(clip_low=0.02, clip_high=0.02)


class Table(nn.Module):
    """A policy whose next token depends on the last one."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.last = nn.Parameter(0.7 * torch.randn(WORDS, WORDS))

    def __call__(self, rows):
        logp, entropy = [], []
        for row in rows:
            ids = torch.as_tensor(np.concatenate([row.context, row.tokens]), dtype=torch.int64)
            all_logp = torch.log_softmax(self.last[ids[len(row.context) - 1 : -1]], -1)
            logp.append(all_logp.gather(-1, ids[len(row.context) :, None])[:, 0])
            entropy.append(-(all_logp.exp() * all_logp).sum(-1))
        return SimpleNamespace(logp_K=torch.cat(logp), entropy_K=torch.cat(entropy))


def batches(policy: Table):
    """Attempts of one or two turns as they were sampled, exactly and with the errors of another arithmetic."""
    draws, episodes = np.random.default_rng(0), []
    for i in range(N):
        episode = Episode("task", id=str(i), group=f"g{i // 2}")
        for _ in range(1 + i % 2):
            context, tokens = draws.integers(0, WORDS, 2), draws.integers(0, WORDS, 3)
            with torch.no_grad():
                result = policy([SimpleNamespace(context=context, tokens=tokens)])
            episode.observe("seen", token_ids=context, parent=-1)
            episode.act("act", token_ids=tokens, logp=result.logp_K.numpy())
        episode.end(terminated=True)
        episodes.append(episode)
    ledger = Ledger.for_episodes(episodes)
    ledger.set("token", draws.normal(size=sum(e.n_tokens for e in episodes)))
    exact = token_batch(episodes, ledger, level="token")
    off = torch.as_tensor(draws.uniform(-OFF, OFF, len(exact.units)), dtype=torch.float32)
    return exact, replace(exact, units=replace(exact.units, old_logp=exact.units.old_logp + off)), off


def learned(objective, batch, **settings):
    policy = Table()
    sgd = torch.optim.SGD(policy.parameters(), lr=1.0)
    metrics = improve(objective, batch, policy, sgd, generator=torch.Generator().manual_seed(0), **settings)
    return policy.last.detach(), metrics


@pytest.mark.parametrize("objective", [GSPO, TOKEN], ids=["gspo", "token"])
@pytest.mark.parametrize("size", [5, 8192], ids=["portions", "whole"])
@pytest.mark.parametrize("steps", [(1, 1), (2, 1), (2, 2)], ids=str)
def test_fresh_units_learn_as_if_nothing_were_rounded(objective, size, steps):
    exact, rounded, off = batches(Table())
    settings = {"micro_tokens": size, "epochs": steps[0], "minibatches": steps[1]}
    want, clean = learned(objective, exact, **settings)
    found, metrics = learned(objective, rounded.fresh_until(N), **settings)
    torch.testing.assert_close(found, want, rtol=0, atol=2e-6)
    for name in ("ratio_mean", "ratio_max", "clip_low", "clip_high", "approx_kl", "loss"):
        assert metrics[name] == pytest.approx(clean[name], abs=2e-5), name
    assert metrics["gap"] == pytest.approx(float(off.abs().max()), abs=1e-5)


def test_without_the_mark_rounding_clips_and_stops():
    _, rounded, _ = batches(Table())
    metrics = learned(GSPO, rounded)[1]
    assert metrics["clip_low"] + metrics["clip_high"] > 0.2 and metrics["approx_kl"] > 1e-4
    assert learned(TOKEN, rounded, kl_stop=1e-4)[1]["discarded"] == 1.0
    assert learned(TOKEN, rounded.fresh_until(N), kl_stop=1e-4)[1]["discarded"] == 0.0


def test_what_an_older_policy_sampled_keeps_its_ratio():
    _, rounded, off = batches(Table())
    for objective in (TOKEN, WithReplay(TOKEN, TOKEN, 4, 1.0)):
        metrics = learned(objective, rounded.fresh_until(4))[1]
        old = rounded.units.trajectory >= 4
        want = torch.exp(-off[old]) - 1.0 + off[old]
        assert metrics["approx_kl"] == pytest.approx(float(want.sum()) / len(old), abs=1e-6)
        assert metrics["ratio_max"] == pytest.approx(float(torch.exp(-off[old]).max()), abs=1e-5)


def test_divergence_from_a_reference_on_a_portion_of_the_rows():
    exact, _, _ = batches(Table())
    same = reference_kl(exact, Table(), Table(), micro_tokens=8192, which=3)
    other = [reference_kl(exact, Table(), Table(seed=1), micro_tokens=8, which=i) for i in range(20)]
    assert same == 0.0 and min(other) >= 0.0
    assert len(set(other)) > 2, "portions have their turn"
    found = exact.with_reference(Table(seed=1)).units
    away = found.ref_logp - found.old_logp
    whole = reference_kl(exact, Table(), Table(seed=1), micro_tokens=8192, which=0)
    assert whole == pytest.approx(float((away.exp() - 1 - away).mean()), rel=1e-5)
