"""Rows: what an assistant saw, the tools it had, and the calls that are right; as files, prompts and training data."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import lines
from evolvent.data.asking import INSTRUCTIONS, calls_in, prompt
from evolvent.data.calls import Message, assistant, written
from evolvent.data.schemas import Tool, wrapped
from evolvent.formulas.call_match import Call

SPLITS = ("train", "heldout", "unseen")
REFUSAL = "None of the tools can do that."
"""What a row of training answers whose tool was taken away."""


@dataclass(frozen=True)
class Row:
    """One decision.

    ``messages`` is what was seen, in the dialect of Chat; ``gold`` the right calls, none where it is right to call
    nothing; ``said`` what was said beside them. ``kind`` is "call", "none" (the log calls nothing) or "irrelevant"
    (the tool that serves it was taken away). ``because`` says why ``gold`` counts as right; "" = nobody has said so,
    and ``gold`` is only what was called. ``mask`` is what ``masking.mask`` did.
    """

    id: str
    conversation: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    gold: tuple[Call, ...]
    said: str = ""
    kind: str = "call"
    split: str = "train"
    because: str = ""
    where: str = ""
    mask: Mapping[str, Any] | None = None

    @property
    def request(self) -> str:
        """The last words of the user."""
        return next((m["content"] for m in reversed(self.messages) if m["role"] == "user"), "")

    @property
    def functions(self) -> set[str]:
        """The names of all functions that are called, before or now."""
        before = {call["name"] for message in self.messages for call in calls_in(message)}
        return before | {call["name"] for call in self.gold}

    def to_dict(self) -> dict[str, Any]:
        """JSON values; what is empty is left out."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {key: value for key, value in fields.items() if value or key in ("gold", "tools")}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], where: str = "") -> Row:
        """The inverse.

        Raises:
            BadInput: what is no row.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        try:
            given = {key: value for key, value in fields.items() if key in known}
            lists = {key: tuple(given[key]) for key in ("messages", "tools", "gold")}
            return cls(**{**given, **lists})
        except (KeyError, TypeError) as error:
            expected = "id, conversation, messages, tools, gold"
            raise BadInput("not a row of calls", got=str(error), expected=expected, where=where) from error


# --------------------------------------------------------------------------------------------------------- splits
def split(rows: Sequence[Row], *, unseen: float = 0.2, heldout: float = 0.2, seed: int = 0) -> list[Row]:
    """Rows with their splits: by function, then by conversation.

    About ``unseen`` of the functions that are called are kept apart, as long as at most that share of the conversations
    calls them, or else the rarest one. Rows of these conversations that call one of them, or list no other, are
    "unseen", their other rows "heldout", and no other row lists what only "unseen" ones call. Of the other
    conversations ``heldout`` is "heldout", the rest "train". Those of one name, or that begin with the same words, are
    one.
    """
    groups: dict[str, list[Row]] = {}
    grouped = _grouped(rows)
    for group, row in zip(grouped, rows, strict=True):
        groups.setdefault(group, []).append(row)
    by_function: dict[str, set[str]] = {}
    for group, members in groups.items():
        for name in set().union(*(row.functions for row in members)):
            by_function.setdefault(name, set()).add(group)
    drawn, apart = 0, set[str]()
    for name in sorted(by_function, key=lambda name: _drawn(seed, "function", name)):
        wider = apart | by_function[name]
        fits = len(wider) <= max(unseen * len(groups), 1) and len(wider) < len(groups)
        if unseen and fits and drawn < round(unseen * len(by_function)):
            apart, drawn = wider, drawn + 1
    if unseen and not apart and by_function:  # each is called too often: the rarest, if enough is left
        rarest = min(by_function.items(), key=lambda one: (len(one[1]), _drawn(seed, "function", one[0])))[1]
        apart = set(rarest) if 2 * len(rarest) <= len(groups) else apart
    kept = {name for name, its in by_function.items() if its <= apart}
    for group, members in groups.items():  # what lists nothing else belongs to them
        if any({tool["name"] for tool in row.tools} <= kept for row in members):
            apart.add(group)
    rest = sorted((group for group in groups if group not in apart), key=lambda group: _drawn(seed, "group", group))
    held = set(rest[: round(heldout * len(rest))])
    made: list[Row] = []
    for group, row in zip(grouped, rows, strict=True):
        names = {tool["name"] for tool in row.tools}
        mine = group in apart and (row.functions & kept or names <= kept)
        where = "unseen" if mine else "heldout" if group in apart | held else "train"
        tools = row.tools if mine else tuple(one for one in row.tools if one["name"] not in kept)
        made.append(dataclasses.replace(row, split=where, tools=tools))
    return made


def _grouped(rows: Sequence[Row]) -> list[str]:
    """Of each row the beginning that names its group."""
    known, first = dict[str, str](), dict[str, str]()

    def name(beginning: str) -> str:
        while known.setdefault(beginning, beginning) != beginning:
            beginning = known[beginning]
        return beginning

    for row in rows:
        mine = _beginning(row)
        one, other = sorted((name(mine), name(first.setdefault(row.conversation or mine, mine))))
        known[other] = one
    return [name(_beginning(row)) for row in rows]


def _beginning(row: Row) -> str:
    first = next((m["content"] for m in row.messages if m["role"] == "user"), row.conversation)
    return " ".join(first.lower().split())


def _drawn(*parts: object) -> bytes:
    return hashlib.sha256("/".join(map(str, parts)).encode("utf-8", "replace")).digest()


def without_twins(rows: Iterable[Row]) -> tuple[list[Row], int]:
    """The rows without those that see and answer the same, and how many those were."""
    found: dict[str, Row] = {}
    total = 0
    for row in rows:
        total += 1
        key = json.dumps([row.messages, row.gold, row.tools], sort_keys=True)
        if key not in found or (row.because and not found[key].because):
            found[key] = row
    return list(found.values()), total - len(found)


# ---------------------------------------------------------------------------------------------------- in and out
def read_rows(path: Path) -> list[Row]:
    """The rows of a file.

    Raises:
        BadInput: no such file, nothing in it, a line that is no row, or two rows of one id.
    """
    do = "evolvent data functions tools.json calls.jsonl --out fc/ makes one"
    if not path.is_file():
        raise BadInput("no such file", got=str(path), expected="rows.jsonl of calls of functions", do=do)
    rows = [Row.from_dict(row, f"{path}:{i}") for i, row in enumerate(lines(path), 1)]
    if not rows:
        raise BadInput("the file holds no rows", got=str(path), expected="one JSON object a line", do=do)
    if twice := next((id for id, n in Counter(row.id for row in rows).items() if n > 1), ""):
        raise BadInput("two rows have one id", got=twice, expected="an id for each", where=str(path), do=do)
    return rows


def training(row: Row, form: str) -> dict[str, Any]:
    """A row to train on.

    ``form="chat"``: messages with the target as the last one, and tools, as OpenAI's endpoints have them; what was
    decided earlier has ``"weight": 0`` and is not learned from: it is a row of its own where it was right.
    ``form="text"``: what the environment ``functions:`` asks and wants to hear, as two messages and an answer.
    """
    head = {"id": row.id, "split": row.split, "kind": row.kind}
    if form == "text":
        asked = [
            {"role": "system", "content": INSTRUCTIONS.strip()},
            {"role": "user", "content": prompt(row.tools, row.messages)},
        ]
        told = {"role": "assistant", "content": written(row.gold)}
        return {**head, "messages": [*asked, told], "tools": [], "mask": row.mask}
    said = REFUSAL if row.kind == "irrelevant" else row.said
    target = assistant(said, row.gold)
    tools = [wrapped(tool) for tool in row.tools]
    seen = [{**one, "weight": 0} if one["role"] == "assistant" else one for one in row.messages]
    return {**head, "messages": [*seen, target], "tools": tools, "mask": row.mask}


def of_training(fields: Mapping[str, Any]) -> Row:
    """The row in what ``training`` has made in the form "chat"."""
    *seen, target = fields["messages"]
    seen = [{key: value for key, value in one.items() if key != "weight"} for one in seen]
    tools = tuple(one["function"] for one in fields["tools"])
    gold = tuple(calls_in(target))
    said = "" if fields["kind"] == "irrelevant" else target.get("content") or ""
    head = {key: fields[key] for key in ("id", "split", "kind")}
    return Row(conversation="", messages=tuple(seen), tools=tools, gold=gold, said=said, mask=fields["mask"], **head)


# --------------------------------------------------------------------------------------------------------- texts
def all_text(row: Row) -> str:
    """Everything in a row that a model reads or writes, as text."""
    return json.dumps([row.tools, row.messages, row.gold, row.said], ensure_ascii=False)


def values(row: Row) -> Iterator[str]:
    """The texts that are arguments of calls, of this decision and those before."""
    for call in (*row.gold, *(c for m in row.messages for c in calls_in(m))):
        yield from (one for one in leaves(call["arguments"]) if isinstance(one, str))


def leaves(value: Any) -> Iterator[Any]:
    """What stands in a JSON value and holds nothing else."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else None
    if inner is None:
        yield value
    else:
        for one in inner:
            yield from leaves(one)
