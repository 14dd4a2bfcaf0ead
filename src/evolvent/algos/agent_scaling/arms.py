"""From what was said to what a scaling study reports: every arm at every number of agents, beside one agent alone.

An arm is a list of members at one temperature; its first n are the team of n. ``equal tokens``: the vote of as many
agents alike (L1, drawn) as the arm's tokens pay for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolvent.algos.agent_scaling.members import MEMBERS, TOPOLOGIES
from evolvent.core.protocols import Embedder
from evolvent.formulas import diversity
from evolvent.teams import channels
from evolvent.teams.table import Answers, read

Row = Mapping[str, Any]
SIZES = (1, 2, 4, 8, 16)
ALONE = ("single greedy", "best single", "mean of members")
COLUMNS = [
    *("arm", "agents", "rule", "right, %", "from", "to", "to best single, points", "K*", "tokens a task"),
    *("alike at equal tokens, %", "bits at least"),
]


@dataclass(frozen=True)
class Cell:
    """An arm at one number of agents by one rule; ``outcome_Q``: the chance that it is right."""

    arm: str
    agents: int
    rule: str
    outcome_Q: np.ndarray
    k_star: float
    tokens: float


def table_of(rows: Sequence[Row], arm: str) -> Answers:
    """The answers of an arm; an agent is called by its place and what it is."""
    said = [
        {**row["said"][at], "question": row["task"], "agent": f"{i} {row['said'][at]['member']}"}
        for row in rows
        for i, at in enumerate(row["arms"][arm])
    ]
    return read(enumerate(said, 1), arm)


def cells(rows: Sequence[Row], embedder: Embedder) -> list[Cell]:
    """Every arm at its numbers of agents, by vote and pooled; a debate by its last vote.

    Choosers whose answers are drawn have no pool of their own: that of their log-probabilities is the level's.
    """
    texts = list(dict.fromkeys(said["text"] for row in rows for said in row["said"]))
    vec_ND, place = embedder.embed(texts), {text: i for i, text in enumerate(texts)}
    choose, found = isinstance(rows[0]["said"][0].get("logprob"), Mapping), list[Cell]()
    for arm in rows[0]["arms"]:
        answers, many = table_of(rows, arm), len(rows[0]["arms"][arm])
        debate, drawn = arm in rows[0]["spent"], arm.endswith("drawn")
        vec_QAD = np.array([[vec_ND[place[text]] for text in row] for row in answers.text_QA])
        for n in [many] if debate or arm == MEMBERS else [n for n in SIZES if n <= many]:
            k = float(np.mean([diversity.k_star(vec_AD[:n]) for vec_AD in vec_QAD]))
            tokens = sum(row["spent"][arm] for row in rows) if debate else float(answers.tokens_A[:n].sum())
            ways = {"vote": channels.vote} if debate or (drawn and choose) else channels.rules(answers)
            for name, rule in ways.items():
                found.append(Cell(arm, n, name, rule(answers, range(n)), k, tokens / len(rows)))
    return found


def summarise(rows: Sequence[Row], embedder: Embedder, options_Q: np.ndarray, seed: int) -> dict[str, Any]:
    """What a study reports, as ``runs/agents/account.py`` reads it; ``options_Q``: functions to choose from, or 0."""
    members, every = table_of(rows, MEMBERS), cells(rows, embedder)
    right_QA, tokens_A = members.right_QA, members.tokens_A / len(rows)
    best, names = int(right_QA.mean(0).argmax()), [name.partition(" ")[2] for name in members.agents]
    alone = [
        Cell(f"{ALONE[0]} ({names[0]})", 1, "", right_QA[:, 0], 1.0, float(tokens_A[0])),
        Cell(f"{ALONE[1]} ({names[best]})", 1, "", right_QA[:, best], 1.0, float(tokens_A[best])),
        Cell(ALONE[2], 1, "", right_QA.mean(1), 1.0, float(tokens_A.mean())),
    ]
    alike = [one for one in every if one.arm == "L1 drawn" and one.rule == "vote"]
    alike = alike or [one for one in every if one.arm == "L1" and one.rule == "vote"]
    two = [one for one in every if one.agents == 2 and one.arm.startswith("L") and " " not in one.arm][-1]
    lines = [_line(one, right_QA[:, best], alike, options_Q) for one in [*alone, *every]]
    fit, (value, *ends), gain = (
        _fit(every),
        channels.score(two.outcome_Q),
        channels.gain(two.outcome_Q, right_QA[:, best]),
    )
    return {
        "score": {"name": f"two agents, {two.arm}, {two.rule}", "value": value, "ci95": ends},
        "baseline": {"name": alone[1].arm, "value": _mean(alone[1]), "ci95": channels.score(right_QA[:, best])[1:]},
        "words": [
            f"Two that differ ({two.arm}, {two.rule}): {value:.0%}. {alike[-1].agents} alike ({alike[-1].arm}, vote): "
            f"{_mean(alike[-1]):.0%}. The best single agent ({names[best]}, found on these tasks): "
            f"{_mean(alone[1]):.0%}; the two less it: {_points(gain)}.",
            *_held_out(members, seed),
            "With a plain vote two agents score the mean of the two.",
            _said(every, fit),
        ],
        "table": {"columns": COLUMNS, "rows": brief(lines)},
        "cells": {"columns": COLUMNS, "rows": lines},
        "pictures": [_against_k(every, fit, _mean(alone[1])), _by_number(every, _mean(alone[1]))],
        "k_star": {"embedder": embedder.id, "fit": fit},
        "steps": len(rows),
    }


def brief(lines: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Of the rows of all cells one agent alone, and of each arm two agents and as many as there are; debates."""
    most = max(line[1] for line in lines if line[0] == "L1")
    return [line for line in lines if line[0].startswith(ALONE) or line[0].endswith(TOPOLOGIES) or line[1] in (2, most)]


def _said(every: Sequence[Cell], fit: Mapping[str, float] | None) -> str:
    k, y = np.array([one.k_star for one in every]), np.array([_mean(one) for one in every])
    if min(k.std(), y.std()) == 0.0:
        return "K* says nothing here: it, or accuracy, is the same in all cells."
    said = f"K* and accuracy over {len(every)} cells: correlation {np.corrcoef(k, y)[0, 1]:+.2f}; "
    if fit is None:
        return said + "no saturation was fitted, since accuracy does not rise with K* and bend."
    return said + (
        f"saturation with alpha {fit['alpha']:.2f}, floor {fit['floor']:.2f}, span {fit['span']:.2f}, left over "
        f"{fit['rest']:.3f}."
    )


def _points(gain: Sequence[float]) -> str:
    value, low, high = (100.0 * one for one in gain)
    return f"{value:+.0f} points [{low:+.0f}, {high:+.0f}]"


def _mean(cell: Cell) -> float:
    return float(cell.outcome_Q.mean())


def _line(one: Cell, best_Q: np.ndarray, alike: Sequence[Cell], options_Q: np.ndarray) -> list[Any]:
    paid = [other for other in alike if other.tokens <= one.tokens * 1.001]
    score, gain = channels.score(one.outcome_Q), channels.gain(one.outcome_Q, best_Q)
    return [
        *(one.arm, one.agents, one.rule, *(round(100 * value, 1) for value in score), round(100 * gain[0], 1)),
        *(round(one.k_star, 3), round(one.tokens), round(100 * _mean(paid[-1]), 1) if paid else None),
        evidence_bits(_mean(one), options_Q),
    ]


def evidence_bits(accuracy: float, options_Q: np.ndarray) -> float | None:
    """Bits about the right option that an arm has at least (Fano), of ``mean log2(options)``; ``None`` without any."""
    if options_Q.min() < 2:
        return None
    if accuracy <= (1 / options_Q).mean():
        return 0.0
    budget = float(np.log2(options_Q).mean())
    return round(max(0.0, budget - diversity.fano_missing(1 - accuracy, int(options_Q.max()))), 3)


def _held_out(members: Answers, seed: int) -> list[str]:
    found = channels.chosen(members, seed) if len(members.answer_QA) >= channels.FEWEST else []
    return [
        f"Best {len(one['members'])} by {one['rule']}, chosen on one half of the tasks, on the other half: "
        f"{one['score'][0]:.0%}; the best single of the first {one['single_score'][0]:.0%}: {_points(one['gain'])}."
        for one in found
    ]


def _fit(every: Sequence[Cell]) -> dict[str, float] | None:
    k, y = np.array([one.k_star for one in every]), np.array([_mean(one) for one in every])
    if len(np.unique(k.round(6))) < 3:
        return None
    floor, span, alpha = diversity.fit_saturation(k, y)
    if not (0.0011 < alpha < 29.0 and abs(floor) <= 2.0 and 0.0 < span <= 2.0):
        return None  # it falls, or there is no bend: the three numbers mean nothing
    rest = float(np.sqrt(((floor + span * diversity.saturation(k, alpha) - y) ** 2).mean()))
    return {"floor": floor, "span": span, "alpha": alpha, "rest": rest}


def _picture(title: str, lines: Sequence[Mapping[str, Any]], x_label: str, best: float, **more: Any) -> dict[str, Any]:
    """The fields of a ``Curve``, with the best single agent as a level across it."""
    xs = [x for line in lines for x in line["x"]]
    level = {"name": "best single", "x": [min(xs), max(xs)], "y": [best, best], "mark": "level", "style": 5}
    return {"title": title, "lines": [*lines, level], "x_label": x_label, "y_label": "right", "rate": True, **more}


def _against_k(every: Sequence[Cell], fit: Mapping[str, float] | None, best: float) -> dict[str, Any]:
    lines = list[dict[str, Any]]()
    for level in dict.fromkeys(one.arm.partition(" ")[0] for one in every):
        mine = [one for one in every if one.arm.startswith(level)]
        x, y = [one.k_star for one in mine], [_mean(one) for one in mine]
        lines.append({"name": level, "x": x, "y": y, "mark": "points", "style": len(lines)})
    if fit:
        x = np.linspace(1.0, max(one.k_star for one in every), 40)
        y = np.clip(fit["floor"] + fit["span"] * diversity.saturation(x, fit["alpha"]), 0.0, 1.0)
        lines.append({"name": "saturation", "x": x.tolist(), "y": y.tolist(), "mark": "line", "style": 5})
    return _picture("Right, against K*: every arm and number of agents", lines, "K*", best)


def _by_number(every: Sequence[Cell], best: float) -> dict[str, Any]:
    """Agents alike, drawn, and of each other level those that are not drawn: pooled, where there is a pool."""
    lines = list[dict[str, Any]]()
    rule = "pooled" if any(one.rule == "pooled" for one in every) else "vote"
    arms = [("L1 drawn", "vote"), *((level, rule) for level in ("L2", "L3", "L4")), ("L4", "vote")]
    for arm, how in dict.fromkeys(arms):
        if mine := [one for one in every if (one.arm, one.rule) == (arm, how)]:
            x, y = [math.log2(one.agents) for one in mine], [_mean(one) for one in mine]
            lines.append({"name": f"{arm}, {how}", "x": x, "y": y, "style": len(lines)})
    return _picture("Right, by number of agents", lines, "agents", best, ticks=[[math.log2(n), str(n)] for n in SIZES])
