"""Acting with what came before: the last steps of each agent in each copy, seen by a sequence model token by token.

    context = Context(net, length, target)
    out = context.see(obs_RD)            # R rows, one an agent and copy: what the backbone says at what is seen now
    context.act(action_R)                # what was done there
    context.gain(reward_R, done_R)       # what came of it; rows that ended start over

What the backbone made of earlier tokens is kept, so a step costs its own three tokens. When a row holds ``length``
steps, the older half is let go and the rest read again: a model that learned from windows of ``length`` steps is never
shown more of them, and its words are those that it would say of exactly these steps. ``Wishing`` is a policy on it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent.core.team import Frame
from evolvent.learn.sequence.imitation import choose
from evolvent.learn.team.batch import View
from evolvent.models.sequence.steps import StepNet


class Context:
    """See the module; ``net`` has the tokens (togo, obs, action), ``target`` is the return that is wished for."""

    def __init__(self, net: StepNet, length: int, target: float, rows: int) -> None:
        self.net, self.length, self.target = net, length, target
        device = net.scale.device
        self.kept = net.backbone.start(rows, len(net.order) * length)
        self.all = torch.arange(rows, device=device)
        self.step, self.count = torch.zeros_like(self.all), torch.zeros_like(self.all)
        self.togo = torch.full((rows,), target, device=device)
        self._steps = torch.zeros(rows, length, dtype=torch.int64, device=device)
        self._togos = torch.zeros(rows, length, device=device)
        self._obs = torch.zeros(rows, length, net.inputs, device=device)
        kind = torch.int64 if net.choices else torch.float32
        self._actions = torch.zeros(rows, length, *net.action_shape, dtype=kind, device=device)

    @torch.no_grad()
    def see(self, obs_RD: Tensor) -> Tensor:
        """What the backbone says at what each row sees now, ``[R, width]``."""
        full = (self.count == self.length).nonzero().squeeze(1)
        if len(full):
            self._let_go(full)
        for column, now in ((self._steps, self.step), (self._togos, self.togo), (self._obs, obs_RD)):
            column[self.all, self.count] = now
        tokens = [self.net.token("togo", self.togo, self.step), self.net.token("obs", obs_RD, self.step)]
        return self.net.backbone.step(torch.stack(tokens, 1), self.kept, self.all)[:, -1]

    @torch.no_grad()
    def act(self, action_R: Tensor) -> None:
        """What each row does now."""
        self._actions[self.all, self.count] = action_R
        self.net.backbone.step(self.net.token("action", action_R, self.step)[:, None], self.kept, self.all)
        self.step += 1
        self.count += 1

    def gain(self, reward_R: Tensor, done_R: Tensor) -> None:
        """What came of it, and which rows (bool) start over."""
        self.togo -= reward_R
        over = done_R.nonzero().squeeze(1)
        if len(over):
            self.step[over], self.count[over], self.togo[over] = 0, 0, self.target
            self.kept.forget(over)

    def _let_go(self, rows: Tensor) -> None:
        stay = self.length // 2
        for column in (self._steps, self._togos, self._obs, self._actions):
            column[rows, :stay] = column[rows, self.length - stay :]
        self.count[rows] = stay
        self.kept.forget(rows)
        if stay:
            past = [column[rows, :stay] for column in (self._togos, self._obs, self._actions)]
            given = dict(zip(("togo", "obs", "action"), past, strict=True))
            tokens = [self.net.token(name, given[name], self._steps[rows, :stay]) for name in self.net.order]
            self.net.backbone.step(torch.stack(tokens, 2).flatten(1, 2), self.kept, rows)


class Wishing:
    """A policy that goes by the return that is wished for; without a ``target``, by the one in the weights.

    Every agent of every copy is a row of its own; numbers are taken as they are said, sampled or not.
    """

    def __init__(self, net: StepNet, length: int, target: float | None = None) -> None:
        self.net, self.length, self.target = net, length, target
        self._context: Context | None = None

    def begin(self) -> None:
        """See ``Remembering``."""
        self._context = None

    def follow(self, frame: Frame) -> None:
        """See ``Remembering``."""
        if self._context is not None:
            done_BA = torch.from_numpy(frame.done_B)[:, None].expand(frame.reward_BA.shape)
            device = self._context.togo.device
            self._context.gain(torch.from_numpy(frame.reward_BA).flatten().to(device), done_BA.flatten().to(device))

    def __call__(self, view: View, greedy: bool, generator: torch.Generator) -> Tensor:
        """See ``Act``."""
        obs = view.obs.flatten(0, 1)
        if self._context is None:
            self.net.eval()
            target = float(self.net.target) if self.target is None else self.target
            self._context = Context(self.net, self.length, target, len(obs))
        said = self.net.says(self._context.see(obs)).unflatten(0, view.obs.shape[:2])
        action = choose(said, view.available, greedy, generator) if self.net.choices else said
        self._context.act(action.flatten(0, 1))
        return action
