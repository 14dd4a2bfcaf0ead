"""For rules over attempts with common beginnings: which decisions are the same, and the mean of what followed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._group import labels, to_units, valid_rows


class Shared:
    """The decisions of the valid attempts; decisions with the same history count as one.

    A history is what was seen and decided from the beginning, word for word and token by token; attempts of different
    groups never share. Decisions are listed attempt by attempt: ``node_D`` is the number of each one's history with the
    decision, ``above_D`` that of the history before it, ``row_D`` its attempt, as a position among ``rows``; int64.
    """

    def __init__(self, episodes: Sequence[Episode]) -> None:
        self.episodes, self.rows = episodes, valid_rows(episodes)
        known: dict[tuple[object, ...], int] = {}
        node: list[int] = []
        above: list[int] = []
        for label, i in zip(labels(episodes, self.rows), self.rows, strict=True):
            before = known.setdefault((label,), len(known))
            seen: list[str] = []
            for one in episodes[i].nodes:
                if one.kind == "observation":
                    seen.append(one.text)
                elif one.step is not None:
                    state = known.setdefault((before, *seen), len(known))
                    ids = episodes[i].step_tokens(one.step).tobytes()
                    before, seen = known.setdefault((state, one.agent, one.text, ids), len(known)), []
                    above.append(state)
                    node.append(before)
        counts = [episodes[i].n_steps for i in self.rows]
        self.node_D, self.above_D = np.array(node, np.int64), np.array(above, np.int64)
        self.row_D = np.repeat(np.arange(len(self.rows)), counts)

    def mean(self, value_D: np.ndarray) -> np.ndarray:
        """The mean of a number over all attempts that made the same decision: float64 ``[D]``."""
        if not len(value_D):
            return value_D
        return (np.bincount(self.node_D, value_D) / np.maximum(np.bincount(self.node_D), 1))[self.node_D]

    def others(self, value_D: np.ndarray) -> np.ndarray:
        """Its mean over the other attempts that stood in the same state, 0 where there is none: float64 ``[D]``."""
        sums, counts = np.bincount(self.above_D, value_D), np.bincount(self.above_D)
        n = counts[self.above_D] - 1
        return np.where(n > 0, (sums[self.above_D] - value_D) / np.maximum(n, 1), 0.0)

    def ledger(self, value_D: np.ndarray) -> Ledger:
        """One number for each decision, as step credit; invalid attempts are not scored."""
        ends = np.cumsum(np.bincount(self.row_D, minlength=len(self.rows)))[:-1]
        return to_units(self.episodes, "step", self.rows, np.split(value_D, ends) if self.rows else [])
