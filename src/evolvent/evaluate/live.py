"""What a person sees while a run goes on: rich on a terminal, plain lines everywhere else.

Every call is on screen before it returns. Text from tasks, models, programs and memories is data: control characters
are written as escapes, and no markup inside it is read.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TextIO

from evolvent.core.visible import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live as Moving
    from rich.status import Status

_PLAIN_LIMIT = 160
_BAR_MIN, _BAR_MAX, _LINES = 6, 30, 3


class Live:
    """The running commentary of a run.

    Args:
        plain: plain lines (``True``), rich (``False``), or whatever the stream is (``None``): a terminal gets rich.
        stream: where to write; standard output by default.
    """

    def __init__(self, plain: bool | None = None, *, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.plain = (not self._stream.isatty()) if plain is None else plain
        self._status: Status | None = None
        self._moving: Moving | None = None
        self._rich: Console | None = None
        if not self.plain:
            from rich.console import Console

            self._rich = Console(file=self._stream, force_terminal=True, highlight=False, soft_wrap=False)

    def phase(self, title: str) -> None:
        """A new part of the run begins."""
        self.close()
        if self._rich is None:
            self._line(f"\n== {one_line(title)} ==")
            return
        from rich.text import Text

        self._rich.print()
        self._rich.rule(Text(one_line(title), style="bold"), align="left", style="dim")

    def task(
        self, i: int, n: int, *, question: str, action: str, ok: bool | None, note: str = "", seconds: float = 0.0
    ) -> None:
        """One task of ``n`` has ended: what was asked, what the agent did, whether it was right, what memory did.

        ``ok=None``: the attempt broke and does not count.
        """
        self.close()
        number = f"{i:>{len(str(n))}}/{n}"
        if self._rich is None:
            how = "broke" if ok is None else "right" if ok else "wrong"
            parts = [f"[{number}] {how} {seconds:5.1f}s", _cut(question)]
            parts += [f"-> {_cut(action)}"] if action else []
            parts += [f"| {_cut(note)}"] if note else []
            self._line("  ".join(parts))
            return
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1, 0, 0), expand=True)
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, justify="right")
        grid.add_column(ratio=1)
        grid.add_column(no_wrap=True, justify="right")
        said = Text(one_line(question))
        if action:
            said.append(f"\n{one_line(action)}", style="cyan")
        if note:
            said.append(f"\n{one_line(note)}", style="dim")
        mark = Text("✓", style="bold green") if ok else Text("✗", style="bold red")
        mark = Text("!", style="bold yellow") if ok is None else mark
        grid.add_row(mark, Text(number, style="dim"), said, Text(f"{seconds:.1f}s", style="dim"))
        self._rich.print(grid)

    def status(self, text: str) -> None:
        """What is being waited for; replaced by the next call."""
        if self._rich is None:
            self._line(f"… {one_line(text)}")
            return
        from rich.text import Text

        shown = Text(one_line(text), style="dim")
        if self._status is None:
            self.close()
            spinner = self._status = self._rich.status(shown)
            spinner.start()
        else:
            self._status.update(shown)

    def advancing(self, text: str, every: float = 10.0) -> Callable[[float], None]:
        """``status(text)`` now, and, called with the share that is done, how far it is and how long it will take.

        What comes sooner than ``every`` seconds after the line before is not shown.
        """
        self.status(text)
        began = last = time.monotonic()

        def said(share: float) -> None:
            nonlocal last
            now = time.monotonic()
            if 0.0 < share < 1.0 and now - last >= every:
                last = now
                self.status(f"{text}, {percent(share)}, {duration((now - began) * (1.0 - share) / share)} left")

        return said

    def progress(self, done: float, facts: Sequence[str]) -> None:
        """How far a long run is, as a share, and what it does, the most important first; replaced by the next call.

        A narrow terminal shows as many facts as fit.
        """
        facts = [one_line(fact) for fact in facts]
        if self._rich is None:
            self._line(f"… {100 * done:.0f} % · {' · '.join(facts)}")
            return
        from rich.live import Live as Moving

        line = Progress(done, facts)
        if self._moving is None:
            self.close()
            self._moving = Moving(line, console=self._rich, transient=True, auto_refresh=False)
            self._moving.start()
        self._moving.update(line, refresh=True)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A small table; cells that are numbers stand right."""
        self.close()
        columns = [one_line(name) for name in columns]
        cells = [[cell_text(value) for value in row] for row in rows]
        right = [bool(rows) and all(_is_number(row[c]) for row in rows) for c in range(len(columns))]
        if self._rich is None:
            self._line(f"\n{one_line(title)}" if title else "")
            for line in plain_table(columns, cells, right):
                self._line(line)
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        title_text = Text(one_line(title), style="bold") if title else None
        table = Table(title=title_text, title_justify="left", box=box.SIMPLE_HEAD)
        for name, number in zip(columns, right, strict=True):
            table.add_column(Text(name), justify="right" if number else "left", overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        self._rich.print(table)

    def note(self, text: str) -> None:
        """A line, or several, of plain text."""
        self.close()
        if self._rich is None:
            self._line(visible(text))
            return
        from rich.text import Text

        self._rich.print(Text(visible(text)))

    def close(self) -> None:
        """Stop the spinner, if any."""
        for moving in (self._status, self._moving):
            if moving is not None:
                moving.stop()
        self._status = self._moving = None

    def _line(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Progress:
    """How far a long run is, as rich draws it: asked again whenever the terminal changes its width.

    ``done`` is a share; ``facts`` are short texts without control characters, the most important first.
    """

    def __init__(self, done: float, facts: Sequence[str]) -> None:
        self.done, self.facts = min(1.0, max(0.0, done)), tuple(facts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Bar, percentage and facts in at most three lines."""
        from rich.text import Text

        width = options.max_width
        bar = max(_BAR_MIN, min(_BAR_MAX, width // 5))
        full = round(bar * self.done)
        share = f" {100 * self.done:3.0f} %  "
        for i, facts in enumerate(flow(self.facts, width - 1, bar + len(share))):
            line = Text()
            if i == 0:
                line.append("━" * full, style="cyan")
                line.append("━" * (bar - full), style="bright_black")
                line.append(share, style="bold")
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


def plain_table(columns: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """The lines of a table in plain text, columns two blanks apart."""
    widths = [max([len(name), *(len(row[c]) for row in cells)]) for c, name in enumerate(columns)]

    def line(row: Sequence[str]) -> str:
        pairs = zip(row, widths, right, strict=True)
        return "  ".join(text.rjust(w) if r else text.ljust(w) for text, w, r in pairs).rstrip()

    return [line(columns), "  ".join("-" * w for w in widths), *(line(row) for row in cells)]


def cell_text(value: object) -> str:
    """A value as a table cell: four significant figures, a dash for what is not there."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return one_line(str(value))


def percent(value: float | None) -> str:
    """A rate as a whole percentage; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{100 * value:.0f} %"


def judged_on(result: Mapping[str, Any]) -> str:
    """How many attempts a result is of; at how many tasks where some were attempted several times; how many broke."""
    n, tasks, broken = result.get("n"), result.get("tasks"), result.get("broken")
    if n is None:
        return "–"
    said = f"{n} attempts at {count(tasks, 'task')}" if tasks and tasks != n else f"{n}"
    return f"{said}, {broken} of them broke" if broken else said


def count(n: int, thing: str, things: str = "") -> str:
    """A number of things: ``1 task``, ``5 tasks``; ``things`` where it is not the one with an s."""
    return f"{n:,} {thing if n == 1 else things or thing + 's'}"


def interval(value: float | None, ci95: Sequence[float | None] | None, *, rate: bool = True) -> str:
    """A number with its 95 % interval, e.g. ``71 % [51, 85]``."""
    if value is None or math.isnan(value):
        return "–"
    ends = [end for end in ci95 or () if end is not None and math.isfinite(end)]
    if rate:
        return percent(value) + (f" [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]" if len(ends) == 2 else "")
    width = ends[1] - ends[0] if len(ends) == 2 else None
    said = [number(end, width) for end in (value, *ends)]
    return said[0] + (f" [{said[1]}, {said[2]}]" if len(ends) == 2 else "")


def number(value: float | None, width: float | None = None) -> str:
    """A number with the digits that mean something: two figures of its interval's ``width``, without one three."""
    if value is None or math.isnan(value):
        return "–"
    if not math.isfinite(value) or not width or not 0.0 < width < math.inf:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    digits = max(0, 1 - math.floor(math.log10(width)))
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def duration(seconds: float) -> str:
    """Seconds in the unit that a person would use: ``40 s``, ``12 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size(n: float) -> str:
    """Bytes in the unit that a person would use: ``238 kB``."""
    units = iter(("B", "kB", "MB", "GB"))
    unit = next(units)
    while n >= 1000 and unit != "GB":
        n, unit = n / 1000, next(units)
    return f"{n:.3g} {unit}"


def one_line(text: str) -> str:
    """``text`` on one line, control characters as escapes."""
    return visible(" ".join(text.split()))


def _cut(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= _PLAIN_LIMIT else text[: _PLAIN_LIMIT - 1] + "…"


def _is_number(value: Any) -> bool:
    if value is None or isinstance(value, int | float):
        return True
    return isinstance(value, str) and value[:1].isdigit() and value.replace("–", "")[-1:] in "0123456789%]s"
