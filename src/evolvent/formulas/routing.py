"""What a router earns that asks other models: form first, then the answer, then how cheap it was (Router-R1).

Source: Zhang et al. 2025, Router-R1 (arXiv 2506.09033), the released reward.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable

import numpy as np

_TAG = re.compile(r"<(/?)(think|search|information|answer)>")


def cheapness(cost_N: Iterable[float], window: int = 1000) -> np.ndarray:
    """How cheap each cost is beside those before it: 1 = as the cheapest twentieth, 0 = as the dearest; ``[N]``.

    Of the square roots of the last ``window`` costs, itself among them, the 5th and 95th percentiles are 1 and 0; where
    those are equal it is .5. The unit of cost does not matter.
    """
    recent, found = deque[float](maxlen=window), list[float]()
    for cost in cost_N:
        recent.append(float(np.sqrt(cost)))
        low, high = np.percentile(recent, (5, 95))
        found.append(1.0 - float(np.clip((recent[-1] - low) / (high - low), 0.0, 1.0)) if high > low else 0.5)
    return np.array(found, np.float64)


def routed_reward(well_formed: bool, outcome: float, cheap: float, beta: float = 0.0) -> float:
    """-1 where the form is broken, 0 for a wrong answer, otherwise ``(1 - beta) outcome + beta cheap``."""
    if not well_formed:
        return -1.0
    return (1.0 - beta) * outcome + beta * cheap if outcome > 0.0 else 0.0


def well_formed(text: str, models: Collection[str]) -> bool:
    """Whether a transcript has the form: thoughts, questions to models, their replies, and one answer at the end.

    ``<think>…</think>``, none of them empty and one at the beginning; ``<search>MODEL: question</search>`` of a model
    that is there, each with one ``<information>…</information>``; ``<answer>…</answer>`` last. Nothing is nested.
    """
    spans, opened, end = list[tuple[str, str]](), "", 0
    for found in _TAG.finditer(text):
        closes, name = bool(found[1]), found[2]
        if closes != bool(opened) or (closes and name != opened):
            return False
        if closes:
            spans.append((name, text[end : found.start()].strip()))
        opened, end = ("" if closes else name), found.end()
    names = [name for name, _ in spans]
    if opened or names[:1] != ["think"] or names[-1] != "answer" or names.count("answer") != 1 or text[end:].strip():
        return False
    if not text.lstrip().startswith("<think>") or names.count("search") != names.count("information"):
        return False
    asked = [said.partition(":") for name, said in spans if name == "search"]
    known = all(colon and model.strip() in models and question.strip() for model, colon, question in asked)
    return known and all(said for name, said in spans if name == "think")
