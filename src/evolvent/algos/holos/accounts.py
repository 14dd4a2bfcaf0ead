"""Accounts of a market: a double-entry ledger in whole units, which a kill at any moment leaves balanced.

A posting changes accounts by amounts that sum to zero, in one transaction of SQLite, under an id. A second posting of
that id changes nothing: what arrives twice is paid once. Money comes from ``MINT``, which alone may be negative.

    reserve    payer -> escrow of the job
    settle     escrow -> worker: price times quality; planner, platform: their thousandths of that; payer: the rest
    release    escrow -> payer; a job is settled or released, whichever comes first
    forfeit    stake of an agent -> whom it failed
    share      payer -> agents, by what each was worth
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from evolvent.core.errors import BadInput, StoreError

MINT = "mint"
PLANNER, PLATFORM = "planner", "platform"
SHARES = {PLANNER: 50, PLATFORM: 20}
"""Thousandths of what a worker earns, paid on top of it."""
_TABLES = """
CREATE TABLE IF NOT EXISTS account(
    name TEXT PRIMARY KEY, balance INTEGER NOT NULL CHECK(balance >= 0 OR name = 'mint')) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS posting(id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entry(
    posting TEXT NOT NULL, account TEXT NOT NULL, amount INTEGER NOT NULL, PRIMARY KEY(posting, account)) WITHOUT ROWID;
"""
_WHERE = "holos.accounts"


def cost(price: int) -> int:
    """What a payer must reserve for a job of that price."""
    return price + sum(price * share // 1000 for share in SHARES.values())


def split(amount: int, weights: Mapping[str, float]) -> dict[str, int]:
    """``amount`` in whole units by weight, those below 0 counted as 0; what rounding leaves goes to the largest rests.

    All of it is split, unless no weight is above 0: then none is.
    """
    positive = {name: max(weight, 0.0) for name, weight in weights.items()}
    total = sum(positive.values())
    if total <= 0.0:
        return dict.fromkeys(weights, 0)
    exact = {name: amount * weight / total for name, weight in positive.items()}
    out = {name: math.floor(value) for name, value in exact.items()}
    most = sorted(exact, key=lambda name: out[name] - exact[name])
    for name in most[: amount - sum(out.values())]:
        out[name] += 1
    return out


class Accounts:
    """The ledger in a file; several processes may have it open.

    A kill of the process loses nothing that was posted; a power failure may lose the last postings, each as a whole.
    """

    def __init__(self, path: str | Path) -> None:
        self._db = sqlite3.connect(path, timeout=30.0, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(_TABLES)

    def post(self, name: str, changes: Mapping[str, int]) -> bool:
        """Post changes by account under the id ``name``; False where that id is known, and nothing was changed.

        Raises:
            BadInput: amounts that are not whole or do not sum to zero; an account that would fall below zero.
        """
        if any(type(amount) is not int for amount in changes.values()) or sum(changes.values()):
            raise BadInput("whole amounts that sum to zero", got=dict(changes), where=f"{_WHERE}: {name}")
        self._db.execute("BEGIN IMMEDIATE")
        try:
            new = self._db.execute("INSERT OR IGNORE INTO posting VALUES(?)", (name,)).rowcount == 1
            for account, amount in changes.items() if new else ():
                self._db.execute("INSERT INTO entry VALUES(?, ?, ?)", (name, account, amount))
                self._db.execute("INSERT OR IGNORE INTO account VALUES(?, 0)", (account,))
                self._db.execute("UPDATE account SET balance = balance + ? WHERE name = ?", (amount, account))
            self._db.execute("COMMIT")
        except sqlite3.IntegrityError as error:
            self._db.execute("ROLLBACK")
            raise BadInput("there is not that much", got=dict(changes), where=f"{_WHERE}: {name}") from error
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        return new

    def balance(self, account: str) -> int:
        """What an account has; 0 where there is none of that name."""
        row = self._db.execute("SELECT balance FROM account WHERE name = ?", (account,)).fetchone()
        return 0 if row is None else int(row[0])

    def entries(self, name: str) -> dict[str, int]:
        """The changes of a posting by account; empty where there is none of that id."""
        return dict(self._db.execute("SELECT account, amount FROM entry WHERE posting = ?", (name,)).fetchall())

    def mint(self, account: str, amount: int) -> bool:
        """Endow a new account, once."""
        return self.post(f"mint:{account}", {MINT: -amount, account: amount})

    def reserve(self, job: str, payer: str, amount: int) -> bool:
        """Move what a job may cost from its payer into escrow."""
        return self.post(f"reserve:{job}", {payer: -amount, f"escrow:{job}": amount})

    def settle(self, job: str, worker: str, price: int, quality: float) -> bool:
        """Pay a job by its quality, 0 to 1, and close it; False where it was closed before.

        Raises:
            BadInput: nothing is reserved for it, or less than it costs.
        """
        earned = math.floor(price * min(max(quality, 0.0), 1.0))
        return self._close(job, {worker: earned, **{name: earned * share // 1000 for name, share in SHARES.items()}})

    def release(self, job: str) -> bool:
        """Give the payer back what is reserved, and close the job; False where it was closed before."""
        return self._close(job, {})

    def _close(self, job: str, paid: dict[str, int]) -> bool:
        reserved = self.entries(f"reserve:{job}")
        payer = next((account for account, amount in reserved.items() if amount < 0), None)
        if payer is None:
            raise BadInput("nothing is reserved for this job", got=job, where=_WHERE)
        held = reserved[f"escrow:{job}"]
        if sum(paid.values()) > held:
            raise BadInput("a job costs more than is reserved for it", got=paid, expected=held, where=_WHERE)
        changes = {f"escrow:{job}": -held, **paid}
        changes[payer] = changes.get(payer, 0) + held - sum(paid.values())
        return self.post(f"close:{job}", changes)

    def forfeit(self, name: str, agent: str, to: str, amount: int) -> bool:
        """Take from an agent's stake, as far as there is one."""
        taken = min(amount, self.balance(f"stake:{agent}"))
        return self.post(f"forfeit:{name}", {f"stake:{agent}": -taken, to: taken})

    def share(self, name: str, payer: str, amount: int, worth: Mapping[str, float]) -> dict[str, int]:
        """Split an amount by worth, and post it; what nobody is worth stays with the payer."""
        parts = split(amount, worth)
        self.post(f"share:{name}", {payer: -sum(parts.values()), **parts})
        return parts

    def audit(self) -> dict[str, int]:
        """What was minted, and what is in escrow and staked; a ledger that does not balance is refused.

        Raises:
            StoreError: entries and balances do not agree.
        """
        wrong = self._db.execute(
            "SELECT count(*) FROM account WHERE balance != "
            "(SELECT coalesce(sum(amount), 0) FROM entry WHERE account = name)"
        ).fetchone()[0]
        uneven = self._db.execute("SELECT count(*) FROM (SELECT 1 FROM entry GROUP BY posting HAVING sum(amount))")
        total = self._db.execute("SELECT coalesce(sum(balance), 0) FROM account").fetchone()[0]
        if wrong or total or uneven.fetchone()[0]:
            raise StoreError("the accounts do not balance", got=f"{wrong} accounts, in all {total}", where=_WHERE)
        held = "SELECT coalesce(sum(balance), 0) FROM account WHERE name LIKE ?"
        found = {name: int(self._db.execute(held, (f"{name}:%",)).fetchone()[0]) for name in ("escrow", "stake")}
        return {"minted": -self.balance(MINT), **found}

    def close(self) -> None:
        """Close the file."""
        self._db.close()
