"""B-Coder's action values: advantages are a language model's logits below their maximum, and a state value on top.

Paper: Yu et al. 2024 (arXiv 2310.03173), eq. 7, 11, 12, 15 to 19 and appendix G.

    Q(s, w) = alpha (l(s, w) - max l(s, .)) + V(s)          l: logits of the policy, at first those of the model
    V(s)    = R_max - softabs(V_first(s) + V_rest(s))        so that no value is above what can be earned
    softmax(Q / alpha) is the policy: the model itself at first
    L = mean (y - Q(s, w))^2 + .1 sum |A(s*, w*)| + .5 sum -log pi(w* | s*)        s*, w*: of a program that is right
    r~(s, w) = Q(s, w) - gamma V(s')                          a program is ranked by its sum

First V_first alone learns, with the advantages as they are, then it stands and all else learns. It notes ``greedy_q``
(of the token that the model before training would say) and ``recovered`` (r~) of every token.

Deviations: V_first is a head on states of the frozen base, V_rest one on the policy's that starts at 0 (published: a
second decoder, and the difference of two heads). softabs is (softplus(x) + softplus(-x)) / 2 - ln 2: with + ln 2, as
printed, no value could be above -.386.

Every token that was said is pulled to the level of the best one where nothing depends on it, and right programs alone
hold against that, so theirs are sums: with means, and alpha = 1, a model unlearned to program (LOG, 26 November 2026).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evolvent.core.episode import Episode
from evolvent.core.errors import ModelError
from evolvent.core.ledger import Ledger
from evolvent.learn.critics.token import fit, new_head, token_rows
from evolvent.models.language.model import LanguageModel, Row

NUMBERS = 1 << 24  # of one piece, over positions and tokens


@dataclass(frozen=True)
class DuelingConfig:
    """Settings of the values and their losses, those of the system's ``Config``; ``most`` is the largest reward."""

    alpha: float = 0.1
    gamma: float = 0.999
    adv: float = 0.1
    ce: float = 0.5
    most: float = 1.0
    grad_clip: float = 1.0
    micro_tokens: int = 4096


@dataclass(frozen=True, eq=False)
class Seen:
    """What the networks say of some attempts: states of the base and of the policy ``[K, D]``, and the advantages of
    the tokens said and of those that the base would say, ``[K]``.
    """

    base_KD: Tensor
    policy_KD: Tensor
    taken_K: Tensor
    greedy_K: Tensor


def softabs(x: Tensor) -> Tensor:
    """A smooth ``|x| / 2``, 0 at 0."""
    return (F.softplus(x) + F.softplus(-x)) / 2 - math.log(2.0)


class DuelingQ:
    """The values and their optimisers; part of a run's checkpoints.

    ``model`` has the adapter "policy". ``V_rest`` learns with the policy, at ``lr``; ``V_first`` at ``critic_lr``, its
    weights from ``seed``.
    """

    def __init__(
        self, model: LanguageModel, settings: DuelingConfig, *, lr: float, critic_lr: float, seed: int = 0
    ) -> None:
        self.model, self.settings = model, settings
        self.first = new_head(model.width, 1, seed=seed, device=model.device)
        self.rest = nn.Linear(model.width, 1).to(model.device)
        for parameter in self.rest.parameters():
            nn.init.zeros_(parameter)
        self.first_optimizer = torch.optim.AdamW(self.first.parameters(), lr=critic_lr, weight_decay=0.0)
        self.rest_optimizer = torch.optim.AdamW(self.rest.parameters(), lr=lr, weight_decay=0.0)

    # ------------------------------------------------------------------------------------------------ values
    def value(self, base_KD: Tensor, policy_KD: Tensor) -> Tensor:
        """V of states, ``[K]``."""
        return self.settings.most - softabs((self.first(base_KD) + self.rest(policy_KD)).squeeze(-1))

    @torch.no_grad()
    def read(self, episodes: Sequence[Episode]) -> Seen:
        """States and advantages at every token, by the weights of now."""
        rows = [row for episode in episodes for row in _rows(episode)]
        sizes = [len(row.tokens) for row in rows]
        starts = np.cumsum([0, *sizes])
        seen = Seen(
            *(
                torch.zeros(int(starts[-1]), *shape, device=self.model.device)
                for shape in ((self.model.width,), (self.model.width,), (), ())
            )
        )
        for portion in self.model.micro_batches(rows, self.settings.micro_tokens):
            some = [rows[i] for i in portion]
            at = torch.from_numpy(np.concatenate([np.arange(starts[i], starts[i + 1]) for i in portion]))
            base, policy = (self.model.states(some, adapter=name) for name in (None, "policy"))
            seen.base_KD[at], seen.policy_KD[at] = base, policy
            for piece, said in self._pieces(some):
                logits = self._logits(policy[piece])
                best = self._logits(base[piece]).argmax(-1)
                seen.taken_K[at[piece.cpu()]] = self._advantage(logits, said)
                seen.greedy_K[at[piece.cpu()]] = self._advantage(logits, best)
        return seen

    @torch.no_grad()
    def note(self, episodes: Sequence[Episode], seen: Seen) -> None:
        """Note ``greedy_q`` and ``recovered`` of every token."""
        value = self.value(seen.base_KD, seen.policy_KD)
        greedy, taken, value = ((x.cpu().numpy()) for x in (seen.greedy_K + value, seen.taken_K + value, value))
        at = 0
        for episode in episodes:
            mine = slice(at, at + episode.n_tokens)
            behind = np.append(value[mine][1:], 0.0) if episode.n_tokens else value[mine]
            episode.note("greedy_q", greedy[mine])
            episode.note("recovered", taken[mine] - self.settings.gamma * behind)
            at += episode.n_tokens

    # ------------------------------------------------------------------------------------------------ learning
    def pretrain(self, seen: Seen, ledger: Ledger, *, minibatches: int, generator: torch.Generator) -> dict[str, float]:
        """A pass of V_first over the targets in ``ledger``, with the advantages as they are.

        Raises:
            ModelError: the loss is not finite.
        """
        target = torch.tensor(ledger.values("token"), dtype=torch.float32, device=seen.taken_K.device)
        known = torch.nonzero(~target.isnan()).squeeze(-1)

        def loss_of(at: Tensor) -> Tensor:
            q = seen.taken_K[at] + self.value(seen.base_KD[at], seen.policy_KD[at])
            return (target[at] - q).square().mean()

        loss = fit(
            loss_of,
            known,
            self.first_optimizer,
            (1, minibatches),
            generator,
            name="the value of states",
            grad_clip=self.settings.grad_clip,
        )
        return {"value_loss": loss}

    def learn(
        self,
        ledger: Ledger,
        right: Sequence[bool],
        policy: torch.optim.Optimizer,
        *,
        epochs: int,
        minibatches: int,
        generator: torch.Generator,
    ) -> dict[str, float]:
        """Steps of policy and V_rest over the targets in ``ledger``, V_first as it is.

        The ledger holds targets at level "token"; ``right`` says which of its episodes are right programs; ``policy``
        is the optimizer of the adapter "policy". A step is over attempts drawn at random.

        Returns:
            Means over the steps: value_loss, adv_loss, ce_loss, grad_norm; and updates, how many there were.

        Raises:
            ModelError: a loss is not finite.
        """
        usable = [i for i, e in enumerate(ledger.episodes) if e.valid and e.n_tokens]
        metrics: list[dict[str, float]] = []
        for _ in range(epochs if usable else 0):
            order = torch.randperm(len(usable), generator=generator)
            for part in order.chunk(min(minibatches, len(order))):
                metrics.append(self._step(ledger, right, [usable[i] for i in part.tolist()], policy))
        means = {name: fmean(row[name] for row in metrics) for name in metrics[0]} if metrics else {}
        if not all(map(math.isfinite, means.values())):
            raise ModelError("learning diverged", got=means, expected="finite losses", do="lower lr")
        return means | ({"updates": float(len(metrics))} if metrics else {})

    def _step(
        self, ledger: Ledger, right: Sequence[bool], which: Sequence[int], policy: torch.optim.Optimizer
    ) -> dict[str, float]:
        target_K, of_K = ledger.values("token"), ledger.episode_index("token")
        rows, columns = list[Row](), list[np.ndarray]()
        n_right = sum(right[i] for i in which)
        for i in which:
            mine, episode = of_K == i, ledger.episodes[i]
            weight = np.full(episode.n_tokens, 1.0 / (episode.n_tokens * len(which)))
            example = np.full(episode.n_tokens, 1.0 / n_right if right[i] else 0.0)
            columns += np.split(
                np.stack([target_K[mine], weight, example]), np.cumsum(episode.tokens_per_step_T)[:-1], axis=1
            )
            rows += _rows(episode)
        optimizers = (policy, self.rest_optimizer)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        sums = np.zeros(3)
        for portion in self.model.micro_batches(rows, self.settings.micro_tokens):
            sums += self._backward([rows[i] for i in portion], np.concatenate([columns[i] for i in portion], axis=1))
        parameters = [p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
        norm = float(nn.utils.clip_grad_norm_(parameters, self.settings.grad_clip))
        for optimizer in optimizers:
            optimizer.step()
        return dict(zip(("value_loss", "adv_loss", "ce_loss"), sums.tolist(), strict=True)) | {"grad_norm": norm}

    def _backward(self, rows: Sequence[Row], columns: np.ndarray) -> np.ndarray:
        """Gradients of the loss of some rows; its three parts, weighted over the whole minibatch."""
        target, weight, example = torch.tensor(columns, dtype=torch.float32, device=self.model.device)
        hidden = self.model.states(rows, adapter="policy")
        with torch.no_grad():
            base = self.model.states(rows, adapter=None)
        leaf, sums = hidden.detach().requires_grad_(), np.zeros(3)
        for piece, said in self._pieces(rows):
            logits = self._logits(leaf[piece])
            adv = self._advantage(logits, said)
            q = adv + self.value(base[piece], leaf[piece])
            logp = logits.log_softmax(-1).gather(-1, said[:, None]).squeeze(-1)
            parts = (
                (weight[piece] * (target[piece] - q).square()).sum(),
                (example[piece] * adv.abs()).sum(),
                -(example[piece] * logp).sum(),
            )
            (parts[0] + self.settings.adv * parts[1] + self.settings.ce * parts[2]).backward()
            sums += [float(part.detach()) for part in parts]
        hidden.backward(leaf.grad)
        return sums

    def state_dict(self) -> dict[str, Any]:
        """Both heads and their optimisers."""
        return {name: getattr(self, name).state_dict() for name in _PARTS}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        for name in _PARTS:
            getattr(self, name).load_state_dict(state[name])

    # ------------------------------------------------------------------------------------------------ inside
    def _logits(self, states_UD: Tensor) -> Tensor:
        layer = self.model.network.get_output_embeddings()
        return layer(states_UD.to(layer.weight.dtype)).float()

    def _advantage(self, logits_UV: Tensor, token_U: Tensor) -> Tensor:
        taken = logits_UV.gather(-1, token_U[:, None]).squeeze(-1)
        return self.settings.alpha * (taken - logits_UV.amax(-1))

    def _pieces(self, rows: Sequence[Row]) -> Iterator[tuple[Tensor, Tensor]]:
        """Positions of the rows and the tokens said there, in pieces that bound the memory."""
        said = np.concatenate([row.tokens for row in rows]).astype(np.int64)
        size = max(1, NUMBERS // self.model.n_vocab)
        for low in range(0, len(said), size):
            high = min(len(said), low + size)
            yield (
                torch.arange(low, high, device=self.model.device),
                torch.from_numpy(said[low:high]).to(self.model.device),
            )


_PARTS = ("first", "rest", "first_optimizer", "rest_optimizer")


def _rows(episode: Episode) -> list[Row]:
    return [Row(episode.context_ids(t), ids) for t, ids in enumerate(token_rows(episode))]


def ranked(episodes: Sequence[Episode]) -> dict[str, list[int]]:
    """The valid attempts of each group (or task), best first by the sum of the noted ``recovered`` rewards."""
    groups: dict[str, list[int]] = {}
    for i, episode in enumerate(episodes):
        if episode.valid:
            groups.setdefault(episode.group or episode.task_id, []).append(i)
    worth = [float(np.sum(e.notes["recovered"])) if e.valid else 0.0 for e in episodes]
    return {name: sorted(some, key=lambda i: -worth[i]) for name, some in groups.items()}
