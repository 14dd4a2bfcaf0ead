"""Answers that are revised again and again, as a chain of two states: wrong and right (DSER, arXiv 2510.17498).

x_n = pi + (1 - p - q)^n (x_0 - pi),    pi = p / (p + q),    p = P(wrong -> right),  q = P(right -> wrong)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import comb


def right_after(rounds: int, p: float, q: float, first: float = 0.0) -> float:
    """Chance of being right after some rounds, where it was ``first`` before them."""
    if p + q == 0.0:
        return first
    limit = p / (p + q)
    return limit + (1.0 - p - q) ** rounds * (first - limit)


def majority(right: float, chains: int) -> float:
    """Chance that more than half of some independent chains are right, each with chance ``right``."""
    return sum(comb(chains, k) * right**k * (1.0 - right) ** (chains - k) for k in range(chains // 2 + 1, chains + 1))


def revisions(answers: Sequence[bool]) -> tuple[int, int, int, int]:
    """Of one chain's answers in order: wrong ones that were mended, wrong ones, right ones that were spoiled, right
    ones; the last answer, which is not revised, is not counted. ``p`` and ``q`` are the two shares.
    """
    pairs = list(pairwise(answers))
    wrong, right = [after for before, after in pairs if not before], [after for before, after in pairs if before]
    return sum(wrong), len(wrong), len(right) - sum(right), len(right)
