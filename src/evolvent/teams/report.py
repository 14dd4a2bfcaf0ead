"""What ``evolvent.worth`` returns: each part, what it is worth, in numbers and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import Number
from evolvent.evaluate.live import count, number, plain_table
from evolvent.formulas import coalitions
from evolvent.teams.game import KEEP, Configuration, Game, PartWorth, Row, in_words
from evolvent.teams.parts import Part
from evolvent.teams.study import rows_of


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
            *self.adding(),
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

    def adding(self) -> list[str]:
        """How well configurations are foretold by adding up their parts, in words; none where none is between."""
        off = [one for one in self.configurations if one.beyond]
        if not off:
            return []
        errors = {called(one.strong, len(self.parts)): abs(one.beyond.value or 0.0) for one in off if one.beyond}
        worst, (sure, n) = max(errors, key=lambda name: errors[name]), (sum(map(_apart, off)), len(off))
        return [
            f"adding up the parts foretells a configuration to {sum(errors.values()) / n:.3f} on average, "
            f"{errors[worst]:.3f} at most ({worst}); {sure} of {n} intervals of the error leave out 0"
        ]

    @property
    def score(self) -> Number | None:
        """That of the best at the tasks held apart, under a name that says so."""
        name = f"score of the best, {called(self.best, len(self.parts))}, at tasks held apart"
        return self.verified and replace(self.verified, name=name)

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


def _apart(one: Configuration) -> bool:
    lo, hi = (one.beyond and one.beyond.ci95) or (None, None)
    return lo is not None and hi is not None and not lo <= 0.0 <= hi


def report_in(folder: RunFolder) -> Report | None:
    """The report of a study from the runs in its folder, all planned beforehand; ``None``: not even a task is whole.

    Of a study that goes on, that of the tasks that every configuration has run.
    """
    labels: dict[str, dict[int, str]] = {}
    for found in folder.read_episodes():
        for i, (name, label) in enumerate(Episode.from_dict(found).implementations):
            labels.setdefault(name, {})[found["meta"]["mask"] >> i & 1] = label
    parts = [Part(name, "", "", (of.get(0, ""), of.get(1, "")), ("", ""), True) for name, of in labels.items()]
    rows, full = rows_of(folder) if parts else [], (1 << len(parts)) - 1
    if not (fit := _whole([row for row in rows if not row.held], set(range(full + 1)))):
        return None
    best = Game(parts, fit, looked=False).best()
    apart = _whole([row for row in rows if row.held], {best, 0, full})
    return report_of(folder.path, parts, [*fit, *apart], best, looked=False)


def _whole(rows: Sequence[Row], masks: set[int]) -> list[Row]:
    """The runs at tasks that all these configurations have run."""
    ran: dict[int, set[int]] = {}
    for row in rows:
        ran.setdefault(row.task, set()).add(row.mask)
    return [row for row in rows if ran[row.task] == masks]


def summary_of(report: Report) -> dict[str, Any]:
    """The numbers of a report as JSON values, for ``summary.json``."""

    def plain(one: Number | None) -> dict[str, Any]:
        return {} if one is None else {"value": one.value, "ci95": one.ci95}

    parts = {
        name: plain(one.shapley)
        | {way: plain(getattr(one, way)) for way in ("banzhaf", "leave_one_out", "first_in")}
        | {"weak": one.weak, "strong": one.strong, "verdict": one.verdict}
        | {"takes": {key: plain(found) for key, found in one.takes.items()}}
        for name, one in report.parts.items()
    }
    configurations = [
        {"strong": one.strong, **plain(one.score), "takes": dict(one.takes), "beyond": plain(one.beyond)}
        for one in report.configurations
    ]
    score = report.score
    return {
        "score": score and {"name": score.name, **plain(score)},
        "best": report.best,
        "parts": parts,
        "interactions": None if report.interactions is None else report.interactions.tolist(),
        "configurations": configurations,
        "against": [{"name": one.name, **plain(one)} for one in report.against],
        "words": [*map(str, report.parts.values()), report.choice(), *report.adding(), *report.notes],
        "tasks": report.tasks,
        "held": report.held,
        "runs": report.runs,
    }


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
