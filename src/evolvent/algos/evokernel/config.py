"""Settings that every system has that writes programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evolvent.core.config import at_least


@dataclass(frozen=True)
class ProgramsConfig:
    """Settings of a run over programs."""

    KIND = "programs"

    env: str = "kernels"
    """The world of kernels with its options, e.g. kernels:own=operators.py."""
    model: str = "qwen2.5-coder-1.5b"
    """Language model: a name of `evolvent list models`, a GGUF file, remote:NAME@URL."""
    seed: int = 0
    """Random seed of kernels, exploration and sampling. The inputs that programs are checked with have a secret one."""
    kernels: tuple[str, ...] = ()
    """Kernels by name; empty = as many as --count of the split."""
    count: int = 6
    """Kernels, drawn by the seed."""
    split: Literal["train", "heldout"] = "train"
    """Which kernels: heldout for what a memory of others brings."""
    budget: int = 12
    """Attempts at each kernel, drafts and refinements together (EvoKernel's paper: 30)."""
    memory: str = ""
    """A store, or the folder of a run, to begin with: it is copied, without what it holds of the kernels at hand."""
    temperature: float = 0.7
    """Sampling temperature; 0 = greedy."""
    tokens: int = 500
    """Largest number of tokens of a program."""

    def __post_init__(self) -> None:
        at_least(self, {"count": 1, "budget": 1, "tokens": 1, "temperature": 0})
