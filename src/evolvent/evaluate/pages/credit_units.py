"""Who earned what, in words: the units of a ledger by their credit, and whether the whole equals what was paid."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.evaluate.live import one_line

_NAMED = ("agent", "memory", "component")


@dataclass(frozen=True)
class Earned:
    """One unit: for agents, memories and components the same name over all attempts."""

    unit: str
    task: str
    said: str
    """What it was: the action, or the token's id."""
    attempts: int
    """In how many attempts it was scored."""
    credit: float
    share: float
    """Of the credit's size over all units; shares sum to 1."""


@dataclass(frozen=True)
class Book:
    """A rule's ledger over the attempts of a run."""

    rule: str
    level: str
    units: list[Earned]
    """Those that are scored, the best first."""
    unscored: int
    total: float
    """Credit of all units, what found no unit included."""
    paid: float
    """Reward of the valid attempts."""

    @property
    def balanced(self) -> bool:
        """Whether all that was paid, and nothing else, was handed out."""
        return math.isclose(self.total, self.paid, rel_tol=1e-6, abs_tol=1e-9)


def book(rule: str, level: str, ledger: Ledger) -> Book:
    """The units of ``ledger`` at ``level``."""
    values, where, units = ledger.values(level), ledger.episode_index(level), ledger.units(level)
    scored = np.flatnonzero(~np.isnan(values))
    size = float(np.abs(values[scored]).sum()) or 1.0
    if level in _NAMED:
        found = _by_name(ledger, level, scored, size)
    else:
        said, names, found = _unit_texts(ledger, level), _attempt_names(ledger.episodes), list[Earned]()
        for i in scored.tolist():
            episode, credit = ledger.episodes[where[i]], float(values[i])
            unit = f"{names[where[i]]} {level} {units[i]}"
            found.append(Earned(unit, episode.task_id, said(i), 1, credit, abs(credit) / size))
    paid = math.fsum(e.total_reward for e in ledger.episodes if e.valid)
    found.sort(key=lambda one: -one.credit)
    return Book(rule, level, found, len(values) - len(scored), ledger.total(level), paid)


def team_book(rule: str, ledger: RolloutLedger) -> Book:
    """The agents of a team in lockstep, by the credit of their steps."""
    rollout, earned = ledger.rollout, ledger.by_agent()
    attempts = rollout.shape[1] + int(rollout.done_TB[:-1].sum())
    found = [
        Earned(agent, "", "", attempts, one.signed, one.share)
        for i, (agent, one) in enumerate(earned.items())
        if not np.isnan(ledger.values("step")[:, :, i]).all()
    ]
    found.sort(key=lambda one: -one.credit)
    paid = float(rollout.reward_TBA[rollout.active_TBA].sum())
    return Book(rule, "agent", found, len(earned) - len(found), ledger.total("step"), paid)


def rows(made: Book, n: int) -> tuple[list[str], list[list[object]]]:
    """Columns and rows: the ``n`` units that earned most and the ``n`` that earned least."""
    shown = made.units if len(made.units) <= 2 * n else [*made.units[:n], *made.units[-n:]]
    named = made.level in _NAMED
    columns = [made.level, *(["attempts"] if named else ["task", "what it was"]), "credit", "share"]
    body: list[list[object]] = []
    for one in shown:
        about: list[object] = [one.attempts] if named else [one_line(one.task)[:40], one_line(one.said)[:60]]
        body.append([one.unit, *about, f"{one.credit:+.4g}", f"{100 * one.share:.1f} %"])
    if len(made.units) > 2 * n:
        gap: list[object] = [f"… {len(made.units) - 2 * n} more", *[""] * (len(columns) - 1)]
        body.insert(n, gap)
    return columns, body


def summary(books: list[Book]) -> tuple[list[str], list[list[object]]]:
    """Columns and rows: rules side by side."""
    columns = ["rule", "level", "units", "not scored", "total", "paid", "total is what was paid"]
    return columns, [
        [b.rule, b.level, len(b.units), b.unscored, _sum(b.total), _sum(b.paid), "yes" if b.balanced else "no"]
        for b in books
    ]


def _sum(x: float) -> str:
    return f"{round(x, 9) + 0.0:.6g}"  # credits that sum to nothing do so but for rounding


def to_json(made: Book) -> dict[str, Any]:
    """A book as JSON values."""
    return {
        "rule": made.rule,
        "level": made.level,
        "total": made.total,
        "paid": made.paid,
        "balanced": made.balanced,
        "not_scored": made.unscored,
        "units": [vars(one) for one in made.units],
    }


def _attempt_names(episodes: Sequence[Episode]) -> list[str]:
    """What to call each attempt: by the name that it had where it was recorded, else by the beginning of its id."""
    sources = [e.meta.get("source") for e in episodes]
    given = [one_line(str(one.get("name", "")))[:40] if isinstance(one, dict) else "" for one in sources]
    times = Counter(given)
    return [
        e.id[:12] if not name else name if times[name] == 1 else f"{name} ({e.id[:6]})"
        for e, name in zip(episodes, given, strict=True)
    ]


def _by_name(ledger: Ledger, level: str, scored: np.ndarray, size: float) -> list[Earned]:
    values, names = ledger.values(level), ledger.units(level)
    found: dict[str, list[float]] = {}
    for i in scored.tolist():
        found.setdefault(str(names[i]), []).append(float(values[i]))
    return [
        Earned(name, "", "", len(credits), sum(credits), sum(abs(one) / size for one in credits))
        for name, credits in found.items()
    ]


def _unit_texts(ledger: Ledger, level: str) -> Any:
    """A function from the position of a token or step to what it was."""
    said = [node.text for e in ledger.episodes for node in e.nodes if node.step is not None]
    if level == "step":
        return lambda i: said[i]
    step, ids = ledger.parent_index("token", "step"), [int(t) for e in ledger.episodes for t in e.token_ids]
    return lambda i: f"id {ids[i]} in {said[step[i]]!r}"
