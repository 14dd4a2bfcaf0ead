"""Questions about small databases that have to be looked at first: a query a step, the last result is the answer.

After InterCode's SQL world (Yang et al. 2023, arXiv 2306.14898): ``tables`` lists the tables, ``describe TABLE`` the
columns of one, a SELECT shows rows or the error, ``done`` ends the attempt. Queries are held to what ``analyst_sql``
allows: they read these tables and nothing else, for at most a second. There are four generated databases with names of
their own, so what was found out about one helps at its next question.

Reward 1 if the last result equals the right one, else 0; kinds of reward for each step: ``runs`` (no error) and
``overlap`` (rows in common of all rows, 0 to 1, of a query).
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._text import TextEnv, check_limit, check_request, is_done, named, playing, unlabelled
from evolvent.envs.text.analyst_sql import ReadOnlyDatabase, Result, Rows, cell, extract_query, same_rows

INSTRUCTIONS = """Answer questions with queries. Commands: tables, describe TABLE, a SELECT in one line, and done when
the last result is the answer.

Task: Database zoo: how many animals weigh more than 100 kilograms?
Command: tables
Output: animals, keepers
Command: describe animals
Output: aid INTEGER, kind TEXT, kg INTEGER
Command: SELECT count(*) FROM animals WHERE kg > 100
Output: 7
Command: done

"""
CITIES = ("Arden", "Brook", "Colby", "Dover", "Elton", "Firth", "Glade", "Hurst")
YEARS = tuple(range(2015, 2021))
TIME_LIMIT_S, SHOWN = 1.0, 5
_NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jon", "Kay", "Lou", "Mia", "Oda", "Pia")


@dataclass(frozen=True)
class Base:
    """A database of two tables: who (key, name, place), and what each of them did (key, whose, how much, when)."""

    name: str
    who: str
    key: str
    named: str
    place: str
    what: str
    whose: str
    much: str
    when: str
    words: tuple[str, str, str]
    """Who, what and how much of it, in words."""

    def build(self, path: Path) -> None:
        """Write it; always the same."""
        draw = random.Random(f"sql/{self.name}")
        with sqlite3.connect(path) as made:
            made.execute(f"CREATE TABLE {self.who} ({self.key} INTEGER, {self.named} TEXT, {self.place} TEXT)")
            made.execute(
                f"CREATE TABLE {self.what} (no INTEGER, {self.whose} INTEGER, {self.much} INTEGER, {self.when} INTEGER)"
            )
            people = [
                (i, f"{draw.choice(_NAMES)} {draw.choice('ABCDEFGH')}{i}", draw.choice(CITIES)) for i in range(90)
            ]
            # all amounts differ, so that the largest is one
            amounts = draw.sample(range(5, 2000), 300)
            done = [(i, draw.randrange(60), amounts[i], draw.choice(YEARS)) for i in range(300)]
            made.executemany(f"INSERT INTO {self.who} VALUES (?, ?, ?)", people)
            made.executemany(f"INSERT INTO {self.what} VALUES (?, ?, ?, ?)", done)
        made.close()

    def question(self, kind: str, constant: str) -> tuple[str, str]:
        """A question and the query that answers it."""
        who, what, much = self.words
        join = f"{self.what} JOIN {self.who} ON {self.whose} = {self.key}"
        none = f"{self.key} NOT IN (SELECT {self.whose} FROM {self.what})"
        there = f"{self.place} = '{constant}'"
        asked = {
            "count": (f"how many {who} are from {constant}?", f"SELECT count(*) FROM {self.who} WHERE {there}"),
            "without": (
                f"how many {who} from {constant} have no {what}?",
                f"SELECT count(*) FROM {self.who} WHERE {there} AND {none}",
            ),
            "sum_place": (
                f"what is the sum of {much} of the {who} from {constant}?",
                f"SELECT sum({self.much}) FROM {join} WHERE {there}",
            ),
            "sum_year": (
                f"what is the sum of {much} in {constant}?",
                f"SELECT sum({self.much}) FROM {self.what} WHERE {self.when} = {constant}",
            ),
            "largest": (
                f"who of the {who} has the largest of all {much} in {constant}? Give the name.",
                f"SELECT {self.named} FROM {join} WHERE {self.when} = {constant} ORDER BY {self.much} DESC LIMIT 1",
            ),
            "since": (
                f"how many different {who} have {what} in {constant} or later?",
                f"SELECT count(DISTINCT {self.whose}) FROM {self.what} WHERE {self.when} >= {constant}",
            ),
        }
        text, query = asked[kind]
        return f"Database {self.name}: {text}", query


BASES = {
    name: Base(name, *columns.split(), words=words)
    for name, columns, words in (
        ("shop", "cust cid nm town ord cust_no cents yr", ("customers", "orders", "amounts ordered")),
        (
            "school",
            "pupils pid pupil from_where marks of_pupil points school_year",
            ("pupils", "marks", "points of marks"),
        ),
        ("library", "readers card reader home loans by_card pages lent", ("readers", "loans", "pages lent")),
        (
            "garage",
            "owners owner_id called place jobs for_owner euros done_in",
            ("car owners", "repairs", "prices of repairs"),
        ),
    )
}
KINDS = {"count": CITIES, "without": CITIES, "sum_place": CITIES} | {
    kind: tuple(map(str, YEARS)) for kind in ("sum_year", "largest", "since")
}


class Sql(TextEnv):
    """The world; ``make`` has the options."""

    name, labels, stop, max_tokens = "sql", ("Task", "Command"), ("\n",), 80
    instructions = INSTRUCTIONS

    def __init__(self, step_limit: int) -> None:
        self._limit, self._open = step_limit, dict[str, ReadOnlyDatabase]()

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` questions in drawn order, one of each kind and database first; used up, they repeat."""
        check_request(split, n, "sql.tasks")
        draw = random.Random(f"sql/{split}/{seed}")
        rows = [
            [(base, kind, c) for c in draw.sample(of, len(of)) if _split(base, kind, c) == split]
            for base in BASES
            for kind, of in KINDS.items()
        ]
        draw.shuffle(rows)
        found = [row[i] for i in range(len(CITIES)) for row in rows if i < len(row)]
        tasks = list[Task]()
        for base, kind, constant in islice(cycle(found), n):
            meta, text = {"base": base, "constant": constant}, BASES[base].question(kind, constant)[0]
            tasks.append(Task(f"sql/{base}/{kind}-{constant}", text, kind, split, seed, meta))
        return named(tasks, len(found))

    def expert(self, task: Task) -> list[str]:
        """Commands that answer ``task``; never for an agent."""
        base, constant = BASES.get(str(task.meta.get("base"))), str(task.meta.get("constant"))
        if base is None or constant not in KINDS.get(task.kind, ()):
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where=self.name)
        return [
            "tables",
            f"describe {base.what}",
            f"describe {base.who}",
            base.question(task.kind, constant)[1],
            "done",
        ]

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """The question; ``seed`` changes nothing."""
        query = self.expert(task)[-2]
        self._base = BASES[str(task.meta["base"])]
        self._steps, self._last, self._right = 0, Result(error="no query"), self._database.run(query)
        self._turn = Turn(task.text, key=task.text)
        return self._turn

    def step(self, action: str) -> Turn:
        """Look at the tables, ask, or end with ``done``. ``info``: ``action`` and ``rewards``."""
        key, self._steps = playing(self._turn, self.name).key, self._steps + 1
        command = " ".join(unlabelled(action, self.labels[1]).split()).rstrip(";")
        over = is_done(command)
        text, valid = ("", True) if over else self._answer(command)
        right = not self._last.error and same_rows(self._last.rows, self._right.rows)
        ended = over or self._steps >= self._limit
        rewards = {"runs": float(valid), "overlap": overlap(self._last.rows, self._right.rows)}
        text = ("Right." if right else "Not the right result.") if over else f"Output: {text}"
        self._turn = Turn(
            text,
            reward=float(ended and right),
            terminated=over,
            truncated=ended and not over,
            success=ended and right,
            valid=self._last.valid,
            key=key,
            info={"action": command, "rewards": rewards},
            follows=True,
        )
        return self._turn

    def _answer(self, command: str) -> tuple[str, bool]:
        """What a command shows, and whether it could be done."""
        verb, _, rest = command.partition(" ")
        base = self._base
        if verb.lower() == "tables":
            return f"{base.what}, {base.who}", True
        if verb.lower() == "describe":
            columns = {
                base.who: f"{base.key} INTEGER, {base.named} TEXT, {base.place} TEXT",
                base.what: f"no INTEGER, {base.whose} INTEGER, {base.much} INTEGER, {base.when} INTEGER",
            }
            known = columns.get(rest.strip())
            return (known, True) if known else (f"no table {rest[:40]}; there is {base.what}, {base.who}", False)
        self._last = self._database.run(extract_query(command))
        if self._last.error:
            return f"error: {self._last.error}", False
        rows = [" | ".join(map(cell, row)) for row in self._last.rows[:SHOWN]]
        more = f" … ({len(self._last.rows)} rows)" if len(self._last.rows) > SHOWN else ""
        return ("; ".join(rows) or "no rows") + more, True

    @property
    def _database(self) -> ReadOnlyDatabase:
        base = self._base
        if base.name not in self._open:
            tables = frozenset((base.who, base.what))
            self._open[base.name] = ReadOnlyDatabase(Path(_built().name) / f"{base.name}.db", TIME_LIMIT_S, tables)
        return self._open[base.name]

    def close(self) -> None:
        """Close the databases."""
        while self._open:
            self._open.popitem()[1].close()


def make(*, step_limit: int = 8) -> Sql:
    """Questions about small databases, a query a step.

    Args:
        step_limit: commands of an attempt, ``done`` among them.

    Raises:
        BadInput: fewer steps than a question needs.
    """
    return Sql(check_limit(step_limit, 5, "envs.sql.make"))


def overlap(one: Rows, other: Rows) -> float:
    """Rows in common of all rows of two results, each as often as it is there: 0 to 1; 1 where both have none."""
    a, b = (Counter(map(repr, rows)) for rows in (one, other))
    return (a & b).total() / (a | b).total() if a or b else 1.0


@lru_cache(maxsize=1)
def _built() -> tempfile.TemporaryDirectory[str]:
    """The folder with the databases, which goes when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="evolvent-sql-", ignore_cleanup_errors=True)
    for base in BASES.values():
        base.build(Path(folder.name) / f"{base.name}.db")
    return folder


def _split(base: str, kind: str, constant: str) -> str:
    of: Sequence[str] = KINDS[kind]
    return "heldout" if (of.index(constant) + zlib.crc32(f"{base}/{kind}".encode())) % 3 == 0 else "train"
