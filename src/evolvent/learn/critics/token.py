"""A value for every prefix: an MLP on the hidden states of the frozen base model.

Source: the critic of POAD and MARFT (arXiv 2405.15821, 2504.16129). ``V(o, w^{<j})`` is read at the state that
*predicts* token j, so before the token is seen; ``V(o)`` is that of the first token. The features come from the base
model without its adapters and do not change while the policy learns, so they are computed once for each batch of
episodes and every pass of the critic over them costs next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, ModelError
from evolvent.core.ledger import Ledger
from evolvent.learn.losses import explained_variance, value_loss
from evolvent.models.language.model import Row

Features = Callable[[Sequence[Row]], Tensor]
"""Rows to the states that predict each of their tokens: float32 ``[K, D]``, flat over rows, no gradient."""


@dataclass(frozen=True, eq=False)
class CriticBatch:
    """A batch as the critic sees it: features ``[K, D]`` of all tokens, and its values ``[K]`` before training."""

    episodes: Sequence[Episode]
    features_KD: Tensor
    value_K: Tensor


WIDTH = 256  # of the heads of other critics


class TokenCritic:
    """Value head of ``width`` features and its optimiser, Adam.

    Features are hidden states of the frozen base (``models.language.model.LanguageModel.states``). ``clip`` is PPO's
    range of values, 0 = no clipping. A row has at most ``context`` tokens (0 = no limit); a longer situation is valued
    by its end.
    """

    def __init__(
        self,
        features: Features,
        width: int,
        *,
        lr: float = 1e-4,
        clip: float = 0.2,
        seed: int = 0,
        device: torch.device | str = "cpu",
        context: int = 0,
    ) -> None:
        self._features, self.clip, self._context = features, clip, context
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers = [nn.Linear(width, 1024, bias=False), nn.ReLU(), nn.Linear(1024, 512, bias=False), nn.ReLU()]
            self.head = nn.Sequential(*layers, nn.Linear(512, 1, bias=False)).to(device)
        self.optimizer = torch.optim.Adam(self.head.parameters(), lr=lr)

    def note(self, episodes: Sequence[Episode]) -> CriticBatch:
        """Value every token of ``episodes`` and the place where a truncated one stopped, and note it in the record.

        ``notes["value"]`` is V before each token; ``final_value`` that of the last observation, where an
        attempt was cut off.
        """
        rows = [Row(e.context_ids(t), ids) for e in episodes for t, ids in enumerate(token_rows(e))]
        cut = [e for e in episodes if e.truncated and not e.terminated]
        # the value of an observation is read where its first token would be predicted, whichever token that is
        seen = [e.tokens_to(e.n_nodes - 1) for e in cut]
        last = [
            Row(ids[max(0, len(ids) + 1 - (self._context or len(ids) + 1)) :], np.zeros(1, np.int32)) for ids in seen
        ]
        features = self._features([*rows, *last]).float()
        with torch.no_grad():
            value = self.head(features).squeeze(-1)
        at = 0
        for episode in episodes:
            episode.note("value", value[at : at + episode.n_tokens].cpu().numpy())
            at += episode.n_tokens
        for episode, v in zip(cut, value[at:].tolist(), strict=True):
            episode.final_value = v
        return CriticBatch(episodes, features[:at], value[:at])

    def learn(
        self,
        seen: CriticBatch,
        target_K: np.ndarray,
        *,
        epochs: int,
        minibatches: int,
        grad_clip: float,
        generator: torch.Generator,
    ) -> dict[str, float]:
        """Move the values towards ``target_K`` (NaN = no target): clipped squared error, means of the last epoch."""
        target = torch.as_tensor(target_K, dtype=torch.float32, device=seen.features_KD.device)
        known = torch.nonzero(~target.isnan()).squeeze(-1)

        def loss_of(rows: Tensor) -> Tensor:
            value = self.head(seen.features_KD[rows]).squeeze(-1)
            # errors of returns near 1: the linear part of the Huber loss is far away, so this is half the square
            return value_loss(value, target[rows], old_value=seen.value_K[rows], clip=self.clip).mean()

        passes = (epochs, minibatches)
        mean = fit(loss_of, known, self.optimizer, passes, generator, name="the critic", grad_clip=grad_clip)
        return {"value_loss": mean, "explained": explained_variance(seen.value_K[known], target[known])}

    def state_dict(self) -> dict[str, Any]:
        """Weights and optimizer."""
        return {"head": self.head.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.head.load_state_dict(state["head"])
        self.optimizer.load_state_dict(state["optimizer"])


def fit(
    loss_of: Callable[[Tensor], Tensor],
    known: Tensor,
    optimizer: torch.optim.Optimizer,
    passes: tuple[int, int],
    generator: torch.Generator,
    *,
    name: str,
    grad_clip: float = math.inf,
    lr: str = "critic_lr",
) -> float:
    """Passes over the rows ``known`` in random minibatches; the mean loss of the last one, 0 where there was none.

    ``loss_of`` gives rows their mean loss, ``passes`` is how many and minibatches of each, the generator is on the CPU.

    Raises:
        ModelError: the loss is not finite; it names the critic, and the setting ``lr`` of its learning rate.
    """
    epochs, minibatches = passes
    losses: list[float] = []
    for _ in range(epochs if len(known) else 0):
        losses = []
        order = known[torch.randperm(len(known), generator=generator).to(known.device)]
        for rows in order.chunk(min(minibatches, len(order))):
            loss = loss_of(rows)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], grad_clip)
            optimizer.step()
            losses.append(loss.item())
    mean = float(np.mean(losses)) if losses else 0.0
    if not np.isfinite(mean):
        raise ModelError(f"{name} diverged", got=mean, expected="a finite loss", do=f"lower {lr}")
    return mean


@dataclass(frozen=True, eq=False)
class Around:
    """Of critics beside the policy: states ``[S, D]`` of some attempts, a batch of which is read once.

    There is one before and behind every token: n + 1 states for n tokens. int64: which attempt each is of, and which
    stands before each token; the state that follows it is the one behind.
    """

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


def token_targets(ledger: Ledger) -> np.ndarray:
    """Targets of the values before each token, ``[K]``, from those of a credit rule; NaN = no target.

    Those of decisions stand at their first token, where the critic says what the situation is worth.

    Raises:
        BadInput: the rule gave none.
    """
    if "token" in ledger.targets:
        return ledger.targets["token"]
    if "step" not in ledger.targets:
        raise BadInput(
            "no targets for the critic",
            expected='a rule that sets ledger.targets["token"] or ["step"]',
            where="learn.token_critic",
            do="use a rule that reads a critic, such as step_gae or token_bad",
        )
    step_K = ledger.parent_index("token", "step")
    first_K = np.diff(step_K, prepend=-1) != 0
    return np.where(first_K, ledger.targets["step"][step_K], np.nan)


def token_rows(episode: Episode) -> list[np.ndarray]:
    """Tokens of each decision, one array a step."""
    return [episode.step_tokens(t) for t in range(episode.n_steps)]
