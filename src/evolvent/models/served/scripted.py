"""A model whose replies are written down beforehand: for tests, baselines and replays."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, ModelError
from evolvent.core.protocols import Completion, Sampling, cut

Replies = Sequence[str] | Mapping[str, str] | Callable[[str], str]
Scores = Mapping[str, float] | Callable[[str, str], float]


class Scripted:
    """Fixed replies, implementing ``core.protocols.Model``; no tokens, no log-probabilities.

    Args:
        replies: a sequence (one reply a call, in order), a mapping (prompt to reply; the key ``"*"`` is for any other
            prompt), or a function of the prompt.
        scores: log-probability by continuation, or a function of prompt and continuation. Default: uniform, ``-log N``.
        name: how reports call it.
    """

    def __init__(self, replies: Replies = (), *, scores: Scores | None = None, name: str = "scripted") -> None:
        self.name, self.prompts = name, list[str]()
        self._replies, self._scores, self._next = replies, scores, 0

    @classmethod
    def from_file(cls, path: str | Path) -> Scripted:
        """Read ``{"replies": [...] or {...}, "scores": {...}}`` from a JSON file; ``scores`` is optional.

        Raises:
            BadInput: the file is missing or has another form.
        """
        try:
            content = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise BadInput("the script of a model cannot be read", got=str(error), where=str(path)) from error
        if not isinstance(content, dict) or not isinstance(content.get("replies"), list | dict):
            raise BadInput("not the script of a model", expected='{"replies": [...] or {...}}', where=str(path))
        return cls(content["replies"], scores=content.get("scores"), name=f"scripted:{Path(path).stem}")

    def generate(self, prompt: str, **sampling: Any) -> Completion:
        """The next written reply, cut before the first ``stop`` string; the other settings have no effect.

        Raises:
            ModelError: nothing is written for this prompt.
        """
        stop, text = Sampling(**sampling).checked(self.name).stop, self._reply(prompt)
        self.prompts.append(prompt)
        said, stopped = cut(text, stop)
        return Completion(said, np.zeros(0, np.int32), np.zeros(0, np.float32), finish="stop", stopped=stopped)

    def _reply(self, prompt: str) -> str:
        if callable(self._replies):
            return self._replies(prompt)
        if isinstance(self._replies, Mapping):
            reply = self._replies.get(prompt, self._replies.get("*"))
            if reply is None:
                raise ModelError(
                    "no reply is written for this prompt", got=prompt, where=self.name, do="add it, or '*'"
                )
            return reply
        if self._next >= len(self._replies):
            raise ModelError(
                "no reply is left",
                got=f"call {self._next + 1}",
                expected=f"{len(self._replies)} calls",
                where=self.name,
            )
        self._next += 1
        return self._replies[self._next - 1]

    def score(self, prompt: str, continuations: Sequence[str]) -> np.ndarray:
        """Log-probabilities from the table or function, else uniform: float64 ``[N]``."""
        if self._scores is None:
            return np.full(len(continuations), -math.log(max(len(continuations), 1)))
        if callable(self._scores):
            return np.array([self._scores(prompt, c) for c in continuations], np.float64)
        if missing := [c for c in continuations if c not in self._scores]:
            raise ModelError("no score is written for a continuation", got=missing[0], where=self.name)
        return np.array([self._scores[c] for c in continuations], np.float64)

    def close(self) -> None:
        """Nothing to release."""
