"""What ``evolvent.worth`` returns: each part, what it is worth, in numbers and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evolvent.evaluate.blocks import Number
from evolvent.evaluate.live import count, number, plain_table
from evolvent.formulas import coalitions
from evolvent.teams.game import Configuration, Game, PartWorth, Row, in_words
from evolvent.teams.parts import Part


@dataclass(frozen=True)
class Report:
    """What ``evolvent.worth`` returns; ``print`` shows it.

    Attributes:
        interactions: ``[n, n]`` what two parts are worth beyond what each adds; ``None`` where not all configurations
            were run.
        best: the parts that are strong in the configuration that was chosen.
        verified: its score at the tasks held apart, and how it differs there from everything strong and everything weak
            (``against``); ``None`` and empty where none were.
        tasks, held, runs: numbers of them.
        notes: what limits these numbers.
        folder: a run folder, with ``report.html``.
    """

    folder: Path
    parts: Mapping[str, PartWorth]
    interactions: np.ndarray | None
    configurations: tuple[Configuration, ...]
    best: tuple[str, ...]
    verified: Number | None
    against: tuple[Number, ...]
    tasks: int
    held: int
    runs: int
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{count(len(self.parts), 'part')}, {count(len(self.configurations), 'configuration')}, "
            f"{count(self.tasks, 'task')} and {self.held} held apart, {count(self.runs, 'run')}",
            *map(str, self.parts.values()),
            self.choice(),
            *(f"! {note}" for note in self.notes),
            "",
            *plain_table(*self.ways(), [False, True, True, True, True]),
        ]
        if self.interactions is not None and len(self.parts) > 1:
            columns, rows = self.matrix()
            lines += ["", *plain_table(columns, rows, [False, *[True] * len(rows)])]
        return "\n".join([*lines, "", f"report: {self.folder / 'report.html'}"])

    def choice(self) -> str:
        """The best configuration, and what it came to at the tasks held apart, in words."""
        scores = {one.strong: one.score for one in self.configurations}
        name = called(self.best, len(self.parts))
        chosen = scores.get(self.best)
        said = f"best: {name}" + (f", {in_words(chosen)} at the tasks that chose it" if chosen else "")
        if self.verified is None:
            return f"{said}; not verified: no tasks were held apart"
        others = "".join(f"; against {one.name} {in_words(one, signed=True)}" for one in self.against)
        return f"{said}; {in_words(self.verified)} at {count(self.held, 'task')} held apart{others}"

    def ways(self) -> tuple[list[str], list[list[str]]]:
        """Columns and rows of the four ways to count what a part is worth."""
        columns = ["part", "Shapley", "Banzhaf", "left out", "alone"]
        parts = self.parts.values()
        numbers = [(p.shapley, p.banzhaf, p.leave_one_out, p.first_in) for p in parts]
        return columns, [[p.name, *map(in_words, row)] for p, row in zip(parts, numbers, strict=True)]

    def matrix(self) -> tuple[list[str], list[list[str]]]:
        """Columns and rows of the interactions."""
        names = list(self.parts)
        table = np.zeros((0, 0)) if self.interactions is None else self.interactions
        rows = [
            [name, *("" if i == j else number(float(x), 0.1) for j, x in enumerate(row))]
            for i, (name, row) in enumerate(zip(names, table, strict=True))
        ]
        return ["together with", *names], rows


def called(strong: Sequence[str], n: int) -> str:
    """A configuration of ``n`` parts in words."""
    return "everything weak" if not strong else "everything strong" if len(strong) == n else " + ".join(strong)


def report_of(
    folder: Path, parts: Sequence[Part], rows: Sequence[Row], best: int, *, looked: bool, notes: Sequence[str] = ()
) -> Report:
    """The report of a study; ``looked``: the outcomes said when to stop."""
    game = Game(parts, [row for row in rows if not row.held], looked)
    held = Game(parts, [row for row in rows if row.held], looked=False) if any(row.held for row in rows) else None
    full = (1 << len(parts)) - 1
    others = {full: "everything strong", 0: "everything weak"}
    found = game.parts()
    chosen = None if held is None else held.scores[best]
    compared = [] if held is None else [(name, held.scores[mask]) for mask, name in others.items() if mask != best]
    return Report(
        folder=folder,
        parts={one.name: one for one in found},
        interactions=coalitions.interactions(game.table).mean(axis=-1) if game.table is not None else None,
        configurations=tuple(game.configuration(mask) for mask in sorted(game.scores)),
        best=game.strong(best),
        verified=None if held is None or chosen is None else held.number("score", chosen),
        against=tuple(held.number(name, chosen - score) for name, score in compared)
        if held and chosen is not None
        else (),
        tasks=game.tasks,
        held=0 if held is None else held.tasks,
        runs=len(rows),
        notes=(*notes, *_notes(game, rows)),
    )


def _notes(game: Game, rows: Sequence[Row]) -> list[str]:
    notes: list[str] = []
    if game.costs["calls"] is None:
        notes.append("no call was counted, so tokens are not known: evolvent.spend(client), or evolvent.spent(tokens)")
    elif game.costs["tokens"] is None:
        untold = sum(row.tokens is None for row in rows)
        notes.append(
            f"tokens are not known: {untold} of {len(rows)} runs made calls that did not tell them "
            "(streams without a usage, threads of your own)"
        )
    if game.table is None:
        _, orders = coalitions.shapley_of_measured(game._n, game.scores)
        notes.append(
            f"{count(len(game.scores), 'configuration')} of {1 << game._n} were run, {orders:,} orders of the parts: "
            "exact where no more than two parts work together; no Banzhaf values, no interactions"
        )
    if game._looked:
        notes.append("when to stop depended on what came out: intervals are those that may be looked at at any time")
    errors = Counter(row.error.partition("\n")[0] for row in rows if row.error)
    notes += [f"{count(n, 'run')} of {len(rows)} raised {error}: score 0" for error, n in errors.most_common(3)]
    return notes
