"""How a language model decides: free text, a choice among whole actions, or token by token inside the allowed actions.

For ``word``, ``token`` and ``sum`` the choice is TWOSOME's (Tan et al. 2024, arXiv 2401.14151):

    z_k = sum_j log pi(w_k^j | context, w_k^{<j})  /  (words of k | tokens of k | 1),      P(k) = softmax_k(z_k / T)

The record keeps the unconstrained log-probabilities of the chosen action's tokens and notes ``action_logp``, the
log-probability of the choice itself, at each of them. ``trie`` samples the tokens one by one among those that continue
some allowed action, so the log-probabilities of the record are those of what was done. Either way each
situation goes through the model once; its results are kept until ``forget``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from evolvent.core.protocols import Completion, Request
from evolvent.core.seeding import rng
from evolvent.models.language.model import LanguageModel, Row, TemperatureSchedule

Way = Literal["word", "token", "sum", "trie"]


@dataclass
class Acting:
    """The engine of a ``models.language.model.LanguageModel``; counts tokens and seconds.

    ``way`` is how it chooses among allowed actions; temperature 0 is greedy. With a ``temperature_schedule`` the
    temperature of what is sampled token by token follows its entropy.
    """

    model: LanguageModel
    way: Way = "trie"
    temperature: float = 1.0
    temperature_schedule: TemperatureSchedule | None = None
    tokens: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._known = Known(self.model)

    def forget(self) -> None:
        """Drop the results that are kept; call it whenever the weights have changed."""
        self._known.forget()

    def __call__(self, requests: Sequence[Request]) -> list[Completion]:
        """The answers in order."""
        started = time.perf_counter()
        said: list[Completion | None] = [None] * len(requests)
        batches: dict[tuple[Any, ...], list[int]] = {}
        for i, request in enumerate(requests):
            how = self._how(request)
            alike = (request.max_tokens, request.stop, bool(request.choices)) if how == self._write else ()
            batches.setdefault((how, request.adapter, *alike), []).append(i)
        for (how, *_), members in batches.items():
            answers = how([requests[i] for i in members])
            for i, answer in zip(members, answers, strict=True):
                said[i] = answer
        self.seconds += time.perf_counter() - started
        answers = [answer for answer in said if answer is not None]
        self.tokens += sum(len(answer.token_ids) for answer in answers)
        return answers

    def _how(self, request: Request) -> Callable[[Sequence[Request]], list[Completion]]:
        if request.choices and self.way != "trie":
            return self._choose
        whole = bool(request.choices) and request.max_tokens >= max(map(len, request.choice_tokens))
        return self._walk if whole and self.temperature_schedule is None else self._write

    def _write(self, requests: Sequence[Request]) -> list[Completion]:
        """Sampled token by token, freely or inside the allowed actions."""
        choices = [list(request.choice_tokens) for request in requests] if requests[0].choices else None
        sampled = self.model.sample(
            [request.tokens for request in requests],
            max_tokens=requests[0].max_tokens,
            temperature=self.temperature,
            stop=() if choices else requests[0].stop,
            seeds=[request.seed for request in requests],
            adapter=requests[0].adapter,
            allowed=choices,
            temperature_schedule=self.temperature_schedule,
        )
        out: list[Completion] = []
        for request, one in zip(requests, sampled, strict=True):
            ids, read = one.token_ids, len(request.tokens)
            taken = [i for i, choice in enumerate(request.choice_tokens) if np.array_equal(choice, ids)]
            how: dict[str, Any] = {"finish": one.finish, "stopped": one.stopped, "choice": taken[0] if taken else -1}
            out.append(Completion(one.text, ids, one.logp, read, one.cached, **how, notes={"entropy": one.entropy}))
        return out

    def _walk(self, requests: Sequence[Request]) -> list[Completion]:
        """One of the allowed actions, token by token."""
        greedy = self.temperature == 0.0
        out: list[Completion] = []
        temperature = 1.0 if greedy else self.temperature
        cached = self._known.cached(requests, temperature, inside=True)
        known = self._known.opinions(requests, temperature, inside=True)
        for request, opinions, had in zip(requests, known, cached, strict=True):
            k = sample_choice(request.choice_tokens, opinions, request.seed, greedy=greedy)
            logp_K, entropy_K = opinions[k]
            text = self.model.decode(request.choice_tokens[k])
            scores_N = np.array([opinion.logp_K.sum(dtype=np.float64) for opinion in opinions])
            notes = {"entropy": entropy_K}
            ids, read = request.choice_tokens[k], len(request.tokens)
            out.append(Completion(text, ids, logp_K, read, had, choice=k, scores_N=scores_N, notes=notes))
        return out

    def _choose(self, requests: Sequence[Request]) -> list[Completion]:
        """One of the allowed actions, by the likelihood of the whole."""
        cached = self._known.cached(requests, 1.0, inside=False)
        known = self._known.opinions(requests, 1.0, inside=False)
        # what training will compute again for each token, where tokens are trained one by one
        at_temperature = self._known.opinions(requests, self.temperature or 1.0, inside=False)
        out: list[Completion] = []
        for request, opinions, recorded, had in zip(requests, known, at_temperature, cached, strict=True):
            logps = [opinion.logp_K.astype(np.float64) for opinion in opinions]
            texts = [self.model.decode(ids) for ids in request.choice_tokens]
            z = np.array([lp.sum() / divisor(self.way, t, lp) for lp, t in zip(logps, texts, strict=True)])
            p = choice_probabilities(z, self.temperature)
            k = int(np.argmax(p)) if self.temperature == 0.0 else int(rng(request.seed, "choice").choice(len(p), p=p))
            notes = {"action_logp": np.full(len(logps[k]), np.log(max(p[k], 1e-300)), np.float32)}
            scores_N = np.array([lp.sum() for lp in logps])
            ids, logp_K, read = request.choice_tokens[k], recorded[k].logp_K, len(request.tokens)
            out.append(Completion(texts[k], ids, logp_K, read, had, choice=k, scores_N=scores_N, notes=notes))
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


# ------------------------------------------------------------------------------------------------ opinions
SITUATIONS = 20_000
"""How many are remembered at most."""


class Opinion(NamedTuple):
    """Of one action: log-probability and entropy of each of its tokens, float32 ``[K]``, nats."""

    logp_K: np.ndarray
    entropy_K: np.ndarray


class Known:
    """Log-probabilities of allowed actions by situation; call ``forget`` whenever the weights have changed.

    Text worlds come back to the same situation: attempts at one task begin alike, and one may return to where it was.
    All actions of all new situations go through the model as one packed pass.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._found: dict[tuple[object, ...], list[Opinion]] = {}

    def forget(self) -> None:
        """Drop all results."""
        self._found.clear()

    def cached(self, requests: Sequence[Request], temperature: float, *, inside: bool) -> list[int]:
        """Tokens of each prompt that ``opinions``, asked the same next, has no need to evaluate."""
        model, out, new = self._model, list[int](), set[tuple[object, ...]]()
        for request in requests:
            key, prompt = _key(request, temperature, inside), request.tokens
            again = key in self._found or key in new
            out.append(len(prompt) if again else model.retained.known(request.adapter, model.trainable, prompt))
            new.add(key)
        return out

    def opinions(self, requests: Sequence[Request], temperature: float, *, inside: bool) -> list[list[Opinion]]:
        """Of every allowed action of every request, in order; the requests are decisions with choices of one adapter.

        The temperature is above 0. ``inside``: each token among those that continue some allowed action, else among
        all.
        """
        keys = [_key(request, temperature, inside) for request in requests]
        new = {key: request for key, request in zip(keys, requests, strict=True) if key not in self._found}
        rows = [
            Row(request.tokens, ids, request.choice_tokens if inside else ())
            for request in new.values()
            for ids in request.choice_tokens
        ]
        if rows:
            with torch.no_grad():
                scored = self._model.logprobs(rows, adapter=requests[0].adapter, temperature=temperature)
            ends = np.cumsum([len(row.tokens) for row in rows])[:-1]
            logps, entropies = (
                np.split(column.float().cpu().numpy(), ends) for column in (scored.logp_K, scored.entropy_K)
            )
            found = [Opinion(*pair) for pair in zip(logps, entropies, strict=True)]
            at = 0
            for key, request in new.items():
                self._found[key] = found[at : at + len(request.choices)]
                at += len(request.choices)
        opinions = [self._found[key] for key in keys]
        while len(self._found) > SITUATIONS:  # the oldest first: a long stream does not come back to them
            del self._found[next(iter(self._found))]
        return opinions


def sample_choice(choices: Sequence[np.ndarray], opinions: Sequence[Opinion], seed: int, *, greedy: bool) -> int:
    """Sample an allowed action token by token, as ``LanguageModel.sample`` does; returns its index.

    Each token is sampled by inverting the distribution function at a uniform number; greedy takes the most probable.
    """
    uniforms = np.random.default_rng(seed).random(max(map(len, choices)))
    left = list(range(len(choices)))
    for k, uniform in enumerate(uniforms):
        if all(np.array_equal(choices[i], choices[left[0]]) for i in left):
            break
        logp = {int(choices[i][k]): float(opinions[i].logp_K[k]) for i in left}
        tokens = sorted(logp)
        p = np.exp([logp[token] for token in tokens])
        cumulative = p.cumsum()
        which = int(p.argmax()) if greedy else int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
        taken = tokens[min(which, len(tokens) - 1)]
        left = [i for i in left if int(choices[i][k]) == taken]
    return left[0]


def _key(request: Request, temperature: float, inside: bool) -> tuple[object, ...]:
    return request.adapter, temperature, inside, _bytes(request.tokens), *map(_bytes, request.choice_tokens)


def _bytes(ids: np.ndarray) -> bytes:
    return np.asarray(ids, np.int32).tobytes()
