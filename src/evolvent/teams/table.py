"""Answers of several agents to the same questions: read from rows, checked, as arrays."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, closest

FIELDS = '{"question", "agent", "answer", "right"}, and where known "text", "tokens", "logprob", "greedy"'
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Answers:
    """What A agents answered to Q questions; N is the largest number of different answers to one of them.

    Attributes:
        answer_QA: number of the answer among those to its question; -1 = none was given.
        right_QN: 1 where an answer is right, else 0; answers that a question does not have are wrong.
        score_QAN: log-probability of each answer by each agent, NaN where it has none; or, where agents know that of
            their own answer alone, its probability, and 0 for the others. ``None`` = not known.
        text_QA: what was said, to be embedded.
        tokens_A: tokens of each agent, over all questions; NaN = not known.
        greedy: the agent that stands for a single call at temperature 0; "" = none is marked.
        left_out: questions that not all agents answered.
    """

    agents: tuple[str, ...]
    answer_QA: np.ndarray
    right_QN: np.ndarray
    score_QAN: np.ndarray | None
    text_QA: tuple[tuple[str, ...], ...]
    tokens_A: np.ndarray
    greedy: str = ""
    left_out: int = 0

    @property
    def right_QA(self) -> np.ndarray:
        """1 where an agent was right, else 0."""
        return np.take_along_axis(self.right_QN, np.maximum(self.answer_QA, 0), axis=1) * (self.answer_QA >= 0)


def read(rows: Iterable[tuple[int, Row]], where: str, agents: Sequence[str] = ()) -> Answers:
    """The answers of numbered rows; of ``agents`` where some are named. Questions that not all answered are left out.

    Raises:
        BadInput: a row that lacks a field or contradicts another, no row, fewer than two questions that all answered.
    """
    table, counts, greedy = defaultdict[str, dict[str, Row]](dict), dict[str, int](), ""
    for number, row in rows:
        _check(row, f"{where}:{number}")
        question, agent = str(row["question"]), str(row["agent"])
        counts[agent] = counts.get(agent, 0) + 1
        if agents and agent not in agents:
            continue
        if agent in table[question]:
            got = f"{agent!r} to {question!r}, as in line {table[question][agent]['line']}"
            do = "samples of one agent are agents: name them a#1, a#2"
            raise BadInput("an agent answers a question twice", got=got, where=f"{where}:{number}", do=do)
        table[question][agent] = {**row, "line": number}
        if row.get("greedy") and greedy not in ("", agent):
            got = f"{greedy!r} and {agent!r}"
            raise BadInput("several agents are marked as greedy", got=got, expected="one", where=f"{where}:{number}")
        greedy = agent if row.get("greedy") else greedy
    for agent in agents:
        if agent not in counts:
            raise BadInput("no such agent", got=agent, expected=closest(agent, counts), where="--agents")
    names = [agent for agent in counts if not agents or agent in agents]
    if not names:
        raise BadInput("no answers", expected=FIELDS, where=where)
    whole = [by for by in table.values() if len(by) == len(names)]
    if len(whole) < 2:
        fewest = min(names, key=lambda name: counts[name])
        got = f"{len(whole)} of {len(table)}; the fewest, {counts[fewest]}, by {fewest!r}"
        do = f"name those to be compared: --agents {' '.join(name for name in names if name != fewest)}"
        raise BadInput("too few questions that all answered", got=got, expected="two or more", where=where, do=do)
    return _arrays(names, whole, greedy, len(table) - len(whole), where)


def _check(row: Row, where: str) -> None:
    if missing := [name for name in ("question", "agent", "answer", "right") if name not in row]:
        raise BadInput(f"no {missing[0]!r}", got=sorted(row), expected=FIELDS, where=where)
    for name in ("question", "agent", "answer"):
        value = row[name]
        if isinstance(value, bool) or not isinstance(value, str | int | float | (None if name == "answer" else str)):
            raise BadInput(f"{name!r} is no text", got=value, expected="text or a number", where=where)
    if row["right"] not in (0, 1):
        do = "judge it, or leave the question out"
        raise BadInput("not known whether it is right", got=row["right"], expected="true or false", where=where, do=do)
    if row["answer"] is None and row["right"]:
        raise BadInput("right without an answer", expected='"right": false, or the answer', where=where)
    logprob = row.get("logprob")
    numbers = logprob.values() if isinstance(logprob, dict) else [logprob]
    for value in (row.get("tokens"), *numbers):
        if value is not None and (not isinstance(value, int | float) or not math.isfinite(value)):
            raise BadInput("tokens and log-probabilities are numbers", got=value, where=where)
    if isinstance(logprob, int | float) and logprob > 0:
        raise BadInput("a log-probability above 0", got=logprob, where=where)


def _arrays(names: Sequence[str], whole: Sequence[Mapping[str, Row]], greedy: str, left: int, where: str) -> Answers:
    rights = [_rights(by.values(), where) for by in whole]
    shape = (len(whole), len(names), max(1, max(map(len, rights))))
    answer_QA, right_QN = np.full(shape[:2], -1), np.zeros((shape[0], shape[2]))
    tokens_QA, score_QAN = np.full(shape[:2], np.nan), np.full(shape, np.nan)
    kinds = {type(row.get("logprob")) for by in whole for row in by.values() if row["answer"] is not None}
    if len(kinds & {dict, type(None)}) + bool(kinds - {dict, type(None)}) > 1:
        expected = "a number in every row, or an object of answers in every row, or none"
        raise BadInput("log-probabilities of several kinds", expected=expected, where=where)
    for q, (by, right) in enumerate(zip(whole, rights, strict=True)):
        right_QN[q, : len(right)] = list(right.values())
        for a, row in enumerate(by[name] for name in names):
            own, known = _key(row["answer"]), row.get("logprob")
            answer_QA[q, a] = -1 if row["answer"] is None else list(right).index(own)
            tokens_QA[q, a] = math.nan if row.get("tokens") is None else row["tokens"]
            if isinstance(known, dict):
                table = {_key(answer): math.nan if p is None else p for answer, p in known.items()}
                score_QAN[q, a, : len(right)] = [table.get(answer, math.nan) for answer in right]
            else:
                score_QAN[q, a, : len(right)] = [math.exp(known or 0.0) * (answer == own) for answer in right]
    texts = tuple(tuple(str(by[name].get("text") or _key(by[name]["answer"])) for name in names) for by in whole)
    scores = None if kinds <= {type(None)} else score_QAN
    return Answers(tuple(names), answer_QA, right_QN, scores, texts, tokens_QA.sum(0), greedy, left)


def _rights(rows: Iterable[Row], where: str) -> dict[str, bool]:
    """The answers that were given to a question, each with whether it is right."""
    found: dict[str, tuple[bool, int]] = {}
    for row in rows:
        if row["answer"] is not None:
            right, line = found.setdefault(_key(row["answer"]), (bool(row["right"]), row["line"]))
            if right != bool(row["right"]):
                got, place = f"{row['answer']!r}, as in line {line}", f"{where}:{row['line']}"
                raise BadInput("one answer to one question is right and wrong", got=got, where=place)
    return {answer: right for answer, (right, _) in found.items()}


def _key(answer: object) -> str:
    return "" if answer is None else " ".join(str(answer).split())
