"""What an agent sees as one row of numbers: arrays are flattened, what is one of several becomes one-hot."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from evolvent.core.errors import BadInput, EnvError

PICTURE, LONGEST = 2_048, 16_384
"""Numbers that an observation may have: of rank 2 and more (a picture), and at all."""
_SEVERAL = ("Dict", "Tuple")
_CHOSEN = ("Discrete", "MultiDiscrete", "MultiBinary")


class Row(NamedTuple):
    """How an observation becomes a row: its ``width``, and the function to ``[width]``."""

    width: int
    flat: Callable[[Any], np.ndarray]


def row_of(space: Any, where: str) -> Row:
    """The row that an observation space of gymnasium gives.

    A ``Box`` is flattened, pictures (uint8) are divided by 255; ``Discrete`` and ``MultiDiscrete`` become one-hot; a
    ``Dict`` or ``Tuple`` of these is written side by side (``gymnasium.spaces.utils.flatten``).

    Args:
        space: of an agent.
        where: named in errors: the agent.

    Raises:
        BadInput: a picture or a list that is too large for learners without convolutions.
        EnvError: a space of another kind; of the function: what is not in the space.
    """
    for part, _ in _parts(space, None):
        _refuse_large(part, where)
        if not _shaped(part) and type(part).__name__ not in _CHOSEN:
            expected = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these"
            what, do = (
                "an observation space that is not supported",
                "show texts and sets as numbers, or as one of several",
            )
            raise EnvError(what, got=repr(part), where=where, expected=expected, do=do)
    if _shaped(space):
        width, flat = math.prod(space.shape), _numbers
    else:
        from gymnasium.spaces import utils

        width = int(utils.flatdim(space))

        def flat(seen: Any) -> np.ndarray:
            for part, value in _parts(space, seen):
                if not _shaped(part) and not part.contains(value):
                    raise ValueError(value)  # flatten would take -1 for the last one
            return np.asarray(utils.flatten(space, seen))

    if width > LONGEST:
        got = f"{width:,} numbers, {space!r}"
        do = "show the agent less: what matters of it, or where it stands as numbers"
        raise BadInput("an observation that is too long", got=got, expected=f"at most {LONGEST:,}", where=where, do=do)

    def row(seen: Any) -> np.ndarray:
        try:
            found = flat(seen)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise EnvError("an observation that is not in its space", got=seen, expected=space, where=where) from error
        if found.size != width:
            got = f"{found.size} numbers"
            raise EnvError("an observation of another size than its space", got=got, expected=space, where=where)
        return found

    return Row(width, row)


def _numbers(seen: Any) -> np.ndarray:
    array = np.asarray(seen)
    return (array / np.float32(255) if array.dtype == np.uint8 else array).reshape(-1)


def _shaped(space: Any) -> bool:
    """Whether it is a ``Box``, or of another library and has a shape as one."""
    return type(space).__name__ not in _CHOSEN and getattr(space, "shape", None) is not None


def _parts(space: Any, seen: Any) -> Iterator[tuple[Any, Any]]:
    """The spaces inside of ``Dict`` and ``Tuple``, each with what was seen of it where anything was."""
    if type(space).__name__ not in _SEVERAL:
        yield space, seen
        return
    inner = space.spaces
    for key in inner if isinstance(inner, Mapping) else range(len(inner)):
        yield from _parts(inner[key], None if seen is None else seen[key])


def _refuse_large(space: Any, where: str) -> None:
    if not _shaped(space) or len(space.shape) < 2 or math.prod(space.shape) <= PICTURE:
        return
    raise BadInput(
        "a picture is no observation for these learners, which have no convolutions",
        got=f"{' x '.join(map(str, space.shape))} numbers",
        expected=f"a vector, or at most {PICTURE:,} numbers",
        where=where,
        do="show positions, velocities and the like instead, or a small picture: in grey, 32 x 32 (supersuit: "
        "color_reduction_v0, resize_v1)",
    )
