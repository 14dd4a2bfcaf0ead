"""The policy of MADT, and acting with it: windows of the last steps of each agent, read as a whole at every step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from evolvent.core.team import Frame, TeamSpec
from evolvent.learn.sequence.windows import Window, Windows
from evolvent.learn.team.batch import View
from evolvent.models.sequence.steps import StepNet, Token
from evolvent.models.sequence.transformer import Transformer
from evolvent.models.team.action_heads import ActionHead, sigma_of

HEADS = 2


class Read(NamedTuple):
    """What the network reads: columns ``[..., K, ...]``, of which the first ``count`` (``[...]``) rows are steps.

    ``before`` is the action of the step before; the number of choices, or zeros, where there was none.
    """

    togo: Tensor
    obs: Tensor
    before: Tensor
    step: Tensor
    count: Tensor

    def flat(self) -> Read:
        """Rows of any number of leading axes as rows of one."""
        lead = self.count.ndim
        return Read(*(x.flatten(0, lead - 1) for x in self))


class Policy(nn.Module):
    """One network for all agents; each one's course is a sequence of its own."""

    def __init__(self, team: TeamSpec, order: tuple[Token, ...], width: int, blocks: int) -> None:
        super().__init__()
        self.action = ActionHead(team)
        backbone = Transformer(width, layers=blocks, heads=HEADS, expansion=2)
        self.net = StepNet(team, backbone, width, order=order)
        self.spread = nn.Parameter(torch.zeros(team.dims))

    @property
    def sigma(self) -> Tensor | None:
        """Spread of the numbers of an action."""
        return sigma_of(self.spread) if self.action.dims else None

    def forward(self, read: Read) -> Tensor:
        """Logits, or means, after the last token of each of the K steps, ``[R, K, N + dims]``."""
        return self.net.head(self.net(read.togo, read.obs, read.before, read.step)[:, :, -1])

    def now(self, read: Read) -> Tensor:
        """The same at the newest step only, ``[..., N + dims]``."""
        flat = read.flat()
        last = self(flat)[torch.arange(len(flat.count), device=flat.count.device), flat.count - 1]
        return last.unflatten(0, read.count.shape)


def read_of(policy: Policy, windows: Windows, window: Window) -> Read:
    """Windows of the data as the policy reads them."""
    before = windows.action[(window.row_MK - 1).clamp_min(0), window.agent_MK]
    first = (window.step_MK == 0).view(*window.step_MK.shape, *(1,) * (before.ndim - 2))
    before = torch.where(first, torch.full_like(before, policy.action.choices), before)
    return Read(window.togo_MK, window.obs_MKD, before, window.step_MK, window.mask_MK.sum(1))


class Recent:
    """A policy that acts; it remembers the last ``length`` steps of every agent in every copy."""

    def __init__(self, policy: Policy, length: int) -> None:
        self.policy, self.length = policy, length
        self._read: Read | None = None
        self._before = self._togo = self._step = torch.zeros(0)

    def begin(self) -> None:
        """See ``Remembering``."""
        self._read = None

    def follow(self, frame: Frame) -> None:
        """See ``Remembering``."""
        if self._read is None:
            return
        device = self._togo.device
        self._togo = self._togo - torch.from_numpy(frame.reward_BA).to(device)
        done_B = torch.from_numpy(frame.done_B).to(device)
        if done_B.any():
            self._togo[done_B], self._step[done_B] = self.policy.net.target, 0
            self._before[done_B] = self.policy.action.choices
            self._read.count[done_B] = 0

    def __call__(self, view: View, greedy: bool, generator: torch.Generator) -> Tensor:
        """See ``Act``."""
        return self.act(view, greedy, generator)[0]

    @torch.no_grad()
    def act(self, view: View, greedy: bool, generator: torch.Generator) -> tuple[Tensor, Tensor, Read]:
        """Actions ``[B, A, …]``, their log-probabilities ``[B, A, P]``, and what was read for them."""
        head, read = self.policy.action, self.see(view)
        out = self.policy.now(read)
        action, logp = head.sample(
            out, self.policy.sigma, head.allowed(view.available), greedy=greedy, generator=generator
        )
        self._before, self._step = action.clone(), self._step + 1
        return action, logp, read

    def see(self, view: View) -> Read:
        """What is read now: what was remembered, and what is seen; a copy."""
        shape, net = view.obs.shape[:2], self.policy.net
        if self._read is None:
            kind = torch.int64 if net.choices else torch.float32
            zeros = view.obs.new_zeros(*shape, self.length)
            obs = view.obs.new_zeros(*shape, self.length, net.inputs)
            before = torch.zeros(*zeros.shape, *net.action_shape, dtype=kind, device=obs.device)
            self._read = Read(zeros, obs, before, zeros.long(), zeros[..., 0].long())
            self._before = torch.full_like(before[:, :, 0], net.choices)
            self._togo, self._step = zeros[..., 0] + net.target, zeros[..., 0].long()
        *columns, count = self._read
        full = count == self.length
        for column, now in zip(columns, (self._togo, view.obs, self._before, self._step), strict=True):
            column[full] = column[full].roll(-1, 1)
            place = (count - full.long()).flatten()
            column.flatten(0, 1)[torch.arange(len(place), device=place.device), place] = now.flatten(0, 1)
        count += ~full
        return Read(*(x.clone() for x in self._read))
