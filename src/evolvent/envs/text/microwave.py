"""Microwave: open it, put the pancake in, close it. Three states, two of them a choice of two; success is exact."""

from __future__ import annotations

from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._text import TextEnv, check_limit, numbered, playing

_GOAL = "Heat the pancake in the microwave."
_HELD = "The pancake is in your hand and the microwave is beside you. Its door is "
_SEEN = (f"{_HELD}shut.", f"{_HELD}open.", "The pancake is in the microwave. The door is open.")
_SHORT = ("open the microwave", "put the pancake in the microwave", "close the microwave")
_LONG = (
    "open the door of the small white microwave on the kitchen counter",
    "put the pancake from your hand onto the plate inside the small white microwave",
    "close the door of the small white microwave on the kitchen counter",
)


def make(long: bool = False, step_limit: int = 5) -> Microwave:
    """The case study of POAD (Wen et al., arXiv 2405.15821).

    Args:
        long: sentences of eleven words and more instead of commands of three to six, with the same first words.
        step_limit: commands per attempt; the last one ends it with −1 unless it closes the microwave on the pancake.

    Raises:
        BadInput: fewer than three steps, in which nothing can be heated.
    """
    return Microwave(_LONG if long else _SHORT, check_limit(step_limit, 3, "envs.microwave.make"))


def success_probability(p_open: float, p_close: float, step_limit: int = 5) -> float:
    """Exact probability of +1 for a policy that opens (in the first state) and closes (in the last) with these.

    Both are waits of independent tries that must fit into ``step_limit − 1`` commands, one being needed to put the
    pancake in: Σ_a (1−p)^(a−1) p · (1 − (1−q)^(step_limit−1−a)). Chance (½, ½) is 11/16 at five steps.
    """
    tries = step_limit - 1
    return sum((1 - p_open) ** (a - 1) * p_open * (1 - (1 - p_close) ** (tries - a)) for a in range(1, tries))


class Microwave(TextEnv):
    """The three states. +1 for the heated pancake, −1 when the steps run out, nothing in between.

    A command is decided by its first word, everything after it is forced. All tasks are this one. A text that is not
    admissible changes nothing and costs a step. Running out is an end of its own (terminated): it is paid for.
    ``info["rewards"]`` tells how far the attempt is (``process``, 0 to 1) and whether the command could be carried out
    (``executed``).
    """

    reward_range = (-1.0, 1.0)
    instructions = f"{_GOAL} Give one command at a time.\n\n"

    def __init__(self, commands: tuple[str, str, str], step_limit: int) -> None:
        self.name = "microwave-long" if commands is _LONG else "microwave"
        self._open, self._put, self._close = commands
        self._choices = ((self._open, self._close), (self._put,), (self._open, self._close))
        self._right = (self._open, self._put, self._close)
        self._limit = step_limit

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` times the one task, under names that tell the splits apart; ``seed`` changes nothing."""
        return numbered(self.name, _GOAL, "microwave", split, n)

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Stand before the shut microwave. Nothing is random: ``seed`` changes nothing."""
        self._state = self._moves = 0
        self._turn = Turn(_SEEN[0], self._choices[0])
        return self._turn

    def step(self, action: str) -> Turn:
        """Give one command."""
        playing(self._turn, self.name)
        self._moves += 1
        could = action.strip() in self._choices[self._state]
        self._state += action.strip() == self._right[self._state]
        info = {"rewards": {"process": self._state / 3, "executed": float(could)}}
        if self._state == 3:
            self._turn = Turn("The pancake is being heated.", reward=1.0, terminated=True, success=True, info=info)
        elif self._moves >= self._limit:
            self._turn = Turn("It is too late.", reward=-1.0, terminated=True, info=info)
        else:
            self._turn = Turn(_SEEN[self._state], self._choices[self._state], info=info)
        return self._turn
