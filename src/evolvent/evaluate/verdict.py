"""What a run came to, in words: better or worse than each of its baselines, or no different, and what to try next.

The terminal, the report, the comparison and the index of runs all say what stands here. A difference on the same tasks
has a paired interval (Newcombe's, and an exact McNemar test must agree), any other one the interval that follows from
the two estimates' own (Zou & Donner). Fewer than five tasks or attempts never give a verdict.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from evolvent.core.jsonfile import shorten_home
from evolvent.evaluate import series
from evolvent.evaluate.learning import is_success, success_interval
from evolvent.evaluate.live import count, number, percent
from evolvent.evaluate.series import Paired, Row
from evolvent.formulas.statistics import difference_interval

State = Literal["better", "worse", "same", "unknown"]
FEW = 5
RANKED = 3
"""Outcomes below which a memory is not called one of the least valuable."""
_EASY, _LEVEL = 0.95, 0.05
_SEEDS = ("--seeds", "0", "1", "2", "3", "4")
_LEVELS = {"baseline": "random actions", "idle": "doing nothing", "before": "before learning"}
_OWN = ("--seed", "--seeds", "--out", "--resume")  # flags that belong to a single run


@dataclass(frozen=True)
class Against:
    """One comparison: with what, how it came out, and the numbers in words; ``subject``: of what, if not of the run."""

    name: str
    state: State
    numbers: str
    subject: str = ""


@dataclass(frozen=True)
class Verdict:
    """``sentence`` first; ``against`` has the numbers; ``advice`` and ``command`` say what to try next.

    ``note`` says what the sentence rests on.
    """

    sentence: str
    note: str = ""
    against: tuple[Against, ...] = ()
    advice: str = ""
    command: str = ""

    @property
    def state(self) -> State:
        """Of the first comparison, which is the one that matters most."""
        return self.against[0].state if self.against else "unknown"

    def lines(self) -> list[str]:
        """The numbers, one line a comparison, each with what it is compared with."""
        return [f"{one.subject} against {one.name}: {one.numbers}".strip() for one in self.against]


def of_run(manifest: Mapping[str, Any], summary: Mapping[str, Any], rows: Sequence[Row], folder: Path) -> Verdict:
    """The verdict on one run.

    Args:
        manifest: content of ``config.json``.
        summary: content of ``summary.json``; empty for a run that has not ended.
        rows: its lines of metrics.
        folder: where it is, for the command that goes on.
    """
    if not summary:
        done = max((int(row["step"]) for row in rows), default=0)
        return Verdict(f"No verdict yet: the run has not ended (step {done:,}).", command=_again(manifest, folder))
    if (summary.get("score") or {}).get("value") is None:
        return Verdict("No verdict: the run has no score.")
    found = tuple(_on_tasks(rows) or _arms(summary, rows) or _levels(summary))
    note = "One seed: another one may come out otherwise." if found else ""
    return Verdict(sentence_of(found), note, found, *_next(manifest, summary, found, folder))


def is_rate(summary: Mapping[str, Any]) -> bool:
    """Whether the score of a finished run is a success rate."""
    return any(name in summary for name in ("phases", "passes", "arms")) or all(
        is_success(row) for row in (_judged(summary), *_known(summary).values())
    )


def sentence_of(found: Sequence[Against]) -> str:
    """All comparisons of one subject in one sentence, each outcome once."""
    if not found:
        return "No verdict: nothing was recorded to compare it with."
    words = {
        "better": "better than",
        "worse": "worse than",
        "same": "not shown to differ from",
        "unknown": "too few outcomes to compare it with",
    }
    order = dict.fromkeys(one.state for one in found)
    parts = [f"{words[state]} {_listed([one.name for one in found if one.state == state])}" for state in order]
    said = "; ".join(parts)
    subject = found[0].subject
    return f"{subject}: {said}." if subject else f"{said[:1].upper()}{said[1:]}."


def by_interval(
    name: str, ends: tuple[float, float, float], numbers: str, *, n: float = math.inf, higher: bool = True,
    subject: str = "",
) -> Against:  # fmt: skip
    """How a difference came out: ``ends`` is ``(difference, lo, hi)``, ``n`` outcomes stand behind it."""
    _, lo, hi = ends if higher else (-ends[0], -ends[2], -ends[1])
    if n < FEW or math.isnan(lo) or math.isnan(hi):
        return Against(name, "unknown", numbers, subject)
    return Against(name, "better" if lo > 0 else "worse" if hi < 0 else "same", numbers, subject)


def by_pairs(name: str, test: Paired, subject: str = "") -> Against:
    """How two success rates over the same tasks came out."""
    numbers = f"{_points((test.difference, test.lo, test.hi))} on the same {count(test.n, 'task')}; "
    p = f"p = {test.p:.2g}" if test.p >= 0.001 else "p < 0.001"
    numbers += f"{test.only_a} won, {test.only_b} lost, exact McNemar {p}"
    said = by_interval(name, (test.difference, test.lo, test.hi), numbers, n=test.n, subject=subject)
    certain = said.state in ("same", "unknown") or test.p <= _LEVEL
    return said if certain else replace(said, state="same")


# ------------------------------------------------------------------------------------------- each kind of run
def _on_tasks(rows: Sequence[Row]) -> list[Against]:
    """A run over tasks: held-out tasks before and after; its last pass and the same tasks without memory."""
    groups = series.phases(row for row in rows if row.get("phase") in series.PHASES)
    stream = series.passes(groups.get("stream", []))
    last = stream[max(stream)] if stream else []
    held = _pairs(groups.get("after", []), groups.get("before", []))
    control = _pairs(last, groups.get("control", []))
    found: list[Against] = []
    if held is not None:
        found.append(by_pairs("no memory on held-out tasks", held))
    if control is not None:
        found.append(by_pairs("no memory on the tasks it learned from", control))
    return found


def _pairs(a: Sequence[Row], b: Sequence[Row]) -> Paired | None:
    strip = [[{**row, "pass": 1} for row in rows] for rows in (a, b)]
    if any(len({row.get("task") for row in rows}) < len(rows) for rows in strip):
        return None  # a task stands twice in a phase: no pairs
    return series.paired(strip[0], strip[1])


def _arms(summary: Mapping[str, Any], rows: Sequence[Row]) -> list[Against]:
    """A run of several searches: the first against each other one, on the same tasks."""
    names = [arm["name"] for arm in summary.get("arms") or ()]
    groups = series.phases(rows)
    tests = {name: _pairs(groups.get(names[0], []), groups.get(name, [])) for name in names[1:]}
    return [by_pairs(name, test, names[0]) for name, test in tests.items() if test is not None]


def _levels(summary: Mapping[str, Any]) -> list[Against]:
    """A run with updates, or one of your own: its score against each level that it recorded."""
    levels, score = _known(summary), _judged(summary)
    if summary.get("agents") is None or "before" in summary:
        levels = dict(sorted(levels.items(), key=lambda pair: pair[0] != "before"))  # a model could do something before
    rate = is_rate(summary)
    higher = bool(score.get("higher_is_better", True))
    return [
        _level(row.get("name") or _LEVELS[name], score, row, rate=rate, higher=higher) for name, row in levels.items()
    ]


def _known(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {name: row for name in _LEVELS if (row := summary.get(name)) and row.get("value") is not None}


def _judged(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The score with all that its judgement says: attempts, success."""
    score = {name: value for name, value in (summary.get("score") or {}).items() if value is not None}
    return {**(summary.get("greedy") or {}), **score}


def _level(name: str, score: Mapping[str, Any], other: Mapping[str, Any], *, rate: bool, higher: bool) -> Against:
    ends = difference_interval(score["value"], _ends(score, rate), other["value"], _ends(other, rate))
    known = not math.isnan(ends[1])
    if rate:
        numbers = f"{percent(score['value'])} against {percent(other['value'])}"
        numbers += f", {_points(ends)}" if known else ""
    else:
        width = ends[2] - ends[1] if known else None
        numbers = f"{number(score['value'], width)} against {number(other['value'], width)}"
        numbers += f", {difference(ends)}" if known else ""
    numbers += "" if higher else " (lower is better)"
    n = min((row.get("tasks") or row.get("n") or math.inf for row in (score, other)), default=math.inf)
    numbers += "" if known and n >= FEW else f" ({_few(n)})"
    return by_interval(name, ends, numbers, n=n, higher=higher)


def difference(ends: tuple[float, float, float]) -> str:
    """A difference with its interval in words."""
    tell = [f"{'+' if end > 0 else ''}{number(end, ends[2] - ends[1])}" for end in ends]
    return f"a difference of {tell[0]} [{tell[1]}, {tell[2]}]"


def _points(ends: tuple[float, float, float]) -> str:
    value, lo, hi = (round(100 * end) for end in ends)  # rounded first: no "-0"
    return f"{value:+d} points [{lo:+d}, {hi:+d}]"


def _ends(row: Mapping[str, Any], rate: bool) -> tuple[float, float]:
    lo, hi = (success_interval(dict(row)) if rate else None) or row.get("ci95") or (None, None)
    return (math.nan, math.nan) if lo is None or hi is None else (float(lo), float(hi))


def _few(n: float) -> str:
    return "no interval" if math.isinf(n) or n >= FEW else f"judged on {n:.0f}: too few for an interval"


# ------------------------------------------------------------------------------------------- what next
def _next(
    manifest: Mapping[str, Any], summary: Mapping[str, Any], found: Sequence[Against], folder: Path
) -> tuple[str, str]:
    """What to try, and the command for it."""
    if found and all(one.state == "better" for one in found):
        return "See whether other seeds say the same.", _with(manifest, *_SEEDS)
    if any(one.state == "unknown" for one in found):
        return "Judge it on more tasks or attempts.", ""
    return _HINTS.get(_kind(manifest, summary), _any)(manifest, summary, folder)


def _kind(manifest: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    if manifest.get("kind"):
        return str(manifest["kind"])
    return "memory" if "passes" in summary else "language" if "before" in summary else "team"


def _any(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    return "See whether other seeds say the same.", _with(manifest, *_SEEDS)


def _memory(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    baseline = (summary.get("baseline") or {}).get("value")
    if baseline is not None and baseline >= _EASY:
        return "Without memory nearly every task is solved already: choose harder tasks.", ""
    page = "evolvent memory audit " + shlex.join([_place(folder), "--html", "audit.html"])
    return "See which memories help, which do harm, and whether any was shown at all; then try more passes.", page


def _language(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    if summary.get("policy_updates") == 0:
        return "Nothing was learned from: attempts of a group all earned the same (docs/when-it-does-not-learn.md).", ""
    words = "Train longer; signs that it cannot learn are in docs/when-it-does-not-learn.md."
    return words, _more(manifest, summary, folder, "updates")


def _team(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    greedy, sampled = (summary.get("greedy") or {}).get("value"), (summary.get("sampled") or {}).get("value")
    words = "Train longer: most teams need far more steps than this."
    if greedy is not None and sampled is not None and sampled > greedy:
        words = "Train longer: with sampled actions it earns more than greedily, so that it has not settled yet."
    return words, _more(manifest, summary, folder, "steps")


def _search(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    budget = summary.get("budget_tokens")
    more = ("--budget-tokens", str(2 * budget)) if budget else ()
    return "Search with a larger budget, or on more tasks.", _with(manifest, *more) if more else ""


_HINTS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any], Path], tuple[str, str]]] = {
    "memory": _memory, "language": _language, "team": _team, "search": _search,
}  # fmt: skip


def _again(manifest: Mapping[str, Any], folder: Path) -> str:
    """The command that goes on with a run."""
    system = _words(manifest)[2:3] or [str(manifest["algo"])]
    return shlex.join(["evolvent", "run", *system, "--resume", _place(folder)])


def _more(manifest: Mapping[str, Any], summary: Mapping[str, Any], folder: Path, what: str) -> str:
    """The command that goes on with twice the updates or steps."""
    done = summary.get(what)
    return f"{_again(manifest, folder)} --{what} {2 * done}" if done else ""


def _with(manifest: Mapping[str, Any], *flags: str) -> str:
    """The run's own command with other flags, without those that belong to a single run."""
    words = _words(manifest) or ["evolvent", "run", str(manifest["algo"]), "--env", str(manifest["env"])]
    kept, skipped = list[str](), False
    drop = (*_OWN, *(flag for flag in flags if flag.startswith("--")))
    for word in words:
        if word.startswith("--"):
            skipped = word.partition("=")[0] in drop
        if not skipped:
            kept.append(word)
    return shlex.join([*kept, *flags])


def _words(manifest: Mapping[str, Any]) -> list[str]:
    """The words of the command line that began the run; none where it was begun otherwise."""
    command = str(manifest.get("command", ""))
    return shlex.split(command) if command.startswith("evolvent run ") and "--resume" not in command else []


def _place(folder: Path) -> str:
    return str(shorten_home(str(folder)))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
