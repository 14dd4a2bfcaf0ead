"""`evolvent memory blame`: which of the memories in a prompt caused what came of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from tyro.conf import Positional

from evolvent.cli.memory.mend import Act, tell
from evolvent.cli.memory.opening import Json, Scope, Where
from evolvent.core import outside
from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import dump
from evolvent.evaluate.live import Live
from evolvent.memory import blame as causes
from evolvent.memory.text import short
from evolvent.memory.there import open_memory


def blame(
    store: Where,
    receipt: Annotated[str, Positional],
    *,
    agent: str = "",
    budget: int = 200,
    level: float = 0.1,
    seed: int = 0,
    quarantine: bool = False,
    scope: Scope = "default",
    json: Json = False,
) -> None:
    """Which of the memories that a recall showed caused what came of it: the attempt again, without each of them.

    Example: evolvent memory blame agent.db r12 --agent my_agent.py:attempt

    Args:
        receipt: receipt of the recall (r12).
        agent: file.py[:NAME] of attempt(task, notes) -> reward, or (reward, tokens); without it only what receipts say.
        budget: attempts at most.
        level: share of the named memories that is expected to be named wrongly.
        seed: of the attempts, where the function takes one.
        quarantine: exclude the named ones, and what was written under their influence, from recall.
    """
    with closing(open_memory(store, scope)) as memory, Live(plain=json or None) as live:
        found = causes.blame(
            memory,
            receipt,
            _agent(agent),
            budget=budget,
            level=level,
            seed=seed,
            progress=partial(_advance, live.advancing("attempts")) if agent and not json else None,
        )
        done = memory.quarantine(list(found.causes), f"blamed for {receipt}") if quarantine and found.causes else None
        if json:
            out = found.to_dict() | ({"quarantine": asdict(done)} if done else {})
            live.note(dump(out, indent=2))
            return
        live.note(str(found))
        for id_ in found.causes:
            note = memory.get(id_)
            live.note(f"{id_}: {short(note.key, 60)} → {short(note.body)}")
        if done:
            tell(done, store, Act(scope=scope))
        elif found.causes:
            live.note(f"take out of recall: evolvent memory quarantine {shlex.quote(store)} {' '.join(found.causes)}")


def _advance(live: Callable[[float], None], done: int, of: int) -> None:
    live(done / of)


def _agent(spec: str) -> Any:
    if not spec:
        return None
    at = outside.pointer(spec)
    if at is None:
        raise BadInput("no file with an agent", got=spec, expected="file.py or file.py:NAME", where="--agent")
    return outside.load(at, "an agent", ("attempt",))[2]


COMMANDS = {"blame": blame}
