"""What a run over populations gives to a worker: a response, plays of members, the judge; functions of their arguments.

A *response* is ``(game, player, against, seed, budget) -> policy``: ``game`` by name, ``against`` the other players'
policies (each the mixture of its members by own reach, which earns what a member drawn once a play earns), ``policy``
float64 ``[I, N]``. A system of one agent learns against them in its seat (``envs.games._seat``); what it then does is
written down for each information state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np

from evolvent import catalogue, envs
from evolvent.core.game import Game
from evolvent.core.seeding import rng
from evolvent.core.team import Frame
from evolvent.envs.games._seat import Mixture, Seat
from evolvent.runs.population import tabular
from evolvent.runs.population.payoffs import Cell, Plays
from evolvent.runs.shell import threads

Response = Callable[[str, int, Sequence[np.ndarray], int, int], np.ndarray]


def exact(game: str, player: int, against: Sequence[np.ndarray], seed: int, budget: int) -> np.ndarray:
    """A best response, by OpenSpiel's tree search; needs neither seed nor budget."""
    return tabular.best_response(tabular.tree(game), player, against)


def learned(system: str, game: str, player: int, against: Sequence[np.ndarray], seed: int, budget: int) -> np.ndarray:
    """What a system of one agent does, greedily, after ``budget`` steps in the seat of ``player``.

    Raises:
        BadInput: a game with simultaneous moves, or one whose information states have no tensors of their own.
        MissingExtra: what the system learns with is not installed.
    """
    train = catalogue.system(system).module.train
    import torch

    tree, config = tabular.tree(game), catalogue.settings_of(system)(steps=budget)
    known = [tabular.tensors(game, p) for p in range(tree.players)]
    number = [{info.tobytes(): i for i, info in enumerate(one)} for one in known]

    others = {p: Mixture([_Tabular(against[p], number[p])], [1.0]) for p in range(tree.players) if p != player}
    with (
        closing(Seat(envs.load_game(OWN.get(game, f"openspiel:[{game}]"), config.envs), player, others)) as env,
        threads(1),
    ):
        found = train(config, env, seed=seed)
        legal_IN = tree.legal[player]
        nothing_I = np.zeros(len(legal_IN))
        frame = Frame(
            obs_BAD=known[player][:, None],
            reward_BA=nothing_I[:, None].astype(np.float32),
            terminated_B=nothing_I.astype(np.bool_),
            truncated_B=nothing_I.astype(np.bool_),
            available_BAN=legal_IN[:, None],
            active_BA=np.ones((len(legal_IN), 1), np.bool_),
        )
        move_I = found.act(frame, greedy=True, generator=torch.Generator().manual_seed(0))[:, 0]
    return np.eye(legal_IN.shape[1])[move_I.astype(int)]


@dataclass(frozen=True)
class _Tabular:
    """A ``core.turns.Policy`` from a table."""

    policy_IN: np.ndarray
    number: dict[bytes, int]

    def __call__(self, info_BD: np.ndarray, legal_BN: np.ndarray, player: int) -> np.ndarray:
        return self.policy_IN[[self.number[info.tobytes()] for info in info_BD]]


OWN = {"kuhn_poker": "kuhn", "leduc_poker": "leduc"}
"""Games of OpenSpiel that the library has, too: the same, and faster for a learner."""
RESPONSES: dict[str, Response] = {"exact": exact, **{name: partial(learned, name) for name in ("ppo", "dqn")}}


def judged(game: str, policies: Sequence[np.ndarray]) -> float:
    """NashConv, by OpenSpiel: it knows nothing of the population."""
    return tabular.nash_conv(tabular.tree(game), policies)


def played(
    game: str, members: Sequence[dict[int, np.ndarray]], cells: Sequence[tuple[Cell, int]], seed: int
) -> list[tuple[Cell, Plays]]:
    """What the members of each cell earn: in as many plays, drawn from what they make probable, or exactly (0 plays).

    ``members``: by player, the policies of the members that occur. A cell draws the same whichever task it is in.
    """
    tree = tabular.tree(game)
    ends = [{k: tabular.ends(tree, p, one) for k, one in own.items()} for p, own in enumerate(members)]
    found: list[tuple[Cell, Plays]] = []
    for cell, plays in cells:
        chance_E = tree.chance_E * np.prod([ends[p][k] for p, k in enumerate(cell)], axis=0)
        if not plays:
            mean = chance_E @ tree.returns_EP
            found.append((cell, Plays(0, tuple(mean.tolist()), (0.0,) * len(cell))))
            continue
        drawn_E = rng(seed, *cell).multinomial(plays, chance_E / chance_E.sum())
        mean = drawn_E @ tree.returns_EP / plays
        spread = drawn_E @ (tree.returns_EP - mean) ** 2
        found.append((cell, Plays(plays, tuple(mean.tolist()), tuple(spread.tolist()))))
    return found


def record(
    game: str, members: Sequence[Sequence[np.ndarray]], mixture: Sequence[np.ndarray], seed: int, number: int
) -> Game:
    """A play for looking at: each player draws a member from its mixture, and keeps it to the end.

    ``meta["words"]`` has the words of all that could be done, by ply.
    """
    tree, draw = tabular.tree(game), rng(seed, "match", number)
    cell = [int(draw.choice(len(weight), p=weight)) for weight in mixture]
    names = [f"player {p}, member {k}" for p, k in enumerate(cell)]
    out = Game(game, names, seed=seed, id=f"match-{number}", meta={"members": cell})
    numbers = [{knows: i for i, knows in enumerate(states)} for states in tree.states]
    state, words = tabular.load(game).new_initial_state(), list[list[str]]()
    while not state.is_terminal():
        words.append([state.action_to_string(move) for move in state.legal_actions()])
        if state.is_chance_node():
            outcomes = state.chance_outcomes()
            move = int(draw.choice([a for a, _ in outcomes], p=[p for _, p in outcomes]))
            out.chance(move, outcomes, text=state.action_to_string(move))
        else:
            p, legal = state.current_player(), state.legal_actions()
            knows = state.information_state_string(p)
            probs = members[p][cell[p]][numbers[p][knows], legal]
            move = int(draw.choice(legal, p=probs / probs.sum()))
            out.act(p, move, legal, probs=probs, text=state.action_to_string(move), knows=knows)
        state.apply_action(move)
    out.meta["words"] = words
    out.end(state.returns())
    return out
