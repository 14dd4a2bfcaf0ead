"""`evolvent memory skills export|import`: memories as folders with a SKILL.md, and back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional

from evolvent.cli.memory.opening import Scope
from evolvent.evaluate.live import Live, count
from evolvent.memory import skills as files
from evolvent.memory.memory import Memory
from evolvent.memory.there import open_memory


def skills(
    action: Annotated[Literal["export", "import"], Positional],
    folder: Annotated[Path, Positional],
    *,
    store: str,
    kinds: tuple[str, ...] = (),
    most: int = 20,
    least_outcomes: int = 1,
    source: str = "skills",
    scope: Scope = "default",
) -> None:
    """The best memories of each kind as a skill (SKILL.md), with what they were worth; or skills as memories.

    Example: evolvent memory skills export skills/ --store agent.db

    Args:
        folder: where the skills are, a folder each.
        store: memory (file, or postgresql://…); import makes it where there is none.
        kinds: of memories to export; default: all.
        most: lessons in one skill at most.
        least_outcomes: export what has at least so many outcomes.
        source: who vouches for what is imported.
    """
    with Live(plain=True) as live:
        if action == "import":
            found = files.read_skills(folder)  # before a store is made
            with Memory(store, scope=scope) as memory:
                ids = files.import_skills(memory, folder, source=source)
            live.note(f"{count(len(found), 'skill')}, {count(len(set(ids)), 'memory', 'memories')} in {store}")
            return
        with closing(open_memory(store, scope)) as memory:
            made = files.export_skills(memory, folder, kinds=kinds or None, most=most, least_outcomes=least_outcomes)
        for path in made:
            live.note(f"skill → {path}")


COMMANDS = {"skills": skills}
