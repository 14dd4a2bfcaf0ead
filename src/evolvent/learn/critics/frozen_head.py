"""Shared by critics beside the policy: a head on the hidden states of the frozen base.

A batch of attempts is read once, each decision with one token more. So there is a state before and behind every token:
n + 1 states for n tokens, and the state behind a token is the one that follows the state before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evolvent.core.episode import Episode
from evolvent.learn.critics.token import Features, token_rows
from evolvent.models.language.model import Row

WIDTH = 256


@dataclass(frozen=True, eq=False)
class Around:
    """States ``[S, D]`` of some attempts; which attempt each is of, and which stands before each token, int64."""

    states_SD: Tensor
    owner_S: Tensor
    before_K: Tensor

    @property
    def behind_K(self) -> Tensor:
        """The state behind each token."""
        return self.before_K + 1


def new_head(width: int, outputs: int, *, seed: int, device: torch.device | str) -> nn.Sequential:
    """Two layers from states of ``width`` to ``outputs`` numbers; the weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU(), nn.Linear(WIDTH, outputs)).to(device)


class FrozenHead:
    """A head on states of the frozen base, and its optimizer; part of a run's checkpoints.

    Args:
        features: hidden states of the base, ``models.language.model.LanguageModel.states``.
        width: dimension D of the features.
        context: most tokens of a row; what is longer loses its beginning.
        lr: learning rate of Adam.
        seed: of the first weights.
        device: where it lives.
    """

    outputs = 1

    def __init__(
        self,
        features: Features,
        width: int,
        *,
        context: int,
        lr: float,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self._features, self._context = features, context
        self.head = new_head(width, self.outputs, seed=seed, device=device)
        self.optimizer = torch.optim.Adam(self.head.parameters(), lr=lr)

    def state_dict(self) -> dict[str, Any]:
        """Weights and optimizer."""
        return {"head": self.head.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.head.load_state_dict(state["head"])
        self.optimizer.load_state_dict(state["optimizer"])


def states_around(features: Features, episodes: Sequence[Episode], context: int) -> Around:
    """The states before and behind every token; a row of more than ``context`` tokens loses its beginning."""
    rows: list[Row] = []
    owner: list[int] = []
    for i, episode in enumerate(episodes):
        for t, ids in enumerate(token_rows(episode)):
            # one token more, whichever: the state that would predict it is the one behind the last
            room = max(0, context - len(ids) - 1)
            before = episode.context_ids(t)
            rows.append(Row(before[max(0, len(before) - room) :], np.append(ids, np.int32(0))))
            owner += [i] * len(rows[-1].tokens)
    states = features(rows).float()
    last = np.cumsum([len(row.tokens) for row in rows], dtype=np.int64) - 1
    before_K = np.setdiff1d(np.arange(len(owner), dtype=np.int64), last)
    device = states.device
    return Around(states, torch.tensor(owner, device=device), torch.as_tensor(before_K, device=device))
