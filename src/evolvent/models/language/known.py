"""Log-probabilities of allowed actions, computed once for each situation.

Text worlds come back to the same situation: attempts at one task begin alike, and one may return to where it was.
All actions of all new situations go through the model as one packed pass; results are kept until the weights change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from evolvent.core.protocols import Request
from evolvent.models.language.model import LanguageModel, Row

SITUATIONS = 20_000
"""How many are remembered at most."""


class Opinion(NamedTuple):
    """Of one action: log-probability and entropy of each of its tokens, float32 ``[K]``, nats."""

    logp_K: np.ndarray
    entropy_K: np.ndarray


class Known:
    """Results by situation; call ``forget`` whenever the weights have changed."""

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
