"""Leduc poker: two suits of three cards, a public card, two rounds of bets of 2 and 4; the usual test of populations.

Southey et al., "Bayes' Bluff: Opponent Modelling in Poker", UAI 2005. Moves, information and rewards are those of
OpenSpiel's ``leduc_poker`` for two players; all copies are computed at once.
"""

from __future__ import annotations

import numpy as np

from evolvent.core.turns import Chance, GameFrame, GameSpec, check_moves, uniform
from evolvent.envs.games._frames import in_turn

WORDS = ("fold", "call", "raise")
CALL, RAISE = 1, 2
_RAISES = 2  # the most in one round


class Leduc:
    """B copies; see ``core.turns.GameEnv``."""

    name = "leduc"
    game = GameSpec(2, 3, 30, 8, zero_sum=True, perfect_recall=True, openspiel="leduc_poker")

    def __init__(self, n_envs: int) -> None:
        self.n_envs, b = n_envs, n_envs
        self._rows = np.arange(b)
        self._card_B3 = np.zeros((b, 3), np.int64)
        """Of the players, and the public one; 0 and 1 are jacks, 2 and 3 queens, 4 and 5 kings."""
        self._bet_BRT = np.zeros((b, 2, 4), np.int64)
        """Calls and raises by round, in order; 0 = none yet."""
        self._paid_BP, self._round_B, self._mover_B = np.ones((b, 2), np.int64), np.zeros(b, np.int64), np.zeros(b, int)
        self._dealt_B, self._public_B = np.zeros(b, np.bool_), np.zeros(b, np.bool_)
        self._frame = self.reset(np.zeros(b, np.int64))

    def reset(self, seed_B: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """See ``GameEnv.reset``."""
        new_B = np.ones(self.n_envs, np.bool_) if where_B is None else where_B
        card_B3 = np.stack([(uniform(seed_B, 0, k) * (6 - k)).astype(np.int64) for k in range(3)], axis=1)
        card_B3[:, 1] += card_B3[:, 1] >= card_B3[:, 0]  # of the cards that are left, in order
        low_B, high_B = card_B3[:, :2].min(axis=1), card_B3[:, :2].max(axis=1)
        card_B3[:, 2] += card_B3[:, 2] >= low_B
        card_B3[:, 2] += card_B3[:, 2] >= high_B
        self._card_B3[new_B], self._bet_BRT[new_B], self._paid_BP[new_B] = card_B3[new_B], 0, 1
        self._round_B[new_B], self._mover_B[new_B] = 0, 0
        self._dealt_B, self._public_B = new_B, np.zeros(self.n_envs, np.bool_)
        return self._show(np.zeros((self.n_envs, 2)))

    def step(self, action_BP: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """See ``GameEnv.step``."""
        going_B = check_moves(self, self._frame, action_BP, where_B)
        rows, mover_B = self._rows, self._mover_B
        action_B = np.where(going_B, action_BP[rows, mover_B], -1)
        stakes_B, turn_B = self._paid_BP.max(axis=1), self._turn_B
        bets_B = action_B >= CALL
        pays_B = stakes_B + np.where(action_B == RAISE, np.where(self._round_B == 0, 2, 4), 0)
        self._paid_BP[rows[bets_B], mover_B[bets_B]] = pays_B[bets_B]
        self._bet_BRT[rows[bets_B], self._round_B[bets_B], turn_B[bets_B]] = action_B[bets_B]
        folds_B = action_B == 0
        closes_B = (action_B == CALL) & (turn_B > 0)
        shows_B = closes_B & (self._round_B == 1)
        self._dealt_B, self._public_B = np.zeros(self.n_envs, np.bool_), closes_B & ~shows_B
        won_B = np.where(folds_B, 2 * mover_B - 1, np.where(shows_B, self._winner_B, 0)) * self._paid_BP.min(axis=1)
        self._round_B[self._public_B] = 1
        self._mover_B = np.where(going_B, np.where(self._public_B, 0, 1 - mover_B), mover_B)
        self._mover_B[folds_B | shows_B] = -1
        return self._show(np.stack([won_B, -won_B], axis=1))

    def chance(self, copy: int) -> list[Chance]:
        """See ``GameEnv.chance``."""
        cards, left, drawn = self._card_B3[copy].tolist(), list(range(6)), list[Chance]()
        for number, card in enumerate(cards):
            if (self._dealt_B if number < 2 else self._public_B)[copy]:
                drawn.append((card, [(other, 1 / len(left)) for other in left]))
            left.remove(card)
        return drawn

    def knows(self, copy: int, player: int) -> str:
        """See ``GameEnv.knows``."""
        ranks = ["JQK"[card // 2] for card in self._card_B3[copy]]
        bets = [" ".join(WORDS[bet] for bet in bets if bet) or "no bet yet" for bets in self._bet_BRT[copy]]
        public = f"; public card {ranks[2]}: {bets[1]}" if self._round_B[copy] else ""
        return f"card {ranks[player]}: {bets[0]}{public}"

    def word(self, copy: int, player: int, action: int) -> str:
        """See ``GameEnv.word``."""
        return WORDS[action]

    def close(self) -> None:
        """Nothing is held."""

    @property
    def _turn_B(self) -> np.ndarray:
        """Bets made in this round."""
        return (self._bet_BRT[self._rows, self._round_B] > 0).sum(axis=1)

    @property
    def _winner_B(self) -> np.ndarray:
        """1 where player 0 has the better card, -1 where the other has, 0 where they share."""
        rank_B3 = self._card_B3 // 2
        worth_BP = rank_B3[:, :2] + 3 * (rank_B3[:, :2] == rank_B3[:, 2:])
        return np.sign(worth_BP[:, 0] - worth_BP[:, 1])

    def _show(self, reward_BP: np.ndarray) -> GameFrame:
        """Information as one-hot: the player (2), its card (6), the public one (6), bets (2 rounds x 4 x 2)."""
        rows, mover_B, six = self._rows, self._mover_B, np.arange(6)
        info_BD = np.zeros((self.n_envs, 30), np.bool_)
        info_BD[:, :2] = mover_B[:, None] == np.arange(2)
        info_BD[:, 2:8] = self._card_B3[rows, mover_B][:, None] == six
        info_BD[:, 8:14] = (self._card_B3[:, 2, None] == six) & (self._round_B[:, None] == 1)
        info_BD[:, 14:] = (self._bet_BRT[..., None] == np.array([CALL, RAISE])).reshape(self.n_envs, 16)
        raises_B = (self._bet_BRT[rows, self._round_B] == RAISE).sum(axis=1)
        behind_B = self._paid_BP[rows, mover_B] < self._paid_BP.max(axis=1)
        legal_BN = np.stack([behind_B, np.ones(self.n_envs, np.bool_), raises_B < _RAISES], axis=1)
        self._frame = in_turn(mover_B, info_BD, legal_BN, reward_BP)
        return self._frame


def make_game(*, n_envs: int) -> Leduc:
    """``n_envs`` copies."""
    return Leduc(n_envs)
