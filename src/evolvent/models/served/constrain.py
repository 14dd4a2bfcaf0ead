"""Generation under a grammar: the engine's GBNF parser says which tokens may come next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.models.sampling import nucleus
from evolvent.models.served.grammar import schema_grammar

_ENTRY = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])
_FIRST = 64  # how many of the most likely tokens are tried before the whole vocabulary is


def grammar_text(grammar: str | None, json_schema: Mapping[str, Any] | None) -> str:
    """The GBNF text of a constraint given as a grammar or as a JSON schema, or "".

    Raises:
        BadInput: both are given, or the schema uses what a grammar cannot say.
    """
    if grammar is not None and json_schema is not None:
        raise BadInput(
            "two constraints at once", got="grammar and json_schema", expected="one of them", where="generate"
        )
    return schema_grammar(json_schema) if json_schema is not None else (grammar or "")


class Constraint:
    """The state of one constrained generation. ``close`` it."""

    def __init__(self, ffi: Any, lib: Any, vocab: Any, grammar: str) -> None:
        self._ffi, self._lib = ffi, lib
        self._sampler = lib.llama_sampler_init_grammar(vocab, grammar.encode(), b"root")
        if self._sampler == ffi.NULL:
            raise BadInput(
                "the grammar cannot be parsed", got=grammar, expected="GBNF with a rule named root", where="generate"
            )

    def choose(self, logits: np.ndarray, temperature: float, top_p: float, rng: Any) -> int:
        """The next token: argmax, or a draw, from ``logits`` float32 ``[V]`` restricted to what the grammar allows.

        A draw is an argmax too, of logits with Gumbel noise (Maddison, Tarlow, Minka 2014, "A* Sampling", section 2),
        so the grammar looks at the best few only and the draw is still exact. With ``top_p`` below 1, tokens outside
        the nucleus are taken only when the grammar allows none inside.
        """
        scores = logits
        if temperature > 0.0:
            scores = logits / np.float64(temperature)
            if top_p < 1.0:
                p = np.exp(scores - scores.max())
                outside = np.ones(len(p), bool)
                outside[nucleus(p / p.sum(), top_p)] = False
                scores[outside] -= 1e6
            scores += rng.gumbel(size=len(scores))
        token = self._best(scores)
        self._lib.llama_sampler_accept(self._sampler, token)
        return token

    def _best(self, scores: np.ndarray) -> int:
        """The allowed token with the highest score."""
        best = int(scores.argmax())
        if self._allowed(np.array([best]))[0]:
            return best
        ids = np.argpartition(-scores, _FIRST)[:_FIRST] if len(scores) > _FIRST else np.arange(len(scores))
        allowed = self._allowed(ids)
        if not allowed.any():
            ids = np.arange(len(scores))
            allowed = self._allowed(ids)
        return int(ids[np.where(allowed, scores[ids], -np.inf).argmax()])

    def _allowed(self, ids: np.ndarray) -> np.ndarray:
        """Which of the token ids may come next: bool ``[N]``."""
        entries = np.zeros(len(ids), _ENTRY)
        entries["id"], entries["logit"] = ids, 0.0
        array = self._ffi.new("llama_token_data_array *")
        array.data = self._ffi.cast("llama_token_data *", entries.ctypes.data)
        array.size, array.selected, array.sorted = len(ids), -1, False
        self._lib.llama_sampler_apply(self._sampler, array)
        return entries["logit"] > -np.inf

    def close(self) -> None:
        """Free the engine's parser."""
        self._lib.llama_sampler_free(self._sampler)
