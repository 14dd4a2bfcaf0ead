"""DSER: chains of answers that the model itself checks and rewrites, round after round; their last answers vote.

Paper: Liu et al. 2025, Deep Self-Evolving Reasoning (arXiv 2510.17498).

    answer_0;  repeat: review = LM(question, answer),  answer = LM(question, answer, review);  vote over chains

Right and wrong are two states. Where mending is likelier than spoiling (p > q), a long chain is right more often than
not, and the vote over many chains tends to certainty, however rarely the first answer was right
(``formulas.two_state``). Attempts carry the kind of reward "right", of which p and q are estimated.

Deviations: written after the abstract; words of the prompts and lengths are ours. The vote is over the last answers
alone (published: over those of the last ten rounds).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Correction, Env, Task, Turn
from evolvent.search.best_of_n import draw
from evolvent.search.search import Search, Settings

PAPER = "arXiv 2510.17498"
AGGREGATE = "majority"
DRAWS = True
RIGHT = "right"
REVIEW = "{question}\nAn answer to this was: {answer}\nIs it right? Say what is wrong with it, if anything."
REWRITE = (
    "{question}\nAn answer to this was: {answer}\nA review of it: {review}\nGive the right answer in the same form."
)


@dataclass(frozen=True)
class Config(Settings):
    """Settings of DSER."""

    paths: int = 8
    """Chains for each task."""
    parallel: int = 8
    """Of them, how many go on at once."""
    rounds: int = 4
    """Reviews and new answers of a chain (published: about 80)."""


def run(search: Search, config: Config = Config()) -> None:
    """Write ``paths`` chains for every task; their world must be ``world``'s."""
    draw(search, config.paths, config.parallel)


def world(env: Env, config: Config) -> Rounds:
    """A world whose answers are reviewed and written again; the last one counts."""
    return Rounds(env, config.rounds)


def check(env: Env, task: Task) -> None:
    """Refuse an environment that lists commands."""
    world(env, Config()).check(task)


class Rounds:
    """An environment of one answer, as one of an answer and ``rounds`` times a review and another answer.

    Raises:
        BadInput: no rounds, or a world that lists commands (``check``) or goes on after an answer (the first step).
    """

    def __init__(self, env: Env, rounds: int) -> None:
        if rounds < 1:
            raise BadInput("no rounds", got=rounds, expected="at least 1", where="search.dser")
        self._env, self._rounds = env, rounds
        self.name, self.instructions, self.labels = env.name, env.instructions, env.labels
        self.stop, self.max_tokens, self.reward_range = env.stop, env.max_tokens, env.reward_range

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """Those of the world."""
        return self._env.tasks(split, n, seed)

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """The question."""
        self._task, self._seed, self._left, self._reviewing = task, seed, self._rounds, False
        self._shown = self._env.reset(task, seed)
        return self._shown

    def check(self, task: Task) -> None:
        """Refuse a world that lists commands, before anything is searched."""
        if self.reset(task).admissible is not None:
            raise self._unfit()

    def step(self, action: str) -> Turn:
        """Take an answer, or a review of the one before it."""
        question = self._shown.observation
        if self._reviewing:
            self._reviewing = False
            self._env.reset(self._task, self._seed)
            said = REWRITE.format(question=question, answer=self._answer, review=action)
            return Turn(said, info=self._with_rewards({}))
        turn = self._env.step(action)
        if not turn.done or self._shown.admissible is not None:
            raise self._unfit()
        self._answer, self._right = action, turn.success
        if not self._left:
            return replace(turn, info=self._with_rewards(turn.info))
        self._left, self._reviewing = self._left - 1, True
        return Turn(REVIEW.format(question=question, answer=action), info=self._with_rewards({}))

    def _unfit(self) -> BadInput:
        return BadInput(
            "DSER revises whole answers in words",
            got=f"{self.name}, which goes on or lists commands",
            expected="a world of one free answer",
            where="--search dser",
        )

    def _with_rewards(self, info: Mapping[str, Any]) -> dict[str, Any]:
        return {**info, "rewards": {RIGHT: float(self._right)}}

    def review(self, task: Task, seed: int) -> Correction | None:
        """The world's."""
        return self._env.review(task, seed)

    def advance(self, pass_number: int) -> None:
        """The world's."""
        self._env.advance(pass_number)

    def close(self) -> None:
        """The world belongs to whoever opened it."""
