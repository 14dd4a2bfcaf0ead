"""Infotaxis and other planners of a search for a source: nothing is trained, each step is chosen from the belief.

Papers: infotaxis, Vergassola et al. 2007 (Nature 445); entrotaxis, Hutchinson et al. 2018 (J. Field Robotics 35);
DCEE, Chen et al. 2021 (arXiv 2012.10290); as in AutoSTE. For every place a that a step leads to, and J readings z_j
drawn from the belief there, with w' ~ w L(z_j | theta) the belief after z_j:

    infotaxis     max mean_j sum_i w'_i log(w'_i / w_i)         what is learned
    entrotaxis    max mean_j -log sum_i w_i L(z_j | theta_i)    how uncertain the reading is; no belief is updated
    dcee          min mean_j |E' xy - a|² + Var' x + Var' y     to come near, and to know
    towards_mean  min |E xy - a|                                one step towards the mean of the belief
    random, lawn_mower                                          what is read is not looked at

The attempt ends by the test of the world, as it does for learners. The lawn mower goes to the nearest corner, then up
and down in lanes that cover the box within the limit of steps.

Deviations: places one step away, four or, with ``heading``, eight (AutoSTE: four directions, up to three steps); 15
readings (25). The entropies are those of drawn particles and readings, without rejection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from evolvent.core.config import from_json
from evolvent.core.errors import BadInput, closest
from evolvent.core.folder import RunFolder
from evolvent.core.seeding import rng
from evolvent.envs.team.ste import DETECTS, MOVES, SourceSearch
from evolvent.evaluate.live import Live
from evolvent.formulas import plume
from evolvent.runs.team.searches import COLUMNS, judged, player_of, searching, summary_of, table_of
from evolvent.runs.team.searches import KIND as KIND

if TYPE_CHECKING:
    from torch import Tensor

    from evolvent.core.team import TeamEnv
    from evolvent.learn.team.player import TeamPlayer

PAPER = "Vergassola et al. 2007"
LEVELS = ("step",)
STATUS = "tested"
Planner = Literal["infotaxis", "entrotaxis", "dcee", "towards_mean", "random", "lawn_mower"]
_ANGLES = (np.arange(8) / 4 - 1)[:, None]  # over pi


@dataclass(frozen=True)
class Config:
    """Settings of a planner."""

    KIND = "team"

    env: str = "ste:wide"
    """The search with its options: ste:wide, ste:released."""
    seed: int = 0
    """Random seed of the searches and of what a planner draws; a learner with the same seed is judged on the same."""
    planner: Planner = "infotaxis"
    """How a step is chosen."""
    draws: int = 15
    """Readings that are drawn for each place."""
    episodes: int = 224
    """Searches, as many in each of 32 copies."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Search, and return the summary that stands in ``summary.json``; a run that is resumed begins anew."""
    return summary_of("infotaxis", config, judged(config, planned(config), live, config.episodes, folder))


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = "") -> dict[str, Any]:
    """Search with the planner of a run, in its own world or another; the content of ``eval.json``."""
    config = from_json(Config, folder.config)
    config = replace(config, env=env or config.env)
    found = judged(config, planned(config), live, config.episodes if episodes is None else episodes)
    live.table(f"{config.planner} on {config.env}", COLUMNS, table_of(found))
    return summary_of("infotaxis", config, found)


def planned(config: Config) -> Callable[[TeamEnv], TeamPlayer]:
    """The planner of a configuration, as a player for the searches that it is given.

    Raises:
        BadInput: no such planner, or no draws.
    """
    if config.planner not in get_args(Planner):
        known = closest(str(config.planner), list(get_args(Planner)))
        raise BadInput("unknown planner", got=config.planner, expected=known, where="--planner")
    if min(config.draws, config.episodes) < 1:
        raise BadInput("draws, episodes", got=(config.draws, config.episodes), expected="at least 1", where="infotaxis")

    def play(env: TeamEnv) -> TeamPlayer:
        import torch

        choose = _chooser(config, searching(env))

        def act(*seen: Any) -> Tensor:
            return torch.from_numpy(choose()[:, None])

        return player_of(env, act)

    return play


def _chooser(config: Config, env: SourceSearch) -> Callable[[], np.ndarray]:
    """What gives the actions of all copies, int ``[B]``, or where they are angles ``[B, 1]``."""
    draw, heading, b = rng(config.seed, "planner"), env.options.heading, env.n_envs
    if config.planner == "random":
        return lambda: draw.uniform(-1, 1, (b, 1)) if heading else draw.integers(0, len(MOVES), b)
    if config.planner == "towards_mean":
        return lambda: _towards(env, env.belief.mean())
    if config.planner == "lawn_mower":
        return partial(_mow, env, [np.zeros((0, 2))] * b)
    candidates = _ANGLES if heading else np.arange(len(MOVES))
    score = {"infotaxis": learned, "entrotaxis": uncertain, "dcee": dual}[config.planner]

    def choose() -> np.ndarray:
        place_KB2 = env.reach(env.directions(candidates)[:, None])
        best = list[int]()
        for i in range(b):
            said_KJN = foreseen(env, i, place_KB2[:, i], config.draws, draw)
            best.append(int(score(env, i, place_KB2[:, i], said_KJN).argmax()))
        return candidates[best]

    return choose


# ------------------------------------------------------------------------------------------------ from the belief
def foreseen(env: SourceSearch, copy: int, place_K2: np.ndarray, draws: int, draw: np.random.Generator) -> np.ndarray:
    """Log L of readings at K places for every particle of a copy, ``[K, J, N]``: of J particles, drawn once."""
    belief, threshold = env.belief, env.options.threshold
    place = np.concatenate([place_K2, np.zeros((len(place_K2), 1))], axis=1).astype(np.float32)
    there_KN = plume.concentration(place, belief.theta_B8N[copy], belief.known_B4N[copy])
    summed = np.cumsum(belief.weight_BN[copy], dtype=np.float64)
    of_J = np.searchsorted(summed, draw.random(draws) * summed[-1], side="right").clip(max=len(summed) - 1)
    shape = (len(place_K2), draws)
    reading_KJ = there_KN[:, of_J] * (1 + plume.NOISE * draw.standard_normal(shape, np.float32))
    heard_KJ = (reading_KJ >= threshold) & (draw.random(shape) < DETECTS)
    return plume.log_likelihood(np.where(heard_KJ, reading_KJ, np.float32(0)), there_KN[:, None], threshold, DETECTS)


def uncertain(env: SourceSearch, copy: int, place_K2: np.ndarray, said_KJN: np.ndarray) -> np.ndarray:
    """Entropy of the reading at each place, ``[K]``, from its draws."""
    return -np.log(np.maximum((env.belief.weight_BN[copy] * np.exp(said_KJN)).sum(axis=2), 1e-30)).mean(axis=1)


def learned(env: SourceSearch, copy: int, place_K2: np.ndarray, said_KJN: np.ndarray) -> np.ndarray:
    """KL of the belief after a reading from the one before, ``[K]``: sum w' log L - log sum w L."""
    after = _after(env, copy, said_KJN)
    return (after * said_KJN).sum(axis=2).mean(axis=1) + uncertain(env, copy, place_K2, said_KJN)


def dual(env: SourceSearch, copy: int, place_K2: np.ndarray, said_KJN: np.ndarray) -> np.ndarray:
    """Minus the squared way to the mean after a reading, and the variance that is left, ``[K]``."""
    after, xy_2N = _after(env, copy, said_KJN), env.belief.theta_B8N[copy, :2]
    off_2KN = xy_2N[:, None] - place_K2.T[:, :, None].astype(np.float32)
    squared_KN = (off_2KN * off_2KN).sum(axis=0)  # E' |xy - a|² = |E' xy - a|² + Var' x + Var' y
    return -(after * squared_KN[:, None]).sum(axis=2).mean(axis=1)


def _after(env: SourceSearch, copy: int, said_KJN: np.ndarray) -> np.ndarray:
    """Weights after each reading, ``[K, J, N]``."""
    after = env.belief.weight_BN[copy] * np.exp(said_KJN - said_KJN.max(axis=2, keepdims=True))
    return after / after.sum(axis=2, keepdims=True)


# ------------------------------------------------------------------------------------------------ without looking
def _towards(env: SourceSearch, aim_B2: np.ndarray) -> np.ndarray:
    way = aim_B2 - env.at_B3[:, :2]
    if env.options.heading:
        return np.arctan2(way[:, 1], way[:, 0])[:, None] / math.pi
    return (way @ MOVES.T).argmax(axis=1)


def _mow(env: SourceSearch, paths: list[np.ndarray]) -> np.ndarray:
    """The next step of each copy on its path, of which ``paths`` keeps what is left."""
    for b in range(env.n_envs):
        if env.age_B[b] == 0 or not len(paths[b]):
            paths[b] = lanes(env.options.box, env.options.step * env.options.limit, env.at_B3[b, :2])
        if np.linalg.norm(paths[b][0] - env.at_B3[b, :2]) < 0.75 * env.options.step and len(paths[b]) > 1:
            paths[b] = paths[b][1:]
    return _towards(env, np.stack([path[0] for path in paths]))


def lanes(box: float, length: float, start_2: np.ndarray) -> np.ndarray:
    """Corners of a path of about that length, ``[M, 2]``: from the nearest corner of the box up and down through it."""
    corner = np.where(start_2 < box / 2, 0.0, box)
    across = np.linspace(corner[0], box - corner[0], max(2, int(length / box)))
    ends = np.array([[corner[1], box - corner[1]][:: 1 if i % 2 == 0 else -1] for i in range(len(across))]).ravel()
    return np.stack([np.repeat(across, 2), ends], axis=1)
