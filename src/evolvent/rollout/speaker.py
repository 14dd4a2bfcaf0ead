"""How situations become tokens: plain completion or the model's chat template, fresh prompts or a conversation."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env, Turn


class Plain:
    """``instructions``, then ``label: situation``, newline, ``label:`` for the answer; any model can read it.

    Args:
        model: a ``models.language.LanguageModel``; control tokens in texts are plain text to it.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._commands: dict[str, np.ndarray] = {}

    def first(self, env: Env, turn: Turn) -> np.ndarray:
        """Instructions and situation."""
        return self._model.encode(env.instructions + _lines(env, turn), start=True)

    def more(self, env: Env, turn: Turn, last: int) -> np.ndarray:
        """The situation on a new line; what follows from the last answer, such as a result, stands there as it is."""
        begun = "" if self._model.decode([last]).endswith("\n") else "\n"  # the stop string is among what was sampled
        shown = f"{turn.observation}\n{env.labels[1]}:" if turn.follows else _lines(env, turn)
        return self._model.encode(begun + shown)

    def command(self, text: str) -> np.ndarray:
        """The action after a space."""
        return _remembered(self._commands, self._model, f" {text}")


class Chat:
    """The model's chat template: instructions as the system's words, situations as the user's, answers its own.

    Raises:
        ModelError: the model has no chat template (from ``model.chat``).
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._commands: dict[str, np.ndarray] = {}

    def first(self, env: Env, turn: Turn) -> np.ndarray:
        """The system's and the user's message, open for the assistant's."""
        return self._model.chat([*_messages(env.instructions), {"role": "user", "content": turn.observation}])

    def more(self, env: Env, turn: Turn, last: int) -> np.ndarray:
        """The end of the assistant's message unless it wrote that itself, and the user's next one.

        Found as what the template puts between two known messages, so it works with any template that appends.
        """
        head = [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]
        before = self._model.chat(head[:1])
        after = self._model.chat([*head, {"role": "user", "content": turn.observation}])
        if after[: len(before)].tolist() != before.tolist():
            raise BadInput(
                "the chat template does not append: it rewrites what was said before", where=self._model.name,
                do="use fresh prompts (--no-transcript) or the plain style (--style plain)",
            )  # fmt: skip
        return after[len(before) + (int(after[len(before)]) == last) :]

    def command(self, text: str) -> np.ndarray:
        """The action as it is."""
        return _remembered(self._commands, self._model, text)


def speaker(style: str, model: Any) -> Plain | Chat:
    """The speaker called ``plain`` or ``chat``."""
    kinds = {"plain": Plain, "chat": Chat}
    if style not in kinds:
        raise BadInput("unknown style of prompts", got=style, expected=" or ".join(kinds), where="--style")
    return kinds[style](model)


def _lines(env: Env, turn: Turn) -> str:
    question, answer = env.labels
    return f"{question}: {turn.observation}\n{answer}:"


def _messages(instructions: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": instructions.strip()}] if instructions.strip() else []


def _remembered(known: dict[str, np.ndarray], model: Any, text: str) -> np.ndarray:
    if text not in known:
        known[text] = model.encode(text)
    return known[text]
