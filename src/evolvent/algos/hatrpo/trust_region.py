"""Natural-gradient steps inside a trust region: Fisher products, conjugate gradient, line search on the true KL.

Source: Schulman et al. 2015 (TRPO, arXiv 1502.05477, appendix C), as HATRPO uses it for one agent after another
(Kuba et al. 2022, arXiv 2109.11251). The caller gives two functions of the *current* parameters: the surrogate to be
raised and the mean KL divergence from the policy that acted. Its Hessian where both policies agree is the Fisher
matrix, so one function serves the step's direction and its acceptance.

Different from released code: the graph of the gradient of the KL is made once and used by all products (there the
policy runs twice for each), and parameters that nothing depends on get a gradient of zero instead of being left out,
which shifted every number behind them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Step(NamedTuple):
    """What a trust-region step did; all figures but ``expected`` are 0 where it was not accepted."""

    accepted: bool
    kl: float
    """Mean KL of the accepted policy from the old one, nats; at most ``delta``."""
    improvement: float
    """Gain of the surrogate."""
    expected: float
    """Gain that its gradient promised for the full step."""
    fraction: float
    """Share of the full step that was taken."""


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """All numbers of ``tensors`` in one vector ``[n]``, in order."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


@torch.no_grad()
def put(params: Sequence[Tensor], flat: Tensor) -> None:
    """Write a vector made by ``flatten`` back into ``params``, in place."""
    at = 0
    for param in params:
        param.copy_(flat[at : at + param.numel()].view_as(param))
        at += param.numel()


def flat_gradient(
    output: Tensor, params: Sequence[Tensor], *, create_graph: bool = False, retain_graph: bool = False
) -> Tensor:
    """Gradient of a scalar ``[n]``; 0 for parameters it does not depend on."""
    grads = torch.autograd.grad(
        output,
        list(params),
        create_graph=create_graph,
        retain_graph=retain_graph or create_graph,
        materialize_grads=True,
    )
    return flatten(grads)


def fisher_product(kl: Tensor, params: Sequence[Tensor], damping: float = 0.1) -> Callable[[Tensor], Tensor]:
    """``v -> (H + damping I) v`` with H the Hessian of ``kl`` with respect to ``params``.

    Args:
        kl: mean KL from the fixed old policy, evaluated at its own parameters, graph attached.
        params: n numbers in all.
        damping: added to the diagonal; keeps the step finite where the policy does not depend on a parameter.

    The products read the graph of ``kl``: use them before the parameters change.
    """
    slope = flat_gradient(kl, params, create_graph=True)

    def product(v: Tensor) -> Tensor:
        if not slope.requires_grad:  # the policy depends on nothing here: its Hessian is 0
            return damping * v
        return flat_gradient(slope @ v, params, retain_graph=True) + damping * v

    return product


@torch.no_grad()
def conjugate_gradient(
    product: Callable[[Tensor], Tensor], b: Tensor, *, iterations: int = 10, tolerance: float = 1e-10
) -> Tensor:
    """Solve ``M x = b`` for a symmetric positive definite M given by its products; ``[n]``.

    Stops after ``iterations`` or when the squared residual is below ``tolerance``.
    """
    x, residual, direction = torch.zeros_like(b), b.clone(), b.clone()
    size = residual @ residual
    for _ in range(iterations):
        if size < tolerance:
            break
        with torch.enable_grad():
            image = product(direction)
        step = size / (direction @ image)
        x += step * direction
        residual -= step * image
        before, size = size, residual @ residual
        direction = residual + (size / before) * direction
    return x


def trust_region_step(
    params: Sequence[Tensor],
    surrogate: Callable[[], Tensor],
    kl: Callable[[], Tensor],
    *,
    delta: float = 0.01,
    damping: float = 0.1,
    accept_ratio: float = 0.5,
    backtracks: tuple[int, float] = (10, 0.8),
) -> Step:
    """Move ``params`` along the natural gradient as far as the line search allows, or leave them as they were.

    Accepted is the first try with KL <= ``delta``, a gain, and at least ``accept_ratio`` of the gain that the gradient
    promises for it. So after an accepted step the true KL holds the bound, whatever the quadratic model said.

    Args:
        params: what to move.
        surrogate: scalar to raise, at the current parameters.
        kl: mean KL from the fixed old policy, at the current parameters; 0 with slope 0 now.
        delta: bound of the KL, nats.
        damping: of the Fisher matrix; used in the length of the step too, which shortens it.
        accept_ratio: share of the promised gain.
        backtracks: number of tries, and the factor between them.
    """
    start = flatten([param.detach() for param in params]).clone()
    before = surrogate()
    slope = flat_gradient(before, params).detach()
    product = fisher_product(kl(), params, damping)
    direction = conjugate_gradient(product, slope)
    curvature = float(direction @ product(direction).detach())
    if not (math.isfinite(curvature) and curvature > 0.0):  # no slope at all, or one that is not a number
        return Step(False, 0.0, 0.0, 0.0, 0.0)
    full = direction * math.sqrt(2.0 * delta / curvature)
    expected, base = float(slope @ full), float(before.detach())
    tries, factor = backtracks
    for attempt in range(tries):
        fraction = factor**attempt
        put(params, start + fraction * full)
        with torch.no_grad():
            gain, distance = float(surrogate()) - base, float(kl())
        if distance <= delta and gain > 0.0 and gain > accept_ratio * fraction * expected:
            return Step(True, distance, gain, expected, fraction)
    put(params, start)
    return Step(False, 0.0, 0.0, expected, 0.0)
