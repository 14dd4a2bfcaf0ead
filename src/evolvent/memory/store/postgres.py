"""One schema of a PostgreSQL database with pgvector: the same tables, one writer at a time, search in the server."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
import psycopg_pool

from evolvent.core.errors import BadInput, StoreError
from evolvent.memory.store import postgres_schema, schema, upgrade
from evolvent.memory.store.blocks import Translated
from evolvent.memory.store.engine import BUSY_TIMEOUT_S, NoMemory, OneProcess, Search, Store, Sync
from evolvent.memory.store.pgvector import LARGE, PgVector, register
from evolvent.memory.store.postgres_blocks import ERRORS, Session, Snapshot, Transaction
from evolvent.memory.store.postgres_errors import explained
from evolvent.memory.store.postgres_link import Link, portable
from evolvent.memory.store.schema import Table

_log = logging.getLogger(__name__)
_COPIED = {"TEXT": "text", "INTEGER": "int8", "REAL": "float8", "BOOLEAN": "bool"}
_AT = "postgresql://…?…"
_OWN_OPTIONS = {"schema": "evolvent", "index": "exact", "connections": "4"}
_CONNECT = {
    "connect_timeout": "10",
    "application_name": "evolvent",
    "client_encoding": "utf8",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}


class Postgres(Store):
    """A pool of connections to one schema. Threads read at the same time and write one after the other.

    Args:
        url: ``postgresql://user:password@host:port/database``; beside libpq's own options it may say ``schema=NAME``
            (default "evolvent", made when new), ``index=hnsw`` (approximate search of large stores, see pgvector) and
            ``connections=N``: how many threads may be inside at once, others wait (default 4; writers take turns).
        sync: "full" commits to the server's disk; "normal" may lose the last commits when the server crashes.
        create: see ``opening.open_store``.

    Raises:
        BadInput: the URL names an unknown index or a schema that would have to be quoted.
        StoreError: the server cannot be reached, refuses, has no pgvector, or the schema is no memory of this version.
    """

    copies = ("memory_vector",)

    def __init__(self, url: str, *, sync: Sync = "full", create: bool = True) -> None:
        self.path = url
        self.conninfo, own = split_url(url)
        self.schema, self.hnsw = own["schema"], own["index"] == "hnsw"
        self.where = f"{_without_password(self.conninfo)}, schema {self.schema!r}"
        self._sync = sync
        self.write_lock = f"pg_advisory_xact_lock({schema.APPLICATION_ID}, hashtext('{self.schema}'))"
        self.links = threading.local()
        self.process = OneProcess(self.where)
        self._vector_oids: tuple[int, str] = (0, "public")
        self._pool: psycopg_pool.ConnectionPool | None = None
        with self.translated("opening"):
            # connected by hand first: a pool would keep trying, and tell the reason to the log only
            with psycopg.connect(self.conninfo, autocommit=True) as conn:
                self._vector_oids = self._prepare(conn, create)
            self._pool = psycopg_pool.ConnectionPool(
                self.conninfo,
                min_size=0,
                max_size=int(own["connections"]),
                timeout=BUSY_TIMEOUT_S,
                max_idle=120.0,
                reconnect_timeout=BUSY_TIMEOUT_S,
                configure=self._configure,
                kwargs={"autocommit": True},
                open=True,
                num_workers=1,
            )

    # ------------------------------------------------------------------------------------------------ opening
    def _prepare(self, conn: psycopg.Connection, create: bool) -> tuple[int, str]:
        """Make the schema or check it; returns pgvector's type and where it lives."""
        encoding = conn.execute("SHOW server_encoding").fetchone()
        if encoding != ("UTF8",):
            raise StoreError(
                "the database does not hold Unicode",
                got=encoding,
                expected="UTF8",
                where=self.where,
                code="unfit_database",
            )
        self._settings(conn)
        with conn.transaction():
            conn.execute("SELECT pg_advisory_xact_lock(%s, 0)", (schema.APPLICATION_ID,))  # one opens at a time
            if _extension(conn) is None:
                conn.execute("CREATE EXTENSION IF NOT EXISTS vector")
            found = _extension(conn)
            assert found is not None
            kind = conn.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{self.schema}.evolvent_store",)).fetchone()
            tables = conn.execute(
                "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = to_regnamespace(%s)",
                (self.schema,),
            ).fetchone()
            if kind == (False,) and tables != (0,):
                raise StoreError(
                    "this schema is not an Evolvent memory",
                    got=f"{tables[0] if tables else 0} other tables",
                    where=self.where,
                    do="name another schema in the URL: ?schema=NAME (it is made when it is new)",
                    code="not_a_memory",
                )
            if kind == (False,) and not create:
                raise NoMemory("there is no memory", got=self.where, expected="a schema that holds one")
            if kind == (False,):
                conn.execute(f"CREATE SCHEMA IF NOT EXISTS {self.schema}".encode())
                conn.execute(f"SET LOCAL search_path TO {self.schema}, {found[1]}".encode())
                for statement in postgres_schema.statements():
                    conn.execute(statement.encode())
            ask = f"SELECT version FROM {self.schema}.evolvent_store".encode()
            old = conn.execute(ask).fetchone()
            if old and old[0] in upgrade.OLDER:
                conn.execute(f"SET LOCAL search_path TO {self.schema}, {found[1]}".encode())
                for statement in upgrade.postgres(old[0]):
                    conn.execute(statement.encode())
            version = conn.execute(ask).fetchone()
            schema.check_version(version[0] if version else 0, self.where)
        return found

    def _settings(self, conn: psycopg.Connection) -> None:
        settings = {
            "lock_timeout": f"{BUSY_TIMEOUT_S:.0f}s",
            "synchronous_commit": "on" if self._sync == "full" else "off",
            "jit": "off",
            # a client that is gone must not keep the write lock: noticed while waiting, and while computing
            "tcp_keepalives_idle": "60",
            "tcp_keepalives_interval": "10",
            "tcp_keepalives_count": "3",
        }
        if conn.info.server_version >= 140000:
            settings["client_connection_check_interval"] = "5s"
        calls = ", ".join("set_config(%s, %s, false)" for _ in settings)
        conn.execute(f"SELECT {calls}".encode(), [word for pair in settings.items() for word in pair])

    def _configure(self, conn: psycopg.Connection) -> None:
        oid, place = self._vector_oids
        self._settings(conn)
        conn.execute(f"SET search_path TO {self.schema}, {place}".encode())
        register(conn, oid)
        conn.prepared_max = 400

    # ------------------------------------------------------------------------------------------------ reading
    def session(self) -> Session:
        """One connection of the pool for this thread while the block runs."""
        return Session(self)

    def pool(self) -> psycopg_pool.ConnectionPool:
        """Where connections come from."""
        assert self._pool is not None
        return self._pool

    def snapshot(self) -> Snapshot:
        """One read-only transaction, unless one is open already."""
        return Snapshot(self)

    def chunks(self, sql: str, args: Sequence[Any] = (), size: int = 2048) -> Iterator[list[tuple]]:
        """The rows of a query in pieces, of one state of the store."""
        with self.session() as link, self.snapshot(), self.translated("reading"), link.stream() as cursor:
            cursor.execute(portable(sql), args, binary=True)
            while piece := cursor.fetchmany(size):
                yield piece

    def load(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """Insert whole rows, by COPY."""
        kinds = [self._vector_oids[0] if kind == "BLOB" else _COPIED[kind] for kind in table.columns.values()]
        command = f"COPY {table.name}({', '.join(table.columns)}) FROM STDIN (FORMAT BINARY)"
        with self.session() as link, self.translated("writing"), link.copy(command) as copy:
            copy.set_types(kinds)
            for row in rows:
                copy.write_row(row)

    def index(self, scope_id: int, search: Search = "auto") -> PgVector:
        """Search in the server; what its address says about the index goes for "auto"."""
        if search == "approximate":
            return PgVector(self, scope_id, graph_from=1)
        return PgVector(self, scope_id, graph_from=LARGE if self.hnsw and search == "auto" else None)

    # ------------------------------------------------------------------------------------------------ checking
    def damage(self) -> list[tuple[str, str]]:
        """Vectors for searching that are not those of their memories; the server checks its own pages."""
        rows = self.rows(
            "SELECT m.seq FROM memory m JOIN embedding e USING(emb_id) LEFT JOIN memory_vector v USING(seq) WHERE "
            "(v.scope_id, v.kind, v.active) IS DISTINCT FROM (m.scope_id, m.kind, m.status = 'active') "
            "OR v.vec <> e.vec ORDER BY m.seq LIMIT 100"
        )
        return [(f"vector for searching of m{seq}", "it differs from the memory") for (seq,) in rows]

    def sizes(self) -> dict[str, int]:
        """With indexes and long texts."""
        return dict(
            self.rows(
                "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r' "
                "AND relnamespace = to_regnamespace(?) ORDER BY 2 DESC",
                (self.schema,),
            )
        )

    def shrink(self, *, whole: bool = False) -> None:
        """Let the room be used again (VACUUM); with ``whole`` the tables are written anew, and others wait for that."""
        if not self.writing():
            with self.session() as db, self.translated("compacting"):
                if whole:
                    _wait_for_readers(db, self.where)
                for name in [*(table.name for table in schema.layout()), *(self.copies if whole else ())]:
                    db.command(f"VACUUM ({'FULL, ' if whole else ''}ANALYZE) {name}")
                if whole:
                    _retire_log(db, self.where)

    # ------------------------------------------------------------------------------------------------ writing
    def transaction(self) -> Transaction:
        """``write()`` around code that is not ours: its own errors pass through as they are."""
        return Transaction(self, ours=False)

    def write(self) -> Transaction:
        """One transaction; its lock is asked for together with its first statement."""
        return Transaction(self, ours=True)

    @contextmanager
    def unguarded(self) -> Iterator[None]:
        """The triggers look the other way until the transaction ends."""
        with self.session() as db, self.translated("writing"):
            db.execute("SET LOCAL evolvent.unguarded = 'on'")
            yield
            db.execute("SET LOCAL evolvent.unguarded = 'off'")

    def writing(self) -> bool:
        """Whether this thread is inside a transaction."""
        link: Link | None = getattr(self.links, "link", None)
        return link is not None and bool(link.blocks)

    def close(self) -> None:
        """Close all connections. Closing twice is allowed; in a child of a fork they are the parent's."""
        if self._pool is not None and self.process.here:
            self._pool.close()

    def translated(self, doing: str) -> Translated:
        """Turns psycopg's errors in the block into ``StoreError``."""
        return Translated(ERRORS, explained, doing, self.where)


_OLDER_READERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND age(backend_xmin) > age(CAST(? AS xid))"
)


def _wait_for_readers(db: Link, where: str) -> None:
    """Rows that an older snapshot still sees are kept when a table is written anew."""
    (now,) = db.execute("SELECT CAST(txid_current() % 4294967296 AS text)").fetchone()
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while (n := db.execute(_OLDER_READERS, (now,)).fetchone()[0]) > 0:
        if time.monotonic() >= deadline:
            raise StoreError(
                "what was erased is gone from the memory, but older transactions keep its rows",
                got=n,
                where=where,
                code="log_in_use",
                do="end transactions of this database that are open for long, and erase once more",
            )
        time.sleep(0.02)


# may this login end a segment of the log, and have it removed? (before version 15 superusers alone)
_MAY_RETIRE = (
    "SELECT has_function_privilege('pg_switch_wal()', 'EXECUTE') AND (SELECT rolsuper FROM pg_roles WHERE rolname = "
    "current_user) OR EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'pg_checkpoint' AND pg_has_role(oid, 'USAGE')) "
    "AND has_function_privilege('pg_switch_wal()', 'EXECUTE'), current_setting('wal_recycle', true)"
)


def _retire_log(db: Link, where: str) -> None:
    """The server's log holds what was written: end its segment, and let the server remove it, as far as it does."""
    may, recycled = db.execute(_MAY_RETIRE).fetchone()
    for _ in range(2 if may else 0):  # the segment before a checkpoint's own is kept until the next
        db.execute("SELECT pg_switch_wal()").fetchone()
        db.command("CHECKPOINT")
    if not may or recycled != "off":
        _log.warning(
            "what was erased is in no table of %s any more; its write-ahead log holds it until the server writes over "
            "old segments: at once with wal_recycle = off, and a login that may checkpoint",
            where,
        )


def split_url(url: str) -> tuple[str, dict[str, str]]:
    """``(what libpq connects with, our own options)`` of a URL."""
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    own = {**_OWN_OPTIONS, **{name: value for name, value in given if name in _OWN_OPTIONS}}
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,49}", own["schema"]) or own["schema"].startswith("pg_"):
        expected = "lower-case letters, digits and _, at most 50, no leading digit or pg_"
        raise BadInput(
            "not a name for a schema", got=own["schema"], expected=expected, where=_AT, code="unknown_option"
        )
    if own["index"] not in ("exact", "hnsw"):
        raise BadInput("unknown index", got=own["index"], expected="exact, hnsw", where=_AT, code="unknown_option")
    if not re.fullmatch(r"[1-9][0-9]{0,2}", own["connections"]):
        raise BadInput(
            "not a number of connections", got=own["connections"], expected="1 to 999", where=_AT, code="unknown_option"
        )
    libpq = _CONNECT | {name: value for name, value in given if name not in _OWN_OPTIONS}
    return urlunsplit(parts._replace(query=urlencode(libpq, quote_via=quote))), own


def _without_password(conninfo: str) -> str:
    parts = urlsplit(conninfo)
    host = dict(parse_qsl(parts.query)).get("host", parts.netloc.rpartition("@")[2])
    return f"postgresql://{host}{parts.path}"


def _extension(conn: psycopg.Connection) -> tuple[int, str] | None:
    return conn.execute(
        "SELECT t.oid::bigint, quote_ident(n.nspname) FROM pg_extension e "
        "JOIN pg_namespace n ON n.oid = e.extnamespace "
        "JOIN pg_type t ON t.typname = 'vector' AND t.typnamespace = n.oid WHERE e.extname = 'vector'"
    ).fetchone()
