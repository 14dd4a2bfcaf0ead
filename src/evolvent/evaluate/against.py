"""How a run came out against what it recorded to compare it with: no memory, random play, before learning, ….

A difference on the same tasks has a paired interval (Newcombe's, and an exact McNemar test must agree), any other one
the interval that follows from the two estimates' own (Zou & Donner). Several seeds of one setting are taken together:
the interval is Student's t over the seeds, and never narrower than what single outcomes leave open. Fewer than five
tasks or attempts never give a verdict.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from evolvent.evaluate.blocks import Comparison, Number, Page
from evolvent.evaluate.live import count, number, percent
from evolvent.formulas.statistics import difference_interval, mcnemar, paired_rates_interval, student_interval

State = Literal["better", "worse", "same", "unknown"]
Key = tuple[Hashable, str]
"""A run, and a task of it."""
FEW = 5
_LEVEL = 0.05


@dataclass(frozen=True)
class Against:
    """One comparison: with what, how it came out, and the numbers in words; ``subject``: of what, if not of the run."""

    name: str
    state: State
    numbers: str
    subject: str = ""


@dataclass(frozen=True)
class Paired:
    """Two outcomes of the same tasks: difference ``a - b`` with its interval, exact McNemar p."""

    n: int
    only_a: int
    only_b: int
    difference: float
    lo: float
    hi: float
    p: float


def paired(a: Mapping[Key, int], b: Mapping[Key, int]) -> Paired | None:
    """The outcomes of the tasks that stand in both; ``None`` where they share none.

    Of several runs, whose tasks may go alike, the interval is at least as wide as Student's t over the runs' means.
    """
    common = [key for key in a if key in b]
    if not common:
        return None
    x, y = [a[key] for key in common], [b[key] for key in common]
    difference, lo, hi = paired_rates_interval(x, y)
    runs: dict[Hashable, list[int]] = {}
    for (run, _), p, q in zip(common, x, y, strict=True):
        runs.setdefault(run, []).append(p - q)
    if 1 < len(runs) < len(common):
        ends = student_interval([fmean(gains) for gains in runs.values()])
        lo, hi = max(-1.0, min(lo, ends[0])), min(1.0, max(hi, ends[1]))
    only_a = sum(p > q for p, q in zip(x, y, strict=True))
    only_b = sum(p < q for p, q in zip(x, y, strict=True))
    return Paired(len(common), only_a, only_b, difference, lo, hi, mcnemar(x, y))


def own(pages: Sequence[Page]) -> tuple[Against, ...]:
    """A setting, by the pages of its runs, one a seed, against what these recorded to compare it with; may be empty."""
    found: dict[tuple[str, str], list[tuple[int, Comparison]]] = {}
    for run, page in enumerate(pages):
        for one in page.of(Comparison):
            found.setdefault((one.subject, one.name), []).append((run, one))
    results: list[Against] = []
    for (subject, name), members in found.items():
        try:
            results += _of_all(pages, name, subject, members)
        except (ArithmeticError, ValueError):  # a page that somebody damaged
            results.append(Against(name, "unknown", "numbers that cannot be compared", subject))
    return tuple(results)


def _of_all(pages: Sequence[Page], name: str, subject: str, members: Sequence[tuple[int, Comparison]]) -> list[Against]:
    """One comparison, of all runs that have it; a level counts where all have it."""
    ones = [one for _, one in members]
    if any(one.pairs for one in ones):
        a: dict[Key, int] = {(run, task): won for run, one in members for task, won, _ in one.pairs}
        b: dict[Key, int] = {(run, task): won for run, one in members for task, _, won in one.pairs}
        test, seeds = paired(a, b), len({run for run, _ in a})
        return [by_pairs(name, test, subject, seeds=seeds, thing=ones[0].thing)] if test else []
    sides = [(one.own, one.other) for one in ones]
    known = [(x, y) for x, y in sides if x and y and x.value is not None and y.value is not None]
    return [_by_levels(name, subject, known)] if len(known) == len(pages) else []


def sentence_of(found: Sequence[Against]) -> str:
    """All comparisons of one subject in one sentence, each outcome once."""
    if not found:
        return "No verdict: nothing was recorded to compare it with."
    phrases = {
        "better": "better than",
        "worse": "worse than",
        "same": "not shown to differ from",
        "unknown": "too few outcomes to compare it with",
    }
    order = dict.fromkeys(one.state for one in found)
    parts = [f"{phrases[state]} {listed([one.name for one in found if one.state == state])}" for state in order]
    said = "; ".join(parts)
    subject = found[0].subject
    return f"{subject}: {said}." if subject else f"{said[:1].upper()}{said[1:]}."


def by_interval(
    name: str,
    ends: tuple[float, float, float],
    numbers: str,
    *,
    n: float = math.inf,
    higher: bool = True,
    subject: str = "",
) -> Against:
    """How a difference came out: ``ends`` is ``(difference, lo, hi)``, ``n`` outcomes stand behind it."""
    _, lo, hi = ends if higher else (-ends[0], -ends[2], -ends[1])
    if n < FEW or math.isnan(lo) or math.isnan(hi):
        return Against(name, "unknown", numbers, subject)
    return Against(name, "better" if lo > 0 else "worse" if hi < 0 else "same", numbers, subject)


def by_pairs(name: str, test: Paired, subject: str = "", *, seeds: int = 1, thing: str = "task") -> Against:
    """How two success rates over the same tasks came out.

    ``subject``: of what, if not of the run; ``seeds``: how many runs the pairs are of; ``thing``: what a pair is.
    """
    over = count(test.n, thing) + (f" of {seeds} seeds" if seeds > 1 else "")
    numbers = f"{_points((test.difference, test.lo, test.hi))} on the same {over}; "
    p = f"p = {test.p:.2g}" if test.p >= 0.001 else "p < 0.001"
    numbers += f"{test.only_a} won, {test.only_b} lost, exact McNemar {p}"
    said = by_interval(name, (test.difference, test.lo, test.hi), numbers, n=test.n, subject=subject)
    certain = said.state in ("same", "unknown") or test.p <= _LEVEL
    return said if certain else replace(said, state="same")


def _by_levels(name: str, subject: str, pairs: Sequence[tuple[Number, Number]]) -> Against:
    """The scores of one seed or several against a number that each of them recorded."""
    rate = all(one.rate for pair in pairs for one in pair)
    higher = pairs[0][0].higher_is_better
    each = [difference_interval(a.value or 0.0, ends_of(a), b.value or 0.0, ends_of(b)) for a, b in pairs]
    ends = _together(each)
    ends = (ends[0], max(-1.0, ends[1]), min(1.0, ends[2])) if rate else ends
    known = not math.isnan(ends[1])
    value, other = (fmean(pair[side].value or 0.0 for pair in pairs) for side in (0, 1))
    if rate:
        numbers = f"{percent(value)} against {percent(other)}"
        numbers += f", {_points(ends)}" if known else ""
    else:
        width = ends[2] - ends[1] if known else None
        numbers = f"{number(value, width)} against {number(other, width)}"
        numbers += f", {difference(ends)}" if known else ""
    numbers += "" if higher else " (lower is better)"
    numbers += f", means of {len(each)} seeds" if len(each) > 1 else ""
    n = sum(min(one.n or math.inf for one in pair) for pair in pairs)
    numbers += "" if known and n >= FEW else f" ({few(n)})"
    return by_interval(name, ends, numbers, n=n, higher=higher, subject=subject)


def _together(each: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """The mean difference over seeds: Student's t over them, and no narrower than what their own intervals leave."""
    if len(each) == 1:
        return each[0]
    mean, n = fmean(one[0] for one in each), len(each)
    lo, hi = student_interval([one[0] for one in each])
    low, high = (math.hypot(*(one[end] - one[0] for one in each)) / n for end in (1, 2))
    return mean, min(lo, mean - low), max(hi, mean + high)  # NaN ends of the seeds are passed over


def difference(ends: tuple[float, float, float]) -> str:
    """A difference with its interval in words."""
    tell = [f"{'+' if end > 0 else ''}{number(end, ends[2] - ends[1])}" for end in ends]
    return f"a difference of {tell[0]} [{tell[1]}, {tell[2]}]"


def _points(ends: tuple[float, float, float]) -> str:
    value, lo, hi = (round(100 * end) for end in ends)  # rounded first: no "-0"
    return f"{value:+d} points [{lo:+d}, {hi:+d}]"


def ends_of(one: Number) -> tuple[float, float]:
    """The interval of a number; NaN where it has none, or half of one."""
    lo, hi = one.ci95 or (None, None)
    return (math.nan, math.nan) if lo is None or hi is None else (lo, hi)


def few(n: float) -> str:
    """Why there is no verdict: by the number of outcomes."""
    return "no interval" if math.isinf(n) or n >= FEW else f"judged on {n:.0f}: too few for an interval"


def listed(names: Sequence[str]) -> str:
    """Names with commas; what all of them begin with is said once: "no memory on A and on B"."""
    common = re.split(r" (?:on|in) ", names[0], maxsplit=1)[0] + " "
    names = [names[0], *(name.removeprefix(common) for name in names[1:])]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
