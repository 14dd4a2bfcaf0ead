"""What a state is worth by a memory's experiences: ``--value memory:STORE,k=5``.

    V(s) = (sum_i w_i q_i + q_0 / 2) / (sum_i w_i + 1/2),    w_i = closeness(similarity_i) max(1, n_i)

over the ``k`` memories whose keys are nearest to the text of ``s``, which is the question and the steps so far, a line
each; ``q_i`` is what the memory's rule makes of one, after ``n_i`` outcomes, ``q_0`` the middle. All are shares of the
store's reward range, 0..1, so that they mix with likelihoods. A recall here leaves no receipt and credits nobody: what
a memory knows of states it learns from ``recall``, ``settle`` and ``remember`` elsewhere (docs/search.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from evolvent.core.config import from_json
from evolvent.core.credit_rule import values_of
from evolvent.core.errors import BadInput, closest
from evolvent.formulas.values import closeness, kernel_mean
from evolvent.memory.memory import Memory
from evolvent.memory.policies import rule_of
from evolvent.memory.there import open_memory
from evolvent.search.search import State

PREFIX = "memory:"
WHERE = "--value memory:STORE"


@dataclass(frozen=True)
class Options:
    """How a memory is asked."""

    k: int = 3
    """Memories that are asked for each state."""
    gate: float = 0.85
    """Similarity of keys at which a memory has no say any more: a scale of the embedder's; this one suits
    all-MiniLM-L6-v2, for which the states of one small world lie near each other."""
    policy: str = "rag"
    """Rule of the recall: rag = the nearest, with the values that were learned."""
    scope: str = ""
    """Of the store; empty = its first one."""

    def __post_init__(self) -> None:
        if self.k < 1:
            raise BadInput("no memory is asked", got=f"k={self.k}", expected="k of at least 1", where=WHERE)
        if not -1.0 <= self.gate < 1.0:
            raise BadInput("gate is no similarity", got=self.gate, expected="-1 to below 1", where=WHERE)


def parsed(spec: str) -> tuple[str, Options]:
    """The store and the options of ``memory:STORE,key=value,…``.

    Raises:
        BadInput: no store, or an option that there is not.
    """
    # a comma separates options only where "key=" follows
    store, *pairs = re.split(r",(?=\s*\w+\s*=)", spec.removeprefix(PREFIX))
    if not store.strip():
        raise BadInput("no store is named", got=spec, expected="memory:STORE, a file or a run folder", where="--value")
    given, known = values_of(pairs, WHERE), [field.name for field in fields(Options)]
    for name in given:
        if name not in known:
            raise BadInput("unknown option", got=name, expected=closest(name, known), where=WHERE)
    return store.strip(), from_json(Options, given, WHERE)


class MemoryValue:
    """The value of a search that asks a memory and only reads it; close it when the search is over.

    Raises:
        BadInput: it is empty, or its policy compares nothing.
    """

    def __init__(self, memory: Memory, options: Options = Options()) -> None:
        if not memory.items(limit=1):
            raise BadInput(
                "the memory is empty",
                got=f"{memory.path}, scope {memory.scope}",
                where=WHERE,
                expected="memories of states with outcomes",
                do="fill it first: docs/search.md, memory values",
            )
        if rule_of(memory.policy).candidates != "near":
            raise BadInput(
                "this policy compares no texts", got=memory.policy.name, expected="rag, memrl, memlift, …", where=WHERE
            )
        self.memory, self.options = memory, options
        self._known = dict[str, float]()

    @classmethod
    def of(cls, spec: str) -> MemoryValue:
        """The value of ``memory:STORE,key=value,…``.

        Raises:
            BadInput: there is no such store or scope, or it is empty.
        """
        store, options = parsed(spec)
        memory = open_memory(store, options.scope or None, policy=options.policy, where=WHERE)
        try:
            return cls(memory, options)
        except BaseException:
            memory.close()
            raise

    def __call__(self, states: Sequence[State]) -> np.ndarray:
        """Float64 ``[N]`` in 0..1; one half where nothing near is known."""
        return np.array([self._judge("\n".join((state.question, *state.steps))) for state in states], np.float64)

    def close(self) -> None:
        """Close the memory."""
        self.memory.close()

    def _judge(self, text: str) -> float:
        if text not in self._known:
            low, high = self.memory.bank.reward_range
            found = self.memory.search(text, k=self.options.k)
            near = closeness([item.similarity for item in found], self.options.gate)
            weight = near * [max(1, item.n) for item in found]
            share = [(item.value - low) / (high - low) for item in found]
            self._known[text] = float(kernel_mean(weight, share, 0.5)) if found else 0.5
        return self._known[text]
