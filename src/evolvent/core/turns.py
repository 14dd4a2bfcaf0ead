"""Games in turns: what B games side by side show (``GameFrame``), what plays them (``Policy``), and their draws.

One shape serves games where players move in turn and games where they move at once: who moves now is a mask over the
players. Each game has a seed of its own, which settles all that chance does, whatever copy it is played in. A game that
has ended stands still until ``reset`` starts another one in its copy; ``core.match`` plays games to their end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from evolvent.core.errors import BadInput

Chance: TypeAlias = tuple[int, list[tuple[int, float]]]
"""What chance did: the outcome, and every outcome with its probability."""


@dataclass(frozen=True)
class GameSpec:
    """The size of a game and what it claims.

    Attributes:
        players: P, numbered from 0.
        actions: N, the largest number of moves.
        info_dim: D, the length of what a player knows.
        max_steps: the most calls of ``step`` that one game takes.
        zero_sum: what the players earn sums to 0 in each game.
        perfect_recall: what a player knows tells everything that it knew and did before.
        openspiel: the game of OpenSpiel with the same moves, information and rewards, which tabular methods and exact
            judges can load; "" = there is none.
        sides: players who earn together and learn as one team, each in one side; () = every player for itself.
    """

    players: int
    actions: int
    info_dim: int
    max_steps: int
    zero_sum: bool
    perfect_recall: bool
    openspiel: str = ""
    sides: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        sides = self.sides or tuple((player,) for player in range(self.players))
        if sorted(player for side in sides for player in side) != list(range(self.players)):
            expected = f"each of players 0 to {self.players - 1} once"
            raise BadInput("sides of a game", got=sides, expected=expected, where="GameSpec.sides")
        object.__setattr__(self, "sides", sides)


@dataclass(frozen=True, eq=False)
class GameFrame:
    """B games after ``reset`` or ``step``; arrays may be reused by the next call: copy to keep.

    Attributes:
        acts_BP: bool ``[B, P]``, who moves now: one player, or those who move at once; nobody where it has ended.
        info_BPD: float32 ``[B, P, D]``, what a player who moves knows; 0 for the others.
        legal_BPN: bool ``[B, P, N]``, its moves; ``False`` for the others.
        reward_BP: float32 ``[B, P]``, earned by the last step; 0 after ``reset`` and in games that had ended before.
        ended_B: bool ``[B]``.
    """

    acts_BP: np.ndarray
    info_BPD: np.ndarray
    legal_BPN: np.ndarray
    reward_BP: np.ndarray
    ended_B: np.ndarray


@runtime_checkable
class GameEnv(Protocol):
    """B copies of a game, played in step; proves itself with ``testing.check_game``."""

    name: str
    n_envs: int
    game: GameSpec

    def reset(self, seed_B: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """Start new games in the copies of ``where_B`` (bool ``[B]``; ``None`` = all), each by its own seed."""
        ...

    def step(self, action_BP: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """Move in the copies of ``where_B``, and let chance move up to the next choice; the others stand still.

        Args:
            action_BP: integers ``[B, P]``, read where ``acts_BP`` is set.
            where_B: bool ``[B]``; ``None`` = all.

        Raises:
            BadInput: an illegal move, named with what its player knows (``check_moves``); nothing has moved.
        """
        ...

    def chance(self, copy: int) -> list[Chance]:
        """What chance did in a copy in its last ``reset`` or ``step``, in order."""
        ...

    def knows(self, copy: int, player: int) -> str:
        """What a player who moves now knows, in words."""
        ...

    def word(self, copy: int, player: int, action: int) -> str:
        """A move of a player who moves now, in words."""
        ...

    def close(self) -> None:
        """Release what the games hold."""
        ...


class Policy(Protocol):
    """Plays any seat of a game; a function of what a player knows, so it can be shared by games side by side."""

    def __call__(self, info_BD: np.ndarray, legal_BN: np.ndarray, player: int) -> np.ndarray:
        """Probabilities ``[B, N]`` of each move: 0 where it is not legal, sum 1."""
        ...


def uniform_policy(info_BD: np.ndarray, legal_BN: np.ndarray, player: int) -> np.ndarray:
    """Every legal move alike."""
    return legal_BN / legal_BN.sum(axis=1, keepdims=True)


def check_moves(env: GameEnv, frame: GameFrame, action_BP: np.ndarray, where_B: np.ndarray | None = None) -> np.ndarray:
    """The copies that move: bool ``[B]``, those of ``where_B`` that have not ended. Every ``step`` begins with it.

    Raises:
        BadInput: another shape, no integers, or the first illegal move.
    """
    shape = frame.acts_BP.shape
    if np.shape(action_BP) != shape or not np.issubdtype(np.asarray(action_BP).dtype, np.integer):
        got = f"{np.asarray(action_BP).dtype} {np.shape(action_BP)}"
        raise BadInput("moves of another shape", got=got, expected=f"integers {shape}", where=f"{env.name}, step")
    moves_B = ~frame.ended_B if where_B is None else where_B & ~frame.ended_B
    inside_BP = (action_BP >= 0) & (action_BP < env.game.actions)
    chosen_BP1 = np.where(inside_BP, action_BP, 0)[..., None]
    legal_BP = np.take_along_axis(frame.legal_BPN, chosen_BP1, axis=2)[..., 0] & inside_BP
    if (wrong_BP := frame.acts_BP & ~legal_BP & moves_B[:, None]).any():
        copy, player = np.argwhere(wrong_BP)[0].tolist()
        raise _illegal(env, frame, copy, player, int(action_BP[copy, player]), "an illegal move")
    return moves_B


def choose(
    policy: Policy, env: GameEnv, frame: GameFrame, player: int, rows_M: np.ndarray, draw_M: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The moves of a player in the copies ``rows_M`` where it moves now.

    Args:
        policy: that plays it.
        env: the games.
        frame: what they show.
        player: its number.
        rows_M: integers ``[M]``, copies.
        draw_M: numbers in [0, 1) (``uniform``), ``[M]``.

    Returns:
        Moves int64 ``[M]``, and the probabilities that they were drawn from, float64 ``[M, N]``.

    Raises:
        BadInput: no probabilities, or some for an illegal move: named, with what the player knows.
    """
    legal_MN = frame.legal_BPN[rows_M, player]
    p_MN = np.asarray(policy(frame.info_BPD[rows_M, player], legal_MN, player), np.float64)
    where = f"{env.name}, policy of player {player}"
    if p_MN.shape != legal_MN.shape:
        raise BadInput("probabilities of another shape", got=p_MN.shape, expected=legal_MN.shape, where=where)
    if (wrong_MN := ~legal_MN & (p_MN > 0)).any():
        row, action = np.argwhere(wrong_MN)[0].tolist()
        what = f"a policy plays an illegal move with probability {p_MN[row, action]:.3g}"
        raise _illegal(env, frame, int(rows_M[row]), player, action, what)
    bad_M = ~((np.abs(p_MN.sum(axis=1) - 1) < 1e-4) & (p_MN >= 0).all(axis=1))
    if bad_M.any():
        row = int(bad_M.argmax())
        got, knows = p_MN[row].tolist(), env.knows(int(rows_M[row]), player)
        raise BadInput("no probabilities", got=got, expected="at least 0, sum 1", where=f"{where}, knowing {knows!r}")
    sum_MN = p_MN.cumsum(axis=1)
    return (sum_MN <= draw_M[:, None] * sum_MN[:, -1:]).sum(axis=1), p_MN


def seed_below(seed_B: np.ndarray, *path: int | np.ndarray) -> np.ndarray:
    """A seed for each seed and path of integers: int64 ``[B]``, at least 0, whatever was drawn before.

    SplitMix64's output function (Steele, Lea and Flood, OOPSLA 2014), once for each part.
    """
    x_B = np.atleast_1d(seed_B).astype(np.uint64)
    for part in path:
        x_B = x_B + (np.atleast_1d(part).astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x_B = (x_B ^ (x_B >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x_B = (x_B ^ (x_B >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x_B = x_B ^ (x_B >> np.uint64(31))
    return (x_B >> np.uint64(1)).astype(np.int64)


def uniform(seed_B: np.ndarray, *path: int | np.ndarray) -> np.ndarray:
    """Numbers in [0, 1) that ``seed_below`` gives: float64 ``[B]``.

    Paths that begin with 0 are for chance; those that begin with 1 + p for what player p draws.
    """
    return (seed_below(seed_B, *path) >> 11).astype(np.float64) * 2.0**-52


def _illegal(env: GameEnv, frame: GameFrame, copy: int, player: int, action: int, what: str) -> BadInput:
    moves = np.flatnonzero(frame.legal_BPN[copy, player]).tolist()
    legal = ", ".join(f"{move} ({env.word(copy, player, move)})" for move in moves)
    where = f"{env.name}, copy {copy}, player {player}, who knows {env.knows(copy, player)!r}"
    return BadInput(what, got=f"move {action}", expected=legal, where=where)
