"""The tables. Texts and vectors are written once and addressed by content; numbers that learn have their own table.

What a value is can always be recomputed: ``value_event`` and ``memory.q_init`` are the truth, ``value`` and
``source_value`` are sums over them.

One text for both engines, in SQLite's words; what PostgreSQL says otherwise is replaced there word by word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evolvent.core.errors import StoreError

VERSION = 7
APPLICATION_ID = 0x45564F4C  # "EVOL" in the header of the file

TABLES = """
CREATE TABLE meta(name TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE scope(scope_id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, created_at REAL NOT NULL);

CREATE TABLE text_blob(hash TEXT PRIMARY KEY, body TEXT NOT NULL, n_chars INTEGER NOT NULL);

CREATE TABLE embedding(
  emb_id INTEGER PRIMARY KEY,
  model TEXT NOT NULL,
  text_hash TEXT NOT NULL REFERENCES text_blob(hash),
  dim INTEGER NOT NULL,
  vec BLOB NOT NULL,                           -- float32, little-endian, unit norm
  UNIQUE(model, text_hash),
  CHECK(length(vec) = 4 * dim));

CREATE TABLE recall(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,       -- "r<seq>" outside
  scope_id INTEGER NOT NULL REFERENCES scope(scope_id),
  stage TEXT NOT NULL,
  query_hash TEXT NOT NULL REFERENCES text_blob(hash),
  emb_id INTEGER REFERENCES embedding(emb_id),
  policy TEXT NOT NULL,                        -- name of the preset
  params TEXT NOT NULL,                        -- its effective settings, JSON
  rng_seed INTEGER NOT NULL,
  frozen BOOLEAN NOT NULL,
  is_test BOOLEAN NOT NULL,
  explored BOOLEAN NOT NULL,
  store_seq INTEGER NOT NULL,                  -- newest memory that could be seen
  event_seq INTEGER NOT NULL,                  -- newest value event that could be seen
  audit_seq INTEGER NOT NULL DEFAULT 0,        -- newest line of the log: what was archived, voided or put back by then
  n_scanned INTEGER NOT NULL,
  n_pool INTEGER NOT NULL,
  created_at REAL NOT NULL);

CREATE TABLE memory(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,       -- order of creation; "m<seq>" outside
  scope_id INTEGER NOT NULL REFERENCES scope(scope_id),
  kind TEXT NOT NULL,
  polarity TEXT NOT NULL CHECK(polarity IN ('success', 'failure', 'mixed', 'neutral')),
  key_hash TEXT NOT NULL REFERENCES text_blob(hash),
  body_hash TEXT NOT NULL REFERENCES text_blob(hash),
  emb_id INTEGER REFERENCES embedding(emb_id),
  source TEXT NOT NULL,
  q_init REAL NOT NULL,
  q_given BOOLEAN NOT NULL,                    -- the caller chose q_init, not the policy
  status TEXT NOT NULL DEFAULT 'active'
    CHECK(status IN ('active', 'archived', 'quarantined', 'superseded', 'erased', 'external')),
  superseded_by INTEGER REFERENCES memory(seq) DEFERRABLE INITIALLY DEFERRED,
  content_version INTEGER NOT NULL DEFAULT 1,
  merged INTEGER NOT NULL DEFAULT 0,           -- how many later writes were the same thing
  made_in INTEGER REFERENCES recall(seq),      -- the receipt it was written under
  created_at REAL NOT NULL,
  meta TEXT,                                   -- what the caller says of it: a JSON object, or NULL
  expires_at REAL,                             -- from then on out of recall; NULL: never
  text_hash TEXT,                              -- of what is kept elsewhere, see external.py; NULL: it is kept here
  CHECK(status = 'erased' OR emb_id IS NOT NULL OR text_hash IS NOT NULL));  -- what was erased has no text or vector
CREATE INDEX memory_body ON memory(scope_id, body_hash);
CREATE INDEX memory_external ON memory(scope_id, key_hash) WHERE text_hash IS NOT NULL;
CREATE INDEX memory_expiry ON memory(scope_id, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE provenance(
  child INTEGER NOT NULL REFERENCES memory(seq),
  parent INTEGER NOT NULL REFERENCES memory(seq),
  relation TEXT NOT NULL                       -- updated: a new version, which has the value; key: see keys.py
    CHECK(relation IN ('retrieved', 'merged', 'revised', 'updated', 'key')),
  PRIMARY KEY(child, parent, relation),
  CHECK(parent < child)) WITHOUT ROWID;        -- older to newer only: no cycle can be written
CREATE INDEX provenance_parent ON provenance(parent);

CREATE TABLE recall_item(
  recall_id INTEGER NOT NULL REFERENCES recall(seq),
  memory_id INTEGER NOT NULL REFERENCES memory(seq),
  rank INTEGER NOT NULL,
  sim REAL NOT NULL, q REAL NOT NULL, value REAL NOT NULL, n INTEGER NOT NULL,
  z_sim REAL NOT NULL, z_q REAL NOT NULL, bonus REAL NOT NULL, score REAL NOT NULL,
  selected BOOLEAN NOT NULL, omitted BOOLEAN NOT NULL,
  propensity REAL NOT NULL,                    -- probability with which it would be shown
  shown BOOLEAN NOT NULL,                      -- in the prompt: the only items that are credited
  content_version INTEGER NOT NULL,
  PRIMARY KEY(recall_id, memory_id)) WITHOUT ROWID;
CREATE INDEX recall_item_memory ON recall_item(memory_id, recall_id);

CREATE TABLE exposure(                         -- what chance decided of a recall as a whole, where it was to decide
  recall_id INTEGER NOT NULL REFERENCES recall(seq),
  attempt TEXT NOT NULL,                       -- hash of its name: all recalls of an attempt share one draw
  task TEXT,                                   -- hash of the caller's name of the task; NULL: the task is the query
  rate REAL NOT NULL,                          -- probability with which nothing would be handed out
  held_out BOOLEAN NOT NULL,                   -- nothing was: its items are what would have been
  PRIMARY KEY(recall_id),
  CHECK(rate >= 0 AND rate <= 0.5)) WITHOUT ROWID;
CREATE INDEX exposure_attempt ON exposure(attempt);

CREATE TABLE outcome(
  outcome_id INTEGER PRIMARY KEY AUTOINCREMENT,
  scope_id INTEGER NOT NULL REFERENCES scope(scope_id),
  recall_id INTEGER NOT NULL REFERENCES recall(seq),
  objective TEXT NOT NULL,
  source TEXT NOT NULL CHECK(source IN ('env', 'tests', 'judge', 'human', 'proxy')),
  reward REAL,                                 -- NULL where the outcome is invalid and had none
  valid BOOLEAN NOT NULL,
  idempotency_key TEXT NOT NULL,
  action_hash TEXT REFERENCES text_blob(hash),
  child INTEGER REFERENCES memory(seq),
  created_at REAL NOT NULL,
  weight REAL NOT NULL DEFAULT 1.0,            -- share of the usual credit that it gives
  place INTEGER,                               -- value event whose place its own take: of what it revises
  replaced_by INTEGER REFERENCES outcome(outcome_id) DEFERRABLE INITIALLY DEFERRED,  -- the outcome that revised it
  parts TEXT,                                  -- of the action: JSON [[length, reward], ...], or NULL
  CHECK(NOT valid OR reward IS NOT NULL),
  CHECK(weight > 0 AND weight <= 1));
CREATE UNIQUE INDEX outcome_once ON outcome(recall_id, objective) WHERE valid AND replaced_by IS NULL;
CREATE UNIQUE INDEX outcome_key ON outcome(scope_id, objective, idempotency_key, valid) WHERE replaced_by IS NULL;
CREATE INDEX outcome_recall ON outcome(recall_id);

CREATE TABLE value(
  memory_id INTEGER NOT NULL REFERENCES memory(seq),
  objective TEXT NOT NULL,
  stage TEXT NOT NULL,
  q REAL NOT NULL,
  carry REAL NOT NULL,                         -- share of q that is still the starting value
  n INTEGER NOT NULL, sum_r REAL NOT NULL, sum_r2 REAL NOT NULL,
  w_shown REAL NOT NULL, w2_shown REAL NOT NULL, wr_shown REAL NOT NULL,
  n_omitted INTEGER NOT NULL, w_omitted REAL NOT NULL, w2_omitted REAL NOT NULL, sum_r_omitted REAL NOT NULL,
  n_credit INTEGER NOT NULL,                   -- changes that came back from descendants
  updated_seq INTEGER NOT NULL,
  PRIMARY KEY(memory_id, objective, stage)) WITHOUT ROWID;

CREATE TABLE source_value(
  scope_id INTEGER NOT NULL REFERENCES scope(scope_id),
  source TEXT NOT NULL, objective TEXT NOT NULL, stage TEXT NOT NULL,
  n REAL NOT NULL, sum_r REAL NOT NULL,
  PRIMARY KEY(scope_id, source, objective, stage)) WITHOUT ROWID;

CREATE TABLE value_event(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  memory_id INTEGER NOT NULL REFERENCES memory(seq),
  objective TEXT NOT NULL, stage TEXT NOT NULL,
  outcome_id INTEGER NOT NULL REFERENCES outcome(outcome_id),
  recall_id INTEGER NOT NULL REFERENCES recall(seq),
  rule TEXT NOT NULL CHECK(rule IN ('shown', 'omitted', 'ancestor')),
  alpha REAL NOT NULL,                         -- step actually taken
  weight REAL NOT NULL,                        -- how much of the outcome this item answers for
  ipw REAL NOT NULL,                           -- 1 / probability of what happened to it (0 = not used)
  decay REAL NOT NULL,                         -- factor on the older sums
  depth INTEGER NOT NULL,
  reward REAL NOT NULL, target REAL NOT NULL,
  q_before REAL NOT NULL, q_after REAL NOT NULL,
  created_at REAL NOT NULL,
  UNIQUE(outcome_id, memory_id, objective, stage, rule));
CREATE INDEX value_event_memory ON value_event(memory_id);

CREATE TABLE audit(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  scope_id INTEGER REFERENCES scope(scope_id),
  verb TEXT NOT NULL, target TEXT NOT NULL, detail TEXT NOT NULL, created_at REAL NOT NULL);
CREATE INDEX audit_target ON audit(target);

CREATE TABLE void(                             -- value events and outcomes that do not count while undone_at is null
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  scope_id INTEGER NOT NULL REFERENCES scope(scope_id),
  event_from INTEGER NOT NULL,                 -- those with event_from < seq <= event_to
  event_to INTEGER NOT NULL,
  reason TEXT NOT NULL,
  created_at REAL NOT NULL,
  undone_at REAL,
  outcome_from INTEGER NOT NULL,               -- outcomes with outcome_from < outcome_id <= outcome_to: for those
  outcome_to INTEGER NOT NULL,                 -- without a value event, which are told apart by nothing else
  CHECK(event_from <= event_to));
"""

# (name of the trigger, what it stops, on which table, why)
TRIGGERS = (
    ("embedding_written_once", "UPDATE", "embedding", "embeddings are written once"),
    ("text_written_once", "UPDATE", "text_blob", "texts are written once"),
    ("value_event_appended_only", "UPDATE", "value_event", "value events are appended only"),
    ("value_event_kept", "DELETE", "value_event", "value events are kept"),
    ("audit_appended_only", "UPDATE", "audit", "audit rows are appended only"),
    ("memory_kept", "DELETE", "memory", "memories are archived, not deleted"),
    (
        "memory_content_fixed",
        "UPDATE OF scope_id, kind, polarity, key_hash, body_hash, emb_id, q_init, q_given, source, text_hash",
        "memory",
        "what a memory says is written once; supersede it",
    ),
)


@dataclass(frozen=True)
class Table:
    """A table as it is copied: its columns with their types, and the columns that order its rows."""

    name: str
    columns: dict[str, str]
    key: tuple[str, ...]


def layout() -> list[Table]:
    """All tables, each after those it refers to."""
    found = []
    for statement in tables():
        if match := re.match(r"CREATE TABLE (\w+)\((.*)\)", statement, re.DOTALL):
            name, inside = match.groups()
            columns: dict[str, str] = {}
            key: tuple[str, ...] = ()
            for part in re.split(r",(?![^(]*\))", inside):  # commas outside of brackets
                words = part.split()
                if whole := re.match(r"\s*PRIMARY KEY\((.*)\)", part):
                    key = tuple(word.strip() for word in whole[1].split(","))
                elif words[0].partition("(")[0] not in ("CHECK", "UNIQUE"):
                    columns[words[0]] = words[1]
                    key = (words[0],) if "PRIMARY KEY" in part else key
            found.append(Table(name, columns, key))
    return found


def tables() -> list[str]:
    """The statements of ``TABLES``, without comments."""
    text = "".join(line.split("--")[0].rstrip() + "\n" for line in TABLES.splitlines())
    return [part.strip() for part in text.split(";") if part.strip()]


def check_version(found: int, where: str) -> None:
    """``StoreError`` unless the store at ``where`` was written by this version."""
    if found != VERSION:
        raise StoreError(
            "the memory was written by a newer version" if found > VERSION else "the memory is of another version",
            code="other_schema",
            got=f"schema {found}",
            expected=f"schema {VERSION}, or an older one from 3 on",
            where=where,
            do="upgrade evolvent" if found > VERSION else "open it with the version that wrote it, and export it there",
        )
