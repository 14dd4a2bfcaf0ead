"""memlift, our default: shown is what promises most, by outcomes where there are some, by nearness else.

Recall: candidates with a cosine above a gate; the expected success of each is a posterior mean of its newest outcomes,
of which those of other tasks count less; what is nearer and keeps its promise holds back what is farther. The k that
promise most are shown, and nothing that promises less than a share (--hide) of the best.

Credit: a shown memory answers for an outcome by how much of the action came from it, or by its place in the prompt.
With --omit, selected memories but the best are left out with a logged probability, to measure what each adds.

Why, and what it was judged by: docs/memlift.md; what did not help: LOG.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evolvent.memory.rules.memlift import Config as Rule
from evolvent.runs.memory.run import MemoryConfig, memory_system

PAPER = "ours"
LEVELS = ("memory",)
STATUS = "tested"


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of memlift; the defaults are chosen in random worlds and judged in others (docs/memlift.md)."""

    k: int = Rule.k
    """Memories retrieved into the prompt, at most (top k)."""
    pool: int = Rule.pool
    """Candidates kept by relevance before values rank them (k1)."""
    gate: float | None = Rule.gate
    """Cosine similarity that a candidate must exceed; default: that of the embedder, whose scale it is."""
    prior_n0: float = Rule.prior_n0
    """Weight of what is expected before any outcome, as a number of outcomes."""
    length: float = Rule.length
    """Difference in relevance over which that expectation, and what an outcome says, falls to 37 %; 1 is from the gate
    to a cosine of 1."""
    hide: float = Rule.hide
    """What promises less than this share of the best is not shown."""
    alpha: float = Rule.alpha
    """Least learning rate of the value that is reported of a memory."""
    omit: float = Rule.omit
    """Probability of leaving out a selected memory (never the best), to measure its effect; falls with omissions."""
    relevance: Literal["cosine", "hybrid"] = Rule.relevance
    """Relevance: cosine of the keys, or 3/4 of it and 1/4 the share of the task's telling words in a key."""


run, evaluate = memory_system("memlift", Config)
