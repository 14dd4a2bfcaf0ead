"""A small game of OpenSpiel as arrays, tabular policies of it, and what these earn, exactly.

A policy of a player is float64 ``[I, N]``: the probability of each of N moves in each of its I information states. A
*sequence* is an information state and a move there; ``own_S`` of a policy, ``[1 + I N]``, is the probability that its
own moves give each sequence (entry 0: nothing chosen yet). A play then has the probability

    chance(end) * product over players of own[last sequence before the end]

Mixing policies by ``own`` ("by own reach") gives one policy that earns what the mixture earns, where a policy is drawn
once a play; the mean of their probabilities does not. Responses and NashConv are those of OpenSpiel (C++).
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, optional

LIMIT = 500_000
"""Histories that a game may have."""


@dataclass(frozen=True, eq=False)
class Tree:
    """A game, walked through once.

    Attributes:
        name: as OpenSpiel loads it.
        states: by player, its information states in words, each after those that lead to it.
        legal: by player, bool ``[I, N]``.
        levels: by player, the numbers of its information states, those with as many own moves before together.
        before: by player, int ``[I]``: the sequence that leads to each.
        last_EP: int ``[E, P]``: each player's last sequence before each end.
        chance_E: ``[E]``: probability of chance's outcomes on the way to each end.
        returns_EP: ``[E, P]``.
        paths: the moves to each end, chance's among them.
    """

    name: str
    states: tuple[tuple[str, ...], ...]
    legal: tuple[np.ndarray, ...]
    levels: tuple[tuple[np.ndarray, ...], ...]
    before: tuple[np.ndarray, ...]
    last_EP: np.ndarray
    chance_E: np.ndarray
    returns_EP: np.ndarray
    paths: tuple[tuple[int, ...], ...]

    @property
    def players(self) -> int:
        """How many."""
        return len(self.states)

    def uniform(self, player: int) -> np.ndarray:
        """The policy that takes every legal move alike."""
        return self.legal[player] / self.legal[player].sum(axis=1, keepdims=True)

    def pure(self, player: int) -> np.ndarray:
        """The policy that always takes the first legal move."""
        return np.eye(self.legal[player].shape[1])[self.legal[player].argmax(axis=1)]


def load(name: str) -> Any:
    """A game of OpenSpiel for at least two players; one with simultaneous moves as its turn-based form.

    Raises:
        BadInput: one for another number of players.
        MissingExtra: OpenSpiel is not installed.
    """
    spiel = optional("pyspiel", "games", "populations")
    game = spiel.load_game(name)
    if game.num_players() < 2:
        got = f"{name}, which has {game.num_players()}"
        raise BadInput("a population plays a game of two or more", got=got, expected="2 players or more", where="--env")
    simultaneous = game.get_type().dynamics == spiel.GameType.Dynamics.SIMULTANEOUS
    return spiel.convert_to_turn_based(game) if simultaneous else game


def _too_large(name: str) -> BadInput:
    expected = f"at most {LIMIT:,} histories"
    return BadInput("the game is too large for tables", got=name, expected=expected, where="--env")


def _branches(game: Any, seed: int) -> float:
    """Moves to choose from along one random play, multiplied: an unbiased estimate of the number of ends (Knuth 1975).

    That three of them exceed the truth a hundredfold has a chance of one in a million (Markov).
    """
    draw, state, found = random.Random(seed), game.new_initial_state(), 1.0
    while not state.is_terminal() and found <= 100 * LIMIT:
        moves = state.legal_actions()
        found *= len(moves)
        state.apply_action(draw.choice(moves))
    return found


@functools.lru_cache(maxsize=4)
def tree(name: str) -> Tree:
    """The game of that name as arrays.

    Raises:
        BadInput: as ``load``; more than ``LIMIT`` histories; players that forget what they knew.
    """
    game = load(name)
    if min(_branches(game, probe) for probe in range(3)) > 100 * LIMIT:
        raise _too_large(name)
    players, moves = game.num_players(), game.num_distinct_actions()
    number: list[dict[str, int]] = [{} for _ in range(players)]
    before: list[list[int]] = [[] for _ in range(players)]
    depth: list[list[int]] = [[] for _ in range(players)]
    legal: list[list[np.ndarray]] = [[] for _ in range(players)]
    ends: list[tuple[tuple[int, ...], float, list[float], tuple[int, ...]]] = []
    # what is to be visited: state, each player's last sequence and number of own moves, chance so far
    stack: list[Any] = [(game.new_initial_state(), (0,) * players, (0,) * players, 1.0)]
    visited = 0
    while stack:
        state, last, deep, chance = stack.pop()
        visited += 1
        if visited > LIMIT:
            raise _too_large(name)
        if state.is_terminal():
            ends.append((last, chance, state.returns(), tuple(state.history())))
            continue
        if state.is_chance_node():
            stack += [(state.child(a), last, deep, chance * p) for a, p in reversed(state.chance_outcomes())]
            continue
        p, own = state.current_player(), state.legal_actions()
        knows = state.information_state_string(p)
        at = number[p].setdefault(knows, len(number[p]))
        if at == len(before[p]):
            before[p].append(last[p])
            depth[p].append(deep[p])
            legal[p].append(np.isin(np.arange(moves), own))
        elif before[p][at] != last[p]:
            raise BadInput(
                "a player of this game forgets what it did",
                got=f"{name}: {knows!r}",
                expected="perfect recall",
                where="--env",
            )
        after = tuple(d + (q == p) for q, d in enumerate(deep))
        for a in reversed(own):
            sequence = tuple(1 + at * moves + a if q == p else s for q, s in enumerate(last))
            stack.append((state.child(a), sequence, after, chance))
    levels = [[np.flatnonzero(np.array(d) == one) for one in range(max(d, default=-1) + 1)] for d in depth]
    last, chance, returns, paths = zip(*ends, strict=True)
    return Tree(
        name,
        tuple(tuple(one) for one in number),
        tuple(np.array(one).reshape(-1, moves) for one in legal),
        tuple(map(tuple, levels)),
        tuple(np.array(one, np.int64) for one in before),
        np.array(last),
        np.array(chance),
        np.array(returns),
        paths,
    )


@functools.lru_cache(maxsize=16)
def tensors(name: str, player: int) -> np.ndarray:
    """What a player knows in each information state, as a learner sees it: float32 ``[I, D]``.

    Raises:
        BadInput: a game with simultaneous moves, or one that has no tensors, or the same for two information states.
    """
    game, states = load(name), tree(name).states[player]
    if (
        game.get_type().short_name == "turn_based_simultaneous_game"
        or not game.get_type().provides_information_state_tensor
    ):
        expected = "a game in turns with tensors of information states"
        raise BadInput(
            "a game that cannot be learned here", got=name, expected=expected, where="--response", do="--response exact"
        )
    found: dict[str, np.ndarray] = {}
    for path in tree(name).paths:
        state = game.new_initial_state()
        for move in path:
            if not state.is_chance_node() and state.current_player() == player:
                knows = state.information_state_string(player)
                if knows not in found:
                    found[knows] = np.array(state.information_state_tensor(player), np.float32)
            state.apply_action(move)
    made = np.stack([found[knows] for knows in states])
    if len(np.unique(made, axis=0)) < len(made):
        raise BadInput("information states look alike", got=name, expected="a tensor for each", where="--response")
    return made


def check_policy(game: Tree, player: int, policy_IN: np.ndarray, where: str) -> None:
    """Refuse what is no policy of this player.

    Raises:
        BadInput: of another game, an illegal move (named, with what the player knows), or no probabilities.
    """
    legal_IN = game.legal[player]
    if policy_IN.shape != legal_IN.shape:
        raise BadInput("a policy of another game", got=policy_IN.shape, expected=legal_IN.shape, where=where)
    if (wrong_IN := ~legal_IN & (policy_IN != 0)).any():
        at, move = np.argwhere(wrong_IN)[0].tolist()
        expected = f"one of {np.flatnonzero(legal_IN[at]).tolist()}"
        where = f"{where}, player {player}, who knows {game.states[player][at]!r}"
        raise BadInput("an illegal move", got=f"move {move}", expected=expected, where=where)
    bad_I = ~((np.abs(policy_IN.sum(axis=1) - 1.0) < 1e-6) & (policy_IN >= 0).all(axis=1))  # NaN is bad, too
    if bad_I.any():
        got, knows = policy_IN[bad_I.argmax()].tolist(), game.states[player][bad_I.argmax()]
        raise BadInput("no probabilities", got=got, expected="at least 0, sum 1", where=f"{where}, knowing {knows!r}")


def own_reach(game: Tree, player: int, policy_KIN: np.ndarray) -> np.ndarray:
    """The probability ``[K, 1 + I N]`` that the own moves of each of K policies give each sequence."""
    many, states, moves = policy_KIN.shape
    own_KS = np.zeros((many, 1 + states * moves))
    own_KS[:, 0] = 1.0
    own_KIN = own_KS[:, 1:].reshape(many, states, moves)  # a view
    for level in game.levels[player]:
        own_KIN[:, level] = own_KS[:, game.before[player][level], None] * policy_KIN[:, level]
    return own_KS


def mixed(game: Tree, player: int, policy_KIN: np.ndarray, weight_K: np.ndarray) -> np.ndarray:
    """The policy ``[I, N]`` that earns what the mixture of K earns; uniform where none of them comes."""
    own_KS = own_reach(game, player, policy_KIN)
    reach_I = weight_K @ own_KS[:, game.before[player]]
    joint_IN = np.tensordot(weight_K, own_KS[:, 1:].reshape(policy_KIN.shape), axes=1)
    return np.where(reach_I[:, None] > 0, joint_IN / np.where(reach_I > 0, reach_I, 1.0)[:, None], game.uniform(player))


def ends(game: Tree, player: int, policy_IN: np.ndarray) -> np.ndarray:
    """The probability ``[E]`` that a player's own moves allow each end."""
    return own_reach(game, player, policy_IN[None])[0, game.last_EP[:, player]]


def as_openspiel(game: Tree, policies: Sequence[np.ndarray]) -> dict[str, list[tuple[int, float]]]:
    """Policies of all players by information state, as OpenSpiel takes them; it refuses what rounding puts above 1."""
    return {
        knows: [(int(a), min(1.0, float(policy_IN[i, a]))) for a in np.flatnonzero(game.legal[p][i])]
        for p, policy_IN in enumerate(policies)
        for i, knows in enumerate(game.states[p])
    }


def nash_conv(game: Tree, policies: Sequence[np.ndarray]) -> float:
    """What all players together could gain if each alone answered best: 0 at a Nash equilibrium (12 digits)."""
    spiel = optional("pyspiel", "games", "populations")
    return abs(round(float(spiel.nash_conv(load(game.name), as_openspiel(game, policies))), 12))


def best_response(game: Tree, player: int, policies: Sequence[np.ndarray]) -> np.ndarray:
    """A best policy ``[I, N]`` of a player against the others' policies; its own place in ``policies`` is not read."""
    given = [game.uniform(player) if p == player else one for p, one in enumerate(policies)]
    spiel = optional("pyspiel", "games", "populations")
    best = spiel.TabularBestResponse(load(game.name), player, as_openspiel(game, given)).get_best_response_actions()
    found = np.zeros_like(given[player])
    found[np.arange(len(found)), [best[knows] for knows in game.states[player]]] = 1.0
    return found
