"""An estimator of what each decision contributed to the outcome (SPA-RL, arXiv 2505.20732).

    c_t = f(state behind the last token of decision t),     loss = mean over attempts of (sum_t c_t - R)^2

The features are hidden states of the frozen base, so they are computed once for each batch of attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from evolvent.core.episode import Episode
from evolvent.core.reward_kinds import keep_reward, reward_kinds
from evolvent.learn.critics.token import FrozenHead, fit, token_rows
from evolvent.models.language.model import Row


@dataclass(frozen=True, eq=False)
class Decisions:
    """Features ``[T, D]`` of all decisions of some attempts, and the attempt of each, int64 ``[T]``."""

    episodes: Sequence[Episode]
    features_TD: Tensor
    owner_T: Tensor


class ProgressEstimator(FrozenHead):
    """The estimator and its optimizer."""

    def see(self, episodes: Sequence[Episode]) -> Decisions:
        """The features behind every decision."""
        one = np.zeros(1, np.int32)  # the state is read where a next token would be predicted, whichever it is
        rows = [
            Row(np.concatenate([e.context_ids(t), ids])[-(self._context - 1) :], one)
            for e in episodes
            for t, ids in enumerate(token_rows(e))
        ]
        owner = torch.tensor([i for i, e in enumerate(episodes) for _ in range(e.n_steps)], dtype=torch.int64)
        features = self._features(rows).float()
        return Decisions(episodes, features, owner.to(features.device))

    def learn(self, seen: Decisions, *, passes: int, minibatches: int, generator: torch.Generator) -> float:
        """Fit the sums to the returns of the valid attempts; the mean squared error before the last pass.

        Raises:
            ModelError: it diverged.
        """
        device = seen.features_TD.device
        ret = torch.tensor([e.total_reward for e in seen.episodes], dtype=torch.float32, device=device)
        valid = torch.tensor([i for i, e in enumerate(seen.episodes) if e.valid and e.n_steps], dtype=torch.int64)
        return fit(
            lambda rows: ((self._sums(seen)[rows] - ret[rows]) ** 2).mean(),
            valid.to(device),
            self.optimizer,
            (passes, minibatches),
            generator,
            name="the estimator of progress",
            lr="progress_lr",
        )

    def write_rewards(self, seen: Decisions) -> None:
        """Write the contributions as the kind ``progress``; where actions are chosen from a list, ``executed`` is 1.

        What an environment says of ``executed`` stands.
        """
        with torch.no_grad():
            c_T = self.head(seen.features_TD).squeeze(-1).double().cpu().numpy()
        at = 0
        for episode in seen.episodes:
            keep_reward(episode, "progress", c_T[at : at + episode.n_steps])
            at += episode.n_steps
            if "executed" not in reward_kinds(episode) and all(episode.choices(t) for t in range(episode.n_steps)):
                keep_reward(episode, "executed", np.ones(episode.n_steps))

    def _sums(self, seen: Decisions) -> Tensor:
        c = self.head(seen.features_TD).squeeze(-1)
        return torch.zeros(len(seen.episodes), device=c.device).index_add(0, seen.owner_T, c)
