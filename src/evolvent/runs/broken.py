"""Attempts that the world broke, and not the agent: they do not count, and too many of them end a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from evolvent.core.errors import EnvError

FEWEST = 3
"""Broken attempts below which a share of them says nothing yet."""
MOST_BROKEN = 0.5
"""Share of broken attempts above which a run ends: the remaining ones would be a biased sample."""

LATELY = 10
"""Newest attempts that count in a run that makes one after the other."""


class Lately:
    """What became of the newest attempts of a run that makes one after the other."""

    def __init__(self) -> None:
        self._errors = deque[EnvError | None](maxlen=LATELY)

    def add(self, error: EnvError | None) -> None:
        """Count one; ``error`` is the world's, ``None`` where it came to an end."""
        self._errors.append(error)

    def check(self, of: str = "at the last tasks") -> None:
        """Refuse to go on where more than half of them broke, and at least three; see ``check_broken``."""
        if len(broken := [error for error in self._errors if error]) >= FEWEST:
            check_broken(broken, len(self._errors), of)


def check_broken(broken: Sequence[EnvError], attempts: int, of: str) -> None:
    """Refuse to go on where too many broke of some attempts, such as those "of update 3".

    Raises:
        EnvError: the first of their errors, with how many there are.
    """
    if len(broken) > MOST_BROKEN * attempts:
        first = broken[0]
        raise EnvError(
            f"{len(broken)} of {attempts} attempts {of} broke: {first.what}",
            got=first.got,
            expected=first.expected or "attempts that come to an end",
            where=first.where,
            do=first.do or "mend the environment; the run goes on with --resume",
        ) from first
