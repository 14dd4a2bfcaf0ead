"""A memory of good attempts to learn from again while they are recent (SPEAR, arXiv 2509.22601)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.core.seeding import rng
from evolvent.credit import step_group_mean

_END = b"\n"


class Replay:
    """Attempts with positive advantage, and the mean returns of the groups seen lately; part of a checkpoint.

    Args:
        size: attempts it holds, the newest.
        stale: updates after which one is forgotten.
        recent: groups whose means it holds.
        seed: of the draws.
    """

    def __init__(self, size: int, *, stale: int, recent: int = 10240, seed: int = 0) -> None:
        self.size, self.stale, self.seed = size, stale, seed
        self.means: deque[float] = deque(maxlen=recent)
        self._kept: list[tuple[int, Episode, bytes]] = []

    def __len__(self) -> int:
        return len(self._kept)

    def draw(self, n: int, update: int) -> list[Episode]:
        """Up to ``n`` different attempts of the last ``stale`` updates before ``update``, drawn uniformly.

        Only those that would still stand out: return above the median of the means of recent groups.
        """
        bar = float(np.median(self.means)) if self.means else 0.0
        recent = [episode for when, episode, _ in self._kept if 0 < update - when <= self.stale]
        usable = [episode for episode in recent if episode.total_reward > bar]
        picked = rng(self.seed, "replay", update).permutation(len(usable))[:n]
        return [usable[i] for i in sorted(picked.tolist())]

    def add(self, episodes: Sequence[Episode], update: int, *, faulty: Sequence[bool] = ()) -> None:
        """Remember the means of the groups, and the attempts above theirs by the task's own return.

        Args:
            episodes: of whole groups.
            update: in which they were made.
            faulty: which of them are no example, whatever they earned; none by default.
        """
        ledger = step_group_mean.assign(episodes)
        for group in dict.fromkeys(e.group for e in episodes if e.valid):
            self.means.append(float(np.mean([e.total_reward for e in episodes if e.valid and e.group == group])))
        better = set(ledger.episode_index("step")[ledger.values("step") > 0.0].tolist()) - set(np.flatnonzero(faulty))
        self._kept += [(update, episodes[i], _written(episodes[i])) for i in sorted(better)]
        self._kept = [one for one in self._kept if update - one[0] < self.stale][-self.size :]

    def state_dict(self) -> dict[str, Any]:
        """Everything that is remembered, as arrays."""
        lines = _END.join(line for _, _, line in self._kept)
        return {
            "episodes": np.array(bytearray(lines), np.uint8), "when": [when for when, _, _ in self._kept],
            "means": np.array(self.means, np.float64),
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        lines = np.asarray(state["episodes"], np.uint8).tobytes().split(_END) if state["when"] else []
        read = [Episode.from_dict(json.loads(line)) for line in lines]
        self._kept = list(zip(state["when"], read, lines, strict=True))
        self.means.clear()
        self.means.extend(np.asarray(state["means"], np.float64).tolist())


def side_by_side(fresh: Ledger, old: Ledger, level: str = "step") -> Ledger:
    """One ledger of both, the fresh episodes first."""
    both = Ledger.for_episodes([*fresh.episodes, *old.episodes])
    both.set(level, np.concatenate([fresh.values(level), old.values(level)]))
    return both


def _written(episode: Episode) -> bytes:
    return json.dumps(episode.to_dict()).encode()
