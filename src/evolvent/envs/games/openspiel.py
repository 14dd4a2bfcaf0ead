"""Any game of OpenSpiel that has tensors: in turns or at once, with chance; ``openspiel:leduc_poker``.

Lanctot et al., "OpenSpiel: A Framework for Reinforcement Learning in Games", 2019. What a player knows is the game's
information state tensor, or its observation tensor where it has no other: then it may forget. Settings are written as
there, in brackets where there are several: ``openspiel:[goofspiel(num_cards=4,points_order=descending)]``.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, closest, missing_extra
from evolvent.core.turns import Chance, GameFrame, GameSpec, check_moves


class OpenSpielGame:
    """B states of one game, moved one after the other; see ``core.turns.GameEnv``."""

    def __init__(self, game: Any, n_envs: int) -> None:
        import pyspiel

        kind, self._game, self.n_envs = game.get_type(), game, n_envs
        self._recall = bool(kind.provides_information_state_tensor)
        self._paid_at_end = kind.reward_model == pyspiel.GameType.RewardModel.TERMINAL
        self.name = f"openspiel:{str(game).removesuffix('()')}"
        self.game = GameSpec(
            players=game.num_players(),
            actions=game.num_distinct_actions(),
            info_dim=game.information_state_tensor_size() if self._recall else game.observation_tensor_size(),
            max_steps=game.max_game_length(),
            zero_sum=kind.utility == pyspiel.GameType.Utility.ZERO_SUM,
            perfect_recall=self._recall,
            openspiel=str(game),
        )
        b, p = n_envs, self.game.players
        self._states: list[Any] = [None] * b
        self._draws = [random.Random(0)] * b
        self._drawn: list[list[Chance]] = [[] for _ in range(b)]
        self._frame = GameFrame(
            acts_BP=np.zeros((b, p), np.bool_),
            info_BPD=np.zeros((b, p, self.game.info_dim), np.float32),
            legal_BPN=np.zeros((b, p, self.game.actions), np.bool_),
            reward_BP=np.zeros((b, p), np.float32),
            ended_B=np.zeros(b, np.bool_),
        )

    def reset(self, seed_B: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """See ``GameEnv.reset``."""
        self._frame.reward_BP[:] = 0
        self._drawn = [[] for _ in self._states]
        for copy in range(self.n_envs) if where_B is None else np.flatnonzero(where_B).tolist():
            self._states[copy] = self._game.new_initial_state()
            self._draws[copy] = random.Random(int(seed_B[copy]))
            self._show(copy)
        return self._frame

    def step(self, action_BP: np.ndarray, where_B: np.ndarray | None = None) -> GameFrame:
        """See ``GameEnv.step``."""
        moves_B = check_moves(self, self._frame, action_BP, where_B)
        self._frame.reward_BP[:] = 0
        self._drawn = [[] for _ in self._states]
        for copy in np.flatnonzero(moves_B).tolist():
            state, actions = self._states[copy], action_BP[copy].tolist()
            before = 0 if self._paid_at_end else np.array(state.returns())
            if state.is_simultaneous_node():
                acts = self._frame.acts_BP[copy].tolist()  # who has no move while others do is told as -1
                state.apply_actions([a if acts[p] else -1 for p, a in enumerate(actions)])
            else:
                state.apply_action(actions[state.current_player()])
            self._show(copy)
            if self._frame.ended_B[copy] or not self._paid_at_end:
                self._frame.reward_BP[copy] = np.array(state.returns()) - before
        return self._frame

    def chance(self, copy: int) -> list[Chance]:
        """See ``GameEnv.chance``."""
        return self._drawn[copy]

    def knows(self, copy: int, player: int) -> str:
        """See ``GameEnv.knows``."""
        state, kind = self._states[copy], self._game.get_type()
        if kind.provides_information_state_string:
            return state.information_state_string(player)
        return state.observation_string(player) if kind.provides_observation_string else str(state)

    def word(self, copy: int, player: int, action: int) -> str:
        """See ``GameEnv.word``."""
        return self._states[copy].action_to_string(player, action)

    def close(self) -> None:
        """Nothing is held."""

    def _show(self, copy: int) -> None:
        """Let chance move until a player does, and write what that one knows and may do."""
        state, frame = self._states[copy], self._frame
        while state.is_chance_node():
            outcomes, draw = state.chance_outcomes(), self._draws[copy].random()
            outcome = outcomes[-1][0]
            for outcome, p in outcomes:  # noqa: B007  the last one where rounding leaves a rest
                draw -= p
                if draw < 0:
                    break
            self._drawn[copy].append((outcome, outcomes))
            state.apply_action(outcome)
        frame.acts_BP[copy], frame.info_BPD[copy], frame.legal_BPN[copy] = False, 0, False
        frame.ended_B[copy] = state.is_terminal()
        if frame.ended_B[copy]:
            return
        for player in range(self.game.players) if state.is_simultaneous_node() else [state.current_player()]:
            if legal := state.legal_actions(player):
                frame.acts_BP[copy, player] = True
                frame.legal_BPN[copy, player, legal] = True
                tensor = state.information_state_tensor if self._recall else state.observation_tensor
                frame.info_BPD[copy, player] = tensor(player)


def make_game(variant: str, *, n_envs: int) -> OpenSpielGame:
    """``n_envs`` copies of the game of that name, with its settings as OpenSpiel writes them."""
    try:
        import pyspiel
    except ImportError as error:
        raise missing_extra("open_spiel", "games", "envs.games.openspiel") from error
    where, known = f"openspiel:{variant}", pyspiel.registered_names()
    if (name := variant.partition("(")[0]) not in known:
        raise BadInput("OpenSpiel has no such game", got=name, expected=closest(name, known), where=where)
    try:
        return _made(variant, n_envs, where)
    except pyspiel.SpielError as error:
        raise BadInput("OpenSpiel does not load this game", got=str(error), where=where) from error


def _made(variant: str, n_envs: int, where: str) -> OpenSpielGame:
    import pyspiel

    game = pyspiel.load_game(variant)
    kind = game.get_type()
    if not (kind.provides_information_state_tensor or kind.provides_observation_tensor):
        raise BadInput(
            "a game without tensors of what a player knows", got=variant, where=where, do="take another game"
        )
    if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise BadInput("a mean-field game has no players of its own", got=variant, where=where)
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        raise BadInput("a game that draws by itself, not by the seed", got=variant, where=where)
    return OpenSpielGame(game, n_envs)
