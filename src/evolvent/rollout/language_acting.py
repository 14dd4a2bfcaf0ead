"""How a language model decides: free text, a choice among whole actions, or token by token inside the allowed actions.

For ``word``, ``token`` and ``sum`` the choice is TWOSOME's (Tan et al. 2024, arXiv 2401.14151):

    z_k = sum_j log pi(w_k^j | context, w_k^{<j})  /  (words of k | tokens of k | 1),      P(k) = softmax_k(z_k / T)

The record keeps the unconstrained log-probabilities of the chosen action's tokens and notes ``action_logp``, the
log-probability of the choice itself, at each of them. ``trie`` samples the tokens one by one among those that continue
some allowed action, so the log-probabilities of the record are those of what was done.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from evolvent.core.seeding import rng
from evolvent.models.language import Heat, LanguageModel, Row
from evolvent.rollout.players import Ask, Said

Way = Literal["word", "token", "sum", "trie"]


@dataclass
class Acting:
    """Answers a batch of asks with a ``models.language.LanguageModel``; counts tokens and seconds.

    ``way`` is how it chooses among allowed actions; temperature 0 is greedy. With ``heat`` the temperature of what is
    sampled token by token follows its entropy.
    """

    model: LanguageModel
    way: Way = "trie"
    temperature: float = 1.0
    heat: Heat | None = None
    tokens: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)

    def __call__(self, asks: Sequence[Ask]) -> list[Said]:
        """The answers in order."""
        started = time.perf_counter()
        said: list[Said | None] = [None] * len(asks)
        batches: dict[tuple[Any, ...], list[int]] = {}
        for i, ask in enumerate(asks):
            scored = bool(ask.choices) and self.way != "trie"
            key = (ask.adapter, "score") if scored else (ask.adapter, ask.room, ask.stop, bool(ask.choices))
            batches.setdefault(key, []).append(i)
        for key, members in batches.items():
            batch = [asks[i] for i in members]
            answers = self._choose(batch) if key[1] == "score" else self._write(batch)
            for i, answer in zip(members, answers, strict=True):
                said[i] = answer
        self.seconds += time.perf_counter() - started
        answers = [answer for answer in said if answer is not None]
        self.tokens += sum(len(answer.token_ids) for answer in answers)
        return answers

    def _write(self, asks: Sequence[Ask]) -> list[Said]:
        """Sampled token by token, freely or inside the allowed actions."""
        choices = [list(ask.choices) for ask in asks] if asks[0].choices else None
        sampled = self.model.sample(
            [ask.context for ask in asks], max_tokens=asks[0].room, temperature=self.temperature,
            stop=() if choices else asks[0].stop, seeds=[ask.seed for ask in asks], adapter=asks[0].adapter,
            allowed=choices, heat=self.heat,
        )  # fmt: skip
        out: list[Said] = []
        for ask, one in zip(asks, sampled, strict=True):
            taken = [i for i, ids in enumerate(ask.choices) if np.array_equal(ids, one.token_ids)]
            notes = {"entropy": one.entropy}
            out.append(Said(one.text, one.token_ids, one.logp, one.finish, taken[0] if taken else -1, notes))
        return out

    def _choose(self, asks: Sequence[Ask]) -> list[Said]:
        """One of the allowed actions, by the likelihood of the whole."""
        rows = [Row(ask.context, ids) for ask in asks for ids in ask.choices]
        per_row = self._judged(rows, asks[0].adapter, 1.0)
        # what training will compute again for each token, where tokens are trained one by one
        kept = per_row if self.temperature in (0.0, 1.0) else self._judged(rows, asks[0].adapter, self.temperature)
        out: list[Said] = []
        at = 0
        for ask in asks:
            logps, recorded = per_row[at : at + len(ask.choices)], kept[at : at + len(ask.choices)]
            at += len(ask.choices)
            texts = [self.model.decode(ids) for ids in ask.choices]
            z = np.array([lp.sum() / divisor(self.way, t, lp) for lp, t in zip(logps, texts, strict=True)])
            p = choice_probabilities(z, self.temperature)
            k = int(np.argmax(p)) if self.temperature == 0.0 else int(rng(ask.seed, "choice").choice(len(p), p=p))
            notes = {"action_logp": np.full(len(logps[k]), np.log(max(p[k], 1e-300)), np.float32)}
            out.append(Said(texts[k], ask.choices[k], recorded[k].astype(np.float32), "stop", k, notes))
        return out

    def _judged(self, rows: Sequence[Row], adapter: str | None, temperature: float) -> list[np.ndarray]:
        """Log-probabilities of the tokens of each row."""
        with torch.no_grad():
            flat = self.model.judge(rows, adapter=adapter, temperature=temperature).logp_K.double().cpu().numpy()
        return np.split(flat, np.cumsum([len(row.tokens) for row in rows])[:-1])


def divisor(way: str, text: str, logp_K: np.ndarray) -> float:
    """What TWOSOME divides the log-likelihood of an action by."""
    return {"sum": 1, "token": len(logp_K), "word": max(1, len(text.split()))}[way]


def choice_probabilities(z_N: np.ndarray, temperature: float) -> np.ndarray:
    """Softmax of the scores; temperature 0 puts everything on the best."""
    if temperature == 0.0:
        return (np.arange(len(z_N)) == int(np.argmax(z_N))).astype(np.float64)
    x = np.exp((z_N - z_N.max()) / temperature)
    return x / x.sum()
