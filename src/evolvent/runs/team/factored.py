"""What learners of factored values (VDN, QMIX) have in common: settings, networks, a gradient step, how they play."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from evolvent.core.errors import BadInput
from evolvent.runs.team.actors import Nets
from evolvent.runs.team.checks import check_kind
from evolvent.runs.team.config import ReplayConfig

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from evolvent.learn.team.batch import View
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.replay import Replay, Transitions
    from evolvent.learn.team.views import Views
    from evolvent.models.team.agent_q import AgentQ

GRAD_CLIP = 10.0
"""Gradient norm above which a gradient is scaled down, as in PyMARL."""


@dataclass(frozen=True)
class CourseNets(Nets):
    """What networks are made of, and what they learn from."""

    course: int = 20
    """Steps of a course from the buffer that a policy with memory learns from; a gradient step has batch / course."""


@dataclass(frozen=True)
class FactoredConfig(ReplayConfig):
    """Settings of learners that add up or mix the agents' values."""

    env: str = "spread:n=3,discrete=true"
    """Environment with its options; actions must be discrete."""
    ids: bool = True
    """Append the agent's index (one-hot) to its observation."""
    envs: int = 8
    """Copies of the environment that are stepped in parallel."""
    steps: int = 500_000
    """Total environment steps over all copies; one step moves every agent of one copy. Only whole updates are run."""
    horizon: int = 250
    """Steps of each copy of the environment between two lines of the log (an update)."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of the network that all agents share, as their widths."""
    lr: float = 5e-4
    """Learning rate (Adam)."""
    target_every: int = 200
    """Steps of each copy between two renewals of the target networks."""
    epsilon_end: float = 0.05
    """Share of random choices once exploration is over."""
    exploration: int = 50_000
    """Steps over all copies in which it falls from 1 to that."""
    nets: CourseNets = CourseNets()
    """Memory."""


class Networks(NamedTuple):
    """The agents' values and what mixes them."""

    q: AgentQ
    mixer: nn.Module

    def total(self, values: Tensor, view: View) -> Tensor:
        """``Q_tot`` of values ``[..., A]``, ``[...]``; who is not alive counts 0."""
        values = values if view.active is None else values.masked_fill(~view.active, 0.0)
        return self.mixer(values, view.state)

    def best(self, q: Tensor, view: View) -> Tensor:
        """``Q_tot`` of everybody's best choice by the values ``q`` of all: the same for each agent, ``[..., A]``."""
        from evolvent.learn.team.targets import best_value

        values = best_value(q, view.available)
        return self.total(values, view).unsqueeze(-1).expand_as(values)

    def frozen(self) -> Networks:
        """A copy that does not learn."""
        q, mixer = copy.deepcopy(self.q), copy.deepcopy(self.mixer)
        return Networks(q.requires_grad_(False), mixer.requires_grad_(False))


def make_q(config: FactoredConfig, views: Views) -> AgentQ:
    """Values of what every agent may choose.

    Raises:
        BadInput: agents whose actions are numbers, or several steps with memory.
    """
    from evolvent.models.team.agent_q import AgentQ

    if config.nets.memory and config.n_step > 1:
        raise BadInput("memory learns from single steps", got=f"{config.n_step}", expected="1", where="--n-step")

    check_kind(views.team, ("discrete",), config.env, "use maddpg, hasac or mappo")
    views.memory = config.nets.memory
    return AgentQ(views.team, hidden=config.hidden, ids=views.ids, memory=views.memory).to(views.device)


def draw(config: FactoredConfig, replay: Replay, generator: torch.Generator) -> Transitions:
    """What a gradient step learns from: transitions, or with memory courses of them."""
    if not config.nets.memory:
        return replay.sample(config.batch, generator)
    return replay.courses(max(1, config.batch // config.nets.course), config.nets.course, generator)


def improve(nets: Networks, old: Networks, adam: torch.optim.Adam, drawn: Transitions) -> dict[str, float]:
    """One gradient step; the loss, the mean value of what was done, and the size of the gradient."""
    import torch
    from torch.nn.utils import clip_grad_norm_

    view = drawn.view
    chosen = nets.q(nets.q.seen(view.obs, view.memory, view.begins)).gather(-1, drawn.action.unsqueeze(-1)).squeeze(-1)
    said = nets.total(chosen, view)
    loss = (targets(nets, old, drawn) - said).square().mean()
    adam.zero_grad()
    loss.backward()
    size = clip_grad_norm_([weight for net in nets for weight in net.parameters()], GRAD_CLIP)
    adam.step()
    loss, value, size = torch.stack([loss.detach(), said.detach().mean(), size]).tolist()
    return {"value_loss": loss, "value": value, "grad_norm": size}


def targets(nets: Networks, old: Networks, drawn: Transitions) -> Tensor:
    """``R + gamma^m Q_tot'(s', argmax Q)``, ``[M]``, ``[M, T]``: the copies say what choices of ours are worth."""
    import torch

    from evolvent.learn.team.targets import best_value

    with torch.no_grad():
        own, its = (values_after(one.q, drawn) for one in (nets, old))
        value = old.total(best_value(its, drawn.after.available, by=own), drawn.after)
        return drawn.reward.mean(-1) + drawn.discount * value


def values_after(q: AgentQ, drawn: Transitions) -> Tensor:
    """Values of all choices in what was seen after, ``[..., A, N]``, by one who remembers what was seen before."""
    view = drawn.view
    memory = None if view.memory is None else q.seen(view.obs, view.memory, view.begins)
    return q(q.seen(drawn.after.obs, memory))


def acting(q: AgentQ, epsilon: float) -> Act:
    """How they play: greedily, or with a share of random choices."""
    from evolvent.learn.team.targets import epsilon_greedy

    def act(view: View, greedy: bool, generator: torch.Generator) -> Tensor:
        seen = q.seen(view.obs, view.memory)
        if view.memory is not None:
            view.memory.copy_(seen)
        return epsilon_greedy(q(seen), view.available, 0.0 if greedy else epsilon, generator)[0]

    return act


def played(config: FactoredConfig, views: Views) -> tuple[Act, dict[str, Any]]:
    """For ``evaluate_team``: without ``ids`` it fits teams of other sizes, too."""
    q = make_q(config, views)
    return acting(q, config.epsilon_end), {"actors": q}
