"""Matrix games of two players: rps, matching_pennies, prisoners_dilemma or any table; both move at once, k times.

A table is written by rows, as what the first player earns: ``matrix_game:0 -1 1/1 0 -1/-1 1 0``; the second earns the
opposite, or what ``other`` says. Played once, they are OpenSpiel's matrix games of the same name.
"""

from __future__ import annotations

import numpy as np

from evolvent.core.errors import BadInput, closest
from evolvent.core.turns import Chance, GameFrame, GameSpec, check_moves

TABLES = {
    "rps": ("0 -1 1/1 0 -1/-1 1 0", "", "matrix_rps"),
    "matching_pennies": ("1 -1/-1 1", "", "matrix_mp"),
    "prisoners_dilemma": ("5 0/10 1", "5 10/0 1", "matrix_pd"),
}


class MatrixGame:
    """B copies; see ``core.turns.GameEnv``. ``pay_PNN`` is what each player earns for both moves."""

    def __init__(self, n_envs: int, name: str, pay_PNN: np.ndarray, repeats: int, openspiel: str) -> None:
        self.n_envs, self.name, self._pay_PNN, self._repeats = n_envs, name, pay_PNN, repeats
        self._moves_P = np.array(pay_PNN.shape[1:])
        choices = int(self._moves_P.max())
        zero_sum = not pay_PNN.sum(axis=0).any()
        self.game = GameSpec(2, choices, 1 + (repeats - 1) * 2 * choices, repeats, zero_sum, True, openspiel)
        self._move_BTP = np.full((n_envs, repeats, 2), -1)
        self._frame = self.reset(np.zeros(n_envs, np.int64))

    def reset(self, seed_B: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """See ``GameEnv.reset``; all games begin alike."""
        self._move_BTP[slice(None) if where_B is None else where_B] = -1
        return self._show(np.zeros((self.n_envs, 2), np.float32))

    def step(self, action_BP: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """See ``GameEnv.step``."""
        rows = np.flatnonzero(check_moves(self, self._frame, action_BP, where_B))
        self._move_BTP[rows, self._turn_B[rows]] = action_BP[rows]
        reward_BP = np.zeros((self.n_envs, 2), np.float32)
        reward_BP[rows] = self._pay_PNN[:, action_BP[rows, 0], action_BP[rows, 1]].T
        return self._show(reward_BP)

    def chance(self, copy: int) -> list[Chance]:
        """There is none."""
        return []

    def knows(self, copy: int, player: int) -> str:
        """See ``GameEnv.knows``."""
        past = " ".join(f"{a}-{b}" for a, b in self._move_BTP[copy] if a >= 0)
        return f"moves so far: {past or 'none'}"

    def word(self, copy: int, player: int, action: int) -> str:
        """See ``GameEnv.word``."""
        return str(action)

    def close(self) -> None:
        """Nothing is held."""

    @property
    def _turn_B(self) -> np.ndarray:
        return (self._move_BTP[..., 0] >= 0).sum(axis=1)

    def _show(self, reward_BP: np.ndarray) -> GameFrame:
        """Information: the share of rounds that were played, and all moves of both as one-hot but those of the last."""
        turn_B, n = self._turn_B, self.game.actions
        going_B = turn_B < self._repeats
        past_BX = (self._move_BTP[:, :-1, :, None] == np.arange(n)).reshape(self.n_envs, -1)
        info_BD = np.concatenate([turn_B[:, None] / self._repeats, past_BX], axis=1).astype(np.float32)
        acts_BP = np.repeat(going_B[:, None], 2, axis=1)
        legal_PN = np.arange(n) < self._moves_P[:, None]
        info_BPD = acts_BP[..., None] * info_BD[:, None]
        self._frame = GameFrame(acts_BP, info_BPD, acts_BP[..., None] & legal_PN, reward_BP, ~going_B)
        return self._frame


def make_game(variant: str = "rps", *, n_envs: int, other: str = "", repeats: int = 1) -> MatrixGame:
    """``n_envs`` copies.

    Args:
        variant: a name, or a table of what the first player earns: rows apart by ``/``, numbers by spaces.
        n_envs: B.
        other: the table of what the second player earns; "" = the opposite.
        repeats: rounds in one game; both know all earlier moves.
    """
    table, its_other, openspiel = TABLES.get(variant, (variant, "", ""))
    where = f"matrix_game:{variant}"
    if repeats < 1:
        raise BadInput("rounds", got=repeats, expected="at least 1", where=where)
    pay_NN = _table(table, where)
    other_NN = _table(other or its_other, where) if other or its_other else -pay_NN
    if other_NN.shape != pay_NN.shape:
        raise BadInput("tables of two shapes", got=f"{pay_NN.shape} and {other_NN.shape}", where=where)
    exact = openspiel if repeats == 1 and not other else ""
    return MatrixGame(n_envs, f"matrix_game:{variant}", np.stack([pay_NN, other_NN]), repeats, exact)


def _table(text: str, where: str) -> np.ndarray:
    try:
        table_NN = np.array([[float(number) for number in row.split()] for row in text.split("/")])
    except ValueError as error:
        hint = f"a table as in 1 -1/-1 1, or a name; {closest(text, TABLES)}"
        raise BadInput("not a matrix game", got=text, expected=hint, where=where) from error
    if not np.isfinite(table_NN).all() or table_NN.size < 2:
        raise BadInput("payoffs", got=text, expected="finite numbers", where=where)
    return table_NN
