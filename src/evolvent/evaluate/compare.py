"""Runs against one another: interquartile mean with interval, probability of improvement, paired test, curves.

Runs of the same algorithm, environment and settings that differ only in the seed form one arm. The first arm is the
reference of every comparison.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from evolvent.core.config import flat
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.evaluate import compare_team, series
from evolvent.evaluate.learning import Learning, learning
from evolvent.evaluate.live import Live, interval
from evolvent.evaluate.pages.page import cards, page, section, table, text, way
from evolvent.evaluate.pages.report_parts import verdict_block
from evolvent.evaluate.pages.svg import Bar, Curve, bars, curves
from evolvent.evaluate.series import Paired, Row
from evolvent.evaluate.verdict import Against, Verdict, by_interval, by_pairs, difference, sentence_of
from evolvent.formulas.statistics import (
    clustered_bootstrap,
    difference_interval,
    iqm,
    probability_of_improvement,
    stratified_bootstrap,
    student_interval,
    wilson,
)

_FEW_SEEDS = 5


@dataclass(frozen=True)
class Arm:
    """The runs of one setting: ``scores`` by run, and the outcome lines of all runs (``run`` names the seed).

    Of runs with updates (teams, language models) there is ``learned`` instead of outcome lines, one for each run.
    """

    name: str
    env: str
    seeds: tuple[int, ...]
    scores: tuple[float, ...]
    score_name: str
    higher_is_better: bool
    rows: tuple[Row, ...]
    learned: tuple[Learning, ...] = ()
    folders: tuple[Path, ...] = ()

    def final(self) -> list[Row]:
        """The outcomes that the score speaks about: held-out tasks after learning, or the last pass of the stream."""
        phases = series.phases(self.rows)
        passes = series.passes(phases.get("stream", list(self.rows)))
        rows = phases["after"] if "after" in phases else passes[max(passes)] if passes else []
        return [{**row, "pass": 1} for row in rows]  # arms may differ in the number of passes


@dataclass(frozen=True)
class Standing:
    """One arm's line in the table."""

    arm: Arm
    mean: float
    iqm: float
    ci95: tuple[float, float]
    interval_over: str
    better: tuple[float, float, float] | None
    paired: Paired | None
    against: Against | None = None


def load(folders: Sequence[Path], note: Callable[[str], None] = lambda said: None) -> list[Arm]:
    """Read run folders, or folders of run folders, into arms in the order given.

    Args:
        folders: as ``seeds/*`` gives them, too: pages beside the runs (``compare.html``) are passed over.
        note: told what is passed over.

    Raises:
        BadInput: a folder holds no finished run, or the same seed of the same setting stands in two of them.
    """
    pages = [path for path in map(Path, folders) if path.suffix == ".html" and path.is_file()]
    named = [path for path in map(Path, folders) if path not in pages] or pages  # nothing but pages is a wrong path
    runs = [run for path in named for run in _runs(path)]
    for path in pages:
        note(f"{path} is a page, no run: passed over")
    groups: dict[str, list[RunFolder]] = {}
    for run in runs:
        groups.setdefault(_setting(run.manifest()), []).append(run)
    names = _names([json.loads(setting) for setting in groups])
    return [_arm(name, members) for name, members in zip(names, groups.values(), strict=True)]


def compare(arms: Sequence[Arm]) -> list[Standing]:
    """Numbers for every arm; comparisons are with the first arm on its environment."""
    out: list[Standing] = []
    several_envs = len({arm.env for arm in arms}) > 1
    for arm in arms:
        reference = next(other for other in arms if other.env == arm.env)
        ci95, over = compare_team.interval_of(arm) if arm.learned else _interval(arm)
        better = test = against = None
        if arm is not reference:
            sign = 1.0 if arm.higher_is_better else -1.0
            if len(arm.scores) > 1 and len(reference.scores) > 1:  # of a single run it says nothing
                better = probability_of_improvement(sign * np.array(arm.scores), sign * np.array(reference.scores))
            several = len(set(arm.seeds) & set(reference.seeds)) > 1
            test = series.paired(arm.final(), reference.final(), cluster="run" if several else "task")
            name = f"{arm.name} on {arm.env}" if several_envs else arm.name
            against = (
                by_pairs(reference.name, test, name)
                if test and arm.higher_is_better
                else _by_scores(arm, reference, name)
            )
        out.append(Standing(arm, fmean(arm.scores), float(iqm(arm.scores)), ci95, over, better, test, against))
    return out


def verdict(standings: Sequence[Standing]) -> Verdict:
    """Each arm against the reference, in words."""
    found = tuple(s.against for s in standings if s.against is not None)
    if not found:
        return Verdict("")
    fewest = min(len(s.arm.seeds) for s in standings)
    note = "One seed of some: another one may come out otherwise." if fewest == 1 else ""
    return Verdict(" ".join(sentence_of([one]) for one in found), note, found)


def _by_scores(arm: Arm, reference: Arm, name: str) -> Against:
    """By the scores of the seeds that both have; otherwise by two intervals: over seeds, of one seed over attempts."""
    own, other = (dict(zip(one.seeds, one.scores, strict=True)) for one in (arm, reference))
    gains = [own[seed] - other[seed] for seed in own if seed in other]
    if len(gains) > 1:
        ends = fmean(gains), *student_interval(gains)
    else:
        ends = difference_interval(fmean(arm.scores), _over(arm), fmean(reference.scores), _over(reference))
    numbers = difference(ends) if not math.isnan(ends[1]) else "no interval of the difference"
    numbers += "" if arm.higher_is_better else " (lower is better)"
    return by_interval(reference.name, ends, numbers, higher=arm.higher_is_better, subject=name)


def _over(arm: Arm) -> tuple[float, float]:
    if len(arm.scores) > 1:
        return student_interval(arm.scores)
    return compare_team.interval_of(arm)[0] if arm.learned else (math.nan, math.nan)


def show(standings: Sequence[Standing], live: Live) -> None:
    """Print the verdict, the table and what it rests on."""
    said = verdict(standings)
    if said.sentence:
        live.note("\n".join([f"\n{said.sentence} {said.note}", *(f"  {line}" for line in said.lines())]))
    for group in _tables(standings):
        live.table(f"{group[0].arm.score_name} on {group[0].arm.env}", *_table(group))
    for line in _notes(standings):
        live.note(line)


def write_html(standings: Sequence[Standing], path: Path) -> Path:
    """The same as a self-contained page with curves."""
    arms = [standing.arm for standing in standings]
    rates = all(0.0 <= score <= 1.0 for arm in arms for score in arm.scores) and not any(arm.learned for arm in arms)
    style = {arm.name: (0, 2, 3, 4, 5, 1)[i % 6] for i, arm in enumerate(arms)}  # the control is grey
    lines = [*_control(arms), *(line for arm in arms if (line := _curve(arm, style[arm.name])) is not None)]
    ticks = [(x, f"{x:.0f}") for x in sorted({x for line in lines if line.mark != "level" for x in line.x})]
    rows = [Bar(s.arm.name, s.iqm, *s.ci95, style=style[s.arm.name]) for s in standings]
    shown = [(f"{arms[0].score_name}, interquartile mean", bars(rows, rates=rates))]
    if len(ticks) > 1:
        picture = curves(lines, ticks=ticks, x_label="pass over the tasks", y_label="success")
        shown.insert(0, ("Success while learning", picture))
    groups, tables = _tables(standings), ""
    for i, group in enumerate(groups):
        heading = f"<h3>{text(group[0].arm.env)}</h3>" if len(groups) > 1 else ""
        tables += heading + table(*_table(group))
        if group[0].arm.learned:
            members = [s.arm for s in group]
            picture = compare_team.picture(members, [style[arm.name] for arm in members])
            whose = "Return" if compare_team.few_evaluations(members) else "Return of greedy attempts"
            shown.insert(i, (f"{whose} while learning, {group[0].arm.env}", picture))
    notes = "".join(f"<p class='small soft'>{text(line)}</p>" for line in _notes(standings))
    said = verdict(standings)
    top = verdict_block(said) if said.sentence else ""
    body = [
        f"<header><h1>{text(' · '.join(arm.name for arm in arms))}</h1>{top}</header>",
        cards(shown),
        section("Comparison", tables + notes),
        section("The runs", _links(arms, path.parent)),
    ]
    write_atomic(path, page("Comparison of runs", body))
    return path


def _links(arms: Sequence[Arm], at: Path) -> str:
    """The reports of all runs that have one, as seen from the folder ``at``."""
    lines: list[str] = []
    for arm in arms:
        reports = [(seed, place / "report.html") for seed, place in zip(arm.seeds, arm.folders, strict=False)]
        ways = [f'<a href="{text(way(report, at))}">seed {seed}</a>' for seed, report in reports if report.exists()]
        lines += [f'<p class="links small">{text(arm.name)}: {" ".join(ways)}</p>'] if ways else []
    return "".join(lines)


# ------------------------------------------------------------------------------------------------ reading
def _runs(folder: Path) -> list[RunFolder]:
    if (folder / "config.json").exists():
        found = [RunFolder.open(folder)]
    else:
        found = [RunFolder.open(path.parent) for path in sorted(folder.glob("*/config.json"))]
    if not found or not any(run.finished for run in found):
        raise BadInput(
            "no finished run", got=str(folder), expected="a run folder with summary.json, or a folder of such folders",
            where="evolvent compare", do="finish it with `evolvent run ALGO --resume DIR`",
        )  # fmt: skip
    return [run for run in found if run.finished]


def _setting(manifest: Mapping[str, Any]) -> str:
    config = {name: value for name, value in manifest["config"].items() if name != "seed"}
    return json.dumps({"algo": manifest["algo"], "env": manifest["env"], "config": config}, sort_keys=True)


def _names(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The algorithm's name, and in brackets the settings that tell runs of the same algorithm apart."""
    names: list[str] = []
    for setting in settings:
        twins = [flat(other["config"]) for other in settings if other["algo"] == setting["algo"]]
        fields = flat(setting["config"])
        telling = [f for f in fields if any(twin.get(f) != fields[f] for twin in twins)]
        names.append(setting["algo"] + (f" ({', '.join(f'{f}={fields[f]}' for f in telling)})" if telling else ""))
    return names


def _arm(name: str, runs: Sequence[RunFolder]) -> Arm:
    seeds = tuple(int(run.manifest()["seed"]) for run in runs)
    if len(set(seeds)) < len(seeds):
        raise BadInput(
            "the same seed of the same setting is given twice", got=f"{name}, seeds {list(seeds)}",
            expected="each run once", where=", ".join(str(run.path) for run in runs),
        )  # fmt: skip
    scores = [run.summary()["score"] for run in runs]
    for run, score in zip(runs, scores, strict=True):
        if score.get("value") is None:
            raise BadInput("the run has no score", got=score, expected="a number", where=str(run.path / "summary.json"))
    rows = [{**row, "run": seed} for seed, run in zip(seeds, runs, strict=True) for row in run.read_metrics()]
    return Arm(
        name,
        str(runs[0].manifest()["env"]),
        seeds,
        tuple(float(score["value"]) for score in scores),
        str(scores[0]["name"]),
        bool(scores[0].get("higher_is_better", True)),
        tuple(series.valid(rows)),
        tuple(learning(run.read_metrics(), run.kind) for run in runs if run.kind != "memory"),
        tuple(run.path for run in runs),
    )


# ------------------------------------------------------------------------------------------------ numbers
def _interval(arm: Arm) -> tuple[tuple[float, float], str]:
    """Two-stage bootstrap over seeds and their tasks; one seed: over its tasks, resampled within each kind.

    Seeds alone would give three equal scores an interval of no width.
    """
    outcomes = series.by_key(arm.final(), lambda row: row["run"])
    rates = [fmean(float(row["success"]) for row in rows) for rows in outcomes.values()]
    counts = [len(rows) for rows in outcomes.values()]
    is_rate = len(rates) == len(arm.scores) and np.allclose(rates, arm.scores, atol=1e-3)
    if not is_rate:  # the score is something else than the success rate of those tasks
        return stratified_bootstrap([arm.scores], iqm), "seeds"
    hits = sum(r * n for r, n in zip(rates, counts, strict=True))
    if hits in (0.0, float(sum(counts))):
        return wilson(hits, sum(counts)), "tasks"
    if len(rates) == 1:
        kinds = series.by_key(arm.final(), lambda row: row.get("kind"))
        return stratified_bootstrap([[float(row["success"]) for row in rows] for rows in kinds.values()]), "tasks"
    return _two_stage(np.array(rates), np.array(counts)), "seeds, tasks"


def _two_stage(rates: np.ndarray, counts: np.ndarray, n: int = 4000) -> tuple[float, float]:
    """Resample seeds, then the tasks of each drawn seed (0/1 outcomes: a binomial draw); percentiles of the IQM."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(rates), (n, len(rates)))
    lo, hi = np.percentile(iqm(rng.binomial(counts[drawn], rates[drawn]) / counts[drawn], axis=1), [2.5, 97.5])
    return float(lo), float(hi)


def _control(arms: Sequence[Arm]) -> list[Curve]:
    """What acting without memory comes to on the tasks of the stream, as a level."""
    rows = [row for arm in arms for row in series.phases(arm.rows).get("control", [])]
    rate = series.rate("without memory", rows)
    return [] if rate is None else [Curve(rate.name, [0.0], [rate.value], [rate.lo], [rate.hi], 1, "level")]


def _curve(arm: Arm, style: int) -> Curve | None:
    passes = series.passes(series.phases(arm.rows).get("stream", []))
    if not passes:
        return None
    y, lo, hi = [], [], []
    for rows in passes.values():
        outcomes = [float(row["success"]) for row in rows]
        y.append(fmean(outcomes))
        if len(arm.seeds) > 1:
            ends = clustered_bootstrap(outcomes, [row["run"] for row in rows])
        else:
            ends = wilson(sum(outcomes), len(outcomes))
        lo.append(ends[0])
        hi.append(ends[1])
    return Curve(arm.name, list(passes), y, lo, hi, style)


_COLUMNS = ["arm", "seeds", "mean", "IQM [95 %]", "over", "P(better)", "difference [95 %]", "won–lost", "McNemar p"]


def _tables(standings: Sequence[Standing]) -> list[list[Standing]]:
    """One table for runs over tasks; of teams, whose returns mean something else everywhere, one an environment."""
    return list(series.by_key(standings, lambda s: s.arm.env if s.arm.learned else None).values())


def _table(group: Sequence[Standing]) -> tuple[list[str], list[list[object]]]:
    if not group[0].arm.learned:
        return _COLUMNS, [_cells(s) for s in group]
    common = compare_team.common_step([s.arm for s in group])
    rows = [compare_team.cells(s.arm, s.ci95, s.interval_over, s.better, common) for s in group]
    return compare_team.columns([s.arm for s in group], common), rows


def _cells(s: Standing) -> list[object]:
    rates = all(0.0 <= score <= 1.0 for score in s.arm.scores)
    cells: list[object] = [s.arm.name, len(s.arm.seeds), interval(s.mean, None, rate=rates)]
    cells += [interval(s.iqm, s.ci95, rate=rates), s.interval_over]
    cells.append(None if s.better is None else f"{s.better[0]:.2f} [{s.better[1]:.2f}, {s.better[2]:.2f}]")
    if s.paired is None:
        return [*cells, None, None, None]
    p = s.paired
    ends = "" if math.isnan(p.lo) else f" [{100 * p.lo:+.0f}, {100 * p.hi:+.0f}]"
    return [*cells, f"{100 * p.difference:+.0f} points{ends}", f"{p.only_a}–{p.only_b} of {p.n}", f"{p.p:.2g}"]


def _notes(standings: Iterable[Standing]) -> list[str]:
    standings = list(standings)
    out: list[str] = []
    if any(not s.arm.learned for s in standings):
        out.append("P(better), difference and McNemar test are against the first arm of the same environment.")
    else:
        out.append("P(better) is against the first arm of the same environment.")
    for group in _tables(standings):
        if group[0].arm.learned:
            teams = [s.arm for s in group]
            out += [note for note in compare_team.notes(teams, compare_team.common_step(teams)) if note not in out]
    if any(s.interval_over == "attempts" for s in standings):
        out.append("One seed: its interval is over attempts after learning and says nothing about seeds.")
    if any(s.interval_over == "tasks" for s in standings):
        out.append("One seed: its interval is over tasks (resampled within each kind) and says nothing about seeds.")
    if any(1 < len(s.arm.seeds) < _FEW_SEEDS for s in standings):
        out.append(f"Fewer than {_FEW_SEEDS} seeds: a bootstrap over so few is too narrow.")
    if any(s.paired and len(set(s.arm.seeds)) > 1 for s in standings):
        out.append("McNemar counts each task of each seed as one pair; the interval of the difference is over seeds.")
    return out
