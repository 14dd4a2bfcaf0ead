"""Trust-region steps: the solver solves, the product is the Hessian of the KL, the accepted step keeps its bound."""

import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Independent, Normal, kl_divergence

from evolvent.algos.hatrpo.trust_region import (
    conjugate_gradient,
    fisher_product,
    flat_gradient,
    flatten,
    put,
    trust_region_step,
)

torch.set_num_threads(1)


def test_conjugate_gradient_solves_a_known_system():
    torch.manual_seed(0)
    root = torch.randn(8, 8, dtype=torch.float64)
    matrix, want = root @ root.T + torch.eye(8), torch.arange(8.0, dtype=torch.float64)
    found = conjugate_gradient(lambda v: matrix @ v, matrix @ want, iterations=20, tolerance=1e-20)
    torch.testing.assert_close(found, want, rtol=1e-8, atol=1e-8)
    assert conjugate_gradient(lambda v: matrix @ v, torch.zeros(8, dtype=torch.float64)).tolist() == [0.0] * 8


class Policy(nn.Module):
    """Two layers, and a parameter that nothing depends on, in front of those that matter."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.unused = nn.Parameter(torch.ones(5, dtype=torch.float64))
        self.kind, self.net = kind, nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4)).double()
        self.log_sd = nn.Parameter(torch.zeros(4, dtype=torch.float64)) if kind == "continuous" else None

    def forward(self, obs):
        out = self.net(obs)
        if self.log_sd is None:
            return Categorical(logits=out)
        return Independent(Normal(out, self.log_sd.exp()), 1)


def setting(kind):
    policy, gen = Policy(kind), torch.Generator().manual_seed(2)
    obs = torch.randn(64, 3, generator=gen, dtype=torch.float64)
    adv = torch.randn(64, generator=gen, dtype=torch.float64)
    with torch.no_grad():
        old = policy(obs)
        action = old.sample()
        logp = old.log_prob(action)

    def surrogate():
        return ((policy(obs).log_prob(action) - logp).exp() * adv).mean()

    def kl():
        return kl_divergence(old, policy(obs)).mean()

    return policy, list(policy.parameters()), surrogate, kl


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_the_fisher_product_is_the_hessian_of_the_kl(kind):
    _, params, _, kl = setting(kind)
    product, start = fisher_product(kl(), params, damping=0.0), flatten([p.detach() for p in params])
    v = torch.randn(len(start), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    made = product(v)
    torch.testing.assert_close(fisher_product(kl(), params, damping=0.1)(v), made + 0.1 * v)
    h = 1e-5
    slopes = []
    for sign in (1, -1):
        put(params, start + sign * h * v)
        slopes.append(flat_gradient(kl(), params))
    put(params, start)
    torch.testing.assert_close(made, (slopes[0] - slopes[1]) / (2 * h), rtol=1e-6, atol=1e-7)
    assert made[:5].tolist() == [0.0] * 5  # the unused ones come first, and nothing is shifted


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
@pytest.mark.parametrize("delta", [0.001, 0.01, 0.5])
def test_an_accepted_step_keeps_the_true_kl_within_delta_and_raises_the_surrogate(kind, delta):
    policy, params, surrogate, kl = setting(kind)
    before, unused = surrogate().item(), policy.unused.detach().clone()
    step = trust_region_step(params, surrogate, kl, delta=delta)
    assert step.accepted
    assert 0.2 * delta < kl().item() <= delta
    assert step.kl == kl().item()
    assert surrogate().item() - before == pytest.approx(step.improvement)
    assert step.improvement > 0.5 * step.fraction * step.expected > 0
    assert torch.equal(policy.unused, unused)


def test_what_cannot_be_accepted_changes_nothing():
    policy, params, surrogate, kl = setting("discrete")
    start = flatten([p.detach() for p in params]).clone()
    refused = trust_region_step(params, surrogate, kl, accept_ratio=1e9)
    assert not refused.accepted
    assert refused.expected > 0
    flat = trust_region_step(params, lambda: surrogate() * 0.0, kl)
    nan = trust_region_step(params, lambda: surrogate() * float("nan"), kl)
    assert not flat.accepted
    assert not nan.accepted
    assert torch.equal(flatten(list(policy.parameters())), start)
