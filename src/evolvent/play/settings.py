"""How attempts go: what prompts look like, who decides, and what one attempt may cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env, Renderer
from evolvent.play.workflow import SOLO, Workflow


@dataclass(frozen=True)
class Budget:
    """What one attempt may cost; reaching a limit truncates it, and the record says which."""

    turns: int = 0
    """Turns of the environment; 0 = as many as it allows."""
    tokens: int = 0
    """Sampled tokens over all decisions; 0 = no limit."""
    context: int = 0
    """Tokens of context and answer together; 0 = no limit."""
    answer: int = 0
    """Tokens of one free answer; 0 = what the environment asks for."""
    repeats: int = 0
    """Repetitions in a row of one action, or of two in turn, after which the attempt ends; 0 = no limit."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 0:
                raise BadInput("a setting is too small", got=value, expected=">= 0", where=f"--{name}")

    def spent(self, actions: Sequence[str], tokens: int) -> str:
        """The limit that is reached by the actions so far and their tokens, or nothing."""
        if self.turns and len(actions) >= self.turns:
            return "turns"
        if self.repeats and any(self._repeats(actions, period) for period in (1, 2)):
            return "repeats"
        return "tokens" if self.tokens and tokens >= self.tokens else ""

    def _repeats(self, actions: Sequence[str], period: int) -> bool:
        last = actions[-period * self.repeats :]
        return len(last) == period * self.repeats and all(a == b for a, b in zip(last, last[period:], strict=False))

    def left(self, tokens: int, context: int) -> tuple[int, int]:
        """Tokens that an answer may have, by the budget of tokens and by that of the context."""
        free = 1 << 31
        return self.tokens - tokens if self.tokens else free, self.context - context if self.context else free


def as_it_is(env: Env) -> Env:
    """The environment itself."""
    return env


@dataclass(frozen=True)
class AttemptSettings:
    """How attempts go: what prompts look like, who decides, and the limits."""

    renderer: Renderer
    """Turns what an agent sees into prompts."""
    team: Workflow = SOLO
    """The agents, and who reads whom; the last one acts."""
    budget: Budget = Budget()
    """Limits of an attempt."""
    transcript: bool = False
    """Agents also see what was shown and said in earlier turns; always so where the environment is a conversation."""
    world: Callable[[Env], Env] = as_it_is
    """What the agents meet in place of an environment, such as one that asks for better answers."""
    accounts: bool = False
    """Record which member ran, in which implementation, and what each decision took: tokens, seconds."""
