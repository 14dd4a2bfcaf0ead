"""Runs against one another: interquartile mean with interval, probability of improvement, paired test, curves.

Runs of the same algorithm, environment and settings that differ only in the seed form one arm. The first arm is the
reference of every comparison.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from evolvent.core.config import flat
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate import compare_team, series
from evolvent.evaluate.against import Against, by_interval, by_pairs, difference, listed, own, sentence_of
from evolvent.evaluate.learning import Learning, learning
from evolvent.evaluate.live import Live, interval
from evolvent.evaluate.series import Paired, Row
from evolvent.evaluate.verdict import FEW_SEEDS, Verdict, of_seeds
from evolvent.formulas.statistics import (
    difference_interval,
    iqm,
    probability_of_improvement,
    stratified_bootstrap,
    student_interval,
    wilson,
)


@dataclass(frozen=True)
class Arm:
    """The runs of one setting: ``scores`` by run, and the outcome lines of all runs (``run`` names the seed).

    Of runs with updates (teams, language models) there is ``learned`` instead of outcome lines, one for each run.
    ``alone`` is the verdict on the arm by itself, against what its own runs recorded.
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
    alone: Verdict = field(default_factory=lambda: Verdict(""))

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
    also: tuple[Against, ...] = ()


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
        also: tuple[Against, ...] = ()
        if arm is not reference:
            sign = 1.0 if arm.higher_is_better else -1.0
            if len(arm.scores) > 1 and len(reference.scores) > 1:  # of a single run it says nothing
                better = probability_of_improvement(sign * np.array(arm.scores), sign * np.array(reference.scores))
            both = len(set(arm.seeds) & set(reference.seeds))
            test = series.paired(arm.final(), reference.final(), cluster="run" if both > 1 else "task")
            name = f"{arm.name} on {arm.env}" if several_envs else arm.name
            also = _faster(arm, reference, name, both)
            named = f"{reference.name} in programs that are right" if also else reference.name
            against = (
                by_pairs(named, test, name, seeds=both, thing="program" if also else "task")
                if test and arm.higher_is_better
                else _by_scores(arm, reference, name)
            )
        out.append(Standing(arm, fmean(arm.scores), float(iqm(arm.scores)), ci95, over, better, test, against, also))
    return out


def verdict(standings: Sequence[Standing]) -> Verdict:
    """Each arm against the reference, in words; one that is alone on its environment against its own baselines."""
    if len(standings) == 1:
        return standings[0].arm.alone
    envs = [s.arm.env for s in standings]
    found, sentences = list[Against](), list[str]()
    for s in standings:
        if s.against is not None:
            found += [s.against, *s.also]
            sentences.append(sentence_of([s.against, *s.also]))
        elif envs.count(s.arm.env) == 1:
            found += _alone(s, envs)
            sentences += [sentence_of(_alone(s, envs))] if s.arm.alone.against else []
    single = [s.arm.name for s in standings if len(s.arm.seeds) == 1]
    who = "One seed each" if len(single) == len(standings) else f"One seed of {listed(single)}" if single else ""
    note = f"{who}: another one may come out otherwise." if who else ""
    return Verdict(" ".join(sentences), note, tuple(found))


def _alone(s: Standing, envs: Sequence[str]) -> list[Against]:
    """An arm against what its own runs recorded, by its name."""
    name = s.arm.name if len(set(envs)) == 1 else f"{s.arm.name} on {s.arm.env}"
    return [replace(one, subject=f"{name} {one.subject}".strip()) for one in s.arm.alone.against]


def _faster(arm: Arm, reference: Arm, name: str, seeds: int) -> tuple[Against, ...]:
    """Of programs also which are faster; nothing of other tasks."""
    told = [[{**row, "success": row["faster"]} for row in one.final() if "faster" in row] for one in (arm, reference)]
    test = series.paired(*told, cluster="run" if seeds > 1 else "task")
    named = f"{reference.name} in programs that are faster"
    return (by_pairs(named, test, name, seeds=seeds, thing="program"),) if test else ()


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
        live.note("\n".join([f"\n{said.sentence} {said.note}".rstrip(), *(f"  {line}" for line in said.lines())]))
    if said.advice:
        live.note(f"  next: {said.advice}" + (f"\n        {said.command}" if said.command else ""))
    for group in tables(standings):
        live.table(f"{group[0].arm.score_name} on {group[0].arm.env}", *cells(group))
    for line in notes(standings):
        live.note(line)


# ------------------------------------------------------------------------------------------------ reading
def _runs(folder: Path) -> list[RunFolder]:
    inside = sorted(folder.glob("*/config.json"))
    if (folder / "config.json").exists() or not inside:
        found = [RunFolder.open(folder)]
    else:
        found = [RunFolder.open(path.parent) for path in inside]
    if not found or not any(run.finished for run in found):
        raise BadInput(
            "no finished run",
            got=str(folder),
            expected="a run folder with summary.json, or a folder of such folders",
            where="evolvent compare",
            do="finish it with `evolvent run ALGO --resume DIR`",
        )
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
        short = [f.rpartition(".")[2] for f in fields]  # as its flag says it, where no other field ends so
        said = [f if short.count(name := f.rpartition(".")[2]) > 1 else name for f in telling]
        told = ", ".join(f"{name}={fields[f]}" for name, f in zip(said, telling, strict=True))
        names.append(setting["algo"] + (f" ({told})" if told else ""))
    return names


def _arm(name: str, runs: Sequence[RunFolder]) -> Arm:
    seeds = tuple(int(run.manifest()["seed"]) for run in runs)
    if len(set(seeds)) < len(seeds):
        raise BadInput(
            "the same seed of the same setting is given twice",
            got=f"{name}, seeds {list(seeds)}",
            expected="each run once",
            where=", ".join(str(run.path) for run in runs),
        )
    scores = [run.summary()["score"] for run in runs]
    for run, score in zip(runs, scores, strict=True):
        if score.get("value") is None:
            raise BadInput("the run has no score", got=score, expected="a number", where=str(run.path / "summary.json"))
    kind, manifest, summaries = runs[0].kind, runs[0].manifest(), [run.summary() for run in runs]
    rows = [{**row, "run": seed} for seed, run in zip(seeds, runs, strict=True) for row in run.read_metrics()]
    found = own(kind, summaries, rows)
    return Arm(
        name,
        str(manifest["env"]),
        seeds,
        tuple(float(score["value"]) for score in scores),
        str(scores[0]["name"]),
        bool(scores[0].get("higher_is_better", True)),
        tuple(_outcomes(kind, seeds, summaries, rows)),
        tuple(learning(run.read_metrics(), run.kind) for run in runs if kind in ("team", "language")),
        tuple(run.path for run in runs),
        of_seeds(manifest, summaries[0], found, seeds, runs[0].path),
    )


def _outcomes(
    kind: str, seeds: Sequence[int], summaries: Sequence[Mapping[str, Any]], rows: Sequence[Row]
) -> list[Row]:
    """The lines that hold outcomes of tasks: of searches those of the first one, of programs one a program."""
    if kind == "search":
        first = summaries[0]["arms"][0]["name"]
        return [{**row, "phase": "after"} for row in series.valid(rows) if row["phase"] == first]
    if kind == "programs":
        return [
            {"run": seed, "task": one["name"], "success": one["right"], "faster": one["faster"]}
            for seed, summary in zip(seeds, summaries, strict=True)
            for one in summary["kernels"]
        ]
    return series.valid(rows)


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


_COLUMNS = ["arm", "seeds", "mean", "IQM [95 %]", "over", "P(better)", "difference [95 %]", "won–lost", "McNemar p"]


def tables(standings: Sequence[Standing]) -> list[list[Standing]]:
    """One table for runs over tasks; of teams, whose returns mean something else everywhere, one an environment."""
    return list(series.by_key(standings, lambda s: s.arm.env if s.arm.learned else None).values())


def cells(group: Sequence[Standing]) -> tuple[list[str], list[list[object]]]:
    """Names of the columns and the rows of one table, without columns that nobody has."""
    if not group[0].arm.learned:
        names, rows = _COLUMNS, [_cells(s) for s in group]
    else:
        common = compare_team.common_step([s.arm for s in group])
        names = compare_team.columns([s.arm for s in group], common)
        rows = [compare_team.cells(s.arm, s.ci95, s.interval_over, s.better, common) for s in group]
    told = [c for c in range(len(names)) if any(row[c] is not None for row in rows)]  # one arm is compared with nothing
    return [names[c] for c in told], [[row[c] for c in told] for row in rows]


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


def notes(standings: Sequence[Standing]) -> list[str]:
    """What the numbers rest on, in sentences."""
    envs = [s.arm.env for s in standings]
    beside = [s for s in standings if envs.count(s.arm.env) > 1]  # of one that is alone the verdict says it
    out = [sentence_of(_alone(s, envs)) for s in beside if s.arm.alone.against]
    told = ["P(better)"] if any(s.better for s in standings) else []
    told += ["difference", "McNemar test"] if any(s.paired for s in standings) else []
    if told:
        out.append(f"Against the first arm of the same environment: {listed(told)}.")
    for group in tables(standings):
        if group[0].arm.learned:
            teams = [s.arm for s in group]
            out += [note for note in compare_team.notes(teams, compare_team.common_step(teams)) if note not in out]
    if any(s.interval_over == "attempts" for s in standings):
        out.append("One seed: its interval is over attempts after learning and says nothing about seeds.")
    if any(s.interval_over == "tasks" and len(s.arm.seeds) == 1 for s in standings):
        out.append("One seed: its interval is over tasks (resampled within each kind) and says nothing about seeds.")
    if any(s.interval_over == "tasks" and len(s.arm.seeds) > 1 for s in standings):
        out.append("All tasks of all seeds came out alike: the interval is Wilson's, over all of them.")
    if any("seeds" in s.interval_over and len(s.arm.seeds) < FEW_SEEDS for s in standings):
        out.append(f"Fewer than {FEW_SEEDS} seeds: a bootstrap over so few is too narrow.")
    if any(s.paired and len(set(s.arm.seeds)) > 1 for s in standings):
        out.append("McNemar counts each task of each seed as one pair; the interval of the difference is over seeds.")
    return out
