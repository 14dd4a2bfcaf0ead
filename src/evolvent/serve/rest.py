"""The operations over HTTP: each is a verb of ``Memory`` in the thread that it belongs to."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.memory.memory import Memory
from evolvent.memory.secrets import mask_secrets
from evolvent.memory.text import clean_text, finite, storable
from evolvent.serve.attempts import ABOUT, Attempt, Attempts, Commit
from evolvent.serve.fence import fenced, notes_of, stripped
from evolvent.serve.lanes import Lanes
from evolvent.serve.openapi import Operation, document
from evolvent.serve.problems import refused
from evolvent.serve.stores import Cached
from evolvent.serve.telling import tell, words
from evolvent.serve.tokens import Token, handle, receipt_of
from evolvent.serve.verdicts import KINDS, Evidence

WITHIN_S = {"interactive": 1.0, "learning": 10.0, "slow": 30.0}
"""Seconds after which a request is refused unless it has begun, by lane."""
ROOM = {"interactive": 256, "learning": 4096, "slow": 64}
"""Requests that may wait."""


@dataclass(frozen=True)
class Threads:
    """Who does the work: one writes, one reads, one embeds; ``key`` of handles, and what is kept of attempts."""

    writer: Lanes
    reader: Lanes
    embedding: Lanes
    embedder: Cached
    key: bytes
    attempts: Attempts

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
    session, repo, git = options.pop("session", ""), options.pop("repo", ""), options.pop("git", None)
    without = set(options.pop("without", ()))

    def do(memory: Memory) -> Any:
        if git:  # what was committed since belongs to the attempt before
            _committed(threads, asked, git, memory)
        made = memory.recall(task, **options)
        items = made.items
        if without:
            items = [item for item in items if memory.get(item.id).source not in without]
        notes = notes_of(items)
        if len(notes) < len(made):
            memory.shown(made, [note["id"] for note in notes])
        return made.id, notes

    id_, notes = await _write(threads, asked, "interactive", do, until)
    attempt = None
    if session or repo or git or "attempt" in options:
        name, place = options.get("attempt") or f"{session}/{id_}", repo or (git or {}).get("repo", "")

        def opened(_: Memory) -> str:  # when the receipt is on disk: the number of one that was lost is given again
            return threads.attempts.open(asked.scope, name, id_, time.time(), session, place)

        attempt = await _write(threads, asked, "interactive", opened, until)
    receipt = handle(threads.key, asked.scope, id_)
    return {"receipt": receipt, "attempt": attempt, "trust": "data", "notes": notes, "fenced": fenced(receipt, notes)}


async def shown(threads: Threads, asked: Asked) -> Any:
    """Which notes survived in the prompt."""
    receipt = receipt_of(threads.key, asked.scope, asked.path["receipt"])
    until = _until(asked, "interactive")
    await _write(threads, asked, "interactive", lambda m: m.shown(receipt, asked.given["ids"]), until)


def _may_say(token: Token, source: str) -> None:
    if source not in token.sources:
        do = "say what the token allows, or take another token"
        expected = ", ".join(token.sources) or "none: it may report no outcomes"
        raise refused("forbidden", "the token may not claim this source", got=source, expected=expected, do=do)


async def outcome(threads: Threads, asked: Asked) -> Any:
    """Told again it changes nothing: ``Memory.settle`` keeps receipts and idempotency keys apart.

    Of a receipt that belongs to an attempt it is evidence like others: a test run does not outdo a person.
    """
    said, until = dict(asked.given), _until(asked, "learning")
    said.pop("deadline_ms", None)
    receipt, sources = receipt_of(threads.key, asked.scope, said.pop("receipt")), asked.token.sources
    if len(sources) == 1:
        said.setdefault("source", sources[0])
    source = said.setdefault("source", "env")
    _may_say(asked.token, source)
    if said.get("action"):
        said["action"] = stripped(said["action"])
    reward = said.pop("reward")

    def do(memory: Memory) -> Any:
        of = threads.attempts.of_receipt(asked.scope, receipt, time.time())
        if of is None or source == "judge" or said.get("objective", "success") != "success":
            return memory.settle(receipt, reward, **said)
        given = {name: said[name] for name in ("weight",) if name in said}
        more = {name: said[name] for name in ("action", "child") if name in said}
        worth = _reward(memory, reward) if said.get("valid", True) else None
        one = Evidence(0, None, "reward", source, asked.token.name, worth, detail=given, at=time.time())
        key = f"outcome:{said.get('idempotency_key') or f'{receipt}:{source}:{worth}'}"
        found, _ = threads.attempts.add(asked.scope, {"receipt": receipt}, one, key)
        return tell(memory, threads.attempts, asked.scope, found.attempt or of.id, one.at, **more)

    changes = await _write(threads, asked, "learning", do, until)
    return {"receipt": asked.given["receipt"], "changes": [change._asdict() for change in changes]}


def _reward(memory: Memory, reward: Any) -> Any:
    """A reward that the memory will take, since evidence stays."""
    lo, hi = memory.bank.reward_range
    return reward if isinstance(reward, bool) else finite(reward, what="reward", where="an outcome", lo=lo, hi=hi)


def _committed(threads: Threads, asked: Asked, git: dict[str, Any], memory: Memory) -> None:
    """Note the commits that a client saw; attempts of which one was reverted are told."""
    _may_say(asked.token, "tests")  # who says what tests said may say what git says
    if "outcome" not in asked.token.may:
        raise refused("forbidden", "the token does not allow it", got="git", expected="outcome")
    now, commits = time.time(), [Commit(**one) for one in git["commits"]]
    for id_ in threads.attempts.commits(asked.scope, git["repo"], commits, now, asked.token.name):
        tell(memory, threads.attempts, asked.scope, id_, now)


_NEEDS = {
    "person": ("reward",),
    "tests": ("passed", "failed"),
    "command": ("command", "code"),
    "exit": ("command", "code"),
    "claim": (),
}


async def evidence(threads: Threads, asked: Asked) -> Any:
    """What tests, a command or a person say of an attempt, and what follows."""
    given, until, now = dict(asked.given), _until(asked, "learning"), time.time()
    about, kind, git = given.pop("about", {}), given.pop("kind", None), given.pop("git", None)
    if len(about) != (kind is not None) or (kind is None and not git):
        expected = f"kind with about one of {', '.join(ABOUT)}; or git alone"
        raise BadInput("about what?", got=about or kind, expected=expected, where="about", code="missing")
    if "receipt" in about:
        about = {"receipt": receipt_of(threads.key, asked.scope, about["receipt"])}
    reward, run, key = given.pop("reward", None), given.pop("run", ""), given.pop("key", None)
    if "command" in given:
        given["command"] = mask_secrets(given["command"])
    if kind:
        _may_say(asked.token, KINDS[kind])
        for name in (name for name in _NEEDS[kind] if name not in asked.given):
            raise BadInput("a field is missing", expected=name, where=f"evidence of {kind}", code="missing")

    def do(memory: Memory) -> Any:
        if git:
            _committed(threads, asked, git, memory)
        if not kind:
            return None, False, []
        worth = None if reward is None or kind not in ("person", "claim") else _reward(memory, reward)
        said = Evidence(0, None, kind, KINDS[kind], asked.token.name, worth, run, given, now)
        found, new = threads.attempts.add(asked.scope, about, said, key)
        changes = tell(memory, threads.attempts, asked.scope, found.attempt, now) if found.attempt else []
        return found, new, changes

    found, new, changes = await _write(threads, asked, "learning", do, until)
    of = threads.attempts.of(asked.scope, found.attempt, now) if found and found.attempt else None
    return {
        "evidence": found and found.id,
        "attempt": of and of.id,
        "repeated": bool(found) and not new,
        "verdict": of and asdict(of.verdict),
        "changes": [change._asdict() for change in changes],
    }


async def attempts(threads: Threads, asked: Asked) -> Any:
    """A page of attempts, newest first."""
    limit, after = asked.given.get("limit", 50), asked.given.get("after")

    def do(memory: Memory) -> list[dict[str, Any]]:
        found = threads.attempts.newest(asked.scope, time.time(), limit, after)
        return [_told(threads, asked, one, memory) for one in found]

    found = await _read(threads, asked, do)
    return {"attempts": found, "after": found[-1]["id"] if len(found) == limit else None}


async def attempt(threads: Threads, asked: Asked) -> Any:
    """One attempt, with the evidence about it."""

    def do(memory: Memory) -> dict[str, Any]:
        return _told(threads, asked, threads.attempts.of(asked.scope, asked.path["id"], time.time()), memory)

    return await _read(threads, asked, do)


def _told(threads: Threads, asked: Asked, one: Attempt, memory: Memory) -> dict[str, Any]:
    """An attempt for clients: what was asked first, receipts by their handles."""
    for said in (told := asdict(one))["evidence"]:  # of tests, how many
        said["detail"] |= {n: len(said["detail"][n]) // 8 for n in ("passed", "failed") if n in said["detail"]}
    first = memory.receipts(after=f"r{int(one.receipts[0][1:]) - 1}", limit=1) if one.receipts else []
    task = first[0].task if first and first[0].id == one.receipts[0] else ""
    return told | {"task": task, "receipts": [handle(threads.key, asked.scope, receipt) for receipt in one.receipts]}


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
    found = asdict(await _read(threads, asked, lambda m: m.explain(id_)))
    if id_.startswith("r") and (of := threads.attempts.of_receipt(asked.scope, id_, time.time())):
        found["text"] += f"\n{words(of)}"
    return found


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
    Operation(
        "evidence", "POST", "/v1/evidence", "outcome", "what tests, a command, a person or git say of an attempt"
    ): evidence,
    Operation("attempts", "GET", "/v1/attempts", "read", "attempts and what came of them, newest first"): attempts,
    Operation("attempt", "GET", "/v1/attempts/{id}", "read", "one attempt, with the evidence about it"): attempt,
    Operation("remember", "POST", "/v1/memories", "remember", "keep a lesson"): remember,
    Operation("memories", "GET", "/v1/memories", "read", "the memories of the scope, page by page"): memories,
    Operation("memory", "GET", "/v1/memories/{id}", "read", "one memory"): memory,
    Operation("explain", "GET", "/v1/explain/{id}", "read", "the ledger of a memory or a receipt"): explain,
    Operation("lift", "GET", "/v1/lift", "read", "whether the memory helps"): lift,
}
DOCUMENT = document([*OPERATIONS])
