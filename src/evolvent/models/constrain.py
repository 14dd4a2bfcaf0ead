"""Generation under a grammar: the engine's GBNF parser says which tokens may come next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.models.grammar import schema_grammar
from evolvent.models.sampling import sample

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

        A first choice without the grammar is kept when the grammar allows it. For a draw this is exact: with Z the
        allowed mass, p(t) + (1 - Z) p(t) / Z = p(t) / Z.
        """
        if temperature == 0.0:
            token = self._greedy(logits)
        else:
            token = sample(logits, temperature, 1.0, rng) if top_p >= 1.0 else -1
            if token < 0 or not self._allowed(np.array([token]))[0]:
                allowed = self._allowed(np.arange(len(logits)))
                token = sample(np.where(allowed, logits, np.float32(-np.inf)), temperature, top_p, rng)
        self._lib.llama_sampler_accept(self._sampler, token)
        return token

    def _greedy(self, logits: np.ndarray) -> int:
        best = int(logits.argmax())
        if self._allowed(np.array([best]))[0]:
            return best
        ids = np.argpartition(-logits, _FIRST)[:_FIRST] if len(logits) > _FIRST else np.arange(len(logits))
        allowed = self._allowed(ids)
        if not allowed.any():
            ids = np.arange(len(logits))
            allowed = self._allowed(ids)
        return int(ids[np.where(allowed, logits[ids], -np.inf).argmax()])

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
