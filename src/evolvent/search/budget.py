"""What a search may cost, and what it has cost: tokens, calls of the model, seconds, for each task by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Prompt


@dataclass(frozen=True)
class Budget:
    """Limits of the search at one task; 0 = none. What would go beyond one is not begun."""

    tokens: int = 0
    """Tokens that the model writes, and that it reads where it judges; states that were made are judged even beyond."""
    calls: int = 0
    """Completions that it is asked for; of listed actions one a decision."""
    seconds: float = 0.0
    """Of the clock, for all tasks that are searched together; what is under way is ended."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value >= 0:
                raise BadInput("a budget is too small", got=value, expected="0 (no limit) or more", where=name)


class Meter:
    """Counts what ``n`` tasks cost; arrays int64 ``[n]``.

    Attributes:
        tokens: written by the model. longest: of its moves so far, for all tasks.
        judge: tokens read by the model to judge states (``values.Judge``).
        calls: completions asked for.
        judged: nodes that were given to the value.
        prompt, cached: tokens of the prompts, and how many of them the engine had kept (where it says so).
        batches: times that the engine was called, for all tasks.
        seconds: in the model, and in the value.
    """

    def __init__(self, n: int, budget: Budget, clock: Callable[[], float] = time.perf_counter) -> None:
        self.budget, self._clock, self._begun = budget, clock, clock()
        self.tokens, self.judge, self.calls, self.judged = (np.zeros(n, np.int64) for _ in range(4))
        self.prompt = self.cached = self.batches = self.longest = 0
        self.model_s = self.value_s = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since it was made."""
        return self._clock() - self._begun

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return bool(self.budget.seconds) and self.elapsed >= self.budget.seconds

    def left(self, task: int) -> bool:
        """Whether anything may still be asked for one task."""
        tokens, calls = self.room(task)
        return tokens > 0 and calls > 0 and not self.late

    def room(self, task: int) -> tuple[int, int]:
        """Tokens and calls that are left for one task."""
        budget, free = self.budget, 1 << 40
        tokens = budget.tokens - int(self.tokens[task] + self.judge[task]) if budget.tokens else free
        calls = budget.calls - int(self.calls[task]) if budget.calls else free
        return tokens, calls

    def share(self, task: int, wanted: int, most: int) -> tuple[int, int]:
        """How many completions of ``wanted`` one task can afford, and the tokens that each may have.

        Fewer are asked for where all would be shorter than the longest move so far; together they stay in the budget.
        """
        tokens, calls = self.room(task)
        need = min(max(self.longest, 1), most)
        count = min(wanted, calls, max(1, tokens // need)) if tokens > 0 and not self.late else 0
        return count, min(most, tokens // count) if count > 0 else 0


def prompt_tokens(prompt: Prompt) -> int:
    """Tokens of a prompt; of text one for every four bytes."""
    return -(-len(prompt.encode()) // 4) if isinstance(prompt, str) else len(prompt)
