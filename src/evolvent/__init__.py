"""Evolvent: agents that get better from what happens to them.

``Episode`` records one attempt, ``Ledger`` holds credit at five levels, a credit rule maps the first to the second.
``Memory`` is the episodic memory with learned values; it works beside any agent framework.
``run`` and ``compare`` do from Python what ``evolvent run`` and ``evolvent compare`` do.
``worth`` says what each part of a workflow is worth; ``spend`` counts the tokens of its clients.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evolvent.core.episode import Episode
    from evolvent.core.ledger import Ledger
    from evolvent.core.rollout import Rollout
    from evolvent.memory.aio import AsyncMemory
    from evolvent.memory.memory import Memory
    from evolvent.running import compare, run
    from evolvent.teams.spend import spend, spent
    from evolvent.teams.worth import worth

__version__ = "0.1.0"
__all__ = [
    "AsyncMemory",
    "Episode",
    "Ledger",
    "Memory",
    "Rollout",
    "__version__",
    "compare",
    "run",
    "spend",
    "spent",
    "worth",
]

_HOMES = {
    "AsyncMemory": "evolvent.memory.aio",
    "Episode": "evolvent.core.episode",
    "Ledger": "evolvent.core.ledger",
    "Memory": "evolvent.memory.memory",
    "Rollout": "evolvent.core.rollout",
    "compare": "evolvent.running",
    "run": "evolvent.running",
    "spend": "evolvent.teams.spend",
    "spent": "evolvent.teams.spend",
    "worth": "evolvent.teams.worth",
}


def __getattr__(name: str) -> object:
    """Import the public names on first use, so that ``import evolvent`` stays light."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'evolvent' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, those that are not imported yet among them."""
    return sorted(__all__)
