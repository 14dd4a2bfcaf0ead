"""ArCHer's critics: two action values and two state values of whole utterances, and the replay that they learn from.

Source: Zhou et al. 2024, arXiv 2402.19446. ``Q(o, a)`` reads the frozen base's last hidden state behind observation and
utterance, ``V(o)`` that behind the observation; each is a small MLP.

    Q_k(o, a) -> r + gamma (1 - done) Vslow_k(o')          V_k(o) -> Qslow_k(o, fresh a ~ pi(o))

The base is frozen, so features are computed once, when a decision enters the replay, and passes over it cost little.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, ModelError
from evolvent.learn.critics.soft_q import polyak
from evolvent.learn.critics.token import token_rows
from evolvent.models.language.model import Row

Features = Callable[[Sequence[Row]], Tensor]
"""Rows to the states that predict each of their tokens: float32 ``[K, D]``, no gradient."""
WIDTH = 256


class Situation(NamedTuple):
    """A decision of the replay: its place, what was seen, and what was allowed (empty: any text)."""

    place: int
    context: np.ndarray
    choices: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class UtteranceCriticConfig:
    """Settings of ArCHer's critics, those of the system's ``Config``."""

    lr: float = 3e-4
    gamma: float = 0.95
    tau: float = 0.1
    capacity: int = 4096
    grad_clip: float = 1.0


class UtteranceCritics:
    """Critics, target critics, optimiser and replay; part of a run's checkpoints.

    ``features`` are the hidden states of the frozen base, of ``width`` numbers; contexts of more than ``limit`` tokens
    lose their beginning. ``seed`` is that of the first weights.
    """

    def __init__(
        self, features: Features, width: int, limit: int, settings: UtteranceCriticConfig, *, seed: int = 0
    ) -> None:
        self._features, self._limit, self.settings = features, limit, settings
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.heads = nn.ModuleDict({name: _mlp(width) for name in ("q1", "q2", "v1", "v2")})
        self.slow = copy.deepcopy(self.heads)
        self.optimizer = torch.optim.Adam(self.heads.parameters(), lr=settings.lr)
        self._seen: list[tuple[np.ndarray, tuple[np.ndarray, ...]]] = []
        # before, behind the utterance, before the next decision: [N, D] each; reward and whether something follows
        self._columns = {name: torch.zeros(0, width) for name in ("before", "behind", "next")}
        self._columns |= {name: torch.zeros(0) for name in ("reward", "goes_on")}

    def __len__(self) -> int:
        return len(self._seen)

    # ------------------------------------------------------------------------------------------------ replay
    @torch.no_grad()
    def add(self, episodes: Sequence[Episode]) -> None:
        """Put every decision of the valid episodes into the replay; the oldest make room."""
        some = [e for e in episodes if e.valid and e.n_steps]
        if not some:
            return
        texts = [_texts(e) for e in some]
        cut = [e.truncated and not e.terminated for e in some]
        columns: dict[str, list[Tensor]] = {name: [] for name in ("reward", "goes_on")}
        after: list[np.ndarray] = []
        for e, (contexts, _), more in zip(some, texts, cut, strict=True):
            after += [*contexts[1:], e.tokens_to(e.n_nodes - 1) if more else contexts[-1]]
            goes_on = torch.ones(e.n_steps)
            goes_on[-1] = float(more)
            columns["reward"].append(torch.as_tensor(e.rewards_T, dtype=torch.float32))
            columns["goes_on"].append(goes_on)
            choices = [tuple(np.array(c, np.int32) for c in e.choices(t)) for t in range(e.n_steps)]
            self._seen += zip(contexts, choices, strict=True)
        befores, behinds = ([ids for pair in texts for ids in pair[k]] for k in (0, 1))
        read = self._read([*befores, *behinds, *after]).split(len(after))
        new = {name: torch.cat(parts) for name, parts in columns.items()}
        new |= dict(zip(("before", "behind", "next"), read, strict=True))
        self._seen = self._seen[-self.settings.capacity :]
        for name, column in new.items():
            self._columns[name] = torch.cat([self._columns[name], column])[-self.settings.capacity :]

    def draw(self, n: int, generator: torch.Generator) -> list[Situation]:
        """``n`` decisions of the replay, without repetition; all of them in random order where there are fewer.

        Raises:
            BadInput: the replay is empty.
        """
        if not len(self):
            raise BadInput("nothing to learn from", got="no valid attempt yet", where="learn.utterance_critic")
        order = torch.randperm(len(self), generator=generator)[:n].tolist()
        return [Situation(i, *self._seen[i]) for i in order]

    # ------------------------------------------------------------------------------------------------ credit
    @torch.no_grad()
    def note(self, episodes: Sequence[Episode]) -> None:
        """Note ``q1``, ``q2``, ``v1``, ``v2`` of every decision at each of its tokens."""
        texts = [_texts(e) for e in episodes]
        befores, behinds = ([ids for pair in texts for ids in pair[k]] for k in (0, 1))
        if not befores:
            return
        before, behind = self._read([*befores, *behinds]).split(len(befores))
        values = {name: head(behind if name[0] == "q" else before)[:, 0] for name, head in self.heads.items()}
        at = 0
        for e in episodes:
            for name, column in values.items():
                e.note(name, np.repeat(column[at : at + e.n_steps].numpy(), e.tokens_per_step_T))
            at += e.n_steps

    # ------------------------------------------------------------------------------------------------ learning
    def learn(
        self,
        drawn: Sequence[Situation],
        answers: Sequence[np.ndarray],
        *,
        passes: int,
        batch: int,
        generator: torch.Generator,
    ) -> dict[str, float]:
        """Passes over as many decisions as were drawn: action values on the replay, state values on fresh answers.

        ``answers`` are tokens ``[K]`` that the policy of now says in each situation ``drawn``; a step is over ``batch``
        decisions, and the slow copies follow after each pass.

        Returns:
            q_loss and v_loss of the last pass, and the mean values.

        Raises:
            ModelError: a loss is not finite.
        """
        fresh_D = self._read([np.concatenate([s.context, ids]) for s, ids in zip(drawn, answers, strict=True)])
        at = torch.tensor([s.place for s in drawn])
        metrics: list[tuple[float, float]] = []
        for _ in range(passes):
            metrics = []
            for rows in torch.randperm(len(drawn), generator=generator).split(batch):
                replayed = torch.randint(len(self), (len(rows),), generator=generator)
                metrics.append(self._step(replayed, at[rows], fresh_D[rows]))
            polyak(self.slow, self.heads, self.settings.tau)
        q_loss, v_loss = (fmean(column) for column in zip(*metrics, strict=True))
        if not np.isfinite(q_loss + v_loss):
            raise ModelError("the critics diverged", got=(q_loss, v_loss), expected="finite", do="lower critic_lr")
        with torch.no_grad():
            value = float(self.heads["v1"](self._columns["before"][at]).mean())
        return {"q_loss": q_loss, "v_loss": v_loss, "value": value, "replay": float(len(self))}

    def _step(self, replayed: Tensor, at: Tensor, fresh: Tensor) -> tuple[float, float]:
        """One optimiser step on the sum of the four mean squared errors."""
        column = self._columns
        q_loss, v_loss = torch.zeros(()), torch.zeros(())
        for k in ("1", "2"):
            with torch.no_grad():
                ahead = self.slow[f"v{k}"](column["next"][replayed]).squeeze(-1)
                goal = column["reward"][replayed] + self.settings.gamma * column["goes_on"][replayed] * ahead
                worth = self.slow[f"q{k}"](fresh).squeeze(-1)
            q = self.heads[f"q{k}"](column["behind"][replayed]).squeeze(-1)
            v = self.heads[f"v{k}"](column["before"][at]).squeeze(-1)
            q_loss, v_loss = q_loss + ((q - goal) ** 2).mean(), v_loss + ((v - worth) ** 2).mean()
        self.optimizer.zero_grad(set_to_none=True)
        (q_loss + v_loss).backward()
        nn.utils.clip_grad_norm_(self.heads.parameters(), self.settings.grad_clip)
        self.optimizer.step()
        return float(q_loss.detach()), float(v_loss.detach())

    def _read(self, texts: Sequence[np.ndarray]) -> Tensor:
        """The state behind each text, float32 ``[N, D]`` on the CPU."""
        one = np.zeros(1, np.int32)  # the state behind a context is the one that would predict a token, whichever
        with torch.no_grad():
            return self._features([Row(ids[-self._limit + 1 :], one) for ids in texts]).float().cpu()

    # ------------------------------------------------------------------------------------------------ checkpoints
    def state_dict(self) -> dict[str, Any]:
        """Critics, optimizer and the whole replay."""
        choices = [some for _, some in self._seen]
        ragged = {"contexts": [ids for ids, _ in self._seen], "choices": [ids for some in choices for ids in some]}
        flat = {name: np.concatenate([np.zeros(0, np.int32), *parts]) for name, parts in ragged.items()}
        sizes = {f"{name}_sizes": np.array([len(ids) for ids in parts], np.int64) for name, parts in ragged.items()}
        counts = np.array([len(some) for some in choices], np.int64)
        return {
            "heads": self.heads.state_dict(),
            "slow": self.slow.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "columns": dict(self._columns),
            **flat,
            **sizes,
            "counts": counts,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        for name in ("heads", "slow", "optimizer"):
            getattr(self, name).load_state_dict(state[name])
        self._columns = {name: state["columns"][name].clone() for name in self._columns}

        def parts(name: str) -> list[np.ndarray]:
            ids = np.asarray(state[name], np.int32)
            return np.split(ids, np.cumsum(state[f"{name}_sizes"])[:-1]) if len(state[f"{name}_sizes"]) else []

        choices = iter(parts("choices"))
        allowed = [tuple(next(choices) for _ in range(int(n))) for n in state["counts"]]
        self._seen = list(zip(parts("contexts"), allowed, strict=True))


def _texts(episode: Episode) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Tokens of what was seen before each decision, and of the same followed by the answer."""
    contexts = [episode.context_ids(t) for t in range(episode.n_steps)]
    return contexts, [np.concatenate(pair) for pair in zip(contexts, token_rows(episode), strict=True)]


def _mlp(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
