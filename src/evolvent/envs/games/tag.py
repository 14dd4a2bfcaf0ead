"""simple_tag of mpe2 as a game of two sides: pursuers, who earn a catch together, against those who flee.

Lowe et al., "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments", NeurIPS 2017. Every agent is a
player and all move at once; the game ends after ``limit`` steps. A catch pays each pursuer 10 and costs who fled 10,
and leaving the field costs too: the game is not zero-sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evolvent.core.errors import missing_extra
from evolvent.core.turns import Chance, GameFrame, GameSpec, check_moves

WORDS = ("stay", "left", "right", "down", "up")


class Tag:
    """B worlds, moved one after the other; see ``core.turns.GameEnv``. ``worlds`` are mpe2's parallel environments."""

    name = "tag"

    def __init__(self, worlds: list[Any], limit: int) -> None:
        self.n_envs, self._worlds, self._limit = len(worlds), worlds, limit
        self._agents: list[str] = worlds[0].possible_agents
        sizes = [worlds[0].observation_space(agent).shape[0] for agent in self._agents]
        chase = tuple(i for i, agent in enumerate(self._agents) if agent.startswith("adversary"))
        flee = tuple(i for i in range(len(self._agents)) if i not in chase)
        self.game = GameSpec(len(sizes), len(WORDS), max(sizes), limit, False, False, sides=(chase, flee))
        self._steps_B, shape = np.full(self.n_envs, limit), (self.n_envs, len(sizes))
        self._info_BPD = np.zeros((*shape, max(sizes)), np.float32)
        self._frame = self._show(np.zeros(shape, np.float32))

    def reset(self, seed_B: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """See ``GameEnv.reset``; where everybody stands is drawn."""
        for copy in range(self.n_envs) if where_B is None else np.flatnonzero(where_B).tolist():
            seen, _ = self._worlds[copy].reset(seed=int(seed_B[copy]))
            self._write(copy, seen)
            self._steps_B[copy] = 0
        return self._show(np.zeros(self._info_BPD.shape[:2], np.float32))

    def step(self, action_BP: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """See ``GameEnv.step``."""
        moves_B = check_moves(self, self._frame, action_BP, where_B)
        reward_BP = np.zeros(action_BP.shape, np.float32)
        for copy in np.flatnonzero(moves_B).tolist():
            moves = dict(zip(self._agents, action_BP[copy].tolist(), strict=True))
            seen, reward, *_ = self._worlds[copy].step(moves)
            self._write(copy, seen)
            reward_BP[copy] = [reward[agent] for agent in self._agents]
        self._steps_B += moves_B
        return self._show(reward_BP)

    def chance(self, copy: int) -> list[Chance]:
        """None that could be listed: where everybody starts are numbers."""
        return []

    def knows(self, copy: int, player: int) -> str:
        """See ``GameEnv.knows``."""
        return " ".join(f"{number:.2f}" for number in self._info_BPD[copy, player])

    def word(self, copy: int, player: int, action: int) -> str:
        """See ``GameEnv.word``."""
        return WORDS[action]

    def close(self) -> None:
        """See ``GameEnv.close``."""
        for world in self._worlds:
            world.close()

    def _write(self, copy: int, seen: dict[str, np.ndarray]) -> None:
        for player, agent in enumerate(self._agents):
            self._info_BPD[copy, player, : len(seen[agent])] = seen[agent]

    def _show(self, reward_BP: np.ndarray) -> GameFrame:
        ended_B = self._steps_B >= self._limit
        acts_BP = np.repeat(~ended_B[:, None], reward_BP.shape[1], axis=1)
        legal_BPN = np.repeat(acts_BP[..., None], len(WORDS), axis=2)
        info_BPD = self._info_BPD * acts_BP[..., None]
        self._frame = GameFrame(acts_BP, info_BPD, legal_BPN, reward_BP, ended_B)
        return self._frame


def make_game(*, n_envs: int, chase: int = 3, flee: int = 1, obstacles: int = 2, limit: int = 25) -> Tag:
    """``n_envs`` copies.

    Args:
        n_envs: B.
        chase: pursuers, the slower ones.
        flee: those who flee.
        obstacles: round things in the way.
        limit: steps of a game.
    """
    try:
        from mpe2 import simple_tag_v3
    except ImportError as error:
        raise missing_extra("mpe2", "marl", "envs.games.tag") from error
    options = {"num_adversaries": chase, "num_good": flee, "num_obstacles": obstacles, "max_cycles": limit}
    return Tag([simple_tag_v3.parallel_env(**options) for _ in range(n_envs)], limit)
