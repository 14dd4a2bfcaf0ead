"""A memory that learns beside the weights: from the same attempts, in the same run, on the same ledger.

All attempts of an update recall from one state of the memory, so that those of a group stay comparable; what was left
out at random differs between attempts, which is how a memory's effect is measured. Outcomes are settled and lessons
written when the update ends. Evaluations use a frozen recall.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.core.protocols import Engine, Env, Task
from evolvent.core.seeding import seed_tree
from evolvent.memory.memory import Memory
from evolvent.memory.policies import Policy, preset, rule_of
from evolvent.play.attempt import play
from evolvent.play.experience import Experience, Use
from evolvent.play.settings import AttemptSettings
from evolvent.play.together import Player
from evolvent.runs.language.config import Plan
from evolvent.runs.memory.summary import top_memories

BUDGET_CHARS = 2000
"""Characters of memory text allowed in a prompt."""


def chosen(plan: Plan) -> tuple[Policy, Use]:
    """The memory that ``plan`` asks for, and how it is used.

    Raises:
        BadInput: no such policy or lesson, or a policy that never shows anything.
    """
    policy = preset(plan.memory, k=plan.memories)
    if rule_of(policy).candidates == "none":
        do = "leave --memory out"
        raise BadInput("a memory that shows nothing", got=plan.memory, where="--memory", do=do)
    return policy, Use(how="context", lessons=plan.lessons, budget_chars=BUDGET_CHARS)


class LanguageMemory:
    """The memory of a run; it is part of the checkpoints."""

    def __init__(self, plan: Plan, path: Path, seed: int, reward_range: tuple[float, float]) -> None:
        self._path, self._seed, self._range = path, seed, reward_range
        self._policy, self._use = chosen(plan)
        self._pending: list[tuple[Episode, Experience]] = []
        self._opened: Memory | None = None

    def play(self, env: Env, task: Task, settings: AttemptSettings, *, seed: int, group: str, learns: bool) -> Player:
        """One attempt with what is remembered in sight; with ``learns`` it will be settled by ``settle``."""
        experience = Experience(env, task, self._memory, self._use, seed=seed, learns=learns)
        episode = yield from play(env, task, settings, seed=seed, group=group, experience=experience)
        if learns:
            self._pending.append((episode, experience))
        return episode

    def settle(self, engine: Engine, settings: AttemptSettings, ledger: Ledger) -> dict[str, float]:
        """Settle all attempts since the last call, write their lessons, and enter the credit of memories in a ledger.

        The credit of (attempt, memory) is the change of the memory's value that the attempt caused, in units of reward.

        Returns:
            Metrics of the update.
        """
        # in an order that does not depend on who was answered first
        pending = sorted(self._pending, key=lambda one: (one[0].group, one[0].seed))
        for episode, experience in pending:
            experience.reflect(episode, engine, settings.renderer)
        with self._memory.transaction():  # no model is called in it
            for _, experience in pending:
                experience.learn()
        self._pending = []
        ledger.set("memory", self._memory.credit(ledger.episodes).values("memory"))
        shown = [len(episode.shown_memories) for episode, _ in pending]
        return {"memories": float(self._memory.health()["items"]), "shown_mean": fmean(shown) if shown else 0.0}

    def summary(self) -> dict[str, Any]:
        """For ``summary.json``: which memories earned most and least, and the health of the store."""
        top, worst = top_memories(self._memory)
        return {"top_memories": top, "worst_memories": worst, "health": self._memory.health()}

    def state_dict(self) -> dict[str, Any]:
        """The whole store, as it stands between two updates."""
        _ = self._memory  # opening it makes the file, where nobody has used it yet
        with closing(sqlite3.connect(self._path)) as store:
            return {"store": np.frombuffer(store.serialize(), np.uint8).copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put a store back; what was written after it is gone, as the weights that came after are."""
        self.forget()
        self._path.write_bytes(np.asarray(state["store"], np.uint8).tobytes())

    def forget(self) -> None:
        """Begin anew, with nothing remembered."""
        self.close()
        for path in self._path.parent.glob(f"{self._path.name}*"):
            path.unlink()

    def aside(self, folder: Path) -> None:
        """Go on in another folder: what is evaluated does not change."""
        self.close()
        self._path = folder / self._path.name

    def close(self) -> None:
        """Close the store."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _memory(self) -> Memory:
        if self._opened is None:
            self._opened = Memory(
                self._path,
                policy=self._policy,
                seed=seed_tree(self._seed, "memory"),
                reward_range=self._range,
                sync="normal",
            )
        return self._opened
