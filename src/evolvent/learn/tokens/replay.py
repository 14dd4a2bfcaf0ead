"""SPEAR's self-imitation (arXiv 2509.22601): a replay of recent attempts with positive credit."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.core.seeding import rng

_END = b"\n"


class Replay:
    """The newest ``size`` attempts that a rule credits, and the means of the ``recent`` groups; part of a checkpoint.

    An attempt is forgotten after ``stale`` updates.
    """

    def __init__(self, size: int, *, stale: int, recent: int = 10240, seed: int = 0) -> None:
        self.size, self.stale, self.seed = size, stale, seed
        self.means: deque[float] = deque(maxlen=recent)
        self._retained: list[tuple[int, Episode, bytes]] = []

    def __len__(self) -> int:
        return len(self._retained)

    def draw(self, n: int, update: int, rule: Callable[[Sequence[Episode]], Ledger]) -> Ledger:
        """Credit of up to ``n`` attempts of the last ``stale`` updates before ``update``, drawn uniformly.

        Only attempts that the rule still gives positive credit are drawn.
        """
        recent = [episode for when, episode, _ in self._retained if 0 < update - when <= self.stale]
        usable = [recent[i] for i in _credited(rule(recent))]
        picked = rng(self.seed, "replay", update).permutation(len(usable))[:n]
        return rule([usable[i] for i in sorted(picked.tolist())])

    def add(self, ledger: Ledger, update: int, *, faulty: Sequence[bool] = ()) -> None:
        """Add the means of the groups, and the attempts with positive credit that are not ``faulty``.

        The ledger is of whole groups; ``update`` is the one in which they were made.
        """
        episodes = ledger.episodes
        for group in dict.fromkeys(e.group for e in episodes if e.valid):
            self.means.append(float(np.mean([e.total_reward for e in episodes if e.valid and e.group == group])))
        better = [i for i in _credited(ledger) if not (len(faulty) and faulty[i])]
        self._retained += [(update, episodes[i], json.dumps(episodes[i].to_dict()).encode()) for i in better]
        self._retained = [one for one in self._retained if update - one[0] < self.stale][-self.size :]

    def state_dict(self) -> dict[str, Any]:
        """The replay and the means, as arrays."""
        lines = _END.join(line for _, _, line in self._retained)
        return {
            "episodes": np.array(bytearray(lines), np.uint8),
            "when": [when for when, _, _ in self._retained],
            "means": np.array(self.means, np.float64),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        lines = np.asarray(state["episodes"], np.uint8).tobytes().split(_END) if state["when"] else []
        read = [Episode.from_dict(json.loads(line)) for line in lines]
        self._retained = list(zip(state["when"], read, lines, strict=True))
        self.means.clear()
        self.means.extend(np.asarray(state["means"], np.float64).tolist())


def _credited(ledger: Ledger) -> list[int]:
    """Positions of the episodes with a step of positive credit."""
    return np.unique(ledger.episode_index("step")[ledger.values("step") > 0.0]).tolist()
