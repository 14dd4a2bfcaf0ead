"""Lines that say how far a long run is: a bar and facts, which flow over a few lines where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_BAR_MIN, _BAR_MAX, _LINES = 6, 30, 3


class Progress:
    """What rich draws; ``__rich_console__`` is asked again whenever the terminal changes its width.

    Args:
        done: share of the work done, 0..1.
        facts: short texts, the most important first; without control characters.
    """

    def __init__(self, done: float, facts: Sequence[str]) -> None:
        self.done, self.facts = min(1.0, max(0.0, done)), tuple(facts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Bar, percentage and facts in at most three lines."""
        from rich.text import Text

        width = options.max_width
        bar = max(_BAR_MIN, min(_BAR_MAX, width // 5))
        full = round(bar * self.done)
        percent = f" {100 * self.done:3.0f} %  "
        for i, facts in enumerate(flow(self.facts, width - 1, bar + len(percent))):
            line = Text()
            if i == 0:
                line.append("━" * full, style="cyan")
                line.append("━" * (bar - full), style="bright_black")
                line.append(percent, style="bold")
            line.append(f"{'' if i == 0 else '  '}{facts}", style="dim" if i else "")
            line.truncate(width - 1, overflow="ellipsis")
            yield line


def flow(facts: Sequence[str], width: int, taken: int) -> list[str]:
    """Facts put into at most three lines of ``width`` columns, ``taken`` of which are gone in the first one.

    What does not fit is left out from the end.
    """
    lines, room = [""], width - taken
    for fact in facts:
        glue = " · " if lines[-1] else ""
        if len(glue) + len(fact) > room and (lines[-1] or len(lines) == 1):
            if len(lines) == _LINES:
                break
            lines.append("")
            glue, room = "", width - 2
        lines[-1] += glue + fact
        room -= len(glue) + len(fact)
    return lines
