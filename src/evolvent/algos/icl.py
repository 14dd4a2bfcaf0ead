"""Control: every lesson so far in the prompt, as far as it has room (in-context learning); no choice, no values.

What a critic asks of any memory: would a long prompt do as well? The lessons, their text and their place in the prompt
are those of the systems that learn. Newest first means that the newest stand nearest to the question and the oldest are
left out; the beginning of the prompt then stays the same while there is room, so a model that keeps its state reads
only what is new. By relevance the nearest stand last, and every prompt is read anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evolvent.memory.rules.icl import Config as Rule
from evolvent.runs.memory.run import MemoryConfig, Plan, memory_system

PAPER = "control"
LEVELS = ()
STATUS = "lightly tested"
ROOM = Plan(memory_chars=9000)  # some 3,000 tokens, beside the question and the answer in a context of 4,096


@dataclass(frozen=True)
class Config(MemoryConfig):
    """Settings of the whole stream in the prompt; the defaults are the main job."""

    use: Literal["auto", "context", "values", "both", "none"] = "context"
    """How lessons act: context = worked examples in the prompt, which is what this is; the others as elsewhere."""
    order: Literal["newest", "relevance"] = Rule.order
    """Which lessons come first, and stay where not all have room: the newest, or the most relevant."""
    plan: Plan = ROOM


run, evaluate = memory_system("icl", Config)
