"""Connect four: seven columns, six rows, four in a row win; no chance, nothing hidden.

Moves, information (the board) and rewards are those of OpenSpiel's ``connect_four``; all copies are computed at once.
"""

from __future__ import annotations

import numpy as np

from evolvent.core.turns import Chance, GameFrame, GameSpec, check_moves
from evolvent.envs.games._frames import in_turn

ROWS, COLUMNS = 6, 7


class ConnectFour:
    """B copies; see ``core.turns.GameEnv``."""

    name = "connect_four"
    game = GameSpec(
        2, COLUMNS, 3 * ROWS * COLUMNS, ROWS * COLUMNS, True, perfect_recall=False, openspiel="connect_four"
    )

    def __init__(self, n_envs: int) -> None:
        self.n_envs = n_envs
        self._board_BPRC = np.zeros((n_envs, 2, ROWS, COLUMNS), np.bool_)
        """The stones of each player; row 0 is the lowest."""
        self._mover_B = np.zeros(n_envs, np.int64)
        self._frame = self.reset(np.zeros(n_envs, np.int64))

    def reset(self, seed_B: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """See ``GameEnv.reset``; all games begin alike."""
        new_B = np.ones(self.n_envs, np.bool_) if where_B is None else where_B
        self._board_BPRC[new_B], self._mover_B[new_B] = False, 0
        return self._show(np.zeros((self.n_envs, 2)))

    def step(self, action_BP: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """See ``GameEnv.step``."""
        rows = np.flatnonzero(check_moves(self, self._frame, action_BP, where_B))
        mover_M = self._mover_B[rows]
        column_M = action_BP[rows, mover_M]
        height_M = self._board_BPRC[rows, :, :, column_M].sum(axis=(1, 2))
        self._board_BPRC[rows, mover_M, height_M, column_M] = True
        won_M = _four(self._board_BPRC[rows, mover_M])
        full_M = self._board_BPRC[rows].sum(axis=(1, 2, 3)) == ROWS * COLUMNS
        reward_BP = np.zeros((self.n_envs, 2))
        reward_BP[rows, mover_M], reward_BP[rows, 1 - mover_M] = won_M, -1.0 * won_M
        self._mover_B[rows] = np.where(won_M | full_M, -1, 1 - mover_M)
        return self._show(reward_BP)

    def chance(self, copy: int) -> list[Chance]:
        """There is none."""
        return []

    def knows(self, copy: int, player: int) -> str:
        """See ``GameEnv.knows``; the highest row first."""
        board_RC = self._board_BPRC[copy, 0] + np.int64(2) * self._board_BPRC[copy, 1]
        return "/".join("".join(".xo"[stone] for stone in row) for row in board_RC[::-1])

    def word(self, copy: int, player: int, action: int) -> str:
        """See ``GameEnv.word``."""
        return f"{'xo'[player]}{action}"

    def close(self) -> None:
        """Nothing is held."""

    def _show(self, reward_BP: np.ndarray) -> GameFrame:
        """Information: three boards of the first player's stones, the second's, and what is free."""
        free_BRC = np.logical_not(self._board_BPRC.any(axis=1))
        info_BD = np.concatenate([self._board_BPRC, free_BRC[:, None]], axis=1).reshape(self.n_envs, -1)
        self._frame = in_turn(self._mover_B, info_BD, free_BRC[:, -1], reward_BP)
        return self._frame


def _four(own_MRC: np.ndarray) -> np.ndarray:
    """Whether four of these stones stand in a row, a column or a diagonal: bool ``[M]``."""
    found_M = np.zeros(len(own_MRC), np.bool_)
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        line = own_MRC[:, :, ::-1] if right < 0 else own_MRC
        r, c, right = ROWS - 3 * down, COLUMNS - 3 * abs(right), abs(right)
        four = np.ones((len(line), r, c), np.bool_)
        for k in range(4):
            four &= line[:, k * down : k * down + r, k * right : k * right + c]
        found_M |= four.any(axis=(1, 2))
    return found_M


def make_game(*, n_envs: int) -> ConnectFour:
    """``n_envs`` copies."""
    return ConnectFour(n_envs)
