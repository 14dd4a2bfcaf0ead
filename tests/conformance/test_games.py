"""Every game in turns keeps its promises; the check finds each broken one."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.core.turns import GameFrame
from evolvent.testing.game import check_game

BUILT_IN = {
    "kuhn": "seeds differ, zero sum, perfect recall",
    "leduc": "seeds differ, zero sum, perfect recall",
    "connect_four": "zero sum",
    "matrix_game": "zero sum, perfect recall",
    "matrix_game:prisoners_dilemma,repeats=3": "perfect recall",
    "matrix_game:1 2 3/4 5 6": "zero sum, perfect recall",
}
PACKAGES = {
    "tag:limit=9": "seeds differ",
    "openspiel:kuhn_poker": "seeds differ, zero sum, perfect recall",
    "openspiel:[leduc_poker(players=3)]": "seeds differ, zero sum, perfect recall",
    "openspiel:[goofspiel(num_cards=4)]": "seeds differ, zero sum, perfect recall",  # at once, and chance
    "openspiel:oshi_zumo": "zero sum",  # at once
    "openspiel:tic_tac_toe": "zero sum",  # observations only
    "openspiel:bargaining": "seeds differ, perfect recall",  # not zero sum
    "openspiel:[repeated_game(stage_game=matrix_pd(),num_repetitions=3)]": "",  # rewards on the way
}


@pytest.mark.parametrize("spec", [*BUILT_IN, *PACKAGES])
def test_a_game_keeps_its_promises(spec):
    passed = check_game(partial(envs.load_game, spec), n_envs=20, games=60)
    assert ", ".join(passed[passed.index("record") + 1 :]) == (BUILT_IN | PACKAGES)[spec]


def test_every_game_is_tried():
    tried = {spec.partition(":")[0] for spec in [*BUILT_IN, *PACKAGES]}
    assert tried == {row.name for row in envs.available() if row.kind == envs.GAME}


class Broken:
    """Leduc poker that breaks one promise."""

    def __init__(self, fault, n_envs):
        self._env, self._fault = envs.load_game("leduc", n_envs), fault
        self.name, self.n_envs, self.game = "broken", n_envs, self._env.game
        self.word, self.close, self.knows = self._env.word, self._env.close, self._env.knows
        if fault == "endless":
            self.game = replace(self.game, max_steps=3)

    def reset(self, seed_B, where_B=None):
        if self._fault == "one seed":
            seed_B = np.zeros_like(seed_B)
        if self._fault == "copy":
            seed_B = seed_B + np.arange(self.n_envs)
        return self._spoilt(self._env.reset(seed_B, None if self._fault == "reset all" else where_B))

    def step(self, action_BP, where_B=None):
        if self._fault == "any move" and action_BP.shape == (self.n_envs, 2):
            legal_BP = np.take_along_axis(
                self._frame.legal_BPN, np.clip(action_BP, 0, 2).astype(int)[..., None], axis=2
            )
            action_BP = np.where(legal_BP[..., 0], action_BP, 1).astype(int)
        if self._fault == "mute":
            try:
                return self._spoilt(self._env.step(action_BP, where_B))
            except BadInput as error:
                raise BadInput("no") from error
        return self._spoilt(self._env.step(action_BP, None if self._fault == "step all" else where_B))

    def chance(self, copy):
        less = 0.9 if self._fault == "odds" else 1
        return [(outcome, [(a, p * less) for a, p in outcomes]) for outcome, outcomes in self._env.chance(copy)]

    def _spoilt(self, frame):
        self._frame = frame
        columns = {name: getattr(frame, name).copy() for name in GameFrame.__dataclass_fields__}
        if self._fault == "dtype":
            columns["reward_BP"] = columns["reward_BP"].astype(np.float64)
        if self._fault == "shape":
            columns["info_BPD"] = columns["info_BPD"][..., :-1]
        if self._fault == "shows":
            columns["info_BPD"][:, 1, 0] = 1
        if self._fault == "idle":
            columns["acts_BP"][:] = False
        if self._fault == "paid late":
            columns["reward_BP"][frame.ended_B] = [1, -1]
        if self._fault == "not zero sum":
            columns["reward_BP"][:, 0] += frame.reward_BP[:, 0] > 4
        if self._fault == "forgets":
            columns["info_BPD"][..., 14:] = 0
        return GameFrame(**columns)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("dtype", "reward_BP"),
        ("shape", "info_BPD"),
        ("shows", "information of players who do not move"),
        ("idle", "nobody moves"),
        ("any move", "illegal move is accepted"),
        ("mute", "names no move or no state"),
        ("endless", "a game has no end"),
        ("paid late", "had ended goes on or earns"),
        ("step all", "step of one copy changes another"),
        ("reset all", "reset of one copy changes another"),
        ("copy", "another game in another copy"),
        ("one seed", "the same for every seed"),
        ("odds", "not probabilities"),
        ("not zero sum", "do not sum to 0"),
        ("forgets", "forgets its past"),
    ],
)
def test_the_check_finds(fault, message):
    with pytest.raises(BadInput, match=message):
        check_game(partial(Broken, fault))
