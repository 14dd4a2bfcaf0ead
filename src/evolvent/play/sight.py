"""What agents see of an attempt: as prompts, and as observations in its record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from evolvent.core.conversation import Conversation
from evolvent.core.episode import Episode
from evolvent.core.protocols import Completion, Env, Prompt, Turn
from evolvent.play.settings import AttemptSettings
from evolvent.play.workflow import Member


class Sight:
    """Builds the prompt of each decision.

    A single agent continues the tokens of its conversation, or has a fresh prompt each turn. With several agents, or
    with memories, each decision has a prompt of its own that contains the past as text.

    Args:
        env: the environment.
        settings: how attempts go.
        episode: where observations are recorded.
        recalls: whether memories are shown; situations are then written like the memory's keys, where those tell all.
    """

    def __init__(self, env: Env, settings: AttemptSettings, episode: Episode, *, recalls: bool) -> None:
        self._env, self._settings, self._episode, self._recalls = env, settings, episode, recalls
        self._transcript = settings.transcript or getattr(env, "conversation", False)
        self._tells = recalls or len(settings.team.members) > 1
        self._past, self._context = "", None

    def key(self, turn: Turn) -> str:
        """What describes the situation for a memory."""
        return turn.key or self._past + turn.observation

    def prompt(self, member: Member, turn: Turn, said: dict[str, str], examples: str = "") -> Prompt:
        """What a member is shown, recorded; ``said`` are the words of this turn so far."""
        if self._tells:
            return self._prompt_of(member, turn, said, examples)
        going_on = self._context is not None and (self._transcript or turn.follows)
        if going_on:
            new = self._settings.renderer.more(self._env, turn, cast("Prompt", self._context))
            self._context = _join(cast("Prompt", self._context), new)
        else:
            self._context = new = self._settings.renderer.first(self._env, turn)
        self._observe(turn.observation, member, new, None if going_on else -1)
        return self._context

    def chat(self, member: Member, turn: Turn, said: dict[str, str], examples: str = "") -> Conversation | None:
        """The same as messages, where the turn has such."""
        if turn.chat is None:
            return None
        profile = f"{member.profile}\n\n" if member.profile else ""
        chat = turn.chat.headed(profile + self._env.instructions + examples)
        heard = [f"{name}: {text}" for name, text in said.items() if name in member.reads]
        return chat.heard("\n".join(heard)) if heard else chat

    def said(self, answer: Completion) -> None:
        """The conversation goes on behind an answer, in the tokens as they were sampled."""
        if self._context is not None:
            self._context = _join(self._context, answer.text if isinstance(self._context, str) else answer.token_ids)

    def follows(self, before: Turn, turn: Turn, said: dict[str, str], answer: Completion) -> Turn:
        """The environment has answered ``said``, at last ``answer``, with ``turn``; with the messages so far."""
        goes_on = self._transcript or turn.follows
        if self._tells:
            names = list(said) if len(said) > 1 else [self._env.labels[1]]
            text = _lines(before.observation, dict(zip(names, said.values(), strict=True)))
            self._past = f"{self._past}{text}\n" if goes_on else ""
        if not goes_on or turn.chat is not None or before.chat is None:
            return turn
        return replace(turn, chat=before.chat.answered(list(said.values())[-1], answer.calls, turn.observation))

    def _prompt_of(self, member: Member, turn: Turn, said: dict[str, str], examples: str) -> Prompt:
        heard = {name: text for name, text in said.items() if name in member.reads}
        by_key = self._recalls and getattr(self._env, "key_is_state", False)
        situation = turn.key or turn.observation if by_key else turn.observation
        shown = replace(turn, observation=self._past + _lines(situation, heard))
        head = f"{member.profile}\n\n" if member.profile else ""
        question, answer = self._env.labels
        env = _Introduced(self._env, head + self._env.instructions, (question, member.label or answer))
        prompt = self._settings.renderer.first(cast("Env", env), shown, examples)
        self._observe(shown.observation, member, prompt, -1)
        return prompt

    def _observe(self, text: str, member: Member, new: Prompt, parent: int | None) -> None:
        self._episode.observe(text, agent=member.name, token_ids=() if isinstance(new, str) else new, parent=parent)


def _lines(observation: str, said: dict[str, str]) -> str:
    return "\n".join([observation, *(f"{name}: {text}" for name, text in said.items())])


def _join(before: Prompt, after: Prompt) -> Prompt:
    if isinstance(before, str):
        return before + str(after)
    return np.concatenate([before, np.asarray(after, np.int32)])


@dataclass(frozen=True)
class _Introduced:
    """An environment as one agent is introduced to it."""

    env: Env
    instructions: str
    labels: tuple[str, str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)
