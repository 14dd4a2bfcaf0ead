"""What a frozen policy earns while a source of disturbance grows: by source and strength, with intervals.

Each cell has the interquartile mean of its attempts' returns (of the undisturbed reward) with a bootstrap interval, and
the mean of the worst tenth. A source has the area under its curve: the mean of the interquartile mean over strengths,
by trapezoids; equal to the undisturbed one where nothing is lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evolvent.formulas.statistics import iqm, stratified_bootstrap

WORST = 0.1


def cell(returns: Sequence[float]) -> dict[str, Any]:
    """One cell: ``iqm``, ``ci95``, ``mean``, ``worst`` (mean of the worst tenth), ``n`` and all ``returns``, sorted."""
    ordered = np.sort(np.asarray(returns, float))
    low, high = stratified_bootstrap([ordered.tolist()], iqm) if len(ordered) > 1 else (ordered[0], ordered[0])
    return {
        "iqm": float(iqm(ordered)),
        "ci95": [float(low), float(high)],
        "mean": float(ordered.mean()),
        "worst": float(ordered[: max(1, math.ceil(WORST * len(ordered)))].mean()),
        "n": len(ordered),
        "returns": [round(float(one), 6) for one in ordered],
    }


def row(source: str, how: str, strengths: Sequence[float], returns: Sequence[Sequence[float]]) -> dict[str, Any]:
    """A source of disturbance: its cells by strength, and the ``area`` under the curve."""
    cells = [{"strength": s, **cell(one)} for s, one in zip(strengths, returns, strict=True)]
    span, means = strengths[-1] - strengths[0], [one["iqm"] for one in cells]
    return {"source": source, "how": how, "cells": cells, "area": float(np.trapezoid(means, strengths)) / span}


def shade(cell: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> float:
    """How much is lost in a cell, 0 to 1 of the range of all cells."""
    means = [one["iqm"] for other in rows for one in other["cells"]]
    span = max(means) - min(means)
    return (max(means) - cell["iqm"]) / span if span > 0 else 0.0
