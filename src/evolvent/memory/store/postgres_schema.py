"""The tables on PostgreSQL: those of ``schema`` word by word, and what the vector search there is derived from."""

from __future__ import annotations

import re

from evolvent.memory.store import schema
from evolvent.memory.store.engine import newest

_WORDS = (
    (r"\) WITHOUT ROWID", ")"),
    (r" AUTOINCREMENT\b", ""),
    (r"\bINTEGER\b", "BIGINT"),
    (r"\bREAL\b", "DOUBLE PRECISION"),
    (r"\bTEXT\b", 'TEXT COLLATE "C"'),  # compared and sorted byte by byte, as SQLite does
    (r"\bBLOB\b", "vector"),
    (r"length\(vec\) = 4 \* dim", "vector_dims(vec) = dim"),
)
_NUMBERED = re.compile(r"CREATE TABLE (\w+)\(\s*(\w+) BIGINT PRIMARY KEY")

# a setting of the transaction lifts it: what a person has a right to is erased
REFUSE = """CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF current_setting('evolvent.unguarded', true) = 'on' THEN
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
  END IF;
  RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'restrict_violation'; END $$"""
# another vector of a memory (its store changed the embedder), or none any more (it was erased)
EMBEDDED = (
    """CREATE FUNCTION memory_embedded() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  DELETE FROM memory_vector WHERE seq = NEW.seq;
  INSERT INTO memory_vector SELECT NEW.seq, NEW.scope_id, NEW.kind, NEW.status = 'active', e.vec
    FROM embedding e WHERE e.emb_id = NEW.emb_id;
  RETURN NEW; END $$""",
    "CREATE TRIGGER memory_embedded AFTER UPDATE OF emb_id ON memory FOR EACH ROW EXECUTE FUNCTION memory_embedded()",
)
# A copy of the vectors of memories (those of queries stay outside), kept by triggers: nothing to join while searching.
# status_change says what became active (+1) or ceased to be (-1) since a number of memories was counted.
_SEARCH = (
    """CREATE TABLE memory_vector(
  seq BIGINT PRIMARY KEY REFERENCES memory(seq),
  scope_id BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  active BOOLEAN NOT NULL,
  vec vector NOT NULL)""",
    "ALTER TABLE memory_vector ALTER COLUMN vec SET STORAGE MAIN",  # beside its row, not in a table of its own
    "CREATE INDEX memory_vector_scope ON memory_vector(scope_id)",
    """CREATE TABLE status_change(
  id BIGINT PRIMARY KEY,
  scope_id BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  delta BIGINT NOT NULL)""",
    """CREATE FUNCTION memory_written() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO memory_vector SELECT NEW.seq, NEW.scope_id, NEW.kind, NEW.status = 'active', e.vec
    FROM embedding e WHERE e.emb_id = NEW.emb_id;
  RETURN NEW; END $$""",
    "CREATE TRIGGER memory_written AFTER INSERT ON memory FOR EACH ROW EXECUTE FUNCTION memory_written()",
    """CREATE FUNCTION memory_status() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF (OLD.status = 'active') <> (NEW.status = 'active') THEN
    UPDATE memory_vector SET active = NEW.status = 'active' WHERE seq = NEW.seq;
    INSERT INTO status_change SELECT coalesce(max(id), 0) + 1, NEW.scope_id, NEW.seq, NEW.kind,
      CASE WHEN NEW.status = 'active' THEN 1 ELSE -1 END FROM status_change;
  END IF;
  RETURN NEW; END $$""",
    "CREATE TRIGGER memory_status AFTER UPDATE OF status ON memory FOR EACH ROW EXECUTE FUNCTION memory_status()",
    *EMBEDDED,
)


def statements() -> list[str]:
    """Everything that makes an empty schema a store; run with the schema first in the search path."""
    found = []
    for statement in schema.tables():
        statement = in_its_words(statement)
        found.append(statement)
        if numbered := _NUMBERED.match(statement):
            found += gapless(*numbered.groups())
    found.append(REFUSE)
    found += [
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION refuse('{why}')"
        for name, event, table, why in schema.TRIGGERS
    ]
    found += _SEARCH
    found.append("CREATE TABLE evolvent_store(version BIGINT NOT NULL)")
    found.append(f"INSERT INTO evolvent_store VALUES ({schema.VERSION})")
    return found


def in_its_words(statement: str) -> str:
    """A statement of ``schema`` as PostgreSQL says it."""
    for pattern, other in _WORDS:
        statement = re.sub(pattern, other, statement)
    return statement


def gapless(table: str, column: str) -> list[str]:
    """Numbers as SQLite gives them: a rollback takes them back. A sequence would leave a gap, and the number of a
    receipt seeds its exploration: a run that was killed and resumed would go another way. One writer makes it safe.
    """
    return [
        f"CREATE OR REPLACE FUNCTION next_{table}() RETURNS BIGINT LANGUAGE plpgsql AS "
        f"$$ BEGIN RETURN {newest(table, column)} + 1; END $$",
        f"ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT next_{table}()",
    ]
