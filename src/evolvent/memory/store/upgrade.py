"""From schema 3 to 6 to 7, in place: what nothing used goes, and what the newer verbs write gets its place.

An older store is brought here when it is opened, in one transaction: a process that dies in the middle leaves it as it
was. No value, vector or text changes. An older export is read row by row in the same way.
"""

from __future__ import annotations

from typing import Any

from evolvent.memory.store import postgres_schema, schema

OLDER = (3, 4, 5, 6)  # that can be opened

# what a column holds that is not simply the old column of that name
_VOID = {"void": {"outcome_from": "0", "outcome_to": "0"}}
_MEMORY = {"memory": {"text_hash": "NULL"}}
_FROM_3 = {
    "memory": {
        "status": "CASE status WHEN 'candidate' THEN 'archived' ELSE status END",
        "meta": "NULL",
        "expires_at": "NULL",
        "text_hash": "NULL",
    },
    "provenance": {"relation": "CASE WHEN weight = 0 THEN 'key' ELSE relation END"},
    "recall_item": {},
    "outcome": {"weight": "1.0", "place": "NULL", "replaced_by": "NULL", "parts": "NULL"},
}
_FROM_4 = {"outcome": {"parts": "NULL"}}
_CHANGED: dict[int, dict[str, dict[str, str]]] = {
    3: _FROM_3 | _VOID,
    4: _FROM_4 | _VOID | _MEMORY,
    5: _VOID | _MEMORY,
    6: _MEMORY,
}

# the index of schema 4 and before had the memory alone
_ITEMS = (
    "DROP INDEX recall_item_memory",
    *(statement for statement in schema.tables() if statement.startswith("CREATE INDEX recall_item_memory")),
)

_EXPOSURE = tuple(s for s in schema.tables() if s.startswith("CREATE TABLE exposure(") or " ON exposure(" in s)

_EXTERNAL = tuple(s for s in schema.tables() if s.startswith("CREATE INDEX memory_external"))

GONE = ("key_word", "word_count")  # tables of schema 3 that nothing reads any more: they quoted keys

_POSTGRES_FROM_3 = (
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
)


_POSTGRES_FROM_5 = (
    *map(postgres_schema.in_its_words, _EXPOSURE),
    *(f"ALTER TABLE void ADD COLUMN {name} BIGINT NOT NULL DEFAULT 0" for name in _VOID["void"]),
    *(f"ALTER TABLE void ALTER COLUMN {name} DROP DEFAULT" for name in _VOID["void"]),
)

_POSTGRES_FROM_6 = (
    """ALTER TABLE memory DROP CONSTRAINT memory_status_check, DROP CONSTRAINT memory_check,
  ADD COLUMN text_hash TEXT COLLATE "C", ADD CONSTRAINT memory_status_check
  CHECK(status IN ('active', 'archived', 'quarantined', 'superseded', 'erased', 'external')),
  ADD CONSTRAINT memory_check CHECK(status = 'erased' OR emb_id IS NOT NULL OR text_hash IS NOT NULL)""",
    *_EXTERNAL,
    *(
        statement
        for name, event, table, why in schema.TRIGGERS
        if name == "memory_content_fixed"
        for statement in (
            f"DROP TRIGGER {name} ON {table}",
            f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION refuse('{why}')",
        )
    ),
)


def postgres(version: int) -> list[str]:
    """The statements for a schema of a server."""
    to_5 = (
        *postgres_schema.gapless("memory", "seq"),
        'ALTER TABLE outcome ADD COLUMN parts TEXT COLLATE "C"',
        *_ITEMS,
    )
    return [
        *(_POSTGRES_FROM_3 if version == 3 else ()),
        *(to_5 if version < 5 else ()),
        *(_POSTGRES_FROM_5 if version < 6 else ()),
        *_POSTGRES_FROM_6,
        f"UPDATE evolvent_store SET version = {schema.VERSION}",
    ]


def sqlite(version: int) -> list[str]:
    """The statements for a SQLite file, foreign keys off; its triggers on these tables are gone after them.

    SQLite cannot change a constraint: the tables are written anew.
    """
    found = [f"DROP TABLE {table}" for table in GONE] if version == 3 else []
    columns = {table.name: table.columns for table in schema.layout()}
    statements = schema.tables()
    for table, made in _CHANGED[version].items():
        create = next(s for s in statements if s.startswith(f"CREATE TABLE {table}("))
        cells = ", ".join(made.get(name, name) for name in columns[table])
        found += [
            create.replace(f"CREATE TABLE {table}(", f"CREATE TABLE new_{table}(", 1),
            f"INSERT INTO new_{table}({', '.join(columns[table])}) SELECT {cells} FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE new_{table} RENAME TO {table}",
            *(s for s in statements if "INDEX" in s and f" ON {table}(" in s),
        ]
    return [*found, *(_ITEMS if version == 4 else ()), *(_EXPOSURE if version < 6 else ())]


def row(version: int, table: str, cells: dict[str, Any]) -> dict[str, Any]:
    """A row of an older export as one of this schema."""
    if table == "void" and version < 6:
        return cells | {"outcome_from": 0, "outcome_to": 0}
    if table == "memory" and version > 3:
        return cells | {"text_hash": None}
    if version >= 5:
        return cells
    if table == "outcome":
        return cells | ({"weight": 1.0, "place": None, "replaced_by": None} if version == 3 else {}) | {"parts": None}
    if version != 3:
        return cells
    if table == "memory":
        status = "archived" if cells["status"] == "candidate" else cells["status"]
        return {**cells, "status": status, "meta": None, "expires_at": None, "text_hash": None}
    if table == "provenance":
        relation = "key" if cells["weight"] == 0 else cells["relation"]
        return {**{name: cell for name, cell in cells.items() if name != "weight"}, "relation": relation}
    if table == "recall_item":
        return {name: cell for name, cell in cells.items() if name != "in_pool"}
    return cells
