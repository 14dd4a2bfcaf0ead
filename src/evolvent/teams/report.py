"""What ``evolvent.worth`` returns: each part, what it is worth, in numbers and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evolvent.evaluate.blocks import Number
from evolvent.evaluate.live import count, number, plain_table
from evolvent.formulas import coalitions
from evolvent.teams.game import KEEP, Configuration, Game, PartWorth, Row, in_words
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
        warning = f"; not confirmed: behind {self.behind}" if self.behind else ""
        return f"{said}; {in_words(self.verified)} at {count(self.held, 'task')} held apart{others}{warning}"

    @property
    def behind(self) -> str:
        """What the best configuration is behind at the tasks held apart, against what chose it; empty = nothing."""
        return " and ".join(one.name for one in self.against if one.ci95 and (one.ci95[1] or 0.0) < 0)

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


def report_of(folder: Path, parts: Sequence[Part], rows: Sequence[Row], best: int, *, looked: bool) -> Report:
    """The report of a study; ``looked``: the outcomes said when to stop."""
    game = Game(parts, [row for row in rows if not row.held], looked)
    chosen, verified, against = game.strong(best), None, ()
    if apart := [row for row in rows if row.held]:
        scores = (held := Game(parts, apart, looked=False)).scores
        verified = held.number("score", scores[best], least=0.0)
        others = (((1 << len(parts)) - 1, "everything strong"), (0, "everything weak"))
        against = tuple(held.number(name, scores[best] - scores[mask]) for mask, name in others if mask != best)
    found = game.parts()
    for i, one in enumerate(found):
        if one.verdict == KEEP and one.name not in chosen:
            found[i] = replace(one, verdict="the best does without it")
    return Report(
        folder=folder,
        parts={one.name: one for one in found},
        interactions=None if game.table is None else coalitions.interactions(game.table).mean(axis=-1),
        configurations=tuple(game.configuration(mask) for mask in sorted(game.scores)),
        best=chosen,
        verified=verified,
        against=against,
        tasks=game.tasks,
        held=len({row.task for row in apart}),
        runs=len(rows),
        notes=tuple(_notes(game, rows)),
    )


def _notes(game: Game, rows: Sequence[Row]) -> list[str]:
    notes: list[str] = []
    untold = sum(row.tokens is None and row.calls != 0 for row in rows)
    if untold:
        notes.append(
            f"tokens are not known: {untold} of {len(rows)} runs made calls that did not tell them "
            "(streams without a usage, threads of your own)"
        )
    elif game.costs["tokens"] is None:
        notes.append("no call was counted, so tokens are not known: evolvent.spend(client), or evolvent.spent(tokens)")
    if game.table is None:
        _, orders = coalitions.shapley_of_measured(game.n, game.scores)
        notes.append(
            f"{count(len(game.scores), 'configuration')} of {1 << game.n} were run, {orders:,} orders of the parts: "
            "exact where no more than two parts work together; no Banzhaf values, no interactions"
        )
    if game.looked:
        notes.append("when to stop depended on what came out: intervals are those that may be looked at at any time")
    errors = Counter(row.error.partition("\n")[0] for row in rows if row.error)
    notes += [f"{count(n, 'run')} of {len(rows)} raised {error}: score 0" for error, n in errors.most_common(3)]
    return notes
