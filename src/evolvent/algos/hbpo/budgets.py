"""Attempts with a number of tokens that they may take, which they see (HBPO, arXiv 2507.15844)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env, Prompt, Renderer, Task, Turn
from evolvent.play.attempt import play
from evolvent.play.together import Player
from evolvent.runs.language.run import LanguageRun, PlayerOf


@dataclass(frozen=True)
class Granting:
    """Says under every situation how many tokens the attempt may take."""

    renderer: Renderer
    budget: int

    def first(self, env: Env, turn: Turn, examples: str = "") -> Prompt:
        """The whole prompt, the budget in it."""
        return self.renderer.first(env, self._with_budget(turn), examples)

    def more(self, env: Env, turn: Turn, before: Prompt) -> Prompt:
        """What a new situation adds."""
        return self.renderer.more(env, self._with_budget(turn), before)

    def command(self, text: str) -> Prompt:
        """An allowed action."""
        return self.renderer.command(text)

    def plain(self, text: str) -> Prompt:
        """A text as it is."""
        return self.renderer.plain(text)

    def _with_budget(self, turn: Turn) -> Turn:
        return replace(turn, observation=f"{turn.observation}\n(Answer within {self.budget} tokens.)")


def check_budgets(budgets: Sequence[int]) -> None:
    """Refuse what is no list of budgets.

    Raises:
        BadInput: no budget, or one below 1.
    """
    if not budgets or min(budgets) < 1:
        raise BadInput("budgets of tokens", got=tuple(budgets), expected="one or more, each >= 1", where="--budgets")


def granted(run: LanguageRun, budgets: Sequence[int]) -> PlayerOf:
    """Attempts under each of ``budgets`` in turn; ``budget_tokens`` says which. Make a new one for every update."""
    turns = itertools.cycle(budgets)

    def player(env: Env, task: Task, seed: int, group: str) -> Player:
        return _attempt(env, task, seed, group, next(turns))

    def _attempt(env: Env, task: Task, seed: int, group: str, budget: int) -> Player:
        settings = replace(run.attempt_settings, renderer=Granting(run.attempt_settings.renderer, budget))
        episode = yield from play(env, task, settings, seed=seed, group=group)
        episode.budget_tokens = budget
        return episode

    return player
