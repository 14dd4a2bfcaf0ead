"""Any ``Model`` as an engine: llama.cpp in this process, an endpoint, a script; prompts are text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Completion, Model, Request
from evolvent.core.seeding import rng
from evolvent.formulas.selection import softmax


class Served:
    """Answers requests with ``generate`` and ``score``, one after another.

    Without a model any allowed action is taken with the same probability, and nothing is written. ``temperature`` is
    that of free text, 0 is greedy; actions on a list are drawn by their likelihood, at 1 where it is 0. What is read
    for them counts as prompt tokens where the model has ``tokenize``.
    """

    def __init__(self, model: Model | None, temperature: float = 0.0) -> None:
        self.model, self.temperature = model, temperature

    def __call__(self, requests: Sequence[Request]) -> list[Completion]:
        """The answers in order.

        Raises:
            BadInput: tokens instead of text, or text is wanted of no model.
        """
        return [self._choose(request) if request.choices else self._write(request) for request in requests]

    def _write(self, request: Request) -> Completion:
        if self.model is None:
            raise BadInput(
                "this environment wants free text, which only a model can write",
                got="model none",
                expected="a language model",
                where="--model",
                do="see `evolvent list models`",
            )
        how = {"max_tokens": request.max_tokens, "temperature": self.temperature, "seed": request.seed}
        converse = getattr(self.model, "converse", None)
        if request.chat is not None and converse is not None:
            return converse(request.chat, **how, stop=request.stop)
        return self.model.generate(_text(request.prompt), **how, stop=request.stop)

    def _choose(self, request: Request) -> Completion:
        texts = [_text(choice) for choice in request.choices]
        scores_N, read = np.zeros(len(texts)), 0
        if self.model is not None and len(texts) > 1:  # the likelihood of an only action decides nothing
            prompt = _text(request.prompt)
            scores_N = self.model.score(prompt, texts)
            if tokenize := getattr(self.model, "tokenize", None):
                read = len(tokenize(prompt))
        p_N = softmax(scores_N, self.temperature or 1.0)
        k = int(rng(request.seed, "command").choice(len(p_N), p=p_N))
        ids, logp = np.zeros(0, np.int32), np.zeros(0, np.float32)
        return Completion(texts[k].strip(), ids, logp, read, choice=k, scores_N=scores_N)


def _text(prompt: np.ndarray | str) -> str:
    if not isinstance(prompt, str):
        raise BadInput(
            "this engine reads text", got="tokens", expected="prompts of play.renderers.Text", where="Served"
        )
    return prompt
