"""``Seat``: one side of a game as a team, mostly of one agent, so that any learner can become a best response.

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
        side: the learner's, by its number in ``GameSpec.sides``; where every player is for itself, its seat.
        opponents: a mixture for each of the other sides; the policy that is drawn plays all of its players.

    Raises:
        BadInput: no such side, or opponents that are not the other sides.
    """

    def __init__(self, env: GameEnv, side: int, opponents: Mapping[int, Mixture]) -> None:
        sides = range(len(env.game.sides))
        if side not in sides or set(opponents) != set(sides) - {side}:
            got = f"side {side} against {sorted(opponents)}"
            expected = f"one of 0 to {len(sides) - 1}, and a mixture for each of the others"
            raise BadInput("another number of players", got=got, expected=expected, where=f"Seat of {env.name}")
        self._env, self._opponents, b = env, dict(opponents), env.n_envs
        self.name, self.n_envs = f"{env.name}, side {side}", b
        self._own = list(env.game.sides[side])
        agents = tuple(f"player{player}" for player in self._own)
        self.team = TeamSpec(agents, env.game.info_dim, (ActionSpec(choices=env.game.actions),) * len(agents))
        self._seed_B, self._game_seed_B = np.zeros(b, np.int64), np.zeros(b, np.int64)
        self._games_B, self._ply_B = np.zeros(b, np.int64), np.zeros(b, np.int64)  # in this copy; in this game
        self._who_B = {other: np.zeros(b, np.int64) for other in opponents}
        self._owed_BA = np.zeros((b, len(agents)))  # earned since the learner's last choice
        self._game = env.reset(self._game_seed_B)
        self._last = self._seen()

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        every_B = np.ones(self.n_envs, np.bool_)
        self._seed_B = seed_below(np.full(self.n_envs, seed), np.arange(self.n_envs))
        self._games_B[:], self._owed_BA[:] = 0, 0
        self._begin(every_B)
        return self._until_choice(~every_B)

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        if np.shape(action) != self._owed_BA.shape:
            raise BadInput("actions", got=np.shape(action), expected=self._owed_BA.shape, where=f"{self.name}, step")
        every_B = np.ones(self.n_envs, np.bool_)
        self._move(every_B, action)
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
        for side, mixture in self._opponents.items():
            first = self._env.game.sides[side][0]
            self._who_B[side][where_B] = mixture.draw(uniform(self._game_seed_B[where_B], 1 + first))
        self._game = self._env.reset(self._game_seed_B, where_B)

    def _move(self, where_B: np.ndarray, own_BA: np.ndarray) -> None:
        """One step of the game: the learner's moves where it has one, and those of its opponents."""
        action_BP = np.zeros(self._game.acts_BP.shape, np.promote_types(own_BA.dtype, np.int64))  # floats are refused
        action_BP[:, self._own] = own_BA
        for side, mixture in self._opponents.items():
            for player in self._env.game.sides[side]:
                acts_B = self._game.acts_BP[:, player] & where_B
                for number in np.unique(self._who_B[side][acts_B]).tolist():
                    rows_M = np.flatnonzero(acts_B & (self._who_B[side] == number))
                    draw_M = uniform(self._game_seed_B[rows_M], 1 + player, self._ply_B[rows_M])
                    policy = mixture.policies[number]
                    action_BP[rows_M, player], _ = choose(policy, self._env, self._game, player, rows_M, draw_M)
        self._game = self._env.step(action_BP, where_B)
        self._ply_B[where_B] += 1
        self._owed_BA[where_B] += self._game.reward_BP[where_B][:, self._own]

    def _until_choice(self, chose_B: np.ndarray) -> Frame:
        """Play on until the learner has a choice everywhere; those of ``chose_B`` made one that leads here."""
        done_B, reward_BA = np.zeros(self.n_envs, np.bool_), np.zeros_like(self._owed_BA)
        who = {f"opponent{side}": np.full(self.n_envs, np.nan, np.float32) for side in self._opponents}
        nothing_BA = np.zeros(reward_BA.shape, np.int64)
        for _ in range(_IDLE):
            if (over_B := self._game.ended_B.copy()).any():
                first_B = over_B & chose_B & ~done_B
                reward_BA[first_B] = self._owed_BA[first_B]
                for side, numbers_B in self._who_B.items():
                    who[f"opponent{side}"][first_B] = numbers_B[first_B]
                done_B |= first_B
                self._owed_BA[over_B] = 0
                self._begin(over_B)
            elif (waits_B := np.logical_not(self._game.acts_BP[:, self._own].any(axis=1))).any():
                self._move(waits_B, nothing_BA)
            else:
                break
        else:
            raise BadInput("a player without a choice", got=f"none in {_IDLE} rounds", where=self.name)
        goes_on_B = chose_B & ~done_B
        reward_BA[goes_on_B] = self._owed_BA[goes_on_B]
        self._owed_BA[goes_on_B] = 0
        return self._shown(reward_BA, done_B, who)

    def _shown(self, reward_BA: np.ndarray, done_B: np.ndarray, who: dict[str, np.ndarray]) -> Frame:
        ended, (seen_BAD, could_BAN, active_BA) = bool(done_B.any()), self._last
        self._last = self._seen()
        return Frame(
            obs_BAD=self._last[0],
            reward_BA=reward_BA.astype(np.float32),
            terminated_B=done_B,
            truncated_B=np.zeros(self.n_envs, np.bool_),
            available_BAN=self._last[1],
            active_BA=self._last[2],
            final_obs_BAD=seen_BAD if ended else None,
            final_available_BAN=could_BAN if ended else None,
            final_active_BA=active_BA if ended else None,
            info=who if ended else {},
        )

    def _seen(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the learner knows and may do, and who of it moves; indexing by a list copies."""
        game = self._game
        return game.info_BPD[:, self._own], game.legal_BPN[:, self._own], game.acts_BP[:, self._own]
