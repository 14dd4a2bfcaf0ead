"""HBPO: attempts get different token budgets, and rewards that teach how long an answer should be.

Paper: Lyu et al. 2025, Hierarchical Budget Policy Optimization (arXiv 2507.15844).

    R_i = beta cos(pi max(n, b) / 2L) - alpha max(n - b, 0)   if right, else 0        n tokens, budget b
    A_i = (mean of R under budget b - beta cos(pi b / 2L)) + (R_i - mean R) / std R
    L   = - mean_i mean_t min(r A, clip(r, 1 +- eps) A)

The prompt of each attempt states its budget; a group has each budget equally often, held-out tasks have none. An
attempt is right if the environment reports success, whatever its reward, unless ``correct_above`` is set. ``beta`` is
1.

Deviations: the budget is stated below the observation; in the paper the answer begins with it. With G = 4 each budget
has one attempt, the paper has 4. LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Env, Prompt, Renderer, Task, Turn
from evolvent.credit import step_length_budget
from evolvent.evaluate.live import Live
from evolvent.play.attempt import play
from evolvent.play.together import Player
from evolvent.runs.copies import PlayerOf
from evolvent.runs.language.system import LanguageRun, Needs, PPOConfig, Rule, learn, open_language

PAPER = "arXiv 2507.15844"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of HBPO."""

    budgets: tuple[int, ...] = (512, 1024, 2048, 2560)
    """Token budgets; the attempts of a group are spread over them."""
    over_cost: float = 1e-4
    """Penalty per token over the budget (alpha)."""
    limit: int = 4096
    """Largest number of tokens of an attempt (L)."""
    correct_above: float | None = None
    """Return above which an attempt counts as correct; None = where the environment reports success."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import HBPO

    objective = replace(HBPO, clip_low=config.clip, clip_high=config.clip)
    settings = step_length_budget.Config(alpha=config.over_cost, limit=config.limit, correct_above=config.correct_above)
    rule = Rule.of(step_length_budget, "length_budget", "right within the tokens that were granted", settings)
    check_budgets(config.budgets)
    with open_language(config, folder, live, resume=resume, needs=Needs(even=True)) as run:
        return learn(run, "hbpo", rule, objective, collect=lambda _: (run.collect(granted(run, config.budgets)), {}))


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
