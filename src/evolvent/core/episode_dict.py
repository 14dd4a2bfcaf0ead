"""An ``Episode`` as strict JSON types, and back; ``core.codec`` puts them into files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.strict_json import escape, unescape

if TYPE_CHECKING:
    from evolvent.core.episode import Episode

SCHEMA = 1


def to_dict(episode: Episode, *, inline_tokens: bool) -> dict[str, Any]:
    """See ``Episode.to_dict``."""
    nodes: list[dict[str, Any]] = []
    at = seen = 0
    ids, logp, seen_ids, count = episode.token_ids, episode.logp, episode.seen_ids, episode.tokens_per_step_T
    rewards = episode.rewards_T
    for node in episode.nodes:
        row: dict[str, Any] = {"kind": node.kind, "text": node.text, "agent": node.agent, "parent": node.parent}
        row.update(node.data)
        if node.step is not None:
            n = int(count[node.step])
            row["reward"] = float(rewards[node.step])
            if inline_tokens:
                row["token_ids"] = ids[at : at + n].tolist()
                row["logp"] = logp[at : at + n].tolist()
            else:
                row["n_tokens"] = n
            at += n
        elif n := episode.seen_tokens(node.index):
            if inline_tokens:
                row["token_ids"] = seen_ids[seen : seen + n].tolist()
            else:
                row["n_tokens"] = n
            seen += n
        nodes.append(row)
    head = {name: getattr(episode, name) for name in ("id", "task_id", "env", "seed", "group", "meta")}
    flags = {name: getattr(episode, name) for name in ("terminated", "truncated", "success", "source", "valid")}
    record = {"schema": SCHEMA, **head, "end": flags if episode.ended else None, "nodes": nodes}
    if episode.notes:
        record["notes"] = {n: c.tolist() if inline_tokens else None for n, c in episode.notes.items()}
    return escape(record)


def from_dict(
    cls: type[Episode], record: Mapping[str, Any], columns: Mapping[str, np.ndarray] | None = None
) -> Episode:
    """See ``Episode.from_dict``."""
    if record.get("schema") != SCHEMA:
        raise BadInput(
            "episode was written with another schema",
            got=record.get("schema"),
            expected=SCHEMA,
            where="Episode.from_dict",
            do="read it with the version of evolvent that wrote it",
        )
    d: dict[str, Any] = unescape(dict(record))
    ep = cls(d["task_id"], env=d["env"], seed=d["seed"], group=d["group"], meta=d["meta"], id=d["id"])
    at = seen = 0
    arrays: Mapping[str, Any] = columns or {}
    for row in d["nodes"]:
        kind, text, who, parent = row["kind"], row["text"], row["agent"], row["parent"]
        elsewhere = bool(arrays) and "n_tokens" in row
        if kind == "action":
            ids, logps = row.get("token_ids", ()), row.get("logp", ())
            if elsewhere:
                span = slice(at, at := at + row["n_tokens"])
                ids, logps = arrays["token_ids"][span], arrays["logp"][span]
            ep.act(
                text, agent=who, token_ids=ids, logp=logps, reward=row["reward"], choices=row.get("choices", ()),
                parent=parent,
            )  # fmt: skip
        elif kind == "tool":
            ep.tool(row["name"], row["arguments"], text, agent=who, parent=parent)
        elif kind == "recall":
            ep.recall(text, row["shown"], omitted=row["omitted"], propensity=row["propensity"], parent=parent)
        elif kind == "observation":
            ids = row.get("token_ids", ())
            if elsewhere:
                ids = arrays["seen_ids"][seen : (seen := seen + row["n_tokens"])]
            ep.observe(text, agent=who, token_ids=ids, parent=parent)
        elif kind == "component":
            ep.component(text, agent=who, parent=parent)
        else:
            raise BadInput("unknown kind of node", got=kind, where="Episode.from_dict")
    notes: Mapping[str, Any] = d.get("notes") or {}
    for name, column in notes.items():
        ep.note(name, arrays[f"note.{name}"][: ep.n_tokens] if column is None else column)
    if d["end"] is not None:
        ep.end(**d["end"])
    return ep
