"""ETPO's two networks at work on one base: a policy, and action values over the vocabulary with a slow copy.

Source: Wen et al. 2024, arXiv 2402.06700; losses in ``learn.critics.soft_q``, targets in ``credit.token_soft_bellman``.

    Q(s, w) = u . h(s) + b + (W h(s)) . e_w / sqrt(D)       h: last hidden state under an adapter of its own, e_w: the
                                                            (frozen) output embedding of token w; u, b, W start at 0

The published Q is the language model itself with its logits read as values, which start far above any reward; this one
starts at 0 everywhere and costs an adapter and a D x D map. Where actions come from a list all sums run over the tokens
that continue an allowed one, otherwise over the whole vocabulary, some positions at a time.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evolvent.core.episode import Episode
from evolvent.core.errors import ModelError
from evolvent.core.ledger import Ledger
from evolvent.learn.critics.soft_q import polyak, soft_q_actor, soft_q_critic
from evolvent.learn.critics.token import token_rows
from evolvent.learn.tokens.batch import TokenBatch, token_batch
from evolvent.learn.tokens.ratios import approx_kl
from evolvent.models.language.model import LanguageModel, Row

Q, SLOW = "q", "q_slow"
"""Adapters of the Q network and of its target network."""
NUMBERS = 1 << 24  # of one piece, over positions and tokens (and features, where tokens are picked)
NOT_ALLOWED = -1e9  # finite, so that 0 times it is 0


@dataclass(frozen=True)
class SoftQConfig:
    """Settings of the losses of Q, those of the system's ``Config``; ``delta`` is its ``huber``."""

    beta: float = 0.01
    gamma: float = 0.99
    polyak: float = 0.005
    temperature: float = 1.0
    delta: float = 10.0
    grad_clip: float = 10.0
    micro_tokens: int = 4096


@dataclass(frozen=True, eq=False)
class Places:
    """Some positions of a pass: ``at`` int64 ``[U]`` among all of them, the tokens that may stand there
    ``support_UN`` (-1 = none; ``None``: the whole vocabulary), and where among these the one taken is: ``taken_U``.
    """

    at: Tensor
    taken_U: Tensor
    support_UN: Tensor | None


class SoftQ:
    """The Q network, its target network and its optimiser; part of a run's checkpoints.

    ``model`` has the adapters "policy", ``Q`` and ``SLOW``; Q learns at ``lr``.
    """

    def __init__(self, model: LanguageModel, settings: SoftQConfig, *, lr: float) -> None:
        self.model, self.settings = model, settings
        self.head = _Head(model.width).to(model.device)
        self.slow = copy.deepcopy(self.head)
        with torch.no_grad():
            for mine, theirs in zip(model.trainable(SLOW), model.trainable(Q), strict=True):
                mine.copy_(theirs)
        self.optimizer = torch.optim.AdamW([*model.trainable(Q), *self.head.parameters()], lr=lr, weight_decay=0.0)

    # ------------------------------------------------------------------------------------------------ credit
    @torch.no_grad()
    def note(self, episodes: Sequence[Episode]) -> None:
        """Note ``expected_q`` and ``kl`` before every token, under the slow copy, and their soft value as ``value``.

        Where a single token can follow nothing is decided, and what it leads to stands in for the copy's opinion: the
        same fixed point, reached without a backup for every forced token.
        ``final_value`` is that of the last observation of an attempt that was cut off, over the actions in
        ``final_choices`` where there are any.
        """
        rows = [row for e in episodes for row in self._rows(e)]
        cut = [e for e in episodes if e.truncated and not e.terminated]
        last = [self._last(e) for e in cut]
        metrics = self._soft([*rows, *last]).cpu().numpy()
        at = sum(e.n_tokens for e in episodes)
        for e, (expected, kl) in zip(cut, metrics[:, at:].T.tolist(), strict=True):
            e.final_value = expected - self.settings.beta * kl
        at = 0
        for e in episodes:
            expected, kl = metrics[:, at : at + e.n_tokens]
            at += e.n_tokens
            rows_e, rows = rows[: e.n_steps], rows[e.n_steps :]
            self._pass_forced(e, rows_e, expected, kl)
            for name, column in (("expected_q", expected), ("kl", kl), ("value", expected - self.settings.beta * kl)):
                e.note(name, column)

    def _pass_forced(self, episode: Episode, rows: Sequence[Row], expected_K: np.ndarray, kl_K: np.ndarray) -> None:
        """Walk back from the end: a forced token is worth what it leads to."""
        ahead, at = episode.final_value or 0.0, episode.n_tokens
        for t in reversed(range(episode.n_steps)):
            ahead = float(episode.rewards_T[t]) + self.settings.gamma * ahead
            for k in reversed(range(len(rows[t].tokens))):
                at -= 1
                if rows[t].choices and len(continuations(rows[t], k)) == 1:
                    expected_K[at], kl_K[at] = ahead, 0.0
                ahead = float(expected_K[at] - self.settings.beta * kl_K[at])

    def _rows(self, episode: Episode) -> list[Row]:
        choices = [tuple(np.array(c, np.int32) for c in episode.choices(t)) for t in range(episode.n_steps)]
        return [Row(episode.context_ids(t), ids, choices[t]) for t, ids in enumerate(token_rows(episode))]

    def _last(self, episode: Episode) -> Row:
        """The last observation that a token follows; its value is read before that token."""
        context = episode.tokens_to(episode.n_nodes - 1)[-self.model.context + 1 :]
        choices = tuple(np.array(c, np.int32) for c in episode.final_choices)
        return Row(context, choices[0][:1] if choices else np.zeros(1, np.int32), choices)

    def _soft(self, rows: Sequence[Row]) -> Tensor:
        """Expected Q and KL before each token of all rows: ``[2, K]``."""
        sizes = [len(row.tokens) for row in rows]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        out = torch.zeros(2, int(starts[-1]))
        for portion in self.model.micro_batches(rows, self.settings.micro_tokens):
            some = [rows[i] for i in portion]
            at = torch.from_numpy(np.concatenate([np.arange(starts[i], starts[i + 1]) for i in portion]))
            hidden, base, values = (self.model.states(some, adapter=name) for name in ("policy", None, SLOW))
            for places in self._places(some):
                logp, ref, q = self._three(hidden[places.at], base, values, places, self.slow)
                p = logp.exp()
                out[0, at[places.at.cpu()]] = (p * q).sum(-1).cpu()
                out[1, at[places.at.cpu()]] = (p * (logp - ref)).sum(-1).cpu()
        return out

    # ------------------------------------------------------------------------------------------------ learning
    def learn(
        self,
        episodes: Sequence[Episode],
        ledger: Ledger,
        policy: torch.optim.Optimizer,
        *,
        epochs: int,
        minibatches: int,
        generator: torch.Generator,
    ) -> dict[str, float]:
        """For each minibatch a step of the policy, one of the values, and the slow copy follows.

        The ledger holds targets of the values at level "token"; ``policy`` is the optimizer of the adapter "policy";
        decisions of a minibatch are drawn at random.

        Returns:
            Means over the steps: policy_loss, value_loss, entropy (of tokens that had an alternative), approx_kl,
            kl_ref, soft_value; grad_norm of the policy; and gap, the largest difference of log-probabilities from
            those sampled, before the first step.

        Raises:
            ModelError: a loss is not finite.
        """
        batch = token_batch(episodes, ledger, level="token", constrained=True)
        metrics: list[dict[str, float]] = []
        for _ in range(epochs):
            order = torch.randperm(len(batch.rows), generator=generator)
            for rows in order.chunk(min(minibatches, max(1, len(order)))):
                part = batch.select(rows.tolist())
                metrics.append(self._step(part, policy))
                self._follow()
        bad = [name for name, value in metrics[-1].items() if not math.isfinite(value)]
        if bad:
            raise ModelError("learning diverged", got=bad, expected="finite losses", do="lower lr or critic_lr")
        means = {name: fmean(row[name] for row in metrics if name in row) for name in metrics[0]}
        first = {"gap": metrics[0]["gap"]} if "gap" in metrics[0] else {}
        return means | first | {"updates": float(len(metrics)), "tokens": float(len(batch.units))}

    def _step(self, part: TokenBatch, policy: torch.optim.Optimizer) -> dict[str, float]:
        """One step of the policy with the values as they are, and one of the values.

        Neither loss reads what the other step changes, so both gradients come from the same passes.
        """
        names = ("policy_loss", "entropy", "kl_ref", "soft_value", "value_loss")
        sums: dict[str, float] = dict.fromkeys(names, 0.0)
        moved: list[Tensor] = []
        for optimizer in (policy, self.optimizer):
            optimizer.zero_grad(set_to_none=True)
        for rows in self.model.micro_batches(part.rows, self.settings.micro_tokens):
            one = part.select(rows)
            hidden, values = (self.model.states(one.rows, adapter=name) for name in ("policy", Q))
            with torch.no_grad():
                base = self.model.states(one.rows, adapter=None)
            leaves = hidden.detach().requires_grad_(), values.detach().requires_grad_()
            for places in self._places(one.rows):
                metrics = self._losses(one, places, leaves, base, len(part.units))
                moved.append(metrics.pop("moved").cpu())
                for name, total in metrics.items():
                    sums[name] += float(total) / len(part.units)
            hidden.backward(leaves[0].grad)
            values.backward(leaves[1].grad)
        norms = [self._descend(optimizer) for optimizer in (policy, self.optimizer)]
        free = int(part.units.free.sum()) if part.units.free is not None else len(part.units)
        sums["entropy"] *= len(part.units) / max(1, free)  # elsewhere it is 0 whatever the policy
        away = torch.cat(moved)
        away = away[~away.isnan()]
        if len(away):
            sums |= {"approx_kl": float(approx_kl(away).mean()), "gap": float(away.abs().max())}
        return sums | {"grad_norm": norms[0]}

    def _losses(
        self, part: TokenBatch, places: Places, leaves: tuple[Tensor, Tensor], base: Tensor, n: int
    ) -> dict[str, Tensor]:
        """Backward pass of both losses at some positions, divided by ``n``; returns sums of the metrics."""
        units, beta = part.units.to(leaves[0].device)[places.at], self.settings.beta
        logp, ref, q = self._three(leaves[0][places.at], base, leaves[1].detach(), places, self.head)
        actor = soft_q_actor(logp, ref, q, beta)
        (actor.sum() / n).backward()
        q = self.head(leaves[1][places.at], places.support_UN, self.model.network.get_output_embeddings().weight)
        critic = soft_q_critic(q, places.taken_U, units.adv, delta=self.settings.delta)
        (critic.sum() / n).backward()
        logp, actor = logp.detach(), actor.detach()
        p = logp.exp()
        return {
            "policy_loss": actor.sum(),
            "entropy": -(p * logp).sum(),
            "kl_ref": (p * (logp - ref)).sum(),
            "soft_value": -beta * actor.sum(),
            "value_loss": critic.detach().sum(),
            "moved": logp.gather(-1, places.taken_U[:, None])[:, 0] - units.old_logp,
        }

    def _descend(self, optimizer: torch.optim.Optimizer) -> float:
        """Clip, step, and forget the gradient; returns its norm before."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        norm = float(nn.utils.clip_grad_norm_(parameters, self.settings.grad_clip))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return norm

    @torch.no_grad()
    def _follow(self) -> None:
        for slow, fast in zip(self.model.trainable(SLOW), self.model.trainable(Q), strict=True):
            slow.lerp_(fast, self.settings.polyak)
        polyak(self.slow, self.head, self.settings.polyak)

    # ------------------------------------------------------------------------------------------------ checkpoints
    def state_dict(self) -> dict[str, Any]:
        """Both networks and the optimizer."""
        adapters = {name: dict(self.model.state_dict(name)) for name in (Q, SLOW)}
        heads = {"head": self.head.state_dict(), "slow": self.slow.state_dict()}
        return {**heads, "adapters": adapters, "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        for name in (Q, SLOW):
            self.model.load_state_dict(state["adapters"][name], name)
        self.head.load_state_dict(state["head"])
        self.slow.load_state_dict(state["slow"])
        self.optimizer.load_state_dict(state["optimizer"])

    # ------------------------------------------------------------------------------------------------ inside
    def _places(self, rows: Sequence[Row]) -> Iterator[Places]:
        return places_of(rows, self.model.n_vocab, self.model.width, self.model.device)

    def _three(
        self, hidden_UD: Tensor, base: Tensor, values: Tensor, places: Places, head: nn.Module
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities of policy and base, and values, ``[U, N]`` each; only the first has a gradient."""
        layer = self.model.network.get_output_embeddings()
        logp = _logp(hidden_UD, places.support_UN, layer, self.settings.temperature)
        with torch.no_grad():
            ref = _logp(base[places.at], places.support_UN, layer, self.settings.temperature)
            q = head(values[places.at], places.support_UN, layer.weight)
        return logp, ref, q


class _Head(nn.Module):
    """Hidden states to values of tokens; all 0 before training."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.state, self.word = nn.Linear(width, 1), nn.Linear(width, width, bias=False)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, hidden_UD: Tensor, support_UN: Tensor | None, weight_VD: Tensor) -> Tensor:
        """``[U, N]``; 0 where there is no token."""
        mapped = self.word(hidden_UD) / math.sqrt(hidden_UD.shape[-1])
        # differences between tokens are small beside the value of the state, which stays in float32
        return self.state(hidden_UD) + _scores(mapped, support_UN, weight_VD)


def _scores(hidden_UD: Tensor, support_UN: Tensor | None, weight_VD: Tensor) -> Tensor:
    if support_UN is None:
        return (hidden_UD.to(weight_VD.dtype) @ weight_VD.T).float()
    return (weight_VD[support_UN.clamp(min=0)].float() @ hidden_UD[:, :, None]).squeeze(-1)


def _logp(hidden_UD: Tensor, support_UN: Tensor | None, layer: Any, temperature: float) -> Tensor:
    """Normalised log-probabilities of the tokens that may stand there, ``[U, N]``."""
    logits = _scores(hidden_UD, support_UN, layer.weight)
    bias = getattr(layer, "bias", None)
    if bias is not None:
        logits = logits + (bias if support_UN is None else bias[support_UN.clamp(min=0)])
    logits = logits / temperature
    if support_UN is not None:
        logits = logits.masked_fill(support_UN < 0, NOT_ALLOWED)
    return torch.log_softmax(logits, dim=-1)


def places_of(rows: Sequence[Row], n_vocab: int, width: int, device: torch.device) -> Iterator[Places]:
    """All token positions of the rows, in pieces that bound the memory: free ones first, then those with choices."""
    free: list[tuple[int, int]] = []
    bound: list[tuple[int, int, list[int]]] = []
    at = 0
    for row in rows:
        for k, token in enumerate(row.tokens.tolist()):
            if row.choices:
                bound.append((at + k, token, continuations(row, k)))
            else:
                free.append((at + k, token))
        at += len(row.tokens)
    size = max(1, NUMBERS // n_vocab)
    for low in range(0, len(free), size):
        place, token = torch.tensor(free[low : low + size], device=device).T
        yield Places(place, token, None)
    bound.sort(key=lambda one: len(one[2]))  # alike in number, so that little is padding
    low = 0
    while low < len(bound):
        high = low + 1
        while high < len(bound) and (high + 1 - low) * len(bound[high][2]) * width <= NUMBERS:
            high += 1
        some = bound[low:high]
        n = len(some[-1][2])
        support = torch.tensor([tokens + [-1] * (n - len(tokens)) for _, _, tokens in some], device=device)
        taken = [tokens.index(token) if token in tokens else 0 for _, token, tokens in some]
        yield Places(torch.tensor([p for p, _, _ in some], device=device), torch.tensor(taken, device=device), support)
        low = high


def continuations(row: Row, k: int) -> list[int]:
    """The tokens that continue some choice after the first ``k`` tokens of the row, ascending."""
    before = row.tokens[:k].tolist()
    return sorted({int(c[k]) for c in row.choices if len(c) > k and c[:k].tolist() == before})
