"""An ``Episode`` as strict JSON types, and back; ``core.codec`` puts them into files.

Schema 2. What is not known is left out: ``finish``, ``turn`` and ``usage`` of a decision, ``outcome`` of a tool's call,
``implementation`` of a component, ``stop``, ``answer``, ``choices`` and ``final_value`` of an end. Schema 1 kept some
of these under keys of ``meta``; it is read as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, TypeVar, cast

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.record import Record
from evolvent.core.recording import Recording
from evolvent.core.strict_json import escape, unescape

E = TypeVar("E", bound=Recording)

SCHEMA = 2
_HEAD = ("id", "task_id", "env", "seed", "group", "meta")
_FLAGS = ("terminated", "truncated", "success", "source", "valid")


def to_dict(episode: Record) -> dict[str, Any]:
    """See ``Episode.to_dict``."""
    nodes = rows_of(episode)
    record = {"schema": SCHEMA, **{name: getattr(episode, name) for name in _HEAD}}
    record |= {"ends": _ends(episode), "nodes": nodes}
    known = {
        "offers_tools": episode.offers_tools or None,
        "budget_tokens": episode.budget_tokens,
        "rewards": episode.rewards_by_kind or None,
        "notes": {n: c.tolist() for n, c in episode.notes.items()} or None,
    }
    return escape(record | {name: value for name, value in known.items() if value is not None})


def rows_of(episode: Record) -> list[dict[str, Any]]:
    """The nodes, a dictionary each."""
    nodes: list[dict[str, Any]] = []
    at = seen = 0
    ids, logp, seen_ids, count = episode.token_ids, episode.logp, episode.seen_ids, episode.tokens_per_step_T
    rewards, finish, turn = episode.rewards_T, episode.finish_T, episode.turn_T
    for node in episode.nodes:
        row: dict[str, Any] = {"kind": node.kind, "text": node.text, "agent": node.agent, "parent": node.parent}
        row.update(node.data)
        if node.step is not None:
            n = int(count[node.step])
            row["reward"] = float(rewards[node.step])
            if finish[node.step]:
                row["finish"] = finish[node.step]
            if turn[node.step] >= 0:
                row["turn"] = int(turn[node.step])
            row["token_ids"] = ids[at : at + n].tolist()
            row["logp"] = logp[at : at + n].tolist()
            at += n
        elif n := episode.seen_tokens(node.index):
            row["token_ids"] = seen_ids[seen : seen + n].tolist()
            seen += n
        nodes.append(row)
    return nodes


def _ends(episode: Record) -> list[dict[str, Any]]:
    if not episode.ended:
        if len(episode.ends) > 1:
            raise BadInput("an attempt has not ended", where=f"Episode {episode.id}", do="call end() after fork()")
        return []
    ends: list[dict[str, Any]] = []
    for end, fork in zip(episode.ends, episode.forks, strict=True):
        known = {
            "stop": end.stop or None,
            "answer": end.answer,
            "choices": end.final_choices or None,
            "final_value": end.final_value,
            "rewards": fork.rewards or None,
        }
        known |= {} if fork.of is None else {"of": fork.of, "after": fork.after, "seed": fork.seed}
        flags = {name: getattr(end, name) for name in _FLAGS}
        ends.append({"leaf": fork.leaf} | flags | {name: value for name, value in known.items() if value is not None})
    return ends


def from_dict(cls: type[E], record: Mapping[str, Any], columns: Mapping[str, np.ndarray] | None = None) -> E:
    """See ``Episode.from_dict``."""
    d: dict[str, Any] = unescape(dict(_upgraded(record)))
    ep = cls(d["task_id"], env=d["env"], seed=d["seed"], group=d["group"], meta=d["meta"], id=d["id"])
    ep.offers_tools, ep.budget_tokens = d.get("offers_tools", False), d.get("budget_tokens")
    ep.rewards_by_kind = d.get("rewards", {})
    arrays: Mapping[str, Any] = columns or {}
    at = seen = 0

    def add(rows: Sequence[Mapping[str, Any]]) -> None:
        nonlocal at, seen
        for row in rows:
            n = row["n_tokens"] if arrays and "n_tokens" in row else 0
            if row["kind"] == "action":
                add_node(ep, row, {name: arrays[name][at : at + n] for name in ("token_ids", "logp")} if n else row)
                at += n
            else:
                add_node(ep, row, {"token_ids": arrays["seen_ids"][seen : seen + n]} if n else row)
                seen += n

    done = 0
    for end in d["ends"]:
        if "of" in end:
            ep.fork(end["after"], of=end["of"], seed=end.get("seed"))
        add(d["nodes"][done : end["leaf"] + 1])
        done = end["leaf"] + 1
        ep.end(**{name: end[name] for name in (*_FLAGS, "stop", "answer", "choices") if name in end})
        ep.ends[-1].final_value = end.get("final_value")
        ep.forks[-1] = ep.forks[-1]._replace(rewards=end.get("rewards", {}))
    add(d["nodes"][done:])
    ep.turn = None
    notes: Mapping[str, Any] = d.get("notes") or {}
    for name, column in notes.items():
        ep.note(name, arrays[f"note.{name}"][: ep.n_tokens] if column is None else column)
    return ep


def add_node(ep: Recording, row: Mapping[str, Any], tokens: Mapping[str, Any]) -> int:
    """Record the node that ``row`` describes, with the arrays in ``tokens``; returns its index."""
    kind, text, who, parent = row["kind"], row["text"], row["agent"], row["parent"]
    if kind == "action":
        ep.turn = row.get("turn")
        node = ep.act(
            text,
            agent=who,
            token_ids=tokens.get("token_ids", ()),
            logp=tokens.get("logp", ()),
            reward=row["reward"],
            choices=row.get("choices", ()),
            finish=row.get("finish", ""),
            parent=parent,
        )
        if "usage" in row:
            ep.spend(node, **row["usage"])
        return node
    if kind == "tool":
        return ep.tool(row["name"], row["arguments"], text, outcome=row.get("outcome", ""), agent=who, parent=parent)
    if kind == "recall":
        fate = {name: row.get(name, ()) for name in ("omitted", "dropped")}
        return ep.recall(text, row["shown"], **fate, propensity=row["propensity"], parent=parent)
    if kind == "observation":
        return ep.observe(text, agent=who, token_ids=tokens.get("token_ids", ()), parent=parent)
    if kind == "component":
        return ep.component(text, implementation=row.get("implementation", ""), agent=who, parent=parent)
    raise BadInput("unknown kind of node", got=kind, where="Episode.from_dict")


def _upgraded(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record in the present schema."""
    schema = record.get("schema")
    if schema == SCHEMA:
        return record
    if schema == 1:
        return _from_schema_1(record)
    newer = isinstance(schema, int) and schema > SCHEMA
    raise BadInput(
        f"the episode was written by a newer version of evolvent: schema {schema}, this one reads up to {SCHEMA}"
        if newer
        else "this is no episode of evolvent",
        got=f"schema {schema!r}",
        expected=f"1 … {SCHEMA}",
        where="Episode.from_dict",
        do="upgrade evolvent" if newer else "read files that evolvent wrote (episodes.jsonl)",
    )


def _from_schema_1(record: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of ``meta`` to their columns; a value that does not fit its column stays in ``meta``."""
    meta, nodes = dict(record["meta"]), [dict(row) for row in record["nodes"]]
    decisions = [row for row in nodes if row["kind"] == "action"]
    calls = [row for row in nodes if row["kind"] == "tool"]
    new: dict[str, Any] = {**record, "schema": SCHEMA, "meta": meta, "nodes": nodes}
    for key, column, kind, rows in (
        ("finish", "finish", str, decisions),
        ("turns", "turn", int, decisions),
        ("calls", "outcome", str, calls),
    ):
        values = meta.get(key)
        if _are(values, kind) and len(values) == len(rows):
            for row, value in zip(rows, meta.pop(key), strict=True):
                row[column] = value
            new["offers_tools"] = key == "calls" or new.get("offers_tools", False)
    for key, column, kind in (("budget", "budget_tokens", int), ("rewards", "rewards", dict)):
        if isinstance(meta.get(key), kind):
            new[column] = meta.pop(key)
    end = new.pop("end")
    if end is not None:
        end = {"leaf": len(nodes) - 1, **end}
        for key, kind in (("answer", str | None), ("stop", str), ("choices", list), ("final_value", int | float)):
            if key in meta and isinstance(meta[key], kind):
                end[key] = meta.pop(key)
        if "answer" in end:
            end["answer"] = end["answer"] or ""
    new["ends"] = [] if end is None else [end]
    return new


def _are(values: object, kind: type) -> TypeGuard[list[Any]]:
    return isinstance(values, list) and all(isinstance(value, kind) for value in cast("list[object]", values))
