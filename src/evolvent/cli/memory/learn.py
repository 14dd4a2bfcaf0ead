"""`evolvent memory learn`: a lesson from each recorded attempt with an outcome, under review, its value at the prior.

An attempt that was recorded elsewhere has no receipt: what it was shown was not drawn, so it moves no value.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional

from evolvent.cli.memory.opening import Scope
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live, count
from evolvent.traces.events import digest

_TAIL = 2000
"""Characters of what was done: the last ones."""


def learn(
    folder: Annotated[Path, Positional],
    *,
    store: Path,
    agent: str = "",
    kind: str = "case",
    scope: Scope = "default",
    plain: bool = False,
) -> None:
    """Write lessons from recorded attempts into a memory: the task, what was done, what came of it. Twice is once.

    Example: evolvent memory learn runs/imported --store agent.db

    They are under review: out of recall (quarantined) until `evolvent memory restore STORE ID…`.

    Args:
        folder: run folder, as `evolvent import` makes it.
        store: memory file; made where there is none.
        agent: only what this agent did.
        kind: of the memories.
        plain: plain text output even on a terminal.
    """
    from evolvent.memory.memory import Memory

    opened = RunFolder.open(folder)
    found = [_lesson(Episode.from_dict(row), agent, kind) for row in opened.read_episodes()]
    rows = {f"learned:{digest(row['key'], row['body'])}": row for row in found if row is not None}
    if not rows:
        expected, where = "attempts with text and an outcome", "evolvent memory learn"
        raise BadInput("nothing to learn", got=str(folder), expected=expected, where=where)
    with Live(plain=True if plain else None) as live:
        with Memory(store, scope=scope) as memory:
            new = {name: row for name, row in rows.items() if memory.meta_get(name) is None}
            with memory.transaction():
                ids = memory.remember_many(new.values())
                for name, made in zip(new, ids, strict=True):
                    memory.meta_set(name, made)
                if ids:
                    memory.quarantine(ids, f"imported from {opened.path.name}: under review", descendants=False)
        live.note(f"{count(len(ids), 'lesson')} under review, {len(rows) - len(new)} known: {folder} → {store}")
        if ids:
            place = shlex.quote(str(store))
            live.note(f"read them: evolvent memory list {place} --status quarantined")
            live.note(f"put into recall what is right: evolvent memory restore {place} {ids[0]} …")


def _lesson(episode: Episode, agent: str, kind: str) -> dict[str, Any] | None:
    """A memory from an attempt; ``None`` where its outcome is not known or nothing was said."""
    asked = next(
        (n.text for n in episode.nodes if n.kind == "observation" and n.text and not _system(episode, n.index)), ""
    )
    done = "\n".join(n.text for n in episode.nodes if n.kind == "action" and n.text and agent in ("", n.agent))
    key = asked.replace("\x00", "")[:_TAIL].strip()
    if not episode.valid or not done.strip() or not key:
        return None
    how, polarity = f"it earned {episode.total_reward:g}", "mixed"
    if episode.success is not None:
        how, polarity = ("it succeeded", "success") if episode.success else ("it failed", "failure")
    source = f"import:{episode.meta.get('source', {}).get('format', 'run')}"
    body = f"{done.replace(chr(0), '')[-_TAIL:]}\n\n({how})"
    facts = {"task": episode.task_id[:500], "reward": episode.total_reward}
    row = {"key": key, "body": body, "kind": kind, "polarity": polarity, "source": source, "metadata": facts}
    return row | {"merge": None}  # it must not merge into a memory that is trusted


def _system(episode: Episode, node: int) -> bool:
    return episode.meta.get("source", {}).get("nodes", {}).get(str(node), {}).get("role") == "system"


COMMANDS = {"learn": learn}
