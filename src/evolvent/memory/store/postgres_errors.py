"""What PostgreSQL says, in words that say what to do."""

from __future__ import annotations

import psycopg
import psycopg_pool

from evolvent.core.errors import StoreError
from evolvent.memory.store.engine import BUSY_TIMEOUT_S, GONE

# SQLSTATE, or the first letters of its class: (code, what, what to do)
_STATES = {
    "28": (
        "refused",
        "the server refused the login",
        "check user and password in the URL, and the server's pg_hba.conf",
    ),
    "3D": ("refused", "there is no such database", "create it (createdb), or name another in the URL"),
    "53100": (
        "disk_full",
        "the server's disk is full",
        "make room; the transaction was undone, what was acknowledged is intact",
    ),
    "53300": (
        "unreachable",
        "the server has no connection left",
        "raise max_connections, or close memories that are not used",
    ),
    "55P03": (
        "locked",
        "another process kept the memory locked",
        "look for a process that holds a long transaction() open",
    ),
    "42501": (
        "refused",
        "the server does not allow that",
        "let an administrator run CREATE EXTENSION vector, and grant CREATE",
    ),
    "25006": ("read_only", "the memory cannot be written", "connect to the primary server, not to a read-only replica"),
    "57014": ("failed", "the server stopped the statement", "raise its statement_timeout"),
    "57P": ("unreachable", "the server stopped", "wait until it is up again; what was acknowledged is intact"),
    "XX": ("damaged", "the memory is damaged", "restore a backup of the database"),
}
_LOST = "the connection was lost while committing"


def explained(error: Exception, doing: str, where: str) -> StoreError:
    """The error to raise instead of one of psycopg's."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, psycopg_pool.PoolClosed):
        return StoreError("the memory is closed", got=text, where=where, code="closed", do="open it again: Memory(url)")
    if isinstance(error, psycopg_pool.PoolTimeout):
        do = "check that the server is up; or fewer threads at once"
        return StoreError(
            "no connection to the server", got=f"{text} ({BUSY_TIMEOUT_S:g} s)", where=where, do=do, code="unreachable"
        )
    state = getattr(error, "sqlstate", None) or ""
    # an error while connecting has no state
    if not state and ("authentication" in text or "pg_hba.conf" in text or 'FATAL:  role "' in text):
        state = "28000"
    elif not state and 'FATAL:  database "' in text:
        state = "3D000"
    if state in ("0A000", "58P01") and 'extension "vector"' in text:
        do = "install the extension pgvector for this PostgreSQL"
        return StoreError("the server has no pgvector", got=text, where=where, do=do, code="unfit_database")
    for length in (5, 3, 2):
        if state[:length] in _STATES and len(state) == 5:
            code, what, do = _STATES[state[:length]]
            return StoreError(what, got=text, where=where, do=do, code=code)
    if state == "23503":
        return StoreError(GONE, got=text, where=where, code="unknown_scope", do="open the memory again")
    if isinstance(error, psycopg.OperationalError) and (not state or state.startswith("08")):
        if doing == "committing":
            do = "whether it was stored is not known: repeat the call (a receipt settles once, equal memories merge)"
            return StoreError(_LOST, got=text, where=where, do=do, code="connection_lost")
        return StoreError(
            "the server cannot be reached", got=text, where=where, do="check host, port and network", code="unreachable"
        )
    return StoreError(f"{doing} the memory failed", got=text, where=where, code="failed")
