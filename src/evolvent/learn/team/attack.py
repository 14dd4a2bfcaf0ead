"""An adversary that knows the networks: projected gradient steps within an L-infinity ball around the truth.

    observations, "critic"   s~ = argmin Q(s, pi(s~)), or argmin V(s~) where the critic does not judge actions
    observations, "policy"   s~ = argmax |pi(s~) - pi(s)|^2      (maximal action difference)
    actions                  a~ = argmin Q(s, a~)

Zhang et al. 2020, Robust Deep Reinforcement Learning against Adversarial Perturbations on State Observations (arXiv
2003.08938), sections 3.5 and 4; steps of size 2 radius / ``STEPS`` along the gradient's sign, from a start within the
ball that is always the same. It sees what the policy sees, without the noise of other sources.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from evolvent.core.errors import BadInput
from evolvent.core.team import Frame
from evolvent.learn.team.batch import View
from evolvent.learn.team.views import Views
from evolvent.models.team.actors import Actors, Critic

STEPS = 5


class GradientAttack:
    """See the module.

    Args:
        views: what the policy is shown.
        action: of a view: means of the numbers, or probabilities of the choices, with gradients.
        value: V of a view ``[B, A]``.
        worth: Q of a view and numbers ``[B, A, dims]``: ``[B, A]``; goes before ``value``.
    """

    def __init__(
        self,
        views: Views,
        action: Callable[[View], Tensor],
        value: Callable[[View], Tensor] | None = None,
        worth: Callable[[View, Tensor], Tensor] | None = None,
    ) -> None:
        self._views, self._action, self._value, self._worth = views, action, value, worth

    def on_obs(self, frame: Frame, radius: float, by: str) -> np.ndarray:
        """What is to be seen instead ``[B, A, D]``; ``by`` is "critic" or "policy"."""
        look, truth = self._look(frame)
        with torch.no_grad():
            nominal = look(truth)
            done = self._action(nominal)

        def harm(x: Tensor) -> Tensor:
            seen = look(truth + x)
            if by == "policy":
                return (self._action(seen) - done).square().sum()
            if self._worth is not None:
                return -self._worth(nominal, self._action(seen)).sum()
            assert self._value is not None
            return -self._value(seen).sum()

        return _ascend(harm, truth, radius)

    def on_action(self, frame: Frame, action: np.ndarray, radius: float, by: str) -> np.ndarray:
        """What is to be done instead ``[B, A, dims]``.

        Raises:
            BadInput: the critic does not judge actions.
        """
        worth = self._worth
        if worth is None:
            expected, do = "a critic of actions", "evaluate a run of ddpg"
            raise BadInput("a critic that does not judge actions", expected=expected, where="action=adversary", do=do)
        look, truth = self._look(frame)
        view, done = look(truth), torch.from_numpy(np.float32(action)).to(truth.device)
        return _ascend(lambda x: -worth(view, (done + x).clamp(-1.0, 1.0)).sum(), done, radius)

    def _look(self, frame: Frame) -> tuple[Callable[[Tensor], View], Tensor]:
        views, obs_BAD = self._views, frame.obs_BAD.copy()
        truth = torch.from_numpy(obs_BAD).to(views.device)
        state = views.state(obs_BAD, frame.state_BS).to(views.device)
        available = views.available(frame.available_BAN, len(obs_BAD))
        return lambda obs: views.shown(obs, state, available, None), truth


def actors_attack(views: Views, actors: Actors, critic: Critic) -> GradientAttack:
    """The adversary of actors and a critic of what each of them sees."""

    def action(view: View) -> Tensor:
        look = actors.outlook(view.obs, available_BAN=view.available)
        parts = (None if look.logp is None else look.logp.exp(), look.mean)
        return torch.cat([part for part in parts if part is not None], dim=-1)

    return GradientAttack(views, action, lambda view: critic(view.obs))


class LearnedAttack:
    """An adversary that was learned: by "critic" what its networks say, by "policy" as ``known``."""

    def __init__(self, known: GradientAttack, actors: Actors) -> None:
        self._known, self._actors = known, actors

    def on_obs(self, frame: Frame, radius: float, by: str) -> np.ndarray:
        """As of ``GradientAttack``."""
        if by == "policy":
            return self._known.on_obs(frame, radius, by)
        seen = torch.from_numpy(frame.obs_BAD).to(next(self._actors.parameters()).device)
        x, _ = self._actors.act(seen, greedy=True)
        return (seen + radius * x.clamp(-1.0, 1.0)).cpu().numpy()

    def on_action(self, frame: Frame, action: np.ndarray, radius: float, by: str) -> np.ndarray:
        """As of ``GradientAttack``."""
        return self._known.on_action(frame, action, radius, by)


def _ascend(harm: Callable[[Tensor], Tensor], truth: Tensor, radius: float) -> np.ndarray:
    """``truth + x`` for an x in the ball that does much harm."""
    start = torch.Generator(truth.device).manual_seed(0)  # where x is 0 the policy's difference has no gradient
    x = radius * (2 * torch.rand(truth.shape, generator=start, device=truth.device) - 1)
    with torch.enable_grad():
        for _ in range(STEPS):
            x.requires_grad_()
            [grad] = torch.autograd.grad(harm(x), [x])
            x = (x.detach() + 2 * radius / STEPS * grad.sign()).clamp(-radius, radius)
    return (truth + x).cpu().numpy()
