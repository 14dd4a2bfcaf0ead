"""CreativeGame's proxy reward for a generated game (arXiv 2604.19926), and the signals it is made of.

The weights, the penalties and both gates are published. How realisation, structural change and novelty become numbers
is not; here: shares of sets of mechanics.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

GATES = (0.6, 0.25, 0.5)
"""Sanity below the first multiplies the reward by the second; a failed run multiplies it by the third."""
MOST = 0.9
"""The reward of a page that is perfect in everything: the positive weights do not sum to 1."""


@dataclass(frozen=True)
class Signals:
    """What the reward is made of; everything but ``runtime_ok`` lies between 0 and 1."""

    structural: float
    """How much of the mechanics changed against the parent."""
    realised: float
    """Share of the planned mechanics that are there."""
    novelty: float
    """How far from every game of the archive."""
    creativity: float
    """As a model judges it, ``creativity(rating)``; 0 where none does."""
    playable: float
    """Of the run, ``runtime_score``."""
    cosmetic: float = 0.0
    """1 where only what it looks like changed."""
    regression: float = 0.0
    """1 where the canvas, the loop or the input is missing."""
    sanity: float = 1.0
    """Whether it can be played at all: loads, paints, changes, runs."""
    runtime_ok: bool = True
    """It was run, and nothing went wrong."""


def creative_reward(x: Signals, gates: Literal["positive", "all"] = "positive") -> float:
    """``.25 structural + .20 realised + .20 novelty + .15 creativity + .10 playable - .15 cosmetic - .10 regression``.

    Both gates may apply. ``all`` multiplies the whole sum, as published: a broken game that only changed its looks then
    loses less than one that runs. ``positive`` multiplies the first five terms alone: a penalty stays a penalty.
    """
    good = 0.25 * x.structural + 0.20 * x.realised + 0.20 * x.novelty + 0.15 * x.creativity + 0.10 * x.playable
    bad = 0.15 * x.cosmetic + 0.10 * x.regression
    factor = (GATES[1] if x.sanity < GATES[0] else 1.0) * (1.0 if x.runtime_ok else GATES[2])
    return factor * (good - bad) if gates == "all" else factor * good - bad


def runtime_score(errors: int, warnings: int) -> float:
    """``1 - .20 errors - .05 warnings``, at least 0."""
    return max(0.0, 1.0 - 0.20 * errors - 0.05 * warnings)


def creativity(rating: float | None) -> float:
    """A rating of 1..10 as ``clip((rating - 3) / 7, 0, 1)``; ``None`` (nobody rated it) is 0."""
    return 0.0 if rating is None else min(1.0, max(0.0, (rating - 3.0) / 7.0))


def realisation(planned: Collection[str], there: Collection[str], removed: Collection[str] = ()) -> float:
    """Share of what was planned (mechanics that are there, ``removed`` ones that are gone); 1 where nothing was."""
    wanted, unwanted, found = set(planned), set(removed), set(there)
    n = len(wanted) + len(unwanted)
    return (len(wanted & found) + len(unwanted - found)) / n if n else 1.0


def structural_change(before: Collection[str], after: Collection[str], modified: Collection[str] = ()) -> float:
    """Mechanics added, removed or modified, as a share of all of both; 0 where there are none."""
    union = set(before) | set(after)
    changed = (set(before) ^ set(after)) | (set(modified) & union)
    return len(changed) / len(union) if union else 0.0


def relative_novelty(mechanics: Collection[str], archive: Iterable[Collection[str]]) -> float:
    """``1 - max |A ∩ B| / sqrt(|A| |B|)`` over the games of the archive; 1 where it is empty."""
    own = set(mechanics)
    near = [len(own & set(b)) / math.sqrt(len(own) * len(set(b))) for b in archive if own and b]
    return 1.0 - max(near, default=0.0)
