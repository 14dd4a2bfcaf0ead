"""Behaviour cloning: do what was done in the recorded attempts, all of them or the best 10 %.

Paper: Pomerleau 1988, ALVINN: An Autonomous Land Vehicle in a Neural Network (NeurIPS 1); the best X % by return as in
Chen et al. 2021, Decision Transformer (arXiv 2106.01345), table 6.

    L = - mean log pi(a | o)         over the steps of the data, for every agent that was alive

``--share 0.1`` is 10 % BC: the best attempts that hold a tenth of the steps. It is what methods that look at rewards
must beat: where it does as well as they do, choosing the attempts was all that there was to learn.

Deviations: numbers have a Gaussian of learned spread (the paper of TD3+BC, CORL: the squared error of one action, which
is this with a fixed spread); a network for each agent, with layer norms (``models.team.actors``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.runs.offline.config import OfflineConfig
from evolvent.runs.team.actors import acting
from evolvent.runs.team.frozen import evaluate_team, policy_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.learn.team.player import Act
    from evolvent.learn.team.replay import Transitions
    from evolvent.learn.team.views import Views
    from evolvent.models.team.actors import Actors
    from evolvent.runs.offline.run import OfflineRun

PAPER = "arXiv 2106.01345"
LEVELS = ("step",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(OfflineConfig):
    """Settings of behaviour cloning."""

    share: float = 1.0
    """Share of the data to learn from: the best attempts by return that hold so many of the steps; 0.1 = 10 % BC."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of the policy, as their widths."""
    lr: float = 3e-4
    """Learning rate (Adam)."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.runs.offline.run import open_offline

    with open_offline(config, folder, live, share=config.share, resume=resume) as offline:
        loop(config, offline)
        return offline.finish("bc")


def loop(config: Config, offline: OfflineRun) -> None:
    """Draw steps and imitate them, until the gradient steps are over."""
    import torch

    from evolvent.learn.team.descent import means

    actors = make_actors(config, offline.views)
    adam = torch.optim.Adam(actors.parameters(), lr=config.lr, fused=True)
    offline.keep(acting(actors), actors=actors, adam=adam)
    for _ in offline.updates():
        with offline.clock("learn"):  # LEARN
            drawn = (offline.replay.sample(config.batch, offline.generator) for _ in range(config.log_every))
            losses = [improve(actors, adam, one) for one in drawn]
        offline.log(**means(losses))


def improve(actors: Actors, adam: torch.optim.Adam, drawn: Transitions) -> dict[str, float]:
    """One gradient step of L; what was seen."""
    loss = imitation_loss(actors, drawn)
    adam.zero_grad()
    loss.backward()
    adam.step()
    return {"loss": loss.item()}


def imitation_loss(actors: Actors, drawn: Transitions) -> Tensor:
    """L of the module's docstring, in nats."""
    logp = actors.logprobs(drawn.view.obs, drawn.action, available_BAN=drawn.view.available).logp.sum(-1)
    return -(logp.mean() if drawn.view.active is None else logp[drawn.view.active].mean())


def make_actors(config: Config, views: Views) -> Actors:
    """A network for each agent."""
    from evolvent.models.team.actors import Actors

    return Actors(views.team, views.team.obs_dim, hidden=config.hidden).to(views.device)


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    actors = make_actors(config, views)
    return acting(actors), {"actors": actors}


evaluate, policy = partial(evaluate_team, Config, _played), partial(policy_of, Config, _played)
