"""``Memory.lift``: does the memory help, and which memory; in numbers with intervals, and in words."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, cast, get_args

from evolvent.core.errors import BadInput
from evolvent.core.visible import visible
from evolvent.formulas.effect import Estimate, Row, estimate, information_needed, named
from evolvent.memory import effects, events, external
from evolvent.memory import lift as arms
from evolvent.memory.bank import Bank
from evolvent.memory.effects import Asked, Log, Telling, verdict
from evolvent.memory.items import memory_id
from evolvent.memory.text import among_words, clean_word, counted, finite, short
from evolvent.memory.times import time_of

By = Literal["item", "source", "kind", "scope", "stage", "week"]
_FEW_TASKS = 10


@dataclass(frozen=True)
class Lift:
    """What a memory adds: ``verdict`` is "helps", "harms", "no difference" or "too early"; ``str()`` says all in words.

    ``lift``, ``lo`` and ``hi`` are shares of the reward range; ``None`` where they cannot be told.
    """

    verdict: str
    lift: float | None
    lo: float | None
    hi: float | None
    text: str
    data: dict[str, Any] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything that is known, as JSON values; what cannot be told is ``None``, and ``why`` says why."""
        return self.data

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class _Asked:
    """The arguments, checked."""

    bank: Bank
    by: By | None
    objective: str
    since: float
    alpha: float
    margin: float
    level: float


def lift(bank: Bank, by: str | None, objective: str, since: Any, alpha: float, margin: float, level: float) -> Lift:
    """``Memory.lift``, on one snapshot of the store."""
    if by is not None and not among_words(by, get_args(By)):
        expected = ", ".join(get_args(By))
        raise BadInput("unknown grouping", got=by, expected=expected, where="lift(by=…)", code="unknown_option")
    clean_word(objective, what="an objective", where="lift")
    at = 0.0 if since is None else time_of(since, "lift(since=…)").timestamp()
    rates = {"alpha": alpha, "margin": margin, "level": level}
    for name, given in rates.items():
        rates[name] = finite(given, what=name, where="lift", lo=0.0, hi=1.0)
        if not rates[name]:
            raise BadInput(f"{name} of 0", got=0, expected="above 0", where="lift", code="out_of_range")
    q = _Asked(bank, cast("By | None", by), objective, at, **rates)
    with bank.store.snapshot():
        log = effects.read(bank, objective, since=at, notes=by in ("item", "source", "kind"))
        data = _overall(q, log)
        if by == "item":
            data |= _items(q, log)
        elif by is not None:
            data["by"], data["groups"] = by, _groups(q, log)
    lines = [*_overall_words(data, margin), *_group_words(data, level), *_telling_words(data)]
    data["words"] = "\n".join(lines)
    return Lift(data["verdict"], data["lift"], data["lo"], data["hi"], data["words"], data)


def in_numbers(e: Estimate, margin: float) -> dict[str, Any]:
    """An estimate as JSON values; the lift of one arm alone, or of an arm of fewer than ten, cannot be told."""
    told = e.speaks
    return {
        "verdict": verdict(e, margin),
        "lift": e.lift if told else None,
        "lo": e.lo if told else None,
        "hi": e.hi if told else None,
        "with": {"n": e.n_with, "mean": e.mean_with},
        "without": {"n": e.n_without, "mean": e.mean_without},
        "tasks": e.tasks,
        "information": e.information,
        "v": e.spread,
        "why": None if told else f"needs ten outcomes with it and ten without: {e.n_with} and {e.n_without} so far",
    }


# ---------------------------------------------------------------------------------------------------- the whole memory
def _overall(q: _Asked, log: Log) -> dict[str, Any]:
    rows = effects.overall(log.drawn)
    e = estimate(rows, q.alpha)
    heard: Telling = effects.telling(log, q.alpha)
    rate = log.drawn[-1].rate if log.drawn else 0.0
    first = min((one.at for one in log.drawn), default=None)
    numbers = in_numbers(e, q.margin)
    numbers["with"]["unweighted"] = _plain_mean([row for row in rows if row.with_it])
    return {
        **numbers,
        "why": _nothing(log, e, q.objective) or numbers["why"],
        "alpha": q.alpha,
        "more": _more(e, q.margin, q.alpha),
        "told": {
            "with": heard.told.mean_with,
            "without": heard.told.mean_without,
            "lift": heard.told.lift,
            "lo": heard.told.lo,
            "hi": heard.told.hi,
            "differs": heard.differs,
            "untold_as_failed": heard.untold_as_failed.lift,
        },
        "holdout": {
            "rate": rate,
            "most": max((one.rate for one in log.drawn), default=0.0),
            "cost_per_1000": 1000.0 * rate * e.lift if e.lift is not None and e.speaks else None,
        },
        "recalls": {"asked": len(log.asked), "drawn": len(log.drawn)},
        "not_counted": log.not_counted,
        "since": None if first is None else datetime.fromtimestamp(first, UTC).date().isoformat(),
    }


def _plain_mean(rows: Sequence[Row]) -> float | None:
    """What the caller would count: of the outcomes, whatever share was held out then."""
    total = math.fsum(row.weight for row in rows)
    return math.fsum(row.weight * row.outcome for row in rows) / total if rows else None


def _nothing(log: Log, e: Estimate, objective: str) -> str | None:
    """Why there is nothing at all to compare, if that is so."""
    if not log.asked:
        return "no recall found anything"
    if not log.drawn:
        return "nothing was ever withheld"
    return (
        None if e.n_with or e.n_without else f"no outcome “{objective}” was told of {counted(len(log.drawn), 'recall')}"
    )


def _more(e: Estimate, target: float, alpha: float) -> dict[str, Any] | None:
    """How many more outcomes, to two digits, until the interval is ``target`` wide on either side."""
    if not e.speaks or e.spread is None or e.half is None or not e.newest or e.half <= target:
        return None
    needed = information_needed(e.spread, target, alpha)
    more = math.ceil(max(0.0, needed - e.information) / e.newest)
    other = e.v_tasks is not None and e.v_rows is not None and e.v_tasks > e.v_rows
    return {"target": target, "outcomes": int(float(f"{more:.2g}")), "other_tasks": other}


def points(share: float) -> str:
    """A difference of shares as signed points: +12; what would round to 0 keeps a digit, or says its side."""
    size, sign = 100.0 * abs(share), "-" if share < 0.0 else "+"
    if size >= 0.5:
        return f"{sign}{math.floor(size + 0.5)}"
    if size >= 0.05:
        return f"{sign}{size:.1f}"
    return "0" if size < 1e-9 else f"just {'below' if share < 0.0 else 'above'} 0"


def in_points(share: float) -> str:
    """``points`` with the unit."""
    said = points(share)
    return f"{said} point{'' if said in ('+1', '-1') else 's'}"


def between(d: Mapping[str, Any]) -> str:
    """An interval in points: [+6, +18]."""
    return f"[{points(d['lo'])}, {points(d['hi'])}]"


def _overall_words(d: Mapping[str, Any], margin: float) -> list[str]:
    n, of_tasks = d["with"]["n"] + d["without"]["n"], counted(d["tasks"], "task")
    basis = f"{counted(n, 'outcome')} of {of_tasks} since {d['since']}"
    if 0 < d["tasks"] < _FEW_TASKS:
        basis += f" (for {'this task' if d['tasks'] == 1 else 'these tasks'} only)"
    if not d["recalls"]["drawn"]:
        do = "Turn it on:" if d["recalls"]["asked"] else "It is measured with"
        return [f"Whether the memory helps as a whole is not known: {d['why']}. {do} Memory(holdout=True)."]
    if not n:
        return [f"{d['why'].capitalize()}: settle them."]
    within = f"{100 * margin:g} points"
    if d["lo"] is None:
        first = f"Too early to tell whether the memory helps: {d['why']}."
    elif d["verdict"] == "helps":
        small = f", by less than {within}" if d["hi"] <= margin else ""
        first = f"Your memory helps{small}: {in_points(d['lift'])} {between(d)}, {basis}."
    elif d["verdict"] == "harms":
        do = 'Memory(policy="none") until you have looked at its notes: lift(by="item")'
        first = f"Your memory harms: {in_points(d['lift'])} {between(d)}, {basis}; {do}."
    elif d["verdict"] == "no difference":
        first = f"No difference: within {within} either way {between(d)}, {basis}."
    else:
        first = f"No difference found yet: {in_points(d['lift'])} {between(d)}, {basis}{_more_words(d['more'])}."
    lines, cost = [first, *_averages(d)], d["holdout"]["cost_per_1000"]
    if cost is not None and d["verdict"] in ("helps", "harms"):
        lines.append(f"Measuring {'costs' if cost >= 0 else 'saves'} about {abs(cost):.0f} of 1,000 outcomes now.")
    now, before = d["holdout"]["rate"], d["holdout"]["most"]
    if d["verdict"] == "too early" and now < before:
        lines.append(
            f"Held out now: {now:.0%} of attempts, {before:.0%} before; Memory(holdout={before:g}) tells sooner."
        )
    if certain := d["not_counted"]["certain"] + d["not_counted"]["frozen"]:
        lines.append(f"Not by chance, and not counted: {counted(certain, 'receipt')}.")
    return lines


def _averages(d: Mapping[str, Any]) -> list[str]:
    """Both means, as shares of the reward range, each with the outcomes behind it."""
    if d["lo"] is None:
        return []
    own, without = d["with"], d["without"]
    said = [f"Mean with it {own['mean']:.0%} ({own['n']:,}), without it {without['mean']:.0%} ({without['n']:,})."]
    now, before = d["holdout"]["rate"], d["holdout"]["most"]
    if 0.0 < now < before and abs(own["unweighted"] - own["mean"]) >= 0.01:
        times = before * (1.0 - before) / (now * (1.0 - now))
        said.append(
            f"Weighted: an attempt from when {before:.0%} were held out counts {times:.0f} times one at {now:.0%}, as "
            f"now; the plain mean with it is {own['unweighted']:.0%}. What it has learned since: --by week."
        )
    return said


def _more_words(more: Mapping[str, Any] | None) -> str:
    if more is None:
        return ""
    others = ", of other tasks," if more["other_tasks"] else ""
    return f"; about {more['outcomes']:,} more outcomes{others} until ±{100 * more['target']:g} points"


def _telling_words(d: Mapping[str, Any]) -> list[str]:
    told = d["told"]
    if not told["differs"]:
        return []
    than = "more" if told["lift"] > 0 else "less"
    shares = f"({told['with']:.0%}) than without ({told['without']:.0%})"
    failed = in_points(told["untold_as_failed"])
    return [
        f"Outcomes are told {than} often with the memory {shares}: the figure may be off. "
        f"Counting the untold as failures: {failed}."
    ]


# ---------------------------------------------------------------------------------------------------- parts of it
def _items(q: _Asked, log: Log) -> dict[str, Any]:
    """Each memory that was selected: its own effect, what came together with it, and whether it may be named."""
    own, beside = effects.own(log), effects.together(log)
    held = {m: estimate(rows, q.alpha) for m, rows in own.items()}
    evidence = {side: {memory_id(m): _evidence(e, side) for m, e in held.items()} for side in ("help", "harm")}
    says = {"help": "helps", "harm": "harms"}
    is_named = {note: says[side] for side, e in evidence.items() for note in named(e, q.level)}
    withheld, elsewhere = _withheld(q), external.names(q.bank.store, beside)
    rows = []
    for m in sorted(beside):
        e, id_ = held.get(m, estimate([])), memory_id(m)
        row = in_numbers(e, q.margin)
        if m not in held:
            row["why"] = "never left out: only measured together with the rest"
        row |= {"e_help": e.e_help, "e_harm": e.e_harm, "named": is_named.get(id_), "withheld": m in withheld}
        if m in elsewhere:  # one id may have had several texts
            row["memory"], id_ = id_, elsewhere[m]
        rows.append({"id": id_, **row, "together": in_numbers(estimate(beside[m], q.alpha), q.margin)})
    return {"items": rows, "named_level": q.level, "K": len(held)}


def _evidence(e: Estimate, side: str) -> float:
    return 1.0 if not e.speaks else e.e_help if side == "help" else e.e_harm


def _withheld(q: _Asked) -> set[int]:
    """Memories that memlift leaves out nine times in ten, because it holds them for harmful."""
    columns = ", ".join(f"v.{name}" for name in events.COLUMNS.split(", "))
    rows = q.bank.store.rows(
        f"SELECT v.memory_id, {columns} FROM value v JOIN memory m ON m.seq = v.memory_id WHERE m.scope_id = ? "
        "AND v.objective = ?",
        (q.bank.scope_id, q.objective),
    )
    return {m for m, *values in rows if arms.harms(events.Value(*values).arms, q.bank.reward_range)}


def _groups(q: _Asked, log: Log) -> list[dict[str, Any]]:
    if q.by in ("source", "kind"):
        about = q.bank.store.rows(f"SELECT seq, {q.by} FROM memory WHERE scope_id = ?", (q.bank.scope_id,))
        of = dict(about)
        by: dict[str, list[Row]] = defaultdict(list)
        for m, rows in effects.own(log).items():
            by[of[m]] += rows
    elif q.by == "scope":
        by = {name: effects.overall(other.drawn) for name, other in _scopes(q)}
    else:
        key: Callable[[Asked], str] = (lambda one: one.stage) if q.by == "stage" else _week
        asked: dict[str, list[Asked]] = defaultdict(list)
        for one in log.drawn:
            asked[key(one)].append(one)
        by = {name: effects.overall(some) for name, some in asked.items()}
    return [{"name": name, **in_numbers(estimate(by[name], q.alpha), q.margin)} for name in sorted(by)]


def _week(one: Asked) -> str:
    """Of the recall: its Monday."""
    day = datetime.fromtimestamp(one.at, UTC).isocalendar()
    return datetime.fromisocalendar(day.year, day.week, 1).date().isoformat()


def _scopes(q: _Asked) -> Iterable[tuple[str, Log]]:
    """Every scope of the store that has receipts, each with its own range of rewards."""
    store = q.bank.store
    for scope_id, name in store.rows("SELECT scope_id, name FROM scope ORDER BY name"):
        low, high = store.meta_get(f"reward_range:{name}") or q.bank.reward_range
        yield name, effects.read(q.bank, q.objective, since=q.since, scope=(scope_id, (low, high)))


def _group_words(d: Mapping[str, Any], level: float) -> list[str]:
    if "groups" in d:
        return [_line(row["name"], row) for row in d["groups"]]
    if "items" not in d:
        return []
    if not d["K"]:
        do = 'leave single notes out with policy=preset("memlift", omit=0.2)'
        return [f"Which note helps is not known: every selected note was always shown; {do}."]
    of = {word: [row for row in d["items"] if row["named"] == word] for word in ("harms", "helps")}
    early = d["K"] - len(of["harms"]) - len(of["helps"])
    lines = [_named_words(of, early, d["K"], level)]
    if repeated := d["not_counted"]["repeated_seed"]:
        lines.append(f"{counted(repeated, 'receipt')} drew from a repeated seed: left out.")
    return [*lines, *(_line(short(visible(row["id"]), 60), row) for row in of["harms"] + of["helps"])]


def _named_words(of: Mapping[str, Sequence[Mapping[str, Any]]], early: int, every: int, level: float) -> str:
    harm, good, out = len(of["harms"]), len(of["helps"]), sum(row["withheld"] for row in of["harms"])
    parts = [f"{counted(good, 'note')} help{'s' if good == 1 else ''}"] if good else []
    if harm:
        withheld = f"{'and is' if out else 'and is not'} withheld" if harm == 1 else f"{out} of them withheld"
        parts.insert(0, f"{counted(harm, 'note')} harm{'s' if harm == 1 else ''}, {withheld}")
    if parts:
        parts[0] += f" (of such names {'one in ten' if level == 0.1 else f'{level:.0%}'} is expected to be wrong)"
    return ". ".join([*parts, f"For {early} of {counted(every, 'note')} it is too early to tell."])


def _line(name: str, row: Mapping[str, Any]) -> str:
    if row["lo"] is None:
        return f"  {name}: too early, {row['why']}"
    word = row.get("named") or {"too early": "no difference found yet"}.get(row["verdict"], row["verdict"])
    n = row["with"]["n"] + row["without"]["n"]
    return f"  {name}: {word}, {in_points(row['lift'])} {between(row)}, {counted(n, 'outcome')}"
