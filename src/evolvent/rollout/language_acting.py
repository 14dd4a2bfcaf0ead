"""How a language model decides: free text, a choice among whole actions, or token by token inside the allowed actions.

For ``word``, ``token`` and ``sum`` the choice is TWOSOME's (Tan et al. 2024, arXiv 2401.14151):

    z_k = sum_j log pi(w_k^j | context, w_k^{<j})  /  (words of k | tokens of k | 1),      P(k) = softmax_k(z_k / T)

The record keeps the unconstrained log-probabilities of the chosen action's tokens and notes ``action_logp``, the
log-probability of the choice itself, at each of them. ``trie`` samples the tokens one by one among those that continue
some allowed action, so the log-probabilities of the record are those of what was done. Either way the model is asked
about a situation once and answers from memory until ``forget``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from evolvent.core.seeding import rng
from evolvent.models.language import Heat, LanguageModel
from evolvent.rollout.language_known import Known, walk
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

    def __post_init__(self) -> None:
        self._known = Known(self.model)

    def forget(self) -> None:
        """To be called whenever the weights have moved: what was asked before does not hold."""
        self._known.forget()

    def __call__(self, asks: Sequence[Ask]) -> list[Said]:
        """The answers in order."""
        started = time.perf_counter()
        said: list[Said | None] = [None] * len(asks)
        batches: dict[tuple[Any, ...], list[int]] = {}
        for i, ask in enumerate(asks):
            how = self._how(ask)
            key = (how, ask.adapter, *((ask.room, ask.stop, bool(ask.choices)) if how == self._write else ()))
            batches.setdefault(key, []).append(i)
        for (how, *_), members in batches.items():
            answers = how([asks[i] for i in members])
            for i, answer in zip(members, answers, strict=True):
                said[i] = answer
        self.seconds += time.perf_counter() - started
        answers = [answer for answer in said if answer is not None]
        self.tokens += sum(len(answer.token_ids) for answer in answers)
        return answers

    def _how(self, ask: Ask) -> Callable[[Sequence[Ask]], list[Said]]:
        if ask.choices and self.way != "trie":
            return self._choose
        whole = bool(ask.choices) and ask.room >= max(map(len, ask.choices))
        return self._walk if whole and self.heat is None else self._write

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

    def _walk(self, asks: Sequence[Ask]) -> list[Said]:
        """One of the allowed actions, token by token."""
        greedy = self.temperature == 0.0
        out: list[Said] = []
        known = self._known.opinions(asks, 1.0 if greedy else self.temperature, inside=True)
        for ask, opinions in zip(asks, known, strict=True):
            k = walk(ask.choices, opinions, ask.seed, greedy=greedy)
            logp_K, entropy_K = opinions[k]
            text = self.model.decode(ask.choices[k])
            out.append(Said(text, ask.choices[k], logp_K, "stop", k, {"entropy": entropy_K}))
        return out

    def _choose(self, asks: Sequence[Ask]) -> list[Said]:
        """One of the allowed actions, by the likelihood of the whole."""
        known = self._known.opinions(asks, 1.0, inside=False)
        # what training will compute again for each token, where tokens are trained one by one
        kept = self._known.opinions(asks, self.temperature or 1.0, inside=False)
        out: list[Said] = []
        for ask, opinions, recorded in zip(asks, known, kept, strict=True):
            logps = [opinion.logp_K.astype(np.float64) for opinion in opinions]
            texts = [self.model.decode(ids) for ids in ask.choices]
            z = np.array([lp.sum() / divisor(self.way, t, lp) for lp, t in zip(logps, texts, strict=True)])
            p = choice_probabilities(z, self.temperature)
            k = int(np.argmax(p)) if self.temperature == 0.0 else int(rng(ask.seed, "choice").choice(len(p), p=p))
            notes = {"action_logp": np.full(len(logps[k]), np.log(max(p[k], 1e-300)), np.float32)}
            out.append(Said(texts[k], ask.choices[k], recorded[k].logp_K, "stop", k, notes))
        return out


def divisor(way: str, text: str, logp_K: np.ndarray) -> float:
    """What TWOSOME divides the log-likelihood of an action by."""
    return {"sum": 1, "token": len(logp_K), "word": max(1, len(text.split()))}[way]


def choice_probabilities(z_N: np.ndarray, temperature: float) -> np.ndarray:
    """Softmax of the scores; temperature 0 puts everything on the best."""
    if temperature == 0.0:
        return (np.arange(len(z_N)) == int(np.argmax(z_N))).astype(np.float64)
    x = np.exp((z_N - z_N.max()) / temperature)
    return x / x.sum()
