"""From schema 3 to 4, in place: what nothing used goes, and what the newer verbs write gets its place.

A store of schema 3 is brought here when it is opened, in one transaction: a process that dies in the middle leaves the
old store as it was. No value, vector or text changes. An export of schema 3 is read row by row in the same way.
"""

from __future__ import annotations

from typing import Any

from evolvent.memory.store import postgres_schema, schema

OLDEST = 3  # that can be opened

# what a column holds that is not simply the old column of that name
_MADE = {
    "memory": {"status": "CASE status WHEN 'candidate' THEN 'archived' ELSE status END", "meta": "NULL",
               "expires_at": "NULL"},
    "provenance": {"relation": "CASE WHEN weight = 0 THEN 'key' ELSE relation END"},
    "recall_item": {},
    "outcome": {"weight": "1.0", "place": "NULL", "replaced_by": "NULL"},
}  # fmt: skip

GONE = ("key_word", "word_count")  # tables that nothing reads any more: they quoted keys

POSTGRES = (
    *(f"DROP TABLE {table}" for table in GONE),
    "ALTER TABLE memory DROP CONSTRAINT memory_status_check",
    "UPDATE memory SET status = 'archived' WHERE status = 'candidate'",
    """ALTER TABLE memory ALTER COLUMN emb_id DROP NOT NULL, ADD COLUMN meta TEXT COLLATE "C",
  ADD COLUMN expires_at DOUBLE PRECISION, ADD CONSTRAINT memory_status_check
  CHECK(status IN ('active', 'archived', 'quarantined', 'superseded', 'erased')),
  ADD CHECK(status = 'erased' OR emb_id IS NOT NULL)""",
    "ALTER TABLE provenance DROP CONSTRAINT provenance_relation_check",
    "UPDATE provenance SET relation = 'key' WHERE weight = 0",
    """ALTER TABLE provenance DROP COLUMN weight, ADD CONSTRAINT provenance_relation_check
  CHECK(relation IN ('retrieved', 'merged', 'revised', 'updated', 'key'))""",
    "ALTER TABLE recall_item DROP COLUMN in_pool",
    """ALTER TABLE outcome DROP CONSTRAINT outcome_scope_id_objective_idempotency_key_valid_key,
  ADD COLUMN weight DOUBLE PRECISION NOT NULL DEFAULT 1.0 CHECK(weight > 0 AND weight <= 1),
  ADD COLUMN place BIGINT,
  ADD COLUMN replaced_by BIGINT REFERENCES outcome(outcome_id) DEFERRABLE INITIALLY DEFERRED""",
    "DROP INDEX outcome_once",
    *(
        statement
        for statement in schema.tables()
        if statement.startswith(("CREATE UNIQUE INDEX", "CREATE INDEX memory_expiry"))
    ),
    postgres_schema.REFUSE,
    *postgres_schema.EMBEDDED,
    *postgres_schema.gapless("memory", "seq"),
    f"UPDATE evolvent_store SET version = {schema.VERSION}",
)


def sqlite() -> list[str]:
    """The statements for a SQLite file, foreign keys off; its triggers on these tables are gone after them.

    SQLite cannot change a constraint: the tables are written anew.
    """
    found = [f"DROP TABLE {table}" for table in GONE]
    columns = {table.name: table.columns for table in schema.layout()}
    statements = schema.tables()
    for table, made in _MADE.items():
        create = next(s for s in statements if s.startswith(f"CREATE TABLE {table}("))
        cells = ", ".join(made.get(name, name) for name in columns[table])
        found += [
            create.replace(f"CREATE TABLE {table}(", f"CREATE TABLE new_{table}(", 1),
            f"INSERT INTO new_{table}({', '.join(columns[table])}) SELECT {cells} FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE new_{table} RENAME TO {table}",
            *(s for s in statements if "INDEX" in s and f" ON {table}(" in s),
        ]
    return found


def row(table: str, cells: dict[str, Any]) -> dict[str, Any]:
    """A row of an export of schema 3 as one of this schema."""
    if table == "memory":
        status = "archived" if cells["status"] == "candidate" else cells["status"]
        return {**cells, "status": status, "meta": None, "expires_at": None}
    if table == "provenance":
        relation = "key" if cells["weight"] == 0 else cells["relation"]
        return {**{name: cell for name, cell in cells.items() if name != "weight"}, "relation": relation}
    if table == "recall_item":
        return {name: cell for name, cell in cells.items() if name != "in_pool"}
    return {**cells, "weight": 1.0, "place": None, "replaced_by": None} if table == "outcome" else cells
