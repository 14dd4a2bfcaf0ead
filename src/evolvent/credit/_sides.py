"""Shared by preference rules: which answers can be compared, and a label on all decisions of some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import labels, to_steps, valid_rows
from evolvent.credit._tokens import first_tokens


def answered(episodes: Sequence[Episode]) -> list[int]:
    """Positions of the valid attempts that decided anything."""
    return [i for i in valid_rows(episodes) if episodes[i].n_steps]


def compared(episodes: Sequence[Episode]) -> list[tuple[list[int], np.ndarray]]:
    """The members of each group of two or more, and what they earned."""
    rows = answered(episodes)
    groups: dict[str, list[int]] = {}
    for i, label in zip(rows, labels(episodes, rows), strict=True):
        groups.setdefault(label, []).append(i)
    several = [members for members in groups.values() if len(members) > 1]
    return [(members, np.array([episodes[i].total_reward for i in members])) for members in several]


def sided(episodes: Sequence[Episode], side: Mapping[int, float], where: str) -> Ledger:
    """A ledger in which every decision of an attempt carries its side; attempts without one take no part.

    Raises:
        BadInput: a decision without tokens.
    """
    for i in side:
        first_tokens(episodes[i], where)
    return to_steps(episodes, list(side), np.array(list(side.values()), dtype=np.float64))
