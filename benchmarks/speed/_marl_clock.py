"""Works measured in turns, so that a busy machine slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True, eq=False)
class Spent:
    """Seconds of one work, one entry a round: on the clock, and of this process."""

    wall: np.ndarray
    cpu: np.ndarray

    def milliseconds(self, calls: int = 1) -> dict[str, float]:
        """Medians in milliseconds; ``calls`` pieces of work were done in each round."""
        return {
            name: round(1e3 * float(np.median(x)) / calls, 4) for name, x in (("wall", self.wall), ("cpu", self.cpu))
        }


def in_turns(
    works: Mapping[str, Callable[[], Any]], rounds: int, *, device: str = "cpu", warm: int = 1
) -> dict[str, Spent]:
    """Do every work once in each round; the order turns around from round to round.

    Args:
        works: by name.
        rounds: how often.
        device: of the works; on a GPU the clock waits until it is done.
        warm: rounds before that are not counted.
    """
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    names = list(works)
    for turn in range(warm + rounds):
        for name in names if turn % 2 else names[::-1]:
            wall, cpu = time.perf_counter(), time.process_time()
            works[name]()
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            if turn >= warm:
                spent[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {name: Spent(*np.array(rows).T) for name, rows in spent.items()}


def ratio(over: Spent, under: Spent, device: str) -> float:
    """Median over rounds of ``over / under``: this process's own time, or the clock's where a GPU does the work."""
    if device.startswith("cuda"):
        return round(float(np.median(over.wall / under.wall)), 3)
    return round(float(np.median(over.cpu / np.maximum(under.cpu, 1e-9))), 3)
