"""``Seat``: one seat of a game as a team of one agent, so that any learner can become a best response.

Everybody else is played by policies. Which one is drawn from a mixture when a game begins, and stays until it ends: the
learner then answers the mixture itself and not its average in each step, which another policy may answer best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.team import ActionSpec, Frame, TeamSpec
from evolvent.core.turns import GameEnv, Policy, choose, seed_below, uniform

_IDLE = 1_000  # moves of others in a row, after which the learner is taken to have none


@dataclass(frozen=True, eq=False)
class Mixture:
    """Policies, one of which plays a whole game; weights at least 0, of any sum above 0."""

    policies: Sequence[Policy]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        w = np.asarray(self.weights, np.float64)
        if w.shape != (len(self.policies),) or not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
            expected = f"{len(self.policies)} numbers of at least 0, not all 0"
            raise BadInput("weights of a mixture", got=w.tolist(), expected=expected, where="Mixture")

    def draw(self, draw_B: np.ndarray) -> np.ndarray:
        """Numbers of policies for numbers in [0, 1): int64 ``[B]``."""
        sum_K = np.cumsum(self.weights)
        return np.searchsorted(sum_K, draw_B * sum_K[-1], side="right")


class Seat:
    """See the module and ``core.team.TeamEnv``; an attempt is a game, which restarts at once.

    A step lasts from one choice of the learner to its next, or to the end of the game. What it earned before its first
    choice is added to the first step; games that end before it could choose do not show. ``info`` of a game that ended
    says which policy each opponent was: ``opponent0`` for player 0, and so on. What is seen last is what the learner
    knew at its last choice.

    Args:
        env: the game; the seat moves it alone from here on.
        player: the learner's seat.
        opponents: a mixture for each of the other players.

    Raises:
        BadInput: no such player, or opponents that are not the other players.
    """

    def __init__(self, env: GameEnv, player: int, opponents: Mapping[int, Mixture]) -> None:
        others = [p for p in range(env.game.players) if p != player]
        if len(others) != env.game.players - 1 or sorted(opponents) != others:
            got = f"player {player} against {sorted(opponents)}"
            expected = f"one of players 0 to {env.game.players - 1}, and a mixture for each of the others"
            raise BadInput("another number of players", got=got, expected=expected, where=f"Seat of {env.name}")
        self._env, self._player, self._opponents, b = env, player, dict(opponents), env.n_envs
        self.name, self.n_envs = f"{env.name}, seat {player}", b
        self.team = TeamSpec((f"player{player}",), env.game.info_dim, (ActionSpec(choices=env.game.actions),))
        self._seed_B, self._game_seed_B = np.zeros(b, np.int64), np.zeros(b, np.int64)
        self._games_B, self._ply_B = np.zeros(b, np.int64), np.zeros(b, np.int64)  # in this copy; in this game
        self._who_B = {p: np.zeros(b, np.int64) for p in others}
        self._owed_B = np.zeros(b)  # earned since the learner's last choice
        self._game = env.reset(self._game_seed_B)
        self._last = (self._game.info_BPD[:, :1], self._game.legal_BPN[:, :1])  # what it knew and could do

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        every_B = np.ones(self.n_envs, np.bool_)
        self._seed_B = seed_below(np.full(self.n_envs, seed), np.arange(self.n_envs))
        self._games_B[:], self._owed_B[:] = 0, 0
        self._begin(every_B)
        return self._until_choice(~every_B)

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        if np.shape(action) != (self.n_envs, 1):
            raise BadInput("actions", got=np.shape(action), expected=(self.n_envs, 1), where=f"{self.name}, step")
        every_B = np.ones(self.n_envs, np.bool_)
        self._move(every_B, action[:, 0])
        return self._until_choice(every_B)

    def render(self) -> None:
        """There is nothing to see."""

    def close(self) -> None:
        """See ``TeamEnv.close``."""
        self._env.close()

    def _begin(self, where_B: np.ndarray) -> None:
        """Start games, and draw who plays them."""
        self._game_seed_B[where_B] = seed_below(self._seed_B, self._games_B)[where_B]
        self._games_B[where_B] += 1
        self._ply_B[where_B] = 0
        for player, mixture in self._opponents.items():
            self._who_B[player][where_B] = mixture.draw(uniform(self._game_seed_B[where_B], 1 + player))
        self._game = self._env.reset(self._game_seed_B, where_B)

    def _move(self, where_B: np.ndarray, own_B: np.ndarray) -> None:
        """One step of the game: the learner's moves where it has one, and those of its opponents."""
        action_BP = np.zeros(self._game.acts_BP.shape, own_B.dtype)
        action_BP[:, self._player] = own_B
        for player, mixture in self._opponents.items():
            acts_B = self._game.acts_BP[:, player] & where_B
            for number in np.unique(self._who_B[player][acts_B]).tolist():
                rows_M = np.flatnonzero(acts_B & (self._who_B[player] == number))
                draw_M = uniform(self._game_seed_B[rows_M], 1 + player, self._ply_B[rows_M])
                policy = mixture.policies[number]
                action_BP[rows_M, player], _ = choose(policy, self._env, self._game, player, rows_M, draw_M)
        self._game = self._env.step(action_BP, where_B)
        self._ply_B[where_B] += 1
        self._owed_B[where_B] += self._game.reward_BP[where_B, self._player]

    def _until_choice(self, chose_B: np.ndarray) -> Frame:
        """Play on until the learner has a choice everywhere; those of ``chose_B`` made one that leads here."""
        done_B, reward_B = np.zeros(self.n_envs, np.bool_), np.zeros(self.n_envs)
        who = {f"opponent{player}": np.full(self.n_envs, np.nan, np.float32) for player in self._opponents}
        nothing_B = np.zeros(self.n_envs, np.int64)
        for _ in range(_IDLE):
            if (over_B := self._game.ended_B.copy()).any():
                first_B = over_B & chose_B & ~done_B
                reward_B[first_B] = self._owed_B[first_B]
                for player, numbers_B in self._who_B.items():
                    who[f"opponent{player}"][first_B] = numbers_B[first_B]
                done_B |= first_B
                self._owed_B[over_B] = 0
                self._begin(over_B)
            elif (waits_B := ~self._game.acts_BP[:, self._player]).any():
                self._move(waits_B, nothing_B)
            else:
                break
        else:
            raise BadInput("a player without a choice", got=f"none in {_IDLE} rounds", where=self.name)
        goes_on_B = chose_B & ~done_B
        reward_B[goes_on_B] = self._owed_B[goes_on_B]
        self._owed_B[goes_on_B] = 0
        return self._shown(reward_B, done_B, who)

    def _shown(self, reward_B: np.ndarray, done_B: np.ndarray, who: dict[str, np.ndarray]) -> Frame:
        ended, (seen_BAD, could_BAN) = bool(done_B.any()), self._last
        self._last = (
            self._game.info_BPD[:, self._player, None].copy(),
            self._game.legal_BPN[:, self._player, None].copy(),
        )
        return Frame(
            obs_BAD=self._last[0],
            reward_BA=reward_B.astype(np.float32)[:, None],
            terminated_B=done_B,
            truncated_B=np.zeros(self.n_envs, np.bool_),
            available_BAN=self._last[1],
            final_obs_BAD=seen_BAD if ended else None,
            final_available_BAN=could_BAN if ended else None,
            info=who if ended else {},
        )
