"""From the log of a market to what it reports: success beside the closed form, arms beside one agent, value by agent.

*Delivered*: every part got an answer that its agent stands by (no lie). *Right*: all of them are right. Intervals are
over tasks, which ask the same questions again and again: they say nothing about other questions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolvent.algos.holos.accounts import Accounts
from evolvent.algos.holos.cells import BONUS, Cell, Made, all_cells, worth
from evolvent.algos.holos.market import USER, Arm
from evolvent.core.folder import RunFolder
from evolvent.formulas.statistics import student_interval, wilson
from evolvent.teams.channels import gain

COLUMNS = [
    *("arm", "r", "failure", "delivered, %", "from", "to", "closed form, %", "standard errors off"),
    *("right, %", "right from", "right to", "leases a task", "paid a task", "came twice"),
]
CLOSED = ("crash", "hang")
_NAMES = {
    "single": "best single agent",
    "generalist": "one with all lessons",
    "random": "random, able",
    "unlearned": "market without learning",
    "unguarded": "market, no guard",
}


@dataclass(frozen=True)
class Result:
    """What came of a cell, ``[T]`` by task, and of the closed form there, where it holds."""

    cell: Cell
    delivered_T: np.ndarray
    right_T: np.ndarray
    leases: Sequence[Mapping[str, Any]]
    paid: float
    twice: int
    expected: float | None

    @property
    def name(self) -> str:
        """The arm, in words."""
        return _NAMES.get(self.cell.arm, self.cell.arm)

    @property
    def off(self) -> float:
        """How many standard errors it was delivered off the closed form; where that is certain, 0 or infinite."""
        share, expected = float(self.delivered_T.mean()), self.expected or 0.0
        spread = math.sqrt(expected * (1.0 - expected) / len(self.delivered_T))
        return (share - expected) / spread if spread else 0.0 if share == expected else math.inf

    @property
    def line(self) -> list[Any]:
        """Its row of ``COLUMNS``."""
        n, more = len(self.right_T), (None, None) if self.expected is None else (100 * self.expected, self.off)
        return [
            *(self.name, self.cell.rate, self.cell.failure, *_percent(self.delivered_T)),
            *(None if x is None else round(x, 2) for x in more),
            *(*_percent(self.right_T), round(len(self.leases) / n, 1), round(self.paid / n), self.twice),
        ]


def closed_form(rate: float, candidates: int, nodes: int) -> float:
    """The probability that every part finds one of ``candidates`` who does not fail: ``(1 - r^k)^n``."""
    return (1.0 - rate**candidates) ** nodes


def summarise(folder: RunFolder, made: Made, config: Any) -> dict[str, Any]:
    """The summary of a run whose log is whole, as ``runs/agents/account.py`` reads it; the bonus is split, too."""
    rows, k, n = folder.read_metrics(), config.candidates, len(made.needs)
    answers, log = rows[: len(made.questions)], rows[len(made.questions) :]
    said = {(row["asked"], name): one["answer"] for row in answers for name, one in row["said"].items()}
    found = [
        _result(folder, cell, log[i * config.tasks : (i + 1) * config.tasks], said, (k, n))
        for i, cell in enumerate(all_cells(config.failures, config.rates))
    ]
    first = config.failures[0], min(config.rates)
    arms: list[Arm] = ["market", "single", "generalist"]
    market, single, generalist = (next(x for x in found if x.cell == (arm, *first)) for arm in arms)
    value, r, middle = _value(folder, answers, made, market.cell), f"r = {first[1]:g}", _middle(config.rates)
    more, low, high = (100.0 * one for one in gain(market.right_T, generalist.right_T))
    short = [one.line for one in found if one.cell.failure == first[0] and one.cell.rate in (first[1], middle)]
    return {
        "score": _number(f"market, all parts right, {r}", market.right_T),
        "baseline": _number(f"one agent with everybody's lessons, {r}", generalist.right_T),
        "words": [
            f"All {n} parts right at {r}: market {market.right_T.mean():.0%}, one agent with everybody's lessons "
            f"{generalist.right_T.mean():.0%}; difference {more:+.0f} points [{low:+.0f}, {high:+.0f}]. "
            f"The best single agent, found on these questions: {single.right_T.mean():.0%}.",
            f"The same {len(made.questions)} questions are served again and again, and the market learns on them. One "
            f"agent is able in {len(made.agents[0].skills)} of {len(made.vocabulary)} kinds of question.",
            "Delivered: every part has an answer that its agent stands by; a lie is none.",
            *_closed([one for one in found if one.cell.arm == "market" and one.expected is not None], k, n),
            *_others([one for one in found if one.expected is None and one.cell.failure != "wash"], middle),
            *_washed([one for one in found if one.cell[1:] == ("wash", max(config.rates))]),
            "Worth (Shapley, points of the questions that an able agent gets right): "
            + ", ".join(f"{row['agent']} {100 * row['worth'][0]:.0f}" for row in value)
            + f"; earned at {r}: {', '.join(str(row['income']) for row in value)}.",
        ],
        "table": {"columns": COLUMNS, "rows": short},
        "cells": {"columns": COLUMNS, "rows": [one.line for one in found]},
        "pictures": _pictures(found, first[0], k, n),
        "agents": value,
        "steps": len(log),
    }


def _result(
    folder: RunFolder, cell: Cell, log: Sequence[Any], said: Mapping[tuple[str, str], str], size: tuple[int, int]
) -> Result:
    stood_by = [
        row["delivered"] and all(said[row["kinds"][n], who] == answer for n, (who, answer) in row["said"].items())
        for row in log
    ]
    accounts = Accounts(folder.path / "accounts" / f"{cell.name}.db")
    # the bonus was split already where a run goes on that was stopped right before its end
    bonus = accounts.entries("share:bonus").get(USER, 0)
    paid = accounts.entries(f"mint:{USER}")[USER] + bonus - accounts.balance(USER)
    accounts.close()
    return Result(
        cell,
        np.array(stood_by, float),
        np.array([row["right"] for row in log], float),
        [lease for row in log for lease in row["leases"]],
        paid,
        sum(row["twice"] for row in log),
        closed_form(cell.rate, *size) if cell.failure in CLOSED else None,
    )


def _percent(outcome_T: np.ndarray) -> list[float]:
    return [round(100 * float(x), 1) for x in (outcome_T.mean(), *wilson(outcome_T.sum(), len(outcome_T)))]


def _number(name: str, outcome_T: np.ndarray) -> dict[str, Any]:
    return {"name": name, "value": float(outcome_T.mean()), "ci95": list(wilson(outcome_T.sum(), len(outcome_T)))}


# ------------------------------------------------------------------------------------------------ in words
def _closed(found: Sequence[Result], k: int, n: int) -> list[str]:
    if not found:
        return []
    off = [abs(one.off) for one in found]
    return [
        f"Crashes and hangs against (1 - r^k)^n, k = {k}, n = {n}: within two standard errors in "
        f"{sum(one <= 2.0 for one in off)} of {len(off)} cells; the farthest is {max(off):.1f} off."
    ]


def _others(found: Sequence[Result], rate: float) -> list[str]:
    market = [one for one in found if one.cell.arm == "market" and one.cell.rate == rate]
    shown = [f"{one.cell.failure} {one.delivered_T.mean():.0%} / {one.right_T.mean():.0%}" for one in market]
    words = [f"Delivered / right at r = {rate:g}: {', '.join(shown)}."] if shown else []
    if twice := sum(one.twice for one in found):
        words.append(f"{twice} answers came to parts that were closed already; none was paid.")
    return words


def _middle(rates: Sequence[float]) -> float:
    return sorted(rates)[len(rates) // 2]


def _washed(found: Sequence[Result]) -> list[str]:
    """Of the client's leases the share of the agent that trades with its owner, with and without the guard."""
    washer = {lease["agent"] for one in found for lease in one.leases if lease["own"]}
    clients = {one.cell.arm: [lease for lease in one.leases if not lease["own"]] for one in found}
    share = {arm: sum(one["agent"] in washer for one in of) / max(len(of), 1) for arm, of in clients.items()}
    return [
        f"{name}, the worst, sells {found[0].cell.rate:.0%} of the parts of each task to its own owner, too: it gets "
        f"{share['market']:.0%} of the client's leases where that does not count, and {share['unguarded']:.0%} where "
        "it does."
        for name in washer
    ]


# ------------------------------------------------------------------------------------------------ value
def _value(folder: RunFolder, answers: Sequence[Mapping[str, Any]], made: Made, cell: Cell) -> list[dict[str, Any]]:
    """By agent: skills, right answers, income in the market, worth with its interval, and its part of the bonus."""
    worth_AQ, names = worth(answers, made.agents), [f"agent:{one.id}" for one in made.agents]
    accounts = Accounts(folder.path / "accounts" / f"{cell.name}.db")
    parts = accounts.share("bonus", USER, BONUS, dict(zip(names, worth_AQ.mean(1).tolist(), strict=True)))
    income = {name: accounts.balance(name) - parts[name] for name in names}
    accounts.audit()
    accounts.close()
    return [
        {
            "agent": one.id,
            "skills": list(one.skills),
            "tools": list(one.tools),
            "right": sum(row["said"][one.id]["right"] for row in answers),
            "income": income[name],
            "worth": [float(worth_Q.mean()), *student_interval(worth_Q)],
            "bonus": parts[name],
        }
        for name, one, worth_Q in zip(names, made.agents, worth_AQ, strict=True)
    ]


# ------------------------------------------------------------------------------------------------ pictures
def _pictures(found: Sequence[Result], failure: str, k: int, n: int) -> list[dict[str, Any]]:
    """Delivered by failure beside the closed form; right by arm."""
    shown = [one for one in found if one.cell.failure != "wash"]  # in which nobody fails
    market = [(one.cell.failure, one.cell.rate, one.delivered_T) for one in shown if one.cell.arm == "market"]
    arms = [(one.name, one.cell.rate, one.right_T) for one in found if one.cell.failure == failure]
    x = np.linspace(0.0, 1.0, 41)
    form = {"name": "(1 - r^k)^n", "x": x.tolist(), "y": [closed_form(r, k, n) for r in x], "style": 5, "mark": "line"}
    return [
        _curve(f"Delivered by the market, by failure, k = {k}, n = {n}", [*_lines(market), form], "delivered"),
        _curve(f"All parts right, by arm, where agents {failure}", _lines(arms), "right"),
    ]


def _lines(found: Sequence[tuple[str, float, np.ndarray]]) -> list[dict[str, Any]]:
    lines = list[dict[str, Any]]()
    for name in dict.fromkeys(who for who, _, _ in found):
        mine = sorted((r, y_T.sum(), len(y_T)) for who, r, y_T in found if who == name)
        x, n, y = [r for r, _, _ in mine], [n for _, _, n in mine], [float(won / n) for _, won, n in mine]
        lo, hi = zip(*(wilson(won, n) for _, won, n in mine), strict=True)
        lines.append({"name": name, "x": x, "y": y, "lo": lo, "hi": hi, "n": n, "style": len(lines)})
    return lines


def _curve(title: str, lines: list[dict[str, Any]], y_label: str) -> dict[str, Any]:
    more = {"x_label": "chance to fail at a lease, r", "y_label": y_label, "rate": True}
    return {"title": title, "lines": lines, "ticks": [[r / 4, f"{r / 4:g}"] for r in range(5)], **more}
