"""The tools that a model is shown: all, or the one that is found without training, or none where it is too far."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from evolvent.core.protocols import Turn
from evolvent.data.asking import chat, prompt
from evolvent.data.calls import Message
from evolvent.data.pickers import Case, Pick, Remembered, best, common_words, cosines, threshold
from evolvent.data.schemas import Tool
from evolvent.envs.text._text import known

PICKS = ("all", "nearest", "words")
Show = Callable[[str, Sequence[Tool]], Sequence[Tool]]
"""Request and tools to those that are shown."""


def showing(pick: str, cases: Callable[[], Sequence[Case]], where: str) -> Show:
    """Which tools are shown of those there are.

    Args:
        pick: "all"; the one whose description is "nearest" by the default embedder; the one with most "words" in
            common. None where even that is less than a threshold.
        cases: gives what the threshold is chosen on; asked at first use.
        where: for errors.

    Raises:
        BadInput: another pick.
    """
    if known(pick, PICKS, "way to pick", where) == "all":
        return lambda request, tools: tools

    @functools.cache
    def picker() -> Pick:
        score = common_words
        if pick == "nearest":
            from evolvent.memory import embedders

            score = cosines(Remembered(embedders.load()))
        return best(score, threshold(score, cases()))

    def show(request: str, tools: Sequence[Tool]) -> Sequence[Tool]:
        name = picker()(request, tools)
        return [tool for tool in tools if tool["name"] == name]

    return show


def asks(shown: Sequence[Tool], messages: Sequence[Message], key: str) -> Turn:
    """The turn that asks for calls of the tools that are shown; where there are none the only answer is a refusal."""
    if not shown:
        return Turn(prompt((), messages), admissible=("[]",), key=key)
    return Turn(prompt(shown, messages), key=key, chat=chat(shown, messages))
