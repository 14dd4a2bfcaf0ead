"""Attempts that are not trained on at all: without credit they are in no batch and in no denominator."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger


def leave_out(ledger: Ledger, out_E: ArrayLike, level: str = "step") -> float:
    """Take the credit of some episodes away; returns the share of all episodes that are left out.

    Where nothing would be left the ledger stays as it is: a step in which all credit is 0 changes nothing, and a batch
    without any credit is an error.

    Args:
        ledger: changed in place.
        out_E: bool ``[E]``, which of its episodes.
        level: of the credit.
    """
    out = np.asarray(out_E, dtype=np.bool_)
    if out.shape != (len(ledger.episodes),):
        raise BadInput("one mark an episode", got=out.shape, expected=(len(ledger.episodes),), where="leave_out")
    values = np.where(out[ledger.episode_index(level)], np.nan, ledger.values(level))
    if np.isnan(values).all():
        return 0.0
    ledger.set(level, values)
    return float(out.mean())


def without_effect(ledger: Ledger, level: str = "step") -> np.ndarray:
    """Episodes whose credit is 0 everywhere (or not known): bool ``[E]``."""
    some = np.zeros(len(ledger.episodes), dtype=np.bool_)
    values = np.nan_to_num(ledger.values(level))
    some[ledger.episode_index(level)[values != 0.0]] = True
    return ~some
