"""Comparison of runs with updates: learning curves over their steps with intervals over seeds, and their table.

Steps are environment steps of teams and attempts of language models.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Protocol

from evolvent.evaluate.learning import Learning, chance_level, column, evaluated, smoothed, training, window
from evolvent.evaluate.live import interval
from evolvent.evaluate.pages.svg import Curve, Mark, count, curves, step_ticks
from evolvent.formulas.statistics import iqm, stratified_bootstrap, student_interval

_DOTS_MAX = 12
_EVALUATIONS_MIN, _POINTS_MAX = 4, 120


class TeamArm(Protocol):
    """What this needs of an arm: its name and environment, its scores, and the learning of each seed."""

    @property
    def name(self) -> str:
        """The algorithm, and what tells it apart."""
        ...

    @property
    def env(self) -> str:
        """The environment."""
        ...

    @property
    def scores(self) -> tuple[float, ...]:
        """One score a seed."""
        ...

    @property
    def learned(self) -> tuple[Learning, ...]:
        """One a seed."""
        ...


def curve(arm: TeamArm, style: int, *, drawn: bool = False) -> Curve:
    """Interquartile mean over the seeds at each step at which all of them were evaluated; one seed: over attempts.

    ``drawn``: of the attempts that the learner learned from instead, which are there after every update.
    """
    if len(arm.learned) == 1:
        [run] = arm.learned
        line = training(run, "return", arm.name, style, points=False)[0] if drawn else evaluated(run, arm.name, style)
        return Curve(arm.name, line.x, line.y, line.lo, line.hi, style, _mark(len(line.x)))
    by_seed = [_drawn(run) if drawn else _scores(run) for run in arm.learned]
    steps = _common(by_seed)
    steps = steps[:: -(-len(steps) // _POINTS_MAX) or 1]
    columns = [[scores[step] for scores in by_seed] for step in steps]
    ends = [stratified_bootstrap([column], iqm) for column in columns]
    y = [float(iqm(column)) for column in columns]
    return Curve(arm.name, steps, y, [lo for lo, _ in ends], [hi for _, hi in ends], style, _mark(len(steps)))


def picture(arms: Sequence[TeamArm], styles: Sequence[int]) -> str:
    """The curves of all arms of one environment with the random baseline, as HTML."""
    drawn = few_evaluations(arms)
    lines = [curve(arm, style, drawn=drawn) for arm, style in zip(arms, styles, strict=True)]
    chance = next((run.chance for arm in arms for run in arm.learned if run.chance), None)
    last = max((run.last_step for arm in arms for run in arm.learned), default=0)
    return curves(
        [*chance_level(chance), *lines], ticks=step_ticks(last), x_label=_unit(arms), y_label="return", rates=False
    )


def few_evaluations(arms: Sequence[TeamArm]) -> bool:
    """Whether some arm was evaluated too seldom for a curve."""
    return any(len(_common([_scores(run) for run in arm.learned])) < _EVALUATIONS_MIN for arm in arms)


def interval_of(arm: TeamArm) -> tuple[tuple[float, float], str]:
    """Of the interquartile mean: a bootstrap over seeds; of one seed, that of its last evaluation over attempts."""
    if len(arm.scores) > 1:
        return stratified_bootstrap([arm.scores], iqm), "seeds"
    lo, hi = arm.learned[0].evaluations[-1]["ci95"] if arm.learned[0].evaluations else (float("nan"),) * 2
    return (lo, hi), "attempts"


def common_step(arms: Sequence[TeamArm]) -> int | None:
    """The last step that all runs of all arms came to; ``None`` where they are equally long."""
    lengths = {run.last_step for arm in arms for run in arm.learned}
    return min(lengths) if len(lengths) > 1 else None


def columns(arms: Sequence[TeamArm], common: int | None) -> list[str]:
    """Headings of the table."""
    unit = _unit(arms).removeprefix("environment ")
    at = [] if common is None else [f"IQM at {count(common)} {unit}"]
    return ["arm", "seeds", unit, "mean [95 % t]", "IQM [95 %]", "over", *at, "P(better)"]


def cells(
    arm: TeamArm, ci95: tuple[float, float], over: str, better: tuple[float, float, float] | None, common: int | None
) -> list[object]:
    """One arm's row."""
    steps = sorted({count(run.last_step) for run in arm.learned})
    row: list[object] = [arm.name, len(arm.scores), "–".join(steps[:: max(1, len(steps) - 1)])]
    row += [interval(fmean(arm.scores), student_interval(arm.scores), rate=False)]
    row += [interval(float(iqm(arm.scores)), ci95, rate=False), over]
    if common is not None:
        row.append(_at(arm, common))
    return [*row, None if better is None else f"{better[0]:.2f} [{better[1]:.2f}, {better[2]:.2f}]"]


def notes(arms: Sequence[TeamArm], common: int | None) -> list[str]:
    """What the numbers rest on."""
    out = [
        "Scores are mean returns of greedy attempts after the last update. IQM: interquartile mean over seeds with a "
        "bootstrap interval; mean: with Student's t over seeds, wider and safer where seeds are few."
    ]
    if common is not None:
        out.append(
            f"The runs are not equally long: at {common:,} {_unit(arms)} all of them are compared by their last "
            "evaluation until then; scores and P(better) are those of the ends."
        )
    return out


def _at(arm: TeamArm, step: int) -> str | None:
    """The interquartile mean of each seed's last evaluation until ``step``."""
    until = [[value for at, value in _scores(run).items() if at <= step] for run in arm.learned]
    last = [values[-1] for values in until if values]
    return f"{float(iqm(last)):.4g}" if len(last) == len(arm.learned) else None


def _unit(arms: Sequence[TeamArm]) -> str:
    """What the steps of these runs are; arms of one environment count the same."""
    return next((run.unit for arm in arms for run in arm.learned), "steps")


def _scores(run: Learning) -> dict[int, float]:
    return {int(row["step"]): float(row["value"]) for row in run.evaluations if row.get("value") is not None}


def _drawn(run: Learning) -> dict[int, float]:
    """The smoothed return while learning."""
    steps, values = column(run.updates, "return")
    return dict(zip(map(int, steps), smoothed(values, window(len(values))), strict=True))


def _common(by_seed: Sequence[dict[int, float]]) -> list[int]:
    return sorted(set.intersection(*(set(scores) for scores in by_seed)))


def _mark(n: int) -> Mark:
    return "dots" if n <= _DOTS_MAX else "line"
