"""Dichotomy of Control: imitation that is told of the future only what the actions decide, and not what luck did.

Paper: Yang et al. 2022, Dichotomy of Control: Separating What You Can Control from What You Cannot (arXiv 2210.13435).

    z ~ q(z | what follows);   max log pi(a | o, z)   so that   I(r, o' ; z | o, a) = 0
    bound:  E[f(r, o', z, o, a)] - E[log E_{(r, o') ~ p(. | o, a)} exp f];   f ascends it, q descends it
    prior p(z | o) and value V(o, z) learn from z without moving q
    acting: of the z that the prior gives at least 1 %, the one of the largest V at the start; pi(. | o, z) from then on

So that what V promises is what is got. z is one of ``symbols``; p(r, o' | o, a) are the other steps of the data with
the same observation and action, so both must come again.

``--loss released`` is the published code's: one gradient for everything (q is made to tell the luck), any step of the
data for p(r, o'), V moves q, and no prior: the z of the largest V of all. It promises luck.

Deviations: a policy and a critic without history; what follows is read as the mean of its steps, of at most
``context``; the learning rate falls to 0 in the second half. The published sequence model feeds its critic the next
observation twice and no reward; it is not ported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.runs.offline.config import OfflineConfig
from evolvent.runs.team.frozen import evaluate_team, policy_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from evolvent.core.team import Frame
    from evolvent.learn.sequence.windows import Window, Windows
    from evolvent.learn.team.batch import View
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.views import Views

PAPER = "arXiv 2210.13435"
LEVELS = ("step",)
STATUS = "tested"
RARE = 0.01  # a symbol that the prior gives less has hardly a value or a policy
STEPS = 8  # steps of a window whose action and luck are looked at


@dataclass(frozen=True)
class Config(OfflineConfig):
    """Settings of DoC."""

    EXTENDABLE = ()  # the learning rate follows the number of steps

    data: str = "bandit:p=0.1"
    """Recorded attempts: a folder, a run folder, an .npz; or by name: bandit:p=0.1, frozen_lake:best=1."""
    env: str = "bandit"
    """Environment that the data are of, with its options; what is learned is judged there."""
    steps: int = 2_000
    """Gradient steps. Only whole updates are run."""
    batch: int = 64
    """Windows of the data in a gradient step."""
    context: int = 50
    """Steps of what follows that z is told of."""
    loss: Literal["minmax", "released"] = "minmax"
    """minmax = q descends what f ascends; released = the published code's loss, which chases luck."""
    symbols: int = 8
    """Values that z may have."""
    references: int = 8
    """Other outcomes that a step's own is compared with."""
    hidden: int = 64
    """Width of the networks, of two hidden layers each."""
    weight: float = 1.0
    """Weight of the information that z has about luck."""
    lr: float = 3e-3
    """Learning rate (Adam)."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.sequence.windows import Windows
    from evolvent.learn.team.descent import means
    from evolvent.runs.offline.run import open_offline

    with open_offline(config, folder, live, resume=resume) as offline:
        windows = Windows(offline.views, offline.data, config.context)
        nets = make_nets(config, offline.views)
        learner = Learner(config, nets, windows)
        act = Following(config, nets)
        offline.keep(act, nets=nets, **learner.adams)
        for update in offline.updates():
            with offline.clock("learn"):  # LEARN
                first = update * config.log_every
                each = range(first, first + config.log_every)
                losses = [learner.improve(step, offline.generator) for step in each]
            offline.log(**means(losses))
        promised = windows.scale * float(act.choose(windows.first())[1].mean())
        got = offline.asked([promised], lambda _: act, "sampled")
        return offline.finish("doc", asked=[{"as": "promised", **row} for row in got])


class Learner:
    """The gradient steps of both losses; ``adams`` are its optimizers by name."""

    def __init__(self, config: Config, nets: nn.ModuleDict, windows: Windows) -> None:
        import torch

        self.config, self.nets, self.windows = config, nets, windows
        self.released = config.loss == "released"
        windows.length = min(windows.length, windows.longest)
        seen = windows.obs[windows.seen].flatten(0, 1)
        same = torch.cat([seen, windows.action.flatten()[:, None].to(seen.dtype)], 1)
        group, size = torch.unique(same, dim=0, return_inverse=True, return_counts=True)[1:]
        if float((size[group] > 1).float().mean()) < 0.5:
            expected = "most observations and actions to come again, as in a table"
            raise BadInput("every step is unlike any other", expected=expected, where="--data", do="use another system")
        self._group, self._size = group, size
        self._order, self._first = group.argsort(), size.cumsum(0) - size
        rest = [p for name, net in nets.items() if name != "energy" for p in net.parameters()]
        parts = {"main": rest, "luck": list(nets["energy"].parameters())}
        self.adams = {f"{name}_adam": torch.optim.Adam(part, lr=config.lr) for name, part in parts.items()}

    def improve(self, step: int, generator: torch.Generator) -> dict[str, float]:
        """One gradient step of everything; what was seen."""
        import torch
        from torch.nn import functional

        config, windows, nets = self.config, self.windows, self.nets
        window = windows.sample(config.batch, generator)
        start, togo = window.obs_MKD[:, 0], window.togo_MK[:, 0] / windows.scale
        share = self.posterior(window).softmax(-1)
        drawn = torch.multinomial(share.detach(), 1, generator=generator).squeeze(1)
        z = functional.one_hot(drawn, config.symbols) + share - share.detach()  # its gradient is that of the share
        told = z if self.released else z.detach()
        value = nets["value"](torch.cat([start, told], -1)).squeeze(-1)
        prior = nets["prior"](start).log_softmax(-1)
        logits, action, bound = self._steps(window, z, generator)
        losses = {
            "action_loss": functional.cross_entropy(logits, action),
            "value_loss": functional.mse_loss(value, togo),
            "prior_loss": -(share.detach() * prior).sum(-1).mean(),
        }
        sign = -1.0 if self.released else 1.0
        loss = torch.stack([*losses.values()]).sum() + sign * config.weight * bound
        for adam in self.adams.values():
            adam.zero_grad()
        loss.backward()
        if not self.released:  # what q descends, f ascends
            for parameter in nets["energy"].parameters():
                assert parameter.grad is not None
                parameter.grad.neg_()
        for adam in self.adams.values():
            adam.param_groups[0]["lr"] = config.lr * min(1.0, 2.0 * (1.0 - step / config.steps))
            adam.step()
        return {name: one.item() for name, one in losses.items()} | {"luck_told": bound.item()}

    def posterior(self, window: Window) -> Tensor:
        """Logits of q(z | what follows), ``[M, symbols]``."""
        import torch
        from torch.nn import functional

        done = functional.one_hot(window.action_MK, self.windows.choices)
        came = [window.reward_MK[..., None] / self.windows.scale, window.next_obs_MKD]
        read = self.nets["read"](torch.cat([window.obs_MKD, done, *came], -1))
        counts = window.mask_MK[..., None].to(read.dtype)
        return self.nets["posterior"]((read * counts).sum(1) / counts.sum(1))

    def _steps(self, window: Window, z: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Of some steps of each window: logits of the action, the action, and the bound of what z tells of luck."""
        import torch
        from torch.nn import functional

        windows, count = self.windows, min(STEPS, self.windows.length)
        where = torch.rand(len(z), count, generator=generator, device=z.device) * window.mask_MK.sum(1, keepdim=True)
        rows = torch.arange(len(z), device=z.device)[:, None], where.long()
        agents = windows.reward.shape[1]
        own = window.row_MK[rows] * agents + window.agent_MK[rows]
        random = torch.rand(*own.shape, self.config.references, generator=generator, device=z.device)
        if self.released:
            other = (random * len(self._group)).long()
        else:
            group = self._group[own].unsqueeze(-1)
            other = self._order[self._first[group] + (random * self._size[group]).long()]
        action, told = window.action_MK[rows], z[:, None].expand(-1, count, -1)
        before = torch.cat([window.obs_MKD[rows], told], -1)
        logits = self.nets["policy"](before)
        given = torch.cat([before, functional.one_hot(action, logits.shape[-1])], -1).unsqueeze(2)
        all_ = torch.cat([own.unsqueeze(-1), other], -1)
        step, agent = all_.div(agents, rounding_mode="floor"), all_ % agents
        came = [windows.reward[step, agent, None] / windows.scale, windows.obs[windows.seen[step] + 1, agent]]
        f = self.nets["energy"](torch.cat([given.expand(-1, -1, step.shape[2], -1), *came], -1)).squeeze(-1)
        bound = (f[..., 0] - f[..., 1:].logsumexp(-1)).mean() + math.log(self.config.references)
        return logits.flatten(0, 1), action.flatten(), bound


class Following:
    """The policy: each attempt follows the z that was chosen at its start."""

    def __init__(self, config: Config, nets: nn.ModuleDict) -> None:
        self.nets, self.symbols, self._prior = nets, config.symbols, config.loss != "released"
        self._z: Tensor | None = None
        self._new: Tensor | None = None

    def begin(self) -> None:
        """See ``Remembering``."""
        self._z = None

    def follow(self, frame: Frame) -> None:
        """See ``Remembering``."""
        import torch

        if self._z is not None:
            self._new = torch.from_numpy(frame.done_B).to(self._z.device)

    def __call__(self, view: View, greedy: bool, generator: torch.Generator) -> Tensor:
        """See ``Act``."""
        import torch
        from torch.nn import functional

        from evolvent.learn.sequence.imitation import choose

        best, _ = self.choose(view.obs)
        if self._z is not None and self._new is not None:
            best = torch.where(self._new[:, None], best, self._z)
        self._z = best
        z = functional.one_hot(self._z, self.symbols).to(view.obs.dtype)
        return choose(self.nets["policy"](torch.cat([view.obs, z], -1)), view.available, greedy, generator)

    def choose(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """The z to follow from what is seen ``[..., D]``, int64 ``[...]``, and the value that it promises, scaled."""
        import torch

        with torch.no_grad():
            z = torch.eye(self.symbols, device=obs.device).expand(*obs.shape[:-1], -1, -1)
            pairs = torch.cat([obs.unsqueeze(-2).expand(*z.shape[:-1], -1), z], -1)
            value = self.nets["value"](pairs).squeeze(-1)
            if self._prior:
                rare = self.nets["prior"](obs).softmax(-1) < RARE
                value = value.masked_fill(rare, -torch.inf)
            return value.argmax(-1), value.amax(-1)


def make_nets(config: Config, views: Views) -> nn.ModuleDict:
    """The networks by what they say, on the device of ``views``.

    Raises:
        BadInput: actions that are numbers.
    """
    from torch import nn

    if views.team.kind != "discrete":
        raise BadInput("actions that are numbers", expected="choices", where="doc", do="use dt")
    obs, done, symbols, width = views.team.obs_dim, views.team.choices, config.symbols, config.hidden

    def perceptron(inputs: int, outputs: int) -> nn.Sequential:
        inner = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(*inner, nn.Linear(width, outputs))

    nets = {
        "read": perceptron(2 * obs + done + 1, width),
        "posterior": nn.Sequential(nn.ReLU(), nn.Linear(width, symbols)),
        "policy": perceptron(obs + symbols, done),
        "value": perceptron(obs + symbols, 1),
        "prior": perceptron(obs, symbols),
        "energy": perceptron(2 * obs + done + 1 + symbols, 1),
    }
    return nn.ModuleDict(nets).to(views.device)


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    nets = make_nets(config, views)
    return Following(config, nets), {"nets": nets}


evaluate, policy = partial(evaluate_team, Config, _played), partial(policy_of, Config, _played)
