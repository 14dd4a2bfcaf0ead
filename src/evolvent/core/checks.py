"""What may enter an ``Episode``: text, finite rewards, tokens with their log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput

_INT32 = np.iinfo(np.int32)
_LOGP_MAX = 1e-6  # what rounding makes of a probability of 1


def check_text(value: object, name: str) -> None:
    """Refuse what is not a ``str``."""
    if not isinstance(value, str):
        raise BadInput(f"{name} is not a string", got=value, expected="str", where="Episode")


def finite(value: float, where: str) -> float:
    """A reward as a float; NaN and infinity are refused."""
    number = float(value)
    if not math.isfinite(number):
        raise BadInput("reward is not finite", got=value, where=where, do="end(valid=False) marks a broken outcome")
    return number


def tokens(token_ids: ArrayLike, logp: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Token ids int32 ``[K]`` and log-probabilities float32 ``[K]`` of one decision; no log-probabilities = all NaN."""
    ids, logps = np.asarray(token_ids), np.asarray(logp, dtype=np.float32)
    if ids.size == 0 and logps.size == 0:
        return np.empty(0, np.int32), np.empty(0, np.float32)
    if (
        ids.ndim != 1
        or ids.dtype.kind not in "iu"
        or ids.min(initial=0) < _INT32.min
        or ids.max(initial=0) > _INT32.max
    ):
        raise BadInput("token ids are not int32 [K]", got=f"{ids.dtype} {ids.shape}", where="Episode.act")
    if logps.size == 0:
        logps = np.full(ids.shape, np.nan, np.float32)
    if logps.shape != ids.shape:
        raise BadInput(
            "token ids and log-probabilities differ in length",
            got=f"{ids.shape} and {logps.shape}",
            expected="one log-probability a token, or none at all",
            where="Episode.act",
        )
    if (logps > _LOGP_MAX).any():
        raise BadInput(
            "a log-probability is positive", got=float(np.nanmax(logps)), expected="at most 0", where="Episode.act"
        )
    return ids.astype(np.int32, copy=False), logps


def choices_of(choices: Sequence[ArrayLike], token_ids: np.ndarray) -> list[list[int]]:
    """Token ids of each allowed action as lists; the one that was taken must be among them."""
    options = [tokens(ids, ())[0].tolist() for ids in choices]
    if options and token_ids.tolist() not in options:
        raise BadInput(
            "the action is not among its choices",
            got=token_ids.tolist(),
            expected=f"one of {options}",
            where="Episode.act",
        )
    return options
