"""Find where a gas comes from, with a sensor that misses, and know when to stop: ``ste:wide``, ``ste:released``.

The task of AGDC (Shi et al., AAAI 2025, arXiv 2409.09541) and of AutoSTE, written anew and batched. A robot moves in a
box, reads a sensor (``formulas.plume``), and keeps a belief over the source (``_belief``). Nobody tells it that it has
found the source: the attempt ends where the belief is sure, that is where

    sqrt(Var x + Var y) < zeta,       and that step is paid 100, every other one -1.

An attempt succeeds where it was sure *and* its estimate, the mean of the belief, is within 2 units of the source; where
it was sure and further away it stopped wrongly (``wrong_stop``). The time limit cuts off.

``wide``: prior and truth are drawn alike and wide, and most of the box reads nothing. ``released``: the source that the
code of AGDC has, with a prior around its wind and diffusivity: it is told nearly everything but the place.

Differences from the code: a step moves, then reads (there the last move is never read); the source is drawn over an
area (there one place, or integers); the prior of the direction is unbiased (there 0.9 of the true angle); the sensor
has its noise and its misses (there commented out).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evolvent.core.errors import BadInput, closest
from evolvent.core.seeding import rng
from evolvent.core.team import ActionSpec, Frame, TeamSpec
from evolvent.envs.team._belief import FEWEST, Belief
from evolvent.formulas import plume

BOX, DETECTS, NEAR, PAID = 25.0, 0.7, 2.0, 100.0
MOVES = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], float)
MEASURES = ("success", "wrong_stop", "error", "distance")
_FEATURES = {"belief": 12, "position": 2}


def _wide(draw: np.random.Generator, n: int, box: float) -> tuple[np.ndarray, np.ndarray]:
    some = n + 1
    rows = [draw.uniform(0, box, some), draw.uniform(0, box, some), draw.uniform(0, 1, some)]
    rows += [0.5 + draw.gamma(2, 2.5, some), draw.uniform(0.5, 3, some), draw.uniform(0, 2 * math.pi, some)]
    rows += [draw.uniform(0.5, 3, some), draw.uniform(4, 12, some)]
    theta = np.stack(rows)
    theta[2, 0] = 0.0  # the source stands on the ground
    return theta[:, 0], theta[:, 1:]


def _released(draw: np.random.Generator, n: int, box: float) -> tuple[np.ndarray, np.ndarray]:
    x, y = draw.uniform(0.2 * box, 0.8 * box, 2)
    wind = draw.normal(2, 2, 8 * n)
    rows = [draw.uniform(0, box, n), draw.uniform(0, box, n), draw.uniform(0, 5, n), draw.gamma(2, 5, n)]
    rows += [wind[wind >= 0][:n], draw.normal(math.pi / 4, math.radians(10), n)]
    rows += [2 + draw.uniform(0, 2, n), 10 - draw.uniform(0, 2, n)]
    return np.array([x, y, 0, 5, 2, math.pi / 4, 2, 10]), np.stack(rows)


class _World(NamedTuple):
    draw: Callable[[np.random.Generator, int, float], tuple[np.ndarray, np.ndarray]]
    """(stream, N, box) → the source ``[8]`` and particles of the prior ``[8, N]``."""
    particles: int
    threshold: float
    start: float | None
    """x and y of the robot; ``None`` = anywhere."""


WORLDS = {"wide": _World(_wide, 600, 5e-3, None), "released": _World(_released, 300, 5e-4, 1.0)}


@dataclass(frozen=True)
class Options:
    """See ``make_team``."""

    world: _World
    box: float
    step: float
    particles: int
    zeta: float
    threshold: float
    limit: int
    heading: bool
    sees: str
    feedback: bool
    stops: bool
    side: str
    strength: float | None


def make_team(
    *,
    n_envs: int,
    variant: str = "wide",
    box: float = BOX,
    step: float = 1.0,
    particles: int | None = None,
    zeta: float = 1.0,
    threshold: float | None = None,
    limit: int = 150,
    heading: bool = False,
    sees: str = "belief",
    feedback: bool = True,
    stops: bool = True,
    side: str = "any",
    strength: float | None = None,
    released_move: bool = False,
) -> SourceSearch:
    """``n_envs`` searches in a box of ``box`` units, in steps of ``step``, of at most ``limit`` steps.

    ``zeta``: spread below which the belief is sure; ``threshold``: of the sensor. ``heading``: moves are angles, not
    four choices. ``sees``: belief, or position alone as in the code of AGDC. Without ``feedback`` being sure is not
    paid; without ``stops`` it does not end the attempt (it is paid once). ``side``: half of the box that the source
    is in, west or east, of which the prior is not told. ``strength`` of the source, where it is not drawn.

    Raises:
        BadInput: an option out of range.
    """
    for name, value, known in (("world", variant, WORLDS), ("sees", sees, _FEATURES), ("side", side, _SIDES)):
        if value not in known:
            raise BadInput(f"unknown {name}", got=value, expected=closest(value, list(known)), where="ste")
    world = WORLDS[variant]
    particles = world.particles if particles is None else particles
    threshold = world.threshold if threshold is None else threshold
    for name, value, least in (("zeta", zeta, 0), ("threshold", threshold, 0), ("step", step, 0)):
        if not (math.isfinite(value) and value > least):
            raise BadInput(f"ste: {name}", got=value, expected="a number above 0", where=f"ste:{name}")
    if not (math.isfinite(box) and box >= 2 * step):
        do = "a larger box, or a smaller step"
        raise BadInput("a box too small to move in", got=box, expected=f"at least two steps, {2 * step:g}", do=do)
    if particles < FEWEST or limit < 1:
        expected = f"at least {FEWEST} particles, and a limit of at least 1"
        raise BadInput("ste", got=f"particles={particles}, limit={limit}", expected=expected)
    if strength is not None and not (math.isfinite(strength) and strength >= 0):
        raise BadInput("a source gives off nothing less than 0", got=strength, expected=">= 0", where="ste:strength")
    options = Options(
        world, box, step, particles, zeta, threshold, limit, heading, sees, feedback, stops, side, strength
    )
    belief = Belief(n_envs, particles, box, threshold, DETECTS, released_move=released_move)
    return SourceSearch(n_envs, options, belief)


_SIDES = {"any": (1.0, 0.0), "west": (0.5, 0.0), "east": (0.5, 0.5)}


class SourceSearch:
    """B searches. What a copy meets in its k-th attempt depends on the seed, the copy and k, not on what was done.

    An observation, scaled to about [-1, 1]: position; the way from there to the mean of the belief; standard deviations
    of x and y, and their correlation; mean cosine and sine of the wind's direction; what was read, as log(1 + v / h);
    effective share of the particles; time. Action: one of four moves, or the angle over pi. The wall stops a move.

    Attributes:
        source_B8: the truth, rows as ``plume.ROWS``.
        at_B3: where the robots are; ``reading_B``: what they read there; ``age_B``: steps of the attempt.
        belief: of all copies.
    """

    name = "ste"

    def __init__(self, n_envs: int, options: Options, belief: Belief) -> None:
        self.n_envs, self.options, self.belief = n_envs, options, belief
        spec = ActionSpec(dims=1) if options.heading else ActionSpec(choices=len(MOVES))
        self.team = TeamSpec(("robot",), _FEATURES[options.sees], (spec,), limit=options.limit)
        self.source_B8, self.at_B3 = np.zeros((n_envs, 8)), np.zeros((n_envs, 3))
        self.age_B, self.reading_B = np.zeros(n_envs, np.int64), np.zeros(n_envs)
        self._attempt_B, self._distance_B = np.zeros(n_envs, np.int64), np.zeros(n_envs)
        self._paid_B = np.zeros(n_envs, np.bool_)
        self._noise_B2T = np.zeros((n_envs, 2, options.limit + 1))
        self._streams = [rng(0)] * n_envs
        self._seed = 0

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        self._seed, everybody_B = seed, np.ones(self.n_envs, np.bool_)
        self._attempt_B[:] = 0
        self._start(np.arange(self.n_envs))
        return Frame(self._look(), np.zeros((self.n_envs, 1), np.float32), ~everybody_B, ~everybody_B)

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        before = self.at_B3.copy()
        self.at_B3[:, :2] = self.reach(self.directions(action[:, 0]))
        self._distance_B += np.sqrt(((self.at_B3 - before) ** 2).sum(axis=1))
        self.age_B += 1
        self._sense(np.arange(self.n_envs))
        sure_B = self.sure()
        pays_B = sure_B & ~self._paid_B & self.options.feedback
        self._paid_B |= sure_B
        reward_B = np.where(pays_B, np.float32(PAID), np.float32(-1))
        over_B = sure_B & self.options.stops
        cut_B = ~over_B & (self.age_B >= self.options.limit)
        obs_BAD, ended = self._look(), np.flatnonzero(over_B | cut_B)
        if not ended.size:
            return Frame(obs_BAD, reward_B[:, None], over_B, cut_B)
        info, last = self._measures(ended, sure_B), obs_BAD
        self._attempt_B[ended] += 1
        self._start(ended)
        return Frame(self._look(), reward_B[:, None], over_B, cut_B, final_obs_BAD=last, info=info)

    def directions(self, action_B: np.ndarray) -> np.ndarray:
        """Unit vectors of actions, ``[B, 2]``: of choices, or of angles ``[B, 1]`` over pi."""
        if not self.options.heading:
            return MOVES[action_B]
        angle_B = math.pi * action_B[:, 0].astype(np.float64)
        return np.stack([np.cos(angle_B), np.sin(angle_B)], axis=1)

    def reach(self, direction: np.ndarray) -> np.ndarray:
        """Where a step in a direction leads, ``[B, 2]``, or several ``[K, 1, 2]``: ``[K, B, 2]``."""
        return np.clip(self.at_B3[:, :2] + self.options.step * direction, 0, self.options.box)

    def sure(self) -> np.ndarray:
        """Where the belief is sure, bool ``[B]``: the test of AGDC."""
        return np.sqrt(self.belief.cov()[:, :2].sum(axis=1)) < self.options.zeta

    def render(self) -> np.ndarray:
        """Copy 0: the plume, particles black, the robot blue, the source red; uint8 ``[160, 160, 3]``."""
        size, box = 160, self.options.box
        axis = (np.arange(size) + 0.5) * box / size
        places = np.stack([*np.meshgrid(axis, axis), np.zeros((size, size))], axis=2)
        heard = np.log1p(plume.concentration(places, self.source_B8[0, :, None])[..., 0] / self.options.threshold)
        picture = np.full((size, size, 3), 255.0) - np.minimum(heard, 4)[..., None] / 4 * [20, 80, 160]
        for xy, width, colour in (
            (self.belief.theta_B8N[0, :2, :200].T, 1, (40, 40, 40)),
            (self.source_B8[:1, :2], 4, (215, 48, 39)),
            (self.at_B3[:1, :2], 4, (31, 91, 180)),
        ):
            for x, y in np.minimum((xy / box * size).astype(int), size - 1):
                picture[max(0, y - width + 1) : y + width, max(0, x - width + 1) : x + width] = colour
        return picture[::-1].astype(np.uint8)

    def close(self) -> None:
        """Nothing is held."""

    def _start(self, rows: np.ndarray) -> None:
        options = self.options
        share, shift = _SIDES[options.side]
        for b in rows:
            stream = self._streams[b] = rng(self._seed, "ste", int(b), int(self._attempt_B[b]))
            source, theta = options.world.draw(stream, options.particles, options.box)
            source[0] = share * source[0] + shift * options.box
            source[3] = source[3] if options.strength is None else options.strength
            self.source_B8[b] = source
            place = stream.uniform(0, options.box, 2)
            self.at_B3[b, :2] = place if options.world.start is None else options.world.start
            self._noise_B2T[b, 0] = stream.standard_normal(options.limit + 1)
            self._noise_B2T[b, 1] = stream.random(options.limit + 1)
            self.belief.start(int(b), theta)
        self.age_B[rows], self._distance_B[rows], self._paid_B[rows] = 0, 0.0, False
        self._sense(rows)

    def _sense(self, rows: np.ndarray) -> None:
        """Read the sensor in some copies, and take it in."""
        noise = self._noise_B2T[rows, :, self.age_B[rows]]
        there = plume.concentration(self.at_B3[rows], self.source_B8[rows, :, None])[:, 0]
        reading = there * (1 + plume.NOISE * noise[:, 0])
        heard = (reading >= self.options.threshold) & (noise[:, 1] < DETECTS)
        self.reading_B[rows] = np.where(heard, reading, 0.0)
        self.belief.update(rows, self.at_B3[rows], self.reading_B[rows], self._streams)

    def _measures(self, ended: np.ndarray, sure_B: np.ndarray) -> dict[str, np.ndarray]:
        error = np.sqrt(((self.belief.mean(ended) - self.source_B8[ended, :2]) ** 2).sum(axis=1))
        sure, near = sure_B[ended], error < NEAR
        columns = (sure & near, sure & ~near, error, self._distance_B[ended])
        info = {name: np.full(self.n_envs, np.nan, np.float32) for name in MEASURES}
        for name, column in zip(MEASURES, columns, strict=True):
            info[name][ended] = column
        return info

    def _look(self) -> np.ndarray:
        """What is seen, float32 ``[B, 1, D]``."""
        box, half = self.options.box, self.options.box / 2
        place = self.at_B3[:, :2] / half - 1
        if self.options.sees == "position":
            return place[:, None].astype(np.float32)
        mean, cov = self.belief.mean(), self.belief.cov()
        sd = np.sqrt(np.maximum(cov[:, :2], 1e-12))
        angle, weight = self.belief.theta_B8N[:, 5], self.belief.weight_BN
        columns = [*place.T, *((mean - self.at_B3[:, :2]) / half).T, *(4 * sd / box).T]
        columns += [cov[:, 2] / (sd[:, 0] * sd[:, 1])]
        columns += [(np.cos(angle) * weight).sum(axis=1), (np.sin(angle) * weight).sum(axis=1)]
        columns += [np.log1p(self.reading_B / self.options.threshold) / 3, self.belief.effective()]
        columns += [self.age_B / self.options.limit]
        return np.stack(columns, axis=1)[:, None].astype(np.float32)
