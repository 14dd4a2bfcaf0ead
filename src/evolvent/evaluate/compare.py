"""Runs against one another: interquartile mean with interval, probability of improvement, paired test, curves.

Runs of the same algorithm, environment and settings that differ only in the seed form one arm. The first arm is the
reference of every comparison. What is compared is what the pages of the runs hold: score, outcomes, lines.
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
from evolvent.evaluate import curves
from evolvent.evaluate.against import (
    FEW,
    Against,
    Key,
    Paired,
    by_interval,
    by_pairs,
    difference,
    ends_of,
    few,
    listed,
    paired,
    sentence_of,
)
from evolvent.evaluate.blocks import Number, Outcomes, Page
from evolvent.evaluate.live import Live, interval
from evolvent.evaluate.pages.svg import count
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
    """The runs of one setting, by seed; ``alone``: the verdict on the arm by itself, against what its runs recorded."""

    name: str
    env: str
    seeds: tuple[int, ...]
    pages: tuple[Page, ...]
    folders: tuple[Path, ...] = ()
    alone: Verdict = field(default_factory=lambda: Verdict(""))

    @property
    def score(self) -> Number:
        """Of the first seed."""
        assert self.pages[0].score is not None
        return self.pages[0].score

    @property
    def scores(self) -> tuple[float, ...]:
        """One a seed."""
        return tuple(float(page.score.value) for page in self.pages if page.score and page.score.value is not None)

    def outcomes(self) -> list[Outcomes]:
        """What the first seed's score counts; empty where it counts nothing."""
        return self.pages[0].of(Outcomes)

    def by_task(self, name: str) -> dict[Key, int]:
        """The outcomes of that name of all seeds, by seed and task."""
        return {
            (seed, task): won
            for seed, page in zip(self.seeds, self.pages, strict=True)
            for one in page.of(Outcomes)
            if one.name == name
            for task, won, _ in one.rows
        }


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
    against: tuple[Against, ...] = ()


def load(
    folders: Sequence[Path], page_of: Callable[[RunFolder], Page], note: Callable[[str], None] = lambda said: None
) -> list[Arm]:
    """Read run folders, or folders of run folders, into arms in the order given.

    Pages beside the runs, as ``seeds/*`` gives them too, are passed over; ``note`` is called with which.

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
    return [_arm(name, members, page_of) for name, members in zip(names, groups.values(), strict=True)]


def compare(arms: Sequence[Arm]) -> list[Standing]:
    """Numbers for every arm; comparisons are with the first arm on its environment."""
    out: list[Standing] = []
    several_envs = len({arm.env for arm in arms}) > 1
    for arm in arms:
        reference = next(other for other in arms if other.env == arm.env)
        ci95, over = _interval(arm)
        better, test = None, None
        against: tuple[Against, ...] = ()
        if arm is not reference:
            sign = 1.0 if arm.score.higher_is_better else -1.0
            if len(arm.scores) > 1 and len(reference.scores) > 1:  # of a single run it says nothing
                better = probability_of_improvement(sign * np.array(arm.scores), sign * np.array(reference.scores))
            name = f"{arm.name} on {arm.env}" if several_envs and arm.env else arm.name
            pairs = _in_pairs(arm, reference, name) if arm.score.higher_is_better else []
            test = pairs[0][0] if pairs else None
            against = tuple(one for _, one in pairs) or (_by_scores(arm, reference, name),)
        out.append(Standing(arm, fmean(arm.scores), float(iqm(arm.scores)), ci95, over, better, test, against))
    return out


def verdict(standings: Sequence[Standing]) -> Verdict:
    """Each arm against the reference, in words; one that is alone on its environment against its own baselines."""
    if len(standings) == 1:
        return standings[0].arm.alone
    envs = [s.arm.env for s in standings]
    found, sentences = list[Against](), list[str]()
    for s in standings:
        against = s.against or (_alone(s, envs) if envs.count(s.arm.env) == 1 else ())
        found += against
        sentences += [sentence_of(against)] if against else []
    single = [s.arm.name for s in standings if len(s.arm.seeds) == 1]
    who = "One seed each" if len(single) == len(standings) else f"One seed of {listed(single)}" if single else ""
    note = f"{who}: another one may come out otherwise." if who else ""
    # what is better than another run may still be no better than random actions
    besides = tuple(one for s in standings if s.against for one in s.arm.alone.against)
    return Verdict(" ".join(sentences), note, tuple(found), besides=besides)


def _alone(s: Standing, envs: Sequence[str]) -> list[Against]:
    """An arm against what its own runs recorded, by its name."""
    name = f"{s.arm.name} on {s.arm.env}" if len(set(envs)) > 1 and s.arm.env else s.arm.name
    return [replace(one, subject=f"{name} {one.subject}".strip()) for one in s.arm.alone.against]


def _in_pairs(arm: Arm, reference: Arm, name: str) -> list[tuple[Paired, Against]]:
    """By the tasks that both attempted, for each sort of outcome."""
    found: list[tuple[Paired, Against]] = []
    seeds = len(set(arm.seeds) & set(reference.seeds))
    for one in arm.outcomes():
        if test := paired(arm.by_task(one.name), reference.by_task(one.name)):
            named = f"{reference.name} in {one.name}" if one.name else reference.name
            found.append((test, by_pairs(named, test, name, seeds=seeds, thing=one.thing)))
    return found


def _by_scores(arm: Arm, reference: Arm, name: str) -> Against:
    """By the scores of the seeds that both have; otherwise by two intervals: over seeds, of one seed over attempts."""
    own, other = (dict(zip(one.seeds, one.scores, strict=True)) for one in (arm, reference))
    gains = [own[seed] - other[seed] for seed in own if seed in other]
    if len(gains) > 1:
        ends = fmean(gains), *student_interval(gains)
    else:
        ends = difference_interval(fmean(arm.scores), _over(arm), fmean(reference.scores), _over(reference))
    numbers = difference(ends) if not math.isnan(ends[1]) else "no interval of the difference"
    higher, n = arm.score.higher_is_better, min(map(_behind, (arm, reference)))
    numbers += "" if higher else " (lower is better)"
    numbers += "" if n >= FEW else f" ({few(n)})"
    return by_interval(reference.name, ends, numbers, n=n, higher=higher, subject=name)


def _behind(arm: Arm) -> float:
    """Outcomes behind the scores of an arm, as far as its runs say."""
    return sum(page.score.n or math.inf for page in arm.pages if page.score)


def _over(arm: Arm) -> tuple[float, float]:
    if len(arm.scores) > 1:
        return student_interval(arm.scores)
    return ends_of(arm.score) if not arm.outcomes() else (math.nan, math.nan)


def show(standings: Sequence[Standing], live: Live) -> None:
    """Print the verdict, the table and what it rests on."""
    for line in verdict(standings).told():
        live.note(line)
    for group in tables(standings):
        arm = group[0].arm
        live.table(f"{arm.score.name} on {arm.env}" if arm.env else arm.score.name, *cells(group))
    for line in notes(standings):
        live.note(line)


# ------------------------------------------------------------------------------------------------ reading
def _runs(folder: Path) -> list[RunFolder]:
    alone = (folder / "config.json").exists()
    inside = [] if alone else sorted(path.parent for path in folder.glob("*/config.json"))
    found = [RunFolder.open(path) for path in inside or [folder]]
    if not any(run.finished for run in found):
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
        own = ", ".join(f"{name}={fields[f]}" for name, f in zip(said, telling, strict=True))
        names.append(setting["algo"] + (f" ({own})" if own else ""))
    return names


def _arm(name: str, runs: Sequence[RunFolder], page_of: Callable[[RunFolder], Page]) -> Arm:
    seeds = tuple(int(run.manifest()["seed"]) for run in runs)
    if len(set(seeds)) < len(seeds):
        raise BadInput(
            "the same seed of the same setting is given twice",
            got=f"{name}, seeds {list(seeds)}",
            expected="each run once",
            where=", ".join(str(run.path) for run in runs),
        )
    pages = tuple(page_of(run) for run in runs)
    for run, page in zip(runs, pages, strict=True):
        if page.score is None or page.score.value is None:
            got = run.summary().get("score")
            raise BadInput("the run has no score", got=got, expected="a number", where=str(run.path / "summary.json"))
    manifest = runs[0].manifest()
    alone = of_seeds(manifest, pages, seeds, runs[0].path)
    return Arm(name, str(manifest["env"]), seeds, pages, tuple(run.path for run in runs), alone)


# ------------------------------------------------------------------------------------------------ numbers
def _interval(arm: Arm) -> tuple[tuple[float, float], str]:
    """Of the interquartile mean: over seeds and their tasks in two stages; of one seed what its score has.

    Seeds alone would give three equal scores an interval of no width. One seed whose score counts tasks: over those,
    resampled within each kind.
    """
    found = arm.outcomes()
    outcomes: dict[int, list[int]] = {}
    for (seed, _), won in arm.by_task(found[0].name).items() if found else ():
        outcomes.setdefault(int(str(seed)), []).append(won)
    rates, counts = [fmean(won) for won in outcomes.values()], [len(won) for won in outcomes.values()]
    is_rate = len(rates) == len(arm.scores) and np.allclose(rates, arm.scores, atol=1e-3)
    if not is_rate:  # the score is something else than the success rate of those tasks
        if len(arm.scores) > 1 or found:
            return stratified_bootstrap([arm.scores], iqm), "seeds"
        return ends_of(arm.score), arm.score.over
    hits = sum(r * n for r, n in zip(rates, counts, strict=True))
    if hits in (0.0, float(sum(counts))):
        return wilson(hits, sum(counts)), "tasks"
    if len(rates) == 1:
        kinds: dict[str, list[float]] = {}
        for _, won, kind in found[0].rows:
            kinds.setdefault(kind, []).append(float(won))
        return stratified_bootstrap(list(kinds.values())), "tasks"
    return _two_stage(np.array(rates), np.array(counts)), "seeds, tasks"


def _two_stage(rates: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """Resample seeds, then the tasks of each drawn seed (0/1 outcomes: a binomial draw); percentiles of the IQM."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(rates), (4000, len(rates)))
    lo, hi = np.percentile(iqm(rng.binomial(counts[drawn], rates[drawn]) / counts[drawn], axis=1), [2.5, 97.5])
    return float(lo), float(hi)


def tables(standings: Sequence[Standing]) -> list[list[Standing]]:
    """One table for scores that count tasks; of others, which mean something else everywhere, one an environment."""
    groups: dict[str, list[Standing]] = {}
    for s in standings:
        groups.setdefault("" if s.arm.outcomes() else s.arm.env, []).append(s)
    return list(groups.values())


_PAIRED = ["arm", "seeds", "mean", "IQM [95 %]", "over", "P(better)", "difference [95 %]", "won–lost", "McNemar p"]


def cells(group: Sequence[Standing]) -> tuple[list[str], list[list[object]]]:
    """Names of the columns and the rows of one table, without columns that nobody has."""
    if group[0].arm.outcomes():
        names, rows = list(_PAIRED), [_paired_cells(s) for s in group]
    else:
        common, unit = _common_step(group), group[0].arm.pages[0].unit.removeprefix("environment ")
        at = [] if common is None else [f"IQM at {count(common)} {unit}"]
        names = ["arm", "seeds", unit, "mean [95 % t]", "IQM [95 %]", "over", *at, "P(better)"]
        rows = [_score_cells(s, common) for s in group]
    used = [c for c in range(len(names)) if any(row[c] is not None for row in rows)]  # one arm is compared with nothing
    return [names[c] for c in used], [[row[c] for c in used] for row in rows]


def _paired_cells(s: Standing) -> list[object]:
    rates = all(0.0 <= score <= 1.0 for score in s.arm.scores)
    cells: list[object] = [s.arm.name, len(s.arm.seeds), interval(s.mean, None, rate=rates)]
    cells += [interval(s.iqm, s.ci95, rate=rates), s.interval_over, _chance(s)]
    if s.paired is None:
        return [*cells, None, None, None]
    p = s.paired
    ends = "" if math.isnan(p.lo) else f" [{100 * p.lo:+.0f}, {100 * p.hi:+.0f}]"
    return [*cells, f"{100 * p.difference:+.0f} points{ends}", f"{p.only_a}–{p.only_b} of {p.n}", f"{p.p:.2g}"]


def _score_cells(s: Standing, common: int | None) -> list[object]:
    steps = sorted({page.steps for page in s.arm.pages if page.steps is not None})
    lengths = "–".join(count(step) for step in steps[:: max(1, len(steps) - 1)]) or None
    row: list[object] = [s.arm.name, len(s.arm.scores), lengths]
    rate = s.arm.score.rate
    row += [interval(fmean(s.arm.scores), student_interval(s.arm.scores), rate=rate)]
    row += [interval(s.iqm, s.ci95, rate=rate), s.interval_over or None]
    if common is not None:
        row.append(curves.until(s.arm.pages, common))
    return [*row, _chance(s)]


def _chance(s: Standing) -> str | None:
    return None if s.better is None else f"{s.better[0]:.2f} [{s.better[1]:.2f}, {s.better[2]:.2f}]"


def _common_step(group: Sequence[Standing]) -> int | None:
    """The last step that all runs of all arms came to; ``None`` where they are equally long."""
    lengths = {page.steps for s in group for page in s.arm.pages if page.steps is not None}
    return min(lengths) if len(lengths) > 1 else None


def notes(standings: Sequence[Standing]) -> list[str]:
    """What the numbers rest on, in sentences."""
    envs = [s.arm.env for s in standings]
    beside = [s for s in standings if envs.count(s.arm.env) > 1]  # of one that is alone the verdict says it
    out = [sentence_of(_alone(s, envs)) for s in beside if s.arm.alone.against]
    compared_by = ["P(better)"] if any(s.better for s in standings) else []
    compared_by += ["difference", "McNemar test"] if any(s.paired for s in standings) else []
    if compared_by:
        out.append(f"Against the first arm of the same environment: {listed(compared_by)}.")
    for group in tables(standings):
        out += [note for note in _score_notes(group) if note not in out] if not group[0].arm.outcomes() else []
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


def _score_notes(group: Sequence[Standing]) -> list[str]:
    """How scores that count no tasks are to be read."""
    several = any(len(s.arm.scores) > 1 for s in group)
    out = [
        "IQM: interquartile mean over seeds with a bootstrap interval; mean: with Student's t over seeds, wider and "
        "safer where seeds are few."
    ]
    common = _common_step(group)
    if common is not None:
        out.append(
            f"The runs are not equally long: at {common:,} {group[0].arm.pages[0].unit} all of them are compared by "
            "their last evaluation until then; scores and P(better) are those of the ends."
        )
    return out if several or common is not None else []
