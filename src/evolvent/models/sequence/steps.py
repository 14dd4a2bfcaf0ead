"""Steps of an attempt as tokens around a causal backbone: what is still to be gained, what is seen, what is done.

    token = embedding of its kind + embedding of the time of its step;   LN;   backbone over P tokens a step

Paper: Chen et al. 2021, Decision Transformer (arXiv 2106.01345): (return to go, observation, action), the action read
at the observation. What is to be gained is divided by ``scale``; it and the return to wish for are part of the weights.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from evolvent.core.errors import BadInput
from evolvent.core.team import TeamSpec
from evolvent.models.sequence.transformer import small_weights

Token = Literal["togo", "obs", "action"]


class Backbone(Protocol):
    """``Transformer``, or another causal network that can go on."""

    def __call__(self, x_BKW: Tensor) -> Tensor:
        """All tokens at once."""
        ...

    def start(self, batch: int, most: int) -> Any:
        """Nothing seen yet, and room for ``most`` tokens a row; its ``forget(rows)`` lets rows start over."""
        ...

    def step(self, x_MJW: Tensor, kept: Any, rows: Tensor) -> Tensor:
        """J further tokens of M rows."""
        ...


class StepNet(nn.Module):
    """See the module.

    Args:
        team: what its agents see and do; choices or numbers, not both.
        backbone: of that ``width``; a module.
        order: the P tokens of a step. An action that comes after what is read may be the one of the step before.
    """

    scale: Tensor
    target: Tensor

    def __init__(
        self,
        team: TeamSpec,
        backbone: Backbone,
        width: int,
        *,
        order: tuple[Token, ...] = ("togo", "obs", "action"),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if team.kind == "mixed":
            raise BadInput("choices and numbers at once", expected="actions of one kind", where="a sequence model")
        self.order, self.dropout, self.choices, self.inputs = order, dropout, team.choices, team.obs_dim
        self.action_shape, says = team.action_shape, team.choices or team.dims
        self.togo, self.obs = nn.Linear(1, width), nn.Linear(team.obs_dim, width)
        # one more than there are choices: no action yet
        self.action = nn.Embedding(team.choices + 1, width) if team.choices else nn.Linear(team.dims, width)
        # beyond its time limit, or after 1,000 steps where there is none, an attempt has no time
        self.time, self.norm = nn.Embedding((team.limit or 1_000) + 1, width), nn.LayerNorm(width)
        self.head = nn.Linear(width, says)
        self.apply(small_weights)
        self.backbone = backbone
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("target", torch.zeros(()))

    def forward(self, togo_BK: Tensor, obs_BKD: Tensor, action_BK: Tensor, step_BK: Tensor) -> Tensor:
        """What the backbone says at each token, ``[B, K, P, width]``.

        ``togo`` in units of reward, actions int64 ``[B, K]`` or float32 ``[B, K, dims]``, ``step``
        int64 from 0.
        """
        given = {"togo": togo_BK, "obs": obs_BKD, "action": action_BK}
        x = torch.stack([self.token(name, given[name], step_BK) for name in self.order], 2)
        x = functional.dropout(x, self.dropout, self.training)
        return self.backbone(x.flatten(1, 2)).view_as(x)

    def says(self, out: Tensor) -> Tensor:
        """The action, of what the backbone says: logits ``[..., N]``, or numbers in (-1, 1) ``[..., dims]``."""
        return self.head(out) if self.choices else self.head(out).tanh()

    def token(self, name: Token, value: Tensor, step: Tensor) -> Tensor:
        """Tokens of one kind, ``[..., width]``, at the times ``step`` ``[...]``."""
        if name == "togo":
            x = self.togo((value / self.scale).unsqueeze(-1))
        elif name == "obs":
            x = self.obs(value)
        else:
            x = self.action(value)
        return self.norm(x + self.time(step.clamp_max(self.time.num_embeddings - 1)))
