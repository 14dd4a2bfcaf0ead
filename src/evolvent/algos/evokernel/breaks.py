"""Attempts that nobody could judge: is it the kernel, which is left out then, or the world, which ends the run?

A reference of one's own that raises breaks every attempt at its kernel, and none at others: that kernel is left out
after ``FEWEST`` attempts in a row, and the run goes on. Where kernels that were judged before break, or none can be
judged at all, it is the world.
"""

from __future__ import annotations

from collections.abc import Sequence

from evolvent.algos.evokernel.session import Work
from evolvent.core.errors import EnvError
from evolvent.evaluate.live import Live
from evolvent.runs.broken import FEWEST, Lately, check_broken

OF = "at the last programs"


class Breaks:
    """What became of the attempts of a run; ``works`` say of each kernel how often it broke in a row."""

    def __init__(self, works: Sequence[Work], live: Live) -> None:
        self._works, self._live = works, live
        self._lately, self._first = Lately(), list[EnvError]()

    def add(self, work: Work, error: EnvError | None) -> None:
        """Count an attempt; ``error``: why it could not be judged.

        Raises:
            EnvError: it is the world, or no kernel is left.
        """
        if work.judged:
            self._lately.add(error)
            self._lately.check(OF)
        elif error:
            self._first.append(error)
        none = all(one.attempts and not one.judged for one in self._works)
        if error and (all(map(left_out, self._works)) or (none and len(self._first) >= FEWEST)):
            broken = [error] if not self._first else self._first
            check_broken(broken, len(broken), OF)
        if error and left_out(work):
            place = f" ({error.where})" if error.where else ""
            self._live.note(
                f"! {work.name} is left out, for its last {FEWEST} attempts could not be judged: "
                f"{error.what}{place}; the run goes on with the other kernels"
            )


def left_out(work: Work) -> bool:
    """Whether the run goes on without this kernel."""
    return work.broken >= FEWEST
