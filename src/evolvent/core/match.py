"""``play_match``: games in turns played to their end by one policy a player, and recorded as ``core.game.Game``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.game import Game
from evolvent.core.turns import GameEnv, GameFrame, Policy, choose, uniform


@dataclass(frozen=True, eq=False)
class Match:
    """M games, in the order of their seeds.

    Attributes:
        returns_MP: float64 ``[M, P]``, what each player earned in each game.
        plies: moves of players in all of them.
        games: their records, where they were asked for.
    """

    returns_MP: np.ndarray
    plies: int
    games: list[Game] = field(default_factory=list[Game])


def play_match(
    env: GameEnv, policies: Sequence[Policy], seeds: Sequence[int], *, names: Sequence[str] = (), record: bool = False
) -> Match:
    """Play a game for each seed, as many side by side as ``env`` has copies.

    A seed settles what chance does and what the policies draw, so a game comes out the same whichever games are played
    beside it, as long as the policies do.

    Args:
        env: the games.
        policies: one a player.
        seeds: one a game, at least 0.
        names: of the players in the records; ``player0``… where none are given.
        record: keep every game with all that was known, legal, drawn and earned; slow.

    Raises:
        BadInput: another number of policies or names than players, or what a policy does wrong (``choose``).
    """
    players, copies = env.game.players, env.n_envs
    names = names or [f"player{p}" for p in range(players)]
    for what, given in (("policies", policies), ("names", names)):
        if len(given) != players:
            expected = f"{players}, one a player"
            raise BadInput(f"another number of {what} than players", got=len(given), expected=expected, where=env.name)
    seed_M = np.asarray(seeds, np.int64)
    returns_MP, plies, games = np.zeros((len(seed_M), players)), 0, list[Game]()
    for first in range(0, len(seed_M), copies):
        seed_B = seed_M[np.minimum(np.arange(first, first + copies), len(seed_M) - 1)]
        used = min(copies, len(seed_M) - first)  # copies beyond it repeat the last game and do not count
        frame = env.reset(seed_B)
        records = [Game(env.name, names, seed=int(s), id=f"{env.name}/{s}") for s in seed_B[:used] if record]
        _keep_chance(env, records)
        for ply in range(env.game.max_steps + 1):
            if frame.ended_B.all():
                break
            plies += int(frame.acts_BP[:used].sum())
            action_BP, p_BPN = _draw(env, frame, policies, seed_B, ply)
            _keep_moves(env, frame, records, action_BP, p_BPN)
            frame = env.step(action_BP)
            _keep_chance(env, records)
            _keep_rewards(frame, records)
            returns_MP[first : first + used] += frame.reward_BP[:used]
        else:
            raise BadInput("a game has no end", got=f"more than {env.game.max_steps} steps", where=env.name)
        games += records
    return Match(returns_MP, plies, games)


def _draw(
    env: GameEnv, frame: GameFrame, policies: Sequence[Policy], seed_B: np.ndarray, ply: int
) -> tuple[np.ndarray, np.ndarray]:
    """A move for everybody who moves now, int64 ``[B, P]``, and the probabilities it was drawn from, ``[B, P, N]``."""
    action_BP, p_BPN = np.zeros(frame.acts_BP.shape, np.int64), np.zeros(frame.legal_BPN.shape)
    for player, policy in enumerate(policies):
        rows_M = np.flatnonzero(frame.acts_BP[:, player])
        if len(rows_M):
            draw_M = uniform(seed_B[rows_M], 1 + player, ply)
            action_BP[rows_M, player], p_BPN[rows_M, player] = choose(policy, env, frame, player, rows_M, draw_M)
    return action_BP, p_BPN


def _keep_chance(env: GameEnv, records: list[Game]) -> None:
    for copy, game in enumerate(records):
        if not game.ended:
            for outcome, outcomes in env.chance(copy):
                game.chance(outcome, outcomes)


def _keep_moves(env: GameEnv, frame: GameFrame, records: list[Game], action_BP: np.ndarray, p_BPN: np.ndarray) -> None:
    for copy, game in enumerate(records):
        for number, player in enumerate(np.flatnonzero(frame.acts_BP[copy]).tolist()):
            legal, action = np.flatnonzero(frame.legal_BPN[copy, player]), int(action_BP[copy, player])
            odds = p_BPN[copy, player, legal]
            game.act(
                player,
                action,
                legal.tolist(),
                probs=(odds / odds.sum()).tolist(),
                text=env.word(copy, player, action),
                knows=env.knows(copy, player),
                together=number > 0,
            )


def _keep_rewards(frame: GameFrame, records: list[Game]) -> None:
    for copy, game in enumerate(records):
        if game.ended:
            continue
        if frame.reward_BP[copy].any():
            game.reward(frame.reward_BP[copy].tolist())
        if frame.ended_B[copy]:
            game.end()
