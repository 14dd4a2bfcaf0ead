"""Decision Mamba: Decision Transformer's tokens through state-space mixers, over tokens and over whole steps.

Paper: Lv et al. 2024, Decision Mamba: A Multi-Grained State Space Model with Self-Evolution Regularization for Offline
RL (NeurIPS 2024, arXiv 2406.05427).

    L = .9 |y - a_hat|² + .05 SmoothL1(o_{t+1}) + .05 SmoothL1(G_{t+1}),   the last two said at the action's token
    y = (1 - w) a + w stop_grad(a_hat),   w = ``evolve`` x share of the gradient steps that are done

Targets and acting are those of ``dt``. Since the soft target moves with what is said now, ``y - a_hat = (1 - w)(a -
a_hat)``: what self-evolution does to squared errors is to weigh the action less and less.

Deviations from the released code: there w is overwritten with 0 just before it is used, and the target is not detached;
there what the fine grain says is tiled over the tokens, so that they see what is to be predicted (``grains`` gives it
to the step after; no token depends on a later one). Choices have a cross-entropy with y as probabilities; embeddings
are linear (there residual MLPs); three blocks.
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
    from torch import Tensor

    from evolvent.learn.sequence.windows import Window
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.views import Views
    from evolvent.models.sequence.steps import StepNet

PAPER = "arXiv 2406.05427"
LEVELS = ("step",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(OfflineConfig):
    """Settings of Decision Mamba; the defaults are those of its released script."""

    EXTENDABLE = ()  # self-evolution follows the number of steps

    steps: int = 100_000
    """Gradient steps. Only whole updates are run."""
    batch: int = 64
    """Windows of the data in a gradient step."""
    context: int = 20
    """Steps of a window, and the most that the policy sees of an attempt."""
    targets: tuple[float, ...] = ()
    """Returns to ask for, the first one in every evaluation; none = from the data: the best, and three below it."""
    width: int = 768
    """Embedding width."""
    blocks: int = 3
    """Blocks of two mixers."""
    states: int = 16
    """Numbers of state for each channel of a mixer."""
    dropout: float = 0.1
    """Dropout while learning."""
    evolve: float = 0.85
    """Weight that self-evolution reaches at the end: how much of an action's target is what the policy says itself."""
    lr: float = 1e-4
    """Learning rate (AdamW), after the warm-up."""
    warmup: int = 2_500
    """Gradient steps over which the learning rate rises from 0."""
    weight_decay: float = 1e-5
    """Weight decay of AdamW."""
    grad_clip: float = 0.25
    """Gradient norm above which the gradient is scaled down."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    import torch

    from evolvent.learn.sequence.context import Wishing
    from evolvent.learn.sequence.imitation import take_step
    from evolvent.learn.sequence.windows import Windows
    from evolvent.learn.team.descent import means
    from evolvent.runs.offline.run import open_offline

    with open_offline(config, folder, live, resume=resume) as offline:
        windows = Windows(offline.views, offline.data, config.context)
        net, ahead = make_nets(config, offline.views)
        targets = config.targets or windows.targets
        net.scale.fill_(windows.scale)
        net.target.fill_(targets[0])
        parameters = [*net.parameters(), *ahead.parameters()]
        adam = torch.optim.AdamW(parameters, lr=config.lr, weight_decay=config.weight_decay)
        offline.keep(Wishing(net, config.context), net=net, ahead=ahead, adam=adam)

        def improve(step: int) -> dict[str, float]:
            weight = config.evolve * step / config.steps
            loss = loss_of(net.train(), ahead, windows.sample(config.batch, offline.generator), weight)
            lr = config.lr * min(1.0, (step + 1) / max(config.warmup, 1))
            norm = take_step(adam, loss, lr=lr, grad_clip=config.grad_clip)
            return {"loss": loss.item(), "evolve": weight, "grad_norm": norm}

        for update in offline.updates():
            with offline.clock("learn"):  # LEARN
                first = update * config.log_every
                losses = [improve(step) for step in range(first, first + config.log_every)]
            offline.log(**means(losses))
        return offline.finish("decision_mamba", asked=offline.asked(targets, partial(Wishing, net, config.context)))


def loss_of(net: StepNet, ahead: Any, window: Window, weight: float) -> Tensor:
    """L of the module's docstring; ``ahead`` says what is seen next and what is then to be gained."""
    import torch
    from torch.nn import functional

    out = net(window.togo_MK, window.obs_MKD, window.action_MK, window.step_MK)
    said, after = net.says(out[:, :, 1])[window.mask_MK], ahead(out[:, :, 2])[window.mask_MK]
    action = window.action_MK[window.mask_MK]
    if net.choices:
        wanted = torch.lerp(functional.one_hot(action, net.choices).float(), said.detach().softmax(-1), weight)
        error = functional.cross_entropy(said, wanted)
    else:
        error = (torch.lerp(action, said.detach(), weight) - said).square().mean()
    togo = ((window.togo_MK - window.reward_MK) / net.scale)[window.mask_MK]
    seen = functional.smooth_l1_loss(after[:, 1:], window.next_obs_MKD[window.mask_MK])
    return 0.9 * error + 0.05 * seen + 0.05 * functional.smooth_l1_loss(after[:, 0], togo)


def make_nets(config: Config, views: Views) -> tuple[StepNet, Any]:
    """The policy, and what says (return to go, observation) of the step after; on the device of ``views``."""
    from torch import nn

    from evolvent.algos.decision_mamba.grains import Mamba
    from evolvent.models.sequence.steps import StepNet

    backbone = Mamba(config.width, layers=config.blocks, states=config.states, dropout=config.dropout)
    net = StepNet(views.team, backbone, config.width, dropout=config.dropout).to(views.device)
    return net, nn.Linear(config.width, 1 + views.team.obs_dim).to(views.device)


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    from evolvent.learn.sequence.context import Wishing

    net, ahead = make_nets(config, views)
    return Wishing(net, config.context), {"net": net, "ahead": ahead}


evaluate, policy = partial(evaluate_team, Config, _played), partial(policy_of, Config, _played)
