"""Similarity only: the k most similar memories, whatever became of them."""

from __future__ import annotations

from dataclasses import dataclass

from evolvent.memory.rule import Candidates, Policy, Ranking


@dataclass(frozen=True)
class Config(Policy):
    """Settings of similarity only: no gate."""

    name: str = "rag"
    gate: float | None = -1.0


def rank(config: Policy, pool: Candidates) -> Ranking:
    """By relevance."""
    return Ranking(pool.relevance)
