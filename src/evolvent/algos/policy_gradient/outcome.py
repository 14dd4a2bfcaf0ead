"""A critic that foresees how a program ends: does not compile, ends with an error, fails a test, passes all (CodeRL).

Paper: Le et al. 2022, CodeRL (arXiv 2207.01780).

    p_k = softmax(f(h_k)) over the four outcomes,  h_k the state behind token k
    L   = - mean over tokens of log p_k(outcome of its attempt)

The states are those of the frozen base, so a batch of attempts is read once and passes over it cost little. It notes
``outcome_p``: the probability of the outcome that came, for every token (``credit.token_outcome_critic``).

Deviations: the published critic is a language model of its own, trained for ten passes on the programs of a data set
(right ones, too) before the policy, with one cross entropy a program on the maximum over its tokens of each logit; here
it is a head that learns beside the policy, from each update's attempts after it judged them, at every token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from evolvent.core.episode import Episode
from evolvent.core.reward_kinds import last_reward
from evolvent.formulas.execution_rewards import GRADES, outcome_class
from evolvent.learn.critics.frozen_head import FrozenHead, fit, states_around

NOTE = "outcome_p"


@dataclass(frozen=True, eq=False)
class Judged:
    """Features ``[K, D]`` behind all tokens of some attempts, and the outcome of each token's attempt, int64 ``[K]``.

    The outcome is -1 where the attempt is not valid.
    """

    features_KD: Tensor
    outcome_K: Tensor


class OutcomeCritic(FrozenHead):
    """The classifier and its optimizer."""

    outputs = len(GRADES)

    def note(self, episodes: Sequence[Episode]) -> Judged:
        """Note the probability of the outcome that came at every token, by the weights of now.

        Raises:
            BadInput: a valid attempt that lacks ``compiles``, ``runs`` or ``correct``.
        """
        seen = states_around(self._features, episodes, self._context)
        features = seen.states_SD[seen.behind_K]
        outcome = np.concatenate([np.zeros(0, np.int64), *(np.full(e.n_tokens, outcome_of(e)) for e in episodes)])
        outcome_K = torch.as_tensor(outcome, device=features.device)
        with torch.no_grad():
            p_K4 = self.head(features).softmax(-1)
            came = p_K4.gather(1, outcome_K.clamp(min=0)[:, None])[:, 0].cpu().numpy()
        at = 0
        for episode in episodes:
            episode.note(NOTE, came[at : at + episode.n_tokens])
            at += episode.n_tokens
        return Judged(features, outcome_K)

    def learn(
        self, seen: Judged, *, epochs: int, minibatches: int, grad_clip: float, generator: torch.Generator
    ) -> dict[str, float]:
        """Fit the outcomes; loss of the last pass, and the share of tokens whose outcome was foreseen before it.

        Raises:
            ModelError: the loss is not finite.
        """
        known = torch.nonzero(seen.outcome_K >= 0).squeeze(-1)
        with torch.no_grad():
            right = (self.head(seen.features_KD[known]).argmax(-1) == seen.outcome_K[known]).float()
        loss = fit(
            lambda rows: F.cross_entropy(self.head(seen.features_KD[rows]), seen.outcome_K[rows]),
            known,
            self.head,
            self.optimizer,
            epochs=epochs,
            minibatches=minibatches,
            grad_clip=grad_clip,
            generator=generator,
            name="the critic of outcomes",
        )
        return {"outcome_loss": loss, "outcome_right": right.mean().item() if len(right) else 0.0}


def outcome_of(episode: Episode) -> int:
    """The class of an attempt's outcome; -1 where it is not valid.

    Raises:
        BadInput: it is valid and lacks a kind of reward.
    """
    if not episode.valid:
        return -1
    compiles, runs, correct = (last_reward(episode, kind) > 0.0 for kind in ("compiles", "runs", "correct"))
    return outcome_class(compiles, runs, correct)
