"""Attempts and what was said of them: a file beside the store, of which no line of evidence is ever changed.

An attempt is one task of one agent (a turn of its session) with the receipts of its recalls. Evidence is a statement
about an attempt by a test run, a command, a person, a revert, …; what follows from it is in ``verdicts``. It is on disk
before the memory hears of it, and the memory is told again until it says the same.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.serve.verdicts import LAPSE_S, RUNS, Evidence, Verdict, resolve

ABOUT = ("attempt", "receipt", "session", "commit", "repo")
"""By what evidence can name its attempt; a session or a repository stands for the newest attempt there."""
NEAR_S = 12 * 3600.0
"""An attempt without activity for longer is not meant by who names a repository only."""
_BEFORE = 20  # test runs that are looked at before an attempt
_LINKED_S = 24 * 3600.0  # a commit after the last activity is still of the attempt

_SCHEMA = """
CREATE TABLE IF NOT EXISTS attempt (
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, name TEXT NOT NULL, session TEXT NOT NULL,
  repo TEXT NOT NULL, began REAL NOT NULL, last REAL NOT NULL, due REAL, UNIQUE (scope, name));
CREATE INDEX IF NOT EXISTS attempt_due ON attempt (due);
CREATE TABLE IF NOT EXISTS receipt (
  scope TEXT NOT NULL, receipt TEXT NOT NULL, attempt INTEGER NOT NULL, PRIMARY KEY (scope, receipt)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS receipt_attempt ON receipt (attempt);
CREATE TABLE IF NOT EXISTS evidence (
  id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, attempt INTEGER, repo TEXT NOT NULL, sha TEXT,
  kind TEXT NOT NULL, source TEXT NOT NULL, who TEXT NOT NULL, reward TEXT NOT NULL, run TEXT NOT NULL,
  detail TEXT NOT NULL, at REAL NOT NULL, key TEXT, UNIQUE (scope, key));
CREATE INDEX IF NOT EXISTS evidence_attempt ON evidence (attempt);
CREATE INDEX IF NOT EXISTS evidence_repo ON evidence (scope, repo, kind, id);
CREATE INDEX IF NOT EXISTS evidence_sha ON evidence (scope, sha);
CREATE TRIGGER IF NOT EXISTS evidence_stays BEFORE UPDATE ON evidence BEGIN
  SELECT raise(ABORT, 'evidence is never changed'); END;
CREATE TABLE IF NOT EXISTS git (
  scope TEXT NOT NULL, repo TEXT NOT NULL, sha TEXT NOT NULL, attempt INTEGER, reverts TEXT,
  PRIMARY KEY (scope, repo, sha));
CREATE INDEX IF NOT EXISTS git_attempt ON git (attempt);
"""
_EVIDENCE = "id, attempt, kind, source, who, reward, run, detail, at"


@dataclass(frozen=True)
class Attempt:
    """One attempt as it stands; times are seconds since 1970, ``last`` that of its last activity.

    Args:
        id: ``a12``.
        name: by the caller: ``claude:SESSION:TURN``, the name of a job, …
        receipts: of its recalls, as the memory names them (``r7``).
        commits: made in it, oldest first.
        evidence: about it, oldest first.
        verdict: what follows from that by now.
    """

    id: str
    name: str
    session: str
    repo: str
    began: float
    last: float
    receipts: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    verdict: Verdict = field(default_factory=Verdict)


@dataclass(frozen=True)
class Commit:
    """A commit of a repository: when it was made, and which commit it reverts, if any."""

    sha: str
    at: float
    reverts: str | None = None


class Attempts:
    """The attempts of a store, by scope. Safe to share between threads; what a call returned is on disk.

    Args:
        path: the file; made when missing.
    """

    def __init__(self, path: str | Path) -> None:
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30.0)
        Path(path).chmod(0o600)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    # -------------------------------------------------------------------------------------------------------- writing
    def open(self, scope: str, name: str, receipt: str, now: float, session: str = "", repo: str = "") -> str:
        """The attempt of that name, which is begun where there is none; the receipt becomes one of its."""
        with self._writing() as db:
            db.execute(
                "INSERT INTO attempt (scope, name, session, repo, began, last, due) VALUES (?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET due = 0, last = excluded.last, "
                "repo = coalesce(nullif(repo, ''), excluded.repo)",
                (scope, name, session, repo, now, now, now + LAPSE_S),
            )
            (id_,) = db.execute("SELECT id FROM attempt WHERE scope = ? AND name = ?", (scope, name)).fetchone()
            db.execute("INSERT OR IGNORE INTO receipt VALUES (?, ?, ?)", (scope, receipt, id_))
        return f"a{id_}"

    def add(
        self, scope: str, about: Mapping[str, str], said: Evidence, key: str | None = None
    ) -> tuple[Evidence, bool]:
        """Append evidence; with its number and attempt, and whether it is new.

        Args:
            scope: which part of the store.
            about: one of ``ABOUT`` to what it names; where that is no attempt yet, the evidence waits for one (a
                commit) or belongs to none (a test run before the first attempt is what later ones are compared with).
            said: its ``id`` and ``attempt`` are ignored.
            key: of the job that says it; said again under the same key, it is there once.

        Raises:
            BadInput: the key was used for another statement.
        """
        attempt = self._find(scope, about, said.at)
        with self._writing() as db:
            if key is not None:
                row = db.execute(
                    f"SELECT {_EVIDENCE} FROM evidence WHERE scope = ? AND key = ?", (scope, key)
                ).fetchone()
                if row is not None:
                    first = _evidence(row)
                    if (first.kind, first.reward, first.detail) != (said.kind, said.reward, said.detail):
                        got, expected = said.kind, f"what was said under it first (evidence {first.id})"
                        raise BadInput("the key is used", got=got, expected=expected, where=key, code="key_used")
                    return first, False
            id_ = db.execute(
                "INSERT INTO evidence (scope, attempt, repo, sha, kind, source, who, reward, run, detail, at, key) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(scope, attempt, about.get("repo", ""), about.get("commit")),
                    *(said.kind, said.source, said.who, json.dumps(said.reward), said.run, json.dumps(said.detail)),
                    *(said.at, key),
                ),
            ).lastrowid
            if attempt is not None:
                db.execute("UPDATE attempt SET last = max(last, ?), due = 0 WHERE id = ?", (said.at, attempt))
                if repo := about.get("repo"):
                    db.execute("UPDATE attempt SET repo = ? WHERE id = ? AND repo = ''", (repo, attempt))
        return replace(said, id=id_ or 0, attempt=f"a{attempt}" if attempt else None), True

    def commits(self, scope: str, repo: str, newest_first: Sequence[Commit], now: float, who: str) -> list[str]:
        """Note commits that a repository has; returns the attempts of which one was reverted, or brought back.

        Commits that were not there when the repository was last looked at belong to its newest attempt. Evidence of a
        revert is that attempt's whose commit it takes back.
        """
        about = {"repo": repo}
        with self._writing() as db:
            place, touched = (scope, repo), list[str]()
            looked = db.execute("SELECT 1 FROM git WHERE scope = ? AND repo = ? LIMIT 1", place).fetchone()
            attempt = self._find(scope, about, now) if looked else None
            for one in reversed(newest_first):
                if db.execute(
                    "SELECT 1 FROM git WHERE scope = ? AND repo = ? AND sha = ?", (*place, one.sha)
                ).fetchone():
                    continue
                reverted, of, back = self._reverted(scope, repo, one)
                mine = attempt if one.reverts is None and self._within(attempt, one.at) else None
                db.execute(
                    "INSERT OR IGNORE INTO git VALUES (?, ?, ?, ?, ?)", (scope, repo, one.sha, mine, one.reverts)
                )
                if mine:
                    db.execute("UPDATE attempt SET due = 0 WHERE id = ?", (mine,))
                if reverted is not None:
                    kind, reward = ("reapplied", None) if back else ("reverted", False)
                    detail = {"commit": one.sha, "of": of}
                    said = Evidence(0, None, kind, "env", who, reward, "", detail, now)
                    self.add(scope, {"attempt": reverted}, said, f"git:{repo}:{one.sha}:{kind}")
                    touched.append(reverted)
        return touched

    def look_again(self, attempt: str, at: float | None) -> None:
        """When ``due`` names it next without new evidence; None: the memory says what the verdict says."""
        with self._writing() as db:
            db.execute("UPDATE attempt SET due = ? WHERE id = ?", (at, int(attempt[1:])))

    # -------------------------------------------------------------------------------------------------------- reading
    def of(self, scope: str, id: str, now: float) -> Attempt:
        """One attempt.

        Raises:
            BadInput: there is none of that id in the scope.
        """
        number = self._number(scope, id)
        if number is None:
            raise BadInput("unknown attempt", got=id, expected="an id, e.g. a3", code="unknown_attempt")
        return self._attempts("id = ?", (number,), 1, now)[0]

    def of_receipt(self, scope: str, receipt: str, now: float) -> Attempt | None:
        """The attempt of a receipt (``r7``), if it has one."""
        number = self._find(scope, {"receipt": receipt}, now)
        return None if number is None else self._attempts("id = ?", (number,), 1, now)[0]

    def newest(self, scope: str, now: float, limit: int = 50, before: str | None = None) -> list[Attempt]:
        """Attempts, newest first; those before ``before``."""
        last = int(before[1:]) if before else 1 << 62
        return self._attempts("scope = ? AND id < ?", (scope, last), limit, now)

    def due(self, now: float, limit: int = 200) -> list[tuple[str, str]]:
        """Scope and id of attempts whose verdict the memory may not know yet."""
        with self._lock:
            rows = self._db.execute("SELECT scope, id FROM attempt WHERE due <= ? ORDER BY due LIMIT ?", (now, limit))
            return [(scope, f"a{id_}") for scope, id_ in rows]

    # ---------------------------------------------------------------------------------------------------------- within
    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            nested = self._db.in_transaction
            if not nested:
                self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                if not nested and self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            if not nested:
                self._db.execute("COMMIT")

    def _number(self, scope: str, id: str) -> int | None:
        if not (id[:1] == "a" and id[1:].isascii() and id[1:].isdigit() and len(id) < 19):
            return None
        row = self._one("SELECT id FROM attempt WHERE scope = ? AND id = ?", scope, int(id[1:]))
        return row[0] if row else None

    def _one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        with self._lock:
            return self._db.execute(sql, values).fetchone()

    def _find(self, scope: str, about: Mapping[str, str], now: float) -> int | None:
        """The number of the attempt that is meant, if there is one by now."""
        ((how, what),) = about.items()
        newest = "SELECT id FROM attempt WHERE scope = ? AND {} ORDER BY last DESC, id DESC LIMIT 1"
        row = None
        if how == "attempt":
            return self._number(scope, what)
        if how == "receipt":
            row = self._one("SELECT attempt FROM receipt WHERE scope = ? AND receipt = ?", scope, what)
        elif how == "session":
            row = self._one(newest.format("session = ?"), scope, what)
        elif how == "repo":  # an attempt that did not say where it works may work here
            row = self._one(newest.format("(repo = ? OR repo = '') AND last >= ?"), scope, what, now - NEAR_S)
        elif how == "commit":
            row = self._one("SELECT attempt FROM git WHERE scope = ? AND sha = ? AND attempt IS NOT NULL", scope, what)
        return row[0] if row else None

    def _within(self, attempt: int | None, at: float) -> bool:
        """Whether a commit of that time can be of the attempt; git counts whole seconds."""
        row = self._one("SELECT began, last FROM attempt WHERE id = ?", attempt)
        return row is not None and row[0] - 1.0 <= at <= row[1] + _LINKED_S

    def _reverted(self, scope: str, repo: str, one: Commit) -> tuple[str | None, str, bool]:
        """Whose commit is taken back by this one, which, and whether it is brought back: a revert of a revert."""
        back, sha = True, one.reverts
        while sha is not None:
            back, of = not back, sha
            row = self._one(
                "SELECT attempt, reverts FROM git WHERE scope = ? AND repo = ? AND sha = ?", scope, repo, sha
            )
            if row and row[0] is not None:
                return f"a{row[0]}", of, back
            sha = row[1] if row else None
        return None, "", False

    def _attempts(self, where: str, values: Sequence[object], limit: int, now: float) -> list[Attempt]:
        with self._lock:
            rows = self._db.execute(
                f"SELECT id, name, session, repo, began, last, scope FROM attempt WHERE {where} "
                "ORDER BY id DESC LIMIT ?",
                (*values, limit),
            ).fetchall()
            return [self._whole(row, now) for row in rows]

    def _whole(self, row: Sequence[Any], now: float) -> Attempt:
        id, name, session, repo, began, last, scope = row

        def column(sql: str) -> tuple[str, ...]:
            return tuple(one for (one,) in self._db.execute(sql, (id,)))

        own = self._evidence(
            "attempt = ? OR (attempt IS NULL AND sha IN (SELECT sha FROM git WHERE attempt = ?)) ORDER BY id", id, id
        )
        # what a test run has to be compared with: how the tests of the repository were before the first run in here
        first = next((one.id for one in own if one.kind in RUNS), None)
        before = list[Evidence]()
        if repo and first is not None:
            before = self._evidence(
                f"scope = ? AND repo = ? AND kind IN {tuple(RUNS)} AND id < ? AND attempt IS NOT ? "
                "ORDER BY id DESC LIMIT ?",
                *(scope, repo, first, id, _BEFORE),
            )
        receipts = column("SELECT receipt FROM receipt WHERE attempt = ? ORDER BY length(receipt), receipt")
        commits = column("SELECT sha FROM git WHERE attempt = ? ORDER BY rowid")
        verdict = resolve(own, before, last, now)
        return Attempt(f"a{id}", name, session, repo, began, last, receipts, commits, tuple(own), verdict)

    def _evidence(self, where: str, *values: object) -> list[Evidence]:
        return [_evidence(row) for row in self._db.execute(f"SELECT {_EVIDENCE} FROM evidence WHERE {where}", values)]


def attempts_of(tokens: Path) -> Path:
    """The file of the attempts of a store: beside that of its tokens (``agent.db.attempts``)."""
    return tokens.with_suffix(".attempts")


def _evidence(row: Sequence[Any]) -> Evidence:
    id_, attempt, kind, source, who, reward, run, detail, at = row
    about = None if attempt is None else f"a{attempt}"
    return Evidence(id_, about, kind, source, who, json.loads(reward), run, json.loads(detail), at)
