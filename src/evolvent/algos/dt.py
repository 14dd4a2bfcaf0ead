"""Decision Transformer: imitation that is told what return followed, and is then asked for a good one.

Paper: Chen et al. 2021, Decision Transformer: Reinforcement Learning via Sequence Modeling (arXiv 2106.01345).

    tokens (G_t, o_t, a_t),  G_t = r_t + r_{t+1} + …;   a_t is read at o_t
    L = mean (a - a_hat)²  for numbers,  - mean log p(a)  for choices;   acting: G_0 = target,  G_{t+1} = G_t - r_t

The targets are fixed from the data before anything is played: the best return of an attempt, by which the run is judged
(``--targets`` gives others), and quarters of the way there from the worst; the page shows what was asked for against
what came. Where luck decides, asking for much is asking for luck: see ``doc``.

Deviations: returns are divided by the largest one in the data (there 1,000; 10 for Reacher); windows are padded at
their end (there at their start, with a mask); GELU (there ReLU); while acting, the context grows from half of
``context`` to the whole and is halved again, so that what was said of earlier tokens can be kept (there always the
whole); several agents are sequences apart, with one network. Learning starts from GPT-2's weights N(0, 0.02).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.runs.offline.config import OfflineConfig
from evolvent.runs.team.frozen import evaluate_team, policy_of

if TYPE_CHECKING:
    from evolvent.learn.sequence.windows import Window
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.views import Views
    from evolvent.models.sequence.steps import StepNet

PAPER = "arXiv 2106.01345"
LEVELS = ("step",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(OfflineConfig):
    """Settings of DT; the defaults are those of its released script for robots."""

    steps: int = 100_000
    """Gradient steps. Only whole updates are run."""
    batch: int = 64
    """Windows of the data in a gradient step."""
    context: int = 20
    """Steps of a window, and the most that the policy sees of an attempt."""
    targets: tuple[float, ...] = ()
    """Returns to ask for, the first one in every evaluation; none = from the data: the best, and three below it."""
    width: int = 128
    """Embedding width of the transformer."""
    blocks: int = 3
    """Transformer blocks."""
    heads: int = 1
    """Attention heads in each block."""
    dropout: float = 0.1
    """Dropout while learning."""
    lr: float = 1e-4
    """Learning rate (AdamW), after the warm-up."""
    warmup: int = 10_000
    """Gradient steps over which the learning rate rises from 0."""
    weight_decay: float = 1e-4
    """Weight decay of AdamW."""
    grad_clip: float = 0.25
    """Gradient norm above which the gradient is scaled down."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.sequence.context import Wishing
    from evolvent.learn.sequence.imitation import action_error, take_step
    from evolvent.learn.sequence.windows import Windows
    from evolvent.learn.team.descent import means
    from evolvent.runs.offline.run import open_offline

    with open_offline(config, folder, live, resume=resume) as offline:
        windows = Windows(offline.views, offline.data, config.context)
        net = make_net(config, offline.views)
        targets = config.targets or windows.targets
        net.scale.fill_(windows.scale)
        net.target.fill_(targets[0])
        adam = torch.optim.AdamW(net.parameters(), lr=config.lr, weight_decay=config.weight_decay)
        offline.keep(Wishing(net, config.context), net=net, adam=adam)

        def improve(step: int) -> dict[str, float]:
            window = windows.sample(config.batch, offline.generator)
            loss = action_error(said(net.train(), window), window.action_MK, window.mask_MK)
            lr = config.lr * min(1.0, (step + 1) / max(config.warmup, 1))
            return {"loss": loss.item(), "grad_norm": take_step(adam, loss, lr=lr, grad_clip=config.grad_clip)}

        for update in offline.updates():
            with offline.clock("learn"):  # LEARN
                first = update * config.log_every
                losses = [improve(step) for step in range(first, first + config.log_every)]
            offline.log(**means(losses))
        return offline.finish("dt", asked=offline.asked(targets, partial(Wishing, net, config.context)))


def said(net: StepNet, window: Window) -> Any:
    """What the network says at every step of the windows, ``[M, K, N or dims]``."""
    out = net(window.togo_MK, window.obs_MKD, window.action_MK, window.step_MK)
    return net.says(out[:, :, net.order.index("obs")])


def make_net(config: Config, views: Views) -> StepNet:
    """The network, on the device of ``views``."""
    from evolvent.models.sequence.steps import StepNet
    from evolvent.models.sequence.transformer import Transformer

    backbone = Transformer(config.width, layers=config.blocks, heads=config.heads, dropout=config.dropout)
    return StepNet(views.team, backbone, config.width, dropout=config.dropout).to(views.device)


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    from evolvent.learn.sequence.context import Wishing

    net = make_net(config, views)
    return Wishing(net, config.context), {"net": net}


evaluate, policy = partial(evaluate_team, Config, _played), partial(policy_of, Config, _played)
