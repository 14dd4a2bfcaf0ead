"""The operations over HTTP: each is a verb of ``Memory`` in the thread that it belongs to."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.memory.memory import Memory
from evolvent.memory.text import clean_text, storable
from evolvent.serve.fence import fenced, notes_of, stripped
from evolvent.serve.lanes import Lanes
from evolvent.serve.openapi import Operation, document
from evolvent.serve.problems import refused
from evolvent.serve.stores import Cached
from evolvent.serve.tokens import Token, handle, receipt_of

WITHIN_S = {"interactive": 1.0, "learning": 10.0, "slow": 30.0}
"""Seconds after which a request is refused unless it has begun, by lane."""
ROOM = {"interactive": 256, "learning": 4096, "slow": 64}
"""Requests that may wait."""


@dataclass(frozen=True)
class Threads:
    """Who does the work: one writes, one reads, one embeds; ``key`` of handles."""

    writer: Lanes
    reader: Lanes
    embedding: Lanes
    embedder: Cached
    key: bytes

    def health(self) -> dict[str, Any]:
        """Whether it takes requests, and three numbers: how many wait, how long a new one would, how many it refused.

        Refused: since it was started, for want of time.
        """
        every = (self.writer, self.reader, self.embedding)
        return {
            "status": "ok" if all(one.alive for one in every) else "down",
            "waiting": sum(one.waiting for one in every),
            "wait_ms": round(1e3 * (self.writer.wait_s + self.embedding.wait_s), 1),
            "refused": sum(one.refused for one in every),
        }

    async def embed(self, text: str, lane: str, until: float) -> None:
        """Have the vector of a text ready before the writer needs it, since nobody else writes meanwhile."""
        if not self.embedder.knows(text):
            await self.embedding.ask(lane, "", lambda: self.embedder.embed([text]), until - time.monotonic())


@dataclass(frozen=True)
class Asked:
    """A request whose token and body were checked."""

    token: Token
    scope: str
    given: dict[str, Any] = field(default_factory=dict[str, Any])
    path: dict[str, str] = field(default_factory=dict[str, str])


def permit(token: Token, what: str) -> None:
    """``BadInput`` where the token does not allow it."""
    if what not in token.may:
        got = f"a token that may {', '.join(token.may)}"
        raise refused("forbidden", "the token does not allow it", got=got, expected=what)


Verb = Callable[[Threads, Asked], Awaitable[Any]]


def _until(asked: Asked, lane: str) -> float:
    return time.monotonic() + asked.given.pop("deadline_ms", 1e3 * WITHIN_S[lane]) / 1e3


async def _write(threads: Threads, asked: Asked, lane: str, do: Callable[[Memory], Any], until: float) -> Any:
    return await threads.writer.ask(lane, asked.scope, do, until - time.monotonic())


async def _read(threads: Threads, asked: Asked, do: Callable[[Memory], Any]) -> Any:
    return await threads.reader.ask("slow", asked.scope, do, WITHIN_S["slow"])


# --------------------------------------------------------------------------------------------------- the operations
async def recall(threads: Threads, asked: Asked) -> Any:
    """What fits is shown, and counts as shown; what was left out by chance is not told."""
    until, options = _until(asked, "interactive"), dict(asked.given)
    task = clean_text(storable(stripped(options.pop("task"))), what="the task", where="recall")
    await threads.embed(task, "interactive", until)

    def do(memory: Memory) -> Any:
        made = memory.recall(task, **options)
        notes = notes_of(made.items)
        if len(notes) < len(made):
            memory.shown(made, [note["id"] for note in notes])
        return made.id, notes

    id_, notes = await _write(threads, asked, "interactive", do, until)
    receipt = handle(threads.key, asked.scope, id_)
    return {"receipt": receipt, "trust": "data", "notes": notes, "fenced": fenced(receipt, notes)}


async def shown(threads: Threads, asked: Asked) -> Any:
    """Which notes survived in the prompt."""
    receipt = receipt_of(threads.key, asked.scope, asked.path["receipt"])
    until = _until(asked, "interactive")
    await _write(threads, asked, "interactive", lambda m: m.shown(receipt, asked.given["ids"]), until)


async def outcome(threads: Threads, asked: Asked) -> Any:
    """Told again it changes nothing: ``Memory.settle`` keeps receipts and idempotency keys apart."""
    said = dict(asked.given)
    receipt, sources = receipt_of(threads.key, asked.scope, said.pop("receipt")), asked.token.sources
    if len(sources) == 1:
        said.setdefault("source", sources[0])
    if said.setdefault("source", "env") not in sources:
        do = "say what the token allows, or take another token"
        expected = ", ".join(sources) or "none: it may report no outcomes"
        raise refused("forbidden", "the token may not claim this source", got=said["source"], expected=expected, do=do)
    if said.get("action"):
        said["action"] = stripped(said["action"])
    reward = said.pop("reward")
    changes = await _write(
        threads, asked, "learning", lambda m: m.settle(receipt, reward, **said), _until(asked, "learning")
    )
    return {"receipt": asked.given["receipt"], "changes": [change._asdict() for change in changes]}


async def remember(threads: Threads, asked: Asked) -> Any:
    """The source of the memory is the name of the token."""
    row, until = dict(asked.given), _until(asked, "learning")
    row["key"] = clean_text(stripped(row["key"]), what="the key", where="remember")
    row["body"] = stripped(row["body"])
    if receipt := row.pop("receipt", None):
        row["parents"] = receipt_of(threads.key, asked.scope, receipt)
    await threads.embed(row["key"], "learning", until)
    source = asked.token.name
    id_ = await _write(threads, asked, "learning", lambda m: m.remember(**row, source=source), until)
    return {"id": id_}


async def memories(threads: Threads, asked: Asked) -> Any:
    """A page of them."""
    status, kind = asked.given.get("status", "active"), asked.given.get("kind")
    options = {name: asked.given[name] for name in ("order", "after") if name in asked.given}
    limit = asked.given.get("limit", 50)
    found = await _read(
        threads,
        asked,
        lambda m: m.items(None if status == "all" else status, kinds=[kind] if kind else None, limit=limit, **options),
    )
    return {
        "memories": [asdict(item) for item in found],
        "after": found[-1].id if len(found) == limit else None,
    }


async def memory(threads: Threads, asked: Asked) -> Any:
    """One of them, whatever its status."""
    return asdict(await _read(threads, asked, lambda m: m.get(_memory_id(asked.path["id"]))))


async def explain(threads: Threads, asked: Asked) -> Any:
    """The ledger of a memory or a receipt."""
    given = asked.path["id"]
    id_ = receipt_of(threads.key, asked.scope, given) if given.startswith("r") else _memory_id(given)
    return asdict(await _read(threads, asked, lambda m: m.explain(id_)))


async def lift(threads: Threads, asked: Asked) -> Any:
    """Whether the memory helps, from attempts that chance held out."""
    report = await _read(threads, asked, lambda m: m.lift(**asked.given))
    return {**report.to_dict(), "text": str(report)}


def _memory_id(given: str) -> str:
    if not (given[:1] == "m" and given[1:].isascii() and given[1:].isdigit() and len(given) < 19):
        raise BadInput("unknown memory", got=given, expected="an id, e.g. m3", code="unknown_memory")
    return given


OPERATIONS: dict[Operation, Verb] = {
    Operation("recall", "POST", "/v1/recall", "recall", "notes for a task, with a receipt"): recall,
    Operation(
        "shown", "POST", "/v1/receipts/{receipt}/shown", "recall", "which notes are really in the prompt", 204
    ): shown,
    Operation("outcome", "POST", "/v1/outcomes", "outcome", "what came of it; told again it counts once"): outcome,
    Operation("remember", "POST", "/v1/memories", "remember", "keep a lesson"): remember,
    Operation("memories", "GET", "/v1/memories", "read", "the memories of the scope, page by page"): memories,
    Operation("memory", "GET", "/v1/memories/{id}", "read", "one memory"): memory,
    Operation("explain", "GET", "/v1/explain/{id}", "read", "the ledger of a memory or a receipt"): explain,
    Operation("lift", "GET", "/v1/lift", "read", "whether the memory helps"): lift,
}
DOCUMENT = document([*OPERATIONS])
