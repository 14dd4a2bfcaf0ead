"""A kind of run in one record: what it wants, what its page shows, how it is evaluated, what a newcomer reads of it.

``runs/<kind>/kind.py`` holds one, ``KIND``. An installed package brings another under the entry points
``evolvent.kinds``; a system in a file of one's own has it as ``KIND`` beside its ``Config``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import Page


@dataclass(frozen=True)
class Choice:
    """One thing that a person may have, and what there is for it: an entry of ``evolvent list`` and docs/start.md."""

    have: str
    """What you have."""
    use: str
    """What learns, in a few words."""
    command: str
    """The first thing to run."""
    extra: str
    """What to install for that command; "" = nothing."""
    minutes: str
    """How long it takes, with what it was measured on."""
    gpu: str
    """Whether it needs one."""
    expect: str
    """What comes of it, honestly."""
    page: str
    """Where to read on, under docs/."""
    systems: tuple[str, ...] = ()
    """Those that are meant; none: all of the kind that no other choice of it names."""


@dataclass(frozen=True)
class Kind:
    """See the module.

    Attributes:
        name: as ``Config.KIND`` and ``config.json`` call it.
        title: what it is, in a few words; lists and pages say it.
        account: what a run tells of itself, from the files of its folder alone, whether it has ended or not.
        envs: the kind of environment it wants (``envs.TASKS``, ``envs.TEAM``, ``envs.GAME``); "" = any, or none.
        evaluate: what ``evolvent eval`` calls where a system has no ``evaluate`` of its own:
            ``(Config, folder, live, episodes, **options)``; returns what becomes ``eval.json``.
        instead: what to do in place of that where there is nothing to evaluate apart from the run.
        choices: what a newcomer reads of it.
        needs: the package that its runs cannot begin without, and the extra that brings it.
    """

    name: str
    title: str
    account: Callable[[RunFolder], Page]
    envs: str = ""
    evaluate: Callable[..., dict[str, Any] | None] | None = None
    instead: Callable[[RunFolder], str] | None = None
    choices: tuple[Choice, ...] = ()
    needs: tuple[str, str] = ("", "")
