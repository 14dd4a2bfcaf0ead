"""Critics that foresee how a program ends, which learn beside the policy from each update's attempts, once judged.

Their states are those of the frozen base, so a batch of attempts is read once and passes over it cost little.

``OutcomeCritic``: Le et al. 2022, CodeRL (arXiv 2207.01780): it does not compile, ends with an error, fails a test, or
passes all.

    p_k = softmax(f(h_k)) over the four outcomes,  h_k the state behind token k
    L   = - mean over tokens of log p_k(outcome of its attempt)

It notes ``outcome_p``: the probability of the outcome that came, for every token (``credit.token_outcome_critic``).
Deviations: the published critic is a language model of its own, trained for ten passes on the programs of a data set
(right ones, too) before the policy, with one cross entropy a program on the maximum over its tokens of each logit; here
it is a head, at every token.

``ShareCritic``: Li et al. 2024, IRCoCo (arXiv 2401.16637): which share of its tests a program will pass.

    f_s = sigmoid(f(h_s)),      L = mean over states of the cross-entropy of f_s and the share that came

It notes ``share_before`` and ``share_behind`` of every token (``credit.token_immediate``): inside a decision the one is
the other of the token before. Deviations: the published evaluator is a small GPT-2 of its own, fitted by squared error,
before the policy learns, to the BLEU or the edit similarity of completions to the code that was there; here it is a
head, and programs are run instead of compared.
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
from evolvent.formulas.process_rewards import GRADES, outcome_class
from evolvent.learn.critics.token import FrozenHead, fit, states_around
from evolvent.learn.losses import explained_variance
from evolvent.runs.language.notes import note_all

NOTE, BEFORE, BEHIND = "outcome_p", "share_before", "share_behind"


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
        note_all(episodes, NOTE, came)
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
            self.optimizer,
            (epochs, minibatches),
            generator,
            name="the critic of outcomes",
            grad_clip=grad_clip,
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


@dataclass(frozen=True, eq=False)
class Foreseen:
    """States ``[S, D]`` of some attempts, what was foreseen at each, and the share that came; NaN = not valid."""

    states_SD: Tensor
    foreseen_S: Tensor
    share_S: Tensor


class ShareCritic(FrozenHead):
    """The estimator and its optimizer."""

    def note(self, episodes: Sequence[Episode]) -> Foreseen:
        """Note the foreseen share before and behind every token, by the weights of now.

        Raises:
            BadInput: a valid attempt that lacks the kind of reward ``share``.
        """
        seen = states_around(self._features, episodes, self._context)
        share = [last_reward(e, "share") if e.valid else float("nan") for e in episodes]
        with torch.no_grad():
            foreseen = self.head(seen.states_SD).squeeze(-1).sigmoid()
        for name, at_K in ((BEFORE, seen.before_K), (BEHIND, seen.behind_K)):
            note_all(episodes, name, foreseen[at_K].cpu().numpy())
        came = torch.tensor(share, dtype=torch.float32, device=foreseen.device)
        return Foreseen(seen.states_SD, foreseen, came[seen.owner_S])

    def learn(
        self, seen: Foreseen, *, epochs: int, minibatches: int, grad_clip: float, generator: torch.Generator
    ) -> dict[str, float]:
        """Fit the shares; loss of the last pass, and how much of their variance was foreseen before it.

        Raises:
            ModelError: the loss is not finite.
        """
        known = torch.nonzero(~seen.share_S.isnan()).squeeze(-1)
        loss = fit(
            lambda rows: F.binary_cross_entropy_with_logits(
                self.head(seen.states_SD[rows]).squeeze(-1), seen.share_S[rows]
            ),
            known,
            self.optimizer,
            (epochs, minibatches),
            generator,
            name="the critic of shares",
            grad_clip=grad_clip,
        )
        return {"share_loss": loss, "share_explained": explained_variance(seen.foreseen_S[known], seen.share_S[known])}
