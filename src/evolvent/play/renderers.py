"""How situations become prompts: text, plain completion or the model's chat template; fresh, or a conversation."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env, Prompt, Renderer, Turn


class Text:
    """``instructions``, examples, ``label: situation``, newline, ``label:``; for engines that take text."""

    def first(self, env: Env, turn: Turn, examples: str = "") -> str:
        """Instructions, examples and situation."""
        return env.instructions + examples + _lines(env, turn)

    def more(self, env: Env, turn: Turn, before: Prompt) -> str:
        """The situation on a new line; what follows from the last answer, such as a result, stands there as it is."""
        return _begun(str(before)) + _news(env, turn)

    def command(self, text: str) -> str:
        """The action on the rest of the line, its end included: no command begins another."""
        return f" {text}\n"

    def plain(self, text: str) -> str:
        """The text itself."""
        return text


class Plain:
    """The same in tokens; any model can read it.

    Args:
        model: a ``models.language.model.LanguageModel``; control tokens in texts are plain text to it.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._encode = cache(model.encode)  # of commands, which come again

    def first(self, env: Env, turn: Turn, examples: str = "") -> np.ndarray:
        """Instructions, examples and situation."""
        return self.plain(env.instructions + examples + _lines(env, turn))

    def more(self, env: Env, turn: Turn, before: Prompt) -> np.ndarray:
        """The situation on a new line, unless the stop string among what was sampled has begun one."""
        return self._model.encode(_begun(self._model.decode(before[-1:])) + _news(env, turn))

    def command(self, text: str) -> np.ndarray:
        """The action after a space."""
        return self._encode(f" {text}")

    def plain(self, text: str) -> np.ndarray:
        """The tokens of a text at its beginning."""
        return self._model.encode(text, start=True)


class Chat:
    """The model's chat template: instructions as the system's words, situations as the user's, answers its own.

    Raises:
        ModelError: the model has no chat template (from ``model.chat``).
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._encode = cache(model.encode)  # of commands, which come again

    def first(self, env: Env, turn: Turn, examples: str = "") -> np.ndarray:
        """The system's and the user's message, or the turn's own, open for the assistant's; examples stand before."""
        if turn.chat is not None and (self._model.text.calls_tools or not turn.chat.tools):
            chat = turn.chat.headed(env.instructions + examples)
            return self._model.chat(chat.messages, tools=chat.tools)
        return self._model.chat([*_messages(env.instructions), _user(examples + turn.observation)])

    def more(self, env: Env, turn: Turn, before: Prompt) -> np.ndarray:
        """The end of the assistant's message unless it wrote that itself, and the user's next one.

        Found as what the template puts behind what the assistant said. What was said before stays as it was, thoughts
        included: a template that drops those of earlier turns would make another context of it than the model had.
        """
        said = [_user("a"), {"role": "assistant", "content": "b"}, _user(turn.observation)]
        after = self._model.text.chat_behind(said, 1)
        return after[int(len(after) > 0 and int(after[0]) == int(before[-1])) :]

    def command(self, text: str) -> np.ndarray:
        """The action as it is."""
        return self._encode(text)

    def plain(self, text: str) -> np.ndarray:
        """The text as the user's message."""
        return self._model.chat([_user(text)])


def renderer(style: str, model: Any) -> Renderer:
    """The renderer called ``plain`` or ``chat``."""
    kinds = {"plain": Plain, "chat": Chat}
    if style not in kinds:
        raise BadInput("unknown style of prompts", got=style, expected=" or ".join(kinds), where="--style")
    return kinds[style](model)


def _lines(env: Env, turn: Turn) -> str:
    question, answer = env.labels
    return f"{question}: {turn.observation}\n{answer}:"


def _news(env: Env, turn: Turn) -> str:
    return f"{turn.observation}\n{env.labels[1]}:" if turn.follows else _lines(env, turn)


def _begun(before: str) -> str:
    return "" if before.endswith("\n") else "\n"


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _messages(instructions: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": instructions.strip()}] if instructions.strip() else []
