"""The score of a summary: what pages, comparisons and the index read of a run, also of a system of one's own."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Real

from evolvent.core.errors import BadInput


def check_score(score: object, where: str) -> None:
    """Refuse what no page could read; ``where``: the system that returned it.

    A score is ``{"name", "value", "ci95", "higher_is_better"}``, or ``None``: the run has none. The interval may be
    missing or empty, the value ``None``.

    Raises:
        BadInput: it cannot be read.
    """
    if wrong := _wrong(score):
        raise BadInput(
            f"the score of the summary that run() returned: {wrong}",
            got=score,
            where=where,
            expected='{"name": text, "value": number or None, "ci95": [low, high], "higher_is_better": bool}, or none',
        )


def _wrong(score: object) -> str:
    if not isinstance(score, dict):
        return "" if score is None else "it is no dictionary"
    if not isinstance(score.get("name"), str) or not score["name"]:
        return "it has no name"
    bounds = score.get("ci95")
    ends = [] if bounds is None else list(bounds) if isinstance(bounds, Collection) else [bounds]
    if len(ends) not in (0, 2):
        return "ci95 is no pair"
    numbers = all(n is None or isinstance(n, Real) for n in (score.get("value"), *ends))
    return "" if numbers else "its value or interval is no number"
