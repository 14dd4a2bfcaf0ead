"""The analyst's assistant: questions in words about a real database, answered with SQL that is run and checked.

The database holds all 336,776 flights that left New York City in 2013, or a century and a half of baseball. What the
questions mean is the house's own convention (``analyst_flights.toml``, ``analyst_baseball.toml``): "on time" is at
most nine minutes late *here*. No model can know that; an agent can learn it from what a reviewer hands over after a
failure. Half-way the house may change its mind (``drift``), and the reviewer may be mistaken (``reviewer_wrong``).

One attempt is one step: reward 1 when the query's result equals that of the house's definition, else 0.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

from evolvent.core.errors import BadInput, EnvError, closest
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.envs.text._text import check_request, known
from evolvent.envs.text.analyst_baseball import BASEBALL
from evolvent.envs.text.analyst_data import ensure_database
from evolvent.envs.text.analyst_flights import FLIGHTS
from evolvent.envs.text.analyst_kinds import VARIANTS, Database, Kind
from evolvent.envs.text.analyst_sql import ReadOnlyDatabase, Result, Rows, Value, cell, extract_query, same_rows

DATABASES: Mapping[str, Database] = {"flights": FLIGHTS, "baseball": BASEBALL}
_GOLD_TIME_LIMIT_S = 60.0
# Whether a question may be asked depends on the table of definitions and the one release of the data, nothing else;
# so every world of a process shares what was found out.
_USABLE: dict[tuple[str, ...], bool] = {}


class Analyst:
    """The world. See ``make`` for the options; implements ``evolvent.core.protocols.Env``.

    Besides the protocol: ``drift()`` changes the definitions at once, ``definition(kind)`` says them in words,
    ``schema()`` describes all tables at length, ``answer_form(text)`` is the query inside a model's answer.
    """

    name = "analyst"
    labels = ("Q", "SQL")
    stop = (";", "\n\n", "\nQ:")
    max_tokens = 80
    reward_range = (0.0, 1.0)

    def __init__(
        self,
        about: Database,
        database: ReadOnlyDatabase,
        house: ReadOnlyDatabase,
        *,
        reviewer: tuple[float, float],
        drifting: frozenset[str],
        drift_at: int,
        kinds: tuple[Kind, ...],
        words: str,
    ) -> None:
        self._about, self._words = about, words
        self.instructions = about.instructions
        self._database, self._house = database, house
        self._reviewer_answers, self._reviewer_wrong = reviewer
        self.drifting, self.drift_at, self.drifted = drifting, drift_at, False
        self.kinds = kinds
        self._task: Task | None = None

    # ------------------------------------------------------------------------------------------------ tasks
    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` questions: every kind once in shuffled order, then again with other constants, and so on.

        The constants of "train" and "heldout" never coincide, whatever the seed. The first tasks of a longer list are
        the shorter list. Once a kind's constants are used up, they come back in other words.

        Raises:
            BadInput: an unknown split, a negative ``n``, or more questions than there are.
        """
        check_request(split, n, "analyst.tasks")
        order = random.Random(f"analyst/{split}/{seed}/order")
        streams = {kind.name: self._questions(kind, split, seed) for kind in self.kinds}
        tasks: list[Task] = []
        while len(tasks) < n and streams:
            names = list(streams)
            order.shuffle(names)
            for name in names[: n - len(tasks)]:
                task = next(streams[name], None)
                if task is None:
                    del streams[name]
                else:
                    tasks.append(task)
        if len(tasks) < n:
            raise BadInput("more tasks than there are questions", got=n, expected=f"at most {len(tasks)}", where=split)
        return tasks

    def _questions(self, kind: Kind, split: str, seed: int) -> Iterator[Task]:
        draw = random.Random(f"analyst/{split}/{seed}/{kind.name}")
        candidates = [c for c in kind.constants() if split_of(kind, c) == split]
        draw.shuffle(candidates)
        numbers = kind.numbers(self._words)
        start = [draw.randrange(len(numbers)) for _ in candidates]
        for shift in range(len(numbers)):
            for first, constants in zip(start, candidates, strict=True):
                if self._is_usable(kind, constants):
                    yield _task(kind, constants, numbers[(first + shift) % len(numbers)], split, seed)

    def _is_usable(self, kind: Kind, constants: Mapping[str, str]) -> bool:
        """Whether the three definitions give results of some size that differ clearly from one another."""
        key = (self._about.source.name, kind.name, *constants.values())
        if key not in _USABLE:
            results = [self._house_result(kind, variant, constants) for variant in VARIANTS]
            if not all(result.valid for result in results):
                raise EnvError("a question could not be checked", got=results[0].error, where=" ".join(key))
            gold, wrong, drift = (result.rows for result in results)
            _USABLE[key] = all(_substantial(rows) for rows in (gold, wrong, drift)) and not any(
                same_rows(a, b, rel=5e-3) for a, b in ((gold, wrong), (gold, drift), (wrong, drift))
            )
        return _USABLE[key]

    # ------------------------------------------------------------------------------------------------ one attempt
    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Start an attempt: the observation is the question. ``seed`` changes nothing here."""
        self._kind(task)
        self._task = task
        return Turn(observation=task.text, key=task.text)

    def step(self, action: str) -> Turn:
        """Run the query in ``action`` (any text that contains one) and compare its result.

        ``info`` holds ``sql`` as run (also as ``action``: what is worth remembering), ``rows`` (the first five, JSON
        values) and ``error``.
        """
        if self._task is None:
            raise EnvError("step without reset", expected="reset(task), then one step", where="analyst.step")
        task, self._task = self._task, None
        sql = self.answer_form(action)
        house = self._house_result(self._kind(task), self._variant(task.kind), task.meta["constants"])
        result = self._database.run(sql) if house.valid else house
        right = not result.error and same_rows(result.rows, house.rows)
        return Turn(
            observation=_outcome(result, right),
            reward=float(right),
            terminated=True,
            success=right,
            valid=result.valid,
            key=task.text,
            info={
                "sql": sql,
                "rows": [[_plain(value) for value in row] for row in result.rows[:5]],
                "error": result.error,
            },
        )

    def schema(self) -> str:
        """Every table with the types of all its columns, and one of its rows: what ``instructions`` leave out."""
        lines: list[str] = []
        for name, table in self._about.source.tables.items():
            columns = (column.partition("=")[0].partition(":") for column in table.columns.split())
            declared = ", ".join(f"{column} {(kind or 'integer').upper()}" for column, _, kind in columns)
            (row,) = self._house.run(f"SELECT * FROM {name} LIMIT 1").rows
            values = ", ".join("NULL" if value is None else cell(value) for value in row)
            lines.append(f"CREATE TABLE {name}({declared}); -- such as {values}\n")
        return "".join(lines)

    @staticmethod
    def answer_form(action: str) -> str:
        """The query as it will be run and is worth remembering: one line, without fences, prose or semicolon."""
        return extract_query(action)

    # ------------------------------------------------------------------------------------------------ the reviewer
    def review(self, task: Task, seed: int) -> Correction | None:
        """The query by the definitions of now; a mistaken one with probability ``reviewer_wrong``, none with
        1 - ``reviewer_answers``. The same for the same task and seed.
        """
        kind, draw = self._kind(task), random.Random(f"analyst/review/{task.id}/{seed}")
        answers, wrong = draw.random() < self._reviewer_answers, draw.random() < self._reviewer_wrong
        if not answers:
            return None
        variant = "wrong" if wrong else self._variant(kind.name)
        return Correction(body=kind.query(variant, task.meta["constants"]), wrong=wrong)

    # ------------------------------------------------------------------------------------------------ drift
    def advance(self, pass_number: int) -> None:
        """Tell the world which pass begins (from 1): the drifted definitions hold from pass ``drift_at`` on."""
        if self.drift_at:
            self.drifted = pass_number >= self.drift_at

    def drift(self) -> frozenset[str]:
        """Change the definitions of the drifting kinds now; returns their names."""
        self.drifted = True
        return self.drifting

    def definition(self, kind: str) -> str:
        """What the house means by a kind of question at present, in words."""
        found = self._about.kind(kind)
        if found is None:
            kinds = [one.name for one in self._about.kinds]
            raise BadInput("unknown kind", got=kind, expected=closest(kind, kinds), where="analyst.definition")
        return found.meaning_drift if self._variant(kind) == "drift" else found.meaning

    def _variant(self, kind: str) -> str:
        return "drift" if self.drifted and kind in self.drifting else "gold"

    def _kind(self, task: Task) -> Kind:
        kind = self._about.kind(task.kind)
        if kind is None or "constants" not in task.meta:
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where="analyst")
        return kind

    def _house_result(self, kind: Kind, variant: str, constants: Mapping[str, str]) -> Result:
        result = self._house.run(kind.query(variant, constants))
        if result.error and result.valid:
            raise EnvError("a house query failed", got=result.error, where=f"{kind.name} ({variant}) {dict(constants)}")
        return result

    def close(self) -> None:
        """Close the database."""
        self._database.close()
        self._house.close()


def make(
    *,
    data: str = "",
    database: str = "flights",
    reviewer_answers: float = 1.0,
    reviewer_wrong: float = 0.0,
    drift: float = 0.0,
    drift_at: int = 0,
    time_limit_s: float = 2.0,
    kinds: int = 30,
    words: str = "short",
    seed: int = 0,
) -> Analyst:
    """The analyst world; fetches and builds the database at first use (10 MB, seconds).

    Args:
        data: folder of the database, or of the package it is built from; default: the cache.
        database: "flights" or "baseball".
        reviewer_answers: probability that a failure is answered with a correction.
        reviewer_wrong: probability that a correction follows a mistaken convention.
        drift: share of the kinds whose definition changes when the drift comes.
        drift_at: pass that begins with the drift (``advance``); 0: only when ``drift()`` is called.
        time_limit_s: processor seconds that one query of the agent may take.
        kinds: how many kinds of question there are, drawn by ``seed``.
        words: "short": three wordings a kind, which resemble one another; "free": eight others, as people ask, half of
            which share no content word with the short ones; "any": all eleven.
        seed: chooses the kinds, and those that drift.
    """
    shares = {"reviewer_answers": reviewer_answers, "reviewer_wrong": reviewer_wrong, "drift": drift}
    for option, value in shares.items():
        if not 0.0 <= value <= 1.0:
            raise BadInput("not a share", got=value, expected="between 0 and 1", where=f"analyst: {option}")
    if not time_limit_s > 0 or drift_at < 0:
        expected = "time_limit_s > 0, drift_at >= 0"
        raise BadInput("a limit out of range", got=(time_limit_s, drift_at), expected=expected, where="analyst")
    known(database, list(DATABASES), "database", "analyst: database")
    about = DATABASES[database]
    drawn = _drawn(about, kinds, words, seed)
    drifting = random.Random(f"analyst/drift/{seed}").sample([kind.name for kind in drawn], round(drift * len(drawn)))
    path, tables = ensure_database(about.source, data), frozenset(about.source.tables)
    return Analyst(
        about,
        ReadOnlyDatabase(path, time_limit_s, tables),
        ReadOnlyDatabase(path, _GOLD_TIME_LIMIT_S, tables),
        reviewer=(reviewer_answers, reviewer_wrong),
        drifting=frozenset(drifting),
        drift_at=drift_at,
        kinds=drawn,
        words=words,
    )


def _drawn(about: Database, kinds: int, words: str, seed: int) -> tuple[Kind, ...]:
    """That many kinds of a database by the seed, in the order of their names."""
    by_name = {kind.name: kind for kind in about.kinds}
    if not 1 <= kinds <= len(by_name):
        raise BadInput("not a number of kinds", got=kinds, expected=f"1 to {len(by_name)}", where="analyst: kinds")
    if words not in ("short", "free", "any"):
        raise BadInput("unknown wordings", got=words, expected="short, free or any", where="analyst: words")
    names = random.Random(f"analyst/kinds/{seed}").sample(sorted(by_name), kinds)
    return tuple(by_name[name] for name in sorted(names))


def split_of(kind: Kind, constants: Mapping[str, str]) -> str:
    """The split that a question's constants belong to for ever: "heldout" for one in three, by hash."""
    text = f"{kind.name}:{'-'.join(constants.values())}"
    return "heldout" if hashlib.sha256(text.encode()).digest()[0] % 3 == 0 else "train"


def _task(kind: Kind, constants: Mapping[str, str], wording: int, split: str, seed: int) -> Task:
    meta: dict[str, Any] = {"constants": dict(constants), "wording": wording}
    identity = f"{kind.name}-{'-'.join(constants.values())}-{wording}"
    return Task(id=identity, text=kind.question(wording, constants), kind=kind.name, split=split, seed=seed, meta=meta)


def _substantial(rows: Rows) -> bool:
    """No NULL, no count under 5, no share or mean that is next to nothing."""
    values = [value for row in rows for value in row]
    return bool(values) and all(
        abs(value) >= (0.01 if isinstance(value, float) else 5) if isinstance(value, float | int) else bool(value)
        for value in values
    )


def _outcome(result: Result, right: bool) -> str:
    if result.error:
        return f"The query failed: {result.error}."
    shown = "; ".join(", ".join(cell(value) for value in row) for row in result.rows[:3]) or "no rows"
    return f"{'Right' if right else 'Not the right result'}: {shown}{' …' if len(result.rows) > 3 else ''}"


def _plain(value: Value) -> int | float | str | None:
    if isinstance(value, str | bytes) or (isinstance(value, float) and not math.isfinite(value)):
        return cell(value)
    return value
