"""Kuhn poker: three cards, two players, one bet; small enough to be solved by hand.

Kuhn, "A Simplified Two-Person Poker", 1950. Moves, information and rewards are those of OpenSpiel's ``kuhn_poker``; all
copies are computed at once.
"""

from __future__ import annotations

import numpy as np

from evolvent.core.turns import Chance, GameFrame, GameSpec, check_moves, uniform
from evolvent.envs.games._frames import in_turn

WORDS = ("pass", "bet")


class Kuhn:
    """B copies; see ``core.turns.GameEnv``."""

    name = "kuhn"
    game = GameSpec(2, 2, 11, 3, zero_sum=True, perfect_recall=True, openspiel="kuhn_poker")

    def __init__(self, n_envs: int) -> None:
        self.n_envs = n_envs
        self._card_BP = np.zeros((n_envs, 2), np.int64)
        self._move_BT = np.full((n_envs, 3), -1)
        self._ended_B, self._dealt_B = np.zeros(n_envs, np.bool_), np.zeros(n_envs, np.bool_)
        self._frame = self.reset(np.zeros(n_envs, np.int64))

    def reset(self, seed_B: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """See ``GameEnv.reset``."""
        self._dealt_B = np.ones(self.n_envs, np.bool_) if where_B is None else where_B
        first_B = (uniform(seed_B, 0, 0) * 3).astype(np.int64)
        other_B = (first_B + 1 + (uniform(seed_B, 0, 1) * 2).astype(np.int64)) % 3
        self._card_BP[self._dealt_B] = np.stack([first_B, other_B], axis=1)[self._dealt_B]
        self._move_BT[self._dealt_B] = -1
        self._ended_B[self._dealt_B] = False
        return self._show(np.zeros((self.n_envs, 2)))

    def step(self, action_BP: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """See ``GameEnv.step``."""
        going_B = check_moves(self, self._frame, action_BP, where_B)
        self._dealt_B = np.zeros(self.n_envs, np.bool_)
        rows, turn = np.arange(self.n_envs), self._turn_B
        self._move_BT[rows[going_B], turn[going_B]] = action_BP[rows, turn % 2][going_B]
        made, (a, b, c) = turn + going_B, self._move_BT.T
        self._ended_B |= (made == 3) | ((made == 2) & ((a == 1) | (b == 0)))
        # whoever passes a bet loses 1; otherwise the higher card wins 1, or 2 after a bet that was called
        folded = np.where((a == 1) & (b == 0), 1, np.where((b == 1) & (c == 0) & (a == 0), -1, 0))
        higher = np.where(self._card_BP[:, 0] > self._card_BP[:, 1], 1, -1) * np.where((a == 1) | (b == 1), 2, 1)
        won_B = np.where(folded != 0, folded, higher) * (going_B & self._ended_B)
        return self._show(np.stack([won_B, -won_B], axis=1))

    def chance(self, copy: int) -> list[Chance]:
        """See ``GameEnv.chance``."""
        first, other = self._card_BP[copy].tolist()
        left = [(card, 1 / 2) for card in range(3) if card != first]
        return [(first, [(card, 1 / 3) for card in range(3)]), (other, left)] if self._dealt_B[copy] else []

    def knows(self, copy: int, player: int) -> str:
        """See ``GameEnv.knows``."""
        moves = " ".join(WORDS[move] for move in self._move_BT[copy] if move >= 0)
        return f"card {'JQK'[self._card_BP[copy, player]]}; {moves or 'no move yet'}"

    def word(self, copy: int, player: int, action: int) -> str:
        """See ``GameEnv.word``."""
        return WORDS[action]

    def close(self) -> None:
        """Nothing is held."""

    @property
    def _turn_B(self) -> np.ndarray:
        return (self._move_BT >= 0).sum(axis=1)

    def _show(self, reward_BP: np.ndarray) -> GameFrame:
        """Information: the player, its card and every move so far, each as one-hot (2, 3 and 3 x 2 numbers)."""
        mover_B = np.where(self._ended_B, -1, self._turn_B % 2)
        card_B = self._card_BP[np.arange(self.n_envs), mover_B]
        moves_BT2 = self._move_BT[..., None] == np.arange(2)
        player_B2, card_B3 = mover_B[:, None] == np.arange(2), card_B[:, None] == np.arange(3)
        info_BD = np.concatenate([player_B2, card_B3, moves_BT2.reshape(self.n_envs, 6)], axis=1)
        self._frame = in_turn(mover_B, info_BD, np.ones((self.n_envs, 2), np.bool_), reward_BP)
        return self._frame


def make_game(*, n_envs: int) -> Kuhn:
    """``n_envs`` copies."""
    return Kuhn(n_envs)
