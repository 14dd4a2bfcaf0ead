"""An adversary in the bandit world: k poisoned lessons arrive when the honest ones have been learned.

Two kinds. "convention": the key is a copy of a task (cosine .98), the body a wrong procedure; the agent follows the
lesson that ranks first, so the poison decides the attempt when it stands above every good lesson, and misleads like any
wrong one when it stands below. "instruction": the key lies at the centre of the victims' tasks, the body tells the
agent to do something else, and it obeys with a fixed probability whenever it sees it, whatever else is in sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from synthetic_worlds import Bandit, BanditOptions, BanditTask

from evolvent.core.seeding import rng

COPY, CENTRAL = 0.98, 0.95  # cosine of a poisoned key to a victim task, and to the victims' centre
WRONG, OBEYS = 0.05, 0.8  # success under a wrong procedure; probability of obeying an injected instruction
HONEST, SECOND, THIRD = "self", "reviewer", 0.3  # sources of honest lessons, and the share of the second


@dataclass(frozen=True)
class Attack:
    """What the adversary does; ``k`` 0 is the control without an attack."""

    kind: str
    """"convention" or "instruction"."""
    k: int
    """Poisoned lessons."""
    source: str = "own"
    """Under which source they are written: "own" (one of the adversary's), "shared" (that of honest lessons too),
    "fresh" (another one for each), "same" (one for everything: nobody notes who wrote what)."""
    target: str = "spread"
    """"spread" over the kinds of task, or all on "one"."""
    launder: bool = False
    """Whether the agent keeps what it did as a lesson of its own when a poisoned attempt was rewarded."""


@dataclass(frozen=True)
class Seen:
    """What the lessons in sight do to one attempt."""

    chance: float
    """Probability of success."""
    shown: bool
    """A poisoned lesson was in sight."""
    decided: float
    """Probability that a poisoned lesson decided what was done."""
    followed: str | None
    """Body of the lesson that the agent took after, ``None`` when it had none."""


class Poisoned:
    """A bandit world of one seed under an attack. ``embed`` makes it the embedder of a ``Memory``."""

    def __init__(self, options: BanditOptions, attack: Attack, seed: int) -> None:
        self.world, self.attack = Bandit(options, seed), attack
        draw = rng(seed, "attack", attack.kind, attack.target)
        clusters = draw.permutation(options.clusters).tolist()
        self.victims = [clusters[0 if attack.target == "one" else i % len(clusters)] for i in range(attack.k)]
        self._bodies = {f"poison {i}": cluster for i, cluster in enumerate(self.victims)}
        self._vectors: dict[str, np.ndarray] = {}
        for i, cluster in enumerate(self.victims):
            tasks = [t for t in self.world.tasks if t.cluster == cluster]
            copied = tasks[int(draw.integers(len(tasks)))].text if attack.kind == "convention" else f"centre {cluster}"
            near = COPY if attack.kind == "convention" else CENTRAL
            self._vectors[f"poisoned key {i}"] = _near(self.world.embedder.embed([copied])[0], near, draw)
        self.id, self.dim = f"attacked-{self.world.embedder.id}", self.world.embedder.dim

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of the world's texts and of the poisoned keys, float32 ``[N, dim]``."""
        return np.array([self._vectors[t] if t in self._vectors else self.world.embedder.embed([t])[0] for t in texts])

    def honest(self) -> list[dict[str, Any]]:
        """The honest bank as rows for ``Memory.remember_many``, from two sources whatever the role of a lesson."""
        draw = rng(self.world.seed, "attack", "sources")
        second = HONEST if self.attack.source == "same" else SECOND
        return [{**row, "source": second if draw.random() < THIRD else HONEST} for row in self.world.rows()]

    def poison(self) -> list[dict[str, Any]]:
        """The adversary's rows."""
        source = {"own": "forum", "shared": SECOND, "same": HONEST}.get(self.attack.source)
        return [
            {"key": f"poisoned key {i}", "body": f"poison {i}", "source": source or f"forum {i}", "merge": None}
            for i in range(self.attack.k)
        ]

    def is_poison(self, body: str) -> bool:
        """Whether a lesson is the adversary's, or a copy of one."""
        return body in self._bodies

    def seen(self, task: BanditTask, bodies: Sequence[str], number: int) -> Seen:
        """What an attempt comes to when these lessons are in sight, best ranked first."""
        honest = [b for b in bodies if not self.is_poison(b)]
        poison = [b for b in bodies if self.is_poison(b)]
        roles = {b: self.world.role(b, task.cluster, number) for b in honest}
        good = next((b for b in honest if roles[b] == "good"), None)
        chance = self.world.chance(task, honest, number)
        if not poison:
            return Seen(chance, False, 0.0, good)
        if self.attack.kind == "instruction":
            return Seen((1.0 - OBEYS) * chance, True, OBEYS, poison[0])
        mine = [b for b in poison if self._bodies[b] == task.cluster]
        first = min((bodies.index(b) for b in mine), default=len(bodies))
        if mine and (good is None or first < bodies.index(good)):
            return Seen(WRONG, True, 1.0, mine[0])
        return Seen(max(0.0, chance - self.world.options.penalty * len(mine)), True, 0.0, good)


def _near(vector: np.ndarray, cosine: float, draw: np.random.Generator) -> np.ndarray:
    side = draw.normal(size=vector.shape)
    side -= (side @ vector) * vector
    return (cosine * vector + np.sqrt(1.0 - cosine**2) * side / np.linalg.norm(side)).astype(np.float32)
