"""Log-probabilities of rows by a language model: of their tokens one by one, or of whole actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from evolvent.core.errors import BadInput
from evolvent.models.language.model import LanguageModel, Logprobs, Row


@dataclass(frozen=True, eq=False)
class TokenLogprobs:
    """Log-probability and entropy of every token; rows with choices are scored among the tokens that continue one.

    ``adapter`` says whose weights answer, ``None`` = the frozen base (a reference); ``temperature`` as sampled;
    ``exact`` computes in float32 whatever the model's format, without gradient.
    """

    model: LanguageModel
    adapter: str | None = "policy"
    temperature: float = 1.0
    exact: bool = False

    def __call__(self, rows: Sequence[Row]) -> Logprobs:
        """Flat over the tokens of all rows, ``[K]``."""
        return self.model.logprobs(rows, adapter=self.adapter, temperature=self.temperature, exact=self.exact)

    def portions(self, rows: Sequence[Row], max_tokens: int) -> list[list[int]]:
        """Rows that go through the model together: those that begin alike, which cost that beginning once."""
        return self.model.micro_batches(rows, max_tokens)


@dataclass(frozen=True, eq=False)
class ActionLogprobs:
    """Log-probability and entropy of every decision as a whole.

    Among allowed actions it is TWOSOME's: a softmax over actions of their log-likelihood a word, a token or in sum
    (``way``), divided by the temperature. A decision that was free text has the log-likelihood of the whole text, which
    is the sum that the record has, and as entropy the mean over its tokens (MARFT's action level).
    """

    model: LanguageModel
    adapter: str | None = "policy"
    temperature: float = 1.0
    way: Literal["word", "token", "sum"] = "word"

    def __call__(self, rows: Sequence[Row]) -> Logprobs:
        """One entry a row, ``[R]``.

        Raises:
            BadInput: an action that is not among its row's choices.
        """
        chosen, free = ([i for i, row in enumerate(rows) if bool(row.choices) == some] for some in (True, False))
        logp: list[Tensor] = [torch.empty(0)] * len(rows)
        entropy = list(logp)
        logps = (
            self.model.choice_logprobs(
                [rows[i].context for i in chosen],
                [rows[i].choices for i in chosen],
                normalise=self.way,
                adapter=self.adapter,
            )
            if chosen
            else []
        )
        for i, logp_N in zip(chosen, logps, strict=True):
            all_logp = torch.log_softmax(logp_N / self.temperature, dim=-1)
            logp[i] = all_logp[_place(rows[i])]
            entropy[i] = -(all_logp.exp() * all_logp).sum()
        if free:
            found = self.model.logprobs([rows[i] for i in free], adapter=self.adapter, temperature=self.temperature)
            sizes = [len(rows[i].tokens) for i in free]
            parts = zip(free, found.logp_K.split(sizes), found.entropy_K.split(sizes), strict=True)
            for i, logp_K, entropy_K in parts:
                logp[i], entropy[i] = logp_K.sum(), entropy_K.mean()
        return Logprobs(torch.stack(logp), torch.stack(entropy))


def _place(row: Row) -> int:
    for i, ids in enumerate(row.choices):
        if np.array_equal(ids, row.tokens):
            return i
    raise BadInput(
        "the action is not among those that were allowed",
        got=list(row.tokens),
        where="learn.tokens.logprobs",
        expected=f"one of {len(row.choices)} choices",
        do="record the choices with the action: Episode.act(choices=…)",
    )
