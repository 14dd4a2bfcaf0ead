"""Attempts that are told how many tokens they may take (HBPO, arXiv 2507.15844)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env, Task, Turn
from evolvent.rollout.language import LanguageRun, PlayerOf
from evolvent.rollout.players import Budget, Player, Speaker, play


@dataclass(frozen=True)
class Granting:
    """Says under every situation how many tokens the attempt may take."""

    speaker: Speaker
    budget: int

    def first(self, env: Env, turn: Turn) -> np.ndarray:
        """The whole context, the budget in it."""
        return self.speaker.first(env, self._told(turn))

    def more(self, env: Env, turn: Turn, last: int) -> np.ndarray:
        """What a new situation adds."""
        return self.speaker.more(env, self._told(turn), last)

    def command(self, text: str) -> np.ndarray:
        """The tokens of an allowed action."""
        return self.speaker.command(text)

    def _told(self, turn: Turn) -> Turn:
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
    turns, plan = itertools.cycle(budgets), run.config.plan
    limits = Budget(turns=plan.turns, tokens=plan.tokens, context=run.model.context, answer=plan.answer)

    def player(env: Env, task: Task, seed: int, group: str) -> Player:
        return _attempt(env, task, seed, group, next(turns))

    def _attempt(env: Env, task: Task, seed: int, group: str, budget: int) -> Player:
        speaker = Granting(run.speaker, budget)
        episode = yield from play(
            env, task, speaker, seed=seed, group=group, budget=limits, transcript=plan.transcript
        )  # fmt: skip
        episode.budget_tokens = budget
        return episode

    return player
