"""A critic that foresees, before and behind every token, which share of its tests a program will pass (IRCoCo).

Paper: Li et al. 2024, IRCoCo (arXiv 2401.16637).

    f_s = sigmoid(f(h_s)),      L = mean over states of the cross-entropy of f_s and the share that came

The states are those of the frozen base. It notes ``share_before`` and ``share_behind`` of every token
(``credit.token_immediate``): inside a decision the one is the other of the token before.

Deviations: the published evaluator is a small GPT-2 of its own, fitted by squared error, before the policy learns, to
the BLEU or the edit similarity of completions to the code that was there; here it is a head that learns beside the
policy, from each update's attempts after it judged them, and programs are run instead of compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from evolvent.core.episode import Episode
from evolvent.core.reward_kinds import last_reward
from evolvent.learn.critics.frozen_head import FrozenHead, fit, states_around
from evolvent.learn.losses import explained_variance

BEFORE, BEHIND = "share_before", "share_behind"


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
        before, behind = (foreseen[at].cpu().numpy() for at in (seen.before_K, seen.behind_K))
        at = 0
        for episode in episodes:
            mine = slice(at, at + episode.n_tokens)
            episode.note(BEFORE, before[mine])
            episode.note(BEHIND, behind[mine])
            at += episode.n_tokens
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
            self.head,
            self.optimizer,
            epochs=epochs,
            minibatches=minibatches,
            grad_clip=grad_clip,
            generator=generator,
            name="the critic of shares",
        )
        return {"share_loss": loss, "share_explained": explained_variance(seen.foreseen_S[known], seen.share_S[known])}
