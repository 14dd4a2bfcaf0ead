"""Memento: a memory of cases, right and wrong ones, by similarity or by a learned estimate of what helps.

Every attempt becomes a case: the question, the answer, and what came of it; wrong ones are shown as such. With
``--learn no`` the k most similar cases are read (non-parametric); with ``kernel`` or ``classifier`` those that are
estimated to help most (parametric), once the estimate predicts held-out questions better than the cosine does.
Equations and deviations: ``memory/rules/memento.py``. Not here: the planner and executor with tools, and their two
further memories.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evolvent.memory.rules.memento import Config as Rule
from evolvent.runs.memory.run import MemoryConfig, memory_system

PAPER = "arXiv 2508.16153"
LEVELS = ("memory",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of Memento; k is the paper's."""

    lessons: tuple[str, ...] = ("successes", "failures")
    """What is written into the memory: corrections, successes, failures (what to avoid), procedures."""
    k: int = Rule.k
    """Cases retrieved into the prompt, at most (K)."""
    pool: int = Rule.pool
    """Most similar cases among which an estimate chooses."""
    gate: float | None = Rule.gate
    """Cosine similarity that a candidate must exceed."""
    learn: Literal["no", "kernel", "classifier"] = Rule.learn
    """What ranks: the cosine alone, past uses of each case near the question, or a model of question and case."""
    every: int = Rule.every
    """Uses between two fits."""
    ridge: float = Rule.ridge
    """Shrinkage of the classifier's weights."""


run, evaluate = memory_system("memento", Config)
