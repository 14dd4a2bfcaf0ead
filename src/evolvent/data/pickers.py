"""What can be had without a trained model: functions that pick a tool, and the table that every caller stands in.

Choosing a function is mostly retrieval: the nearest description, or the words in common, find it nearly as well as a
large model on public lists. A caller of any kind is worth what it does beyond these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.protocols import Embedder
from evolvent.data.irrelevance import words
from evolvent.data.rows import Row
from evolvent.data.schemas import Tool
from evolvent.formulas.call_match import Call, match

Pick = Callable[[str, Sequence[Tool]], str | None]
"""Request and tools to the name of one; ``None`` = refused."""
CHOSEN = 300
"""Rows on which a threshold is chosen, at most."""
_BATCH = 64
COLUMNS = ("function right", "arguments right", "refusals right", "call rate")


@dataclass(frozen=True)
class Scores:
    """Shares, ``None`` where there is nothing to count: of rows with a right call those whose functions, and whose
    whole calls, are right; of rows without one those that call nothing; of all rows those that call.
    """

    function: float | None
    arguments: float | None
    refusals: float | None
    calls: float | None
    n: tuple[int, int] = (0, 0)
    """Rows with a right call, and without."""

    @property
    def shares(self) -> tuple[float | None, ...]:
        """In the order of ``COLUMNS``."""
        return self.function, self.arguments, self.refusals, self.calls


def scored(rows: Sequence[Row], answers: Sequence[Sequence[Call] | None]) -> Scores:
    """How good answers are; ``None`` is one that cannot be read: wrong, and no refusal."""
    pairs = list(zip(rows, answers, strict=True))
    calls = [match(() if said is None else said, row.gold) for row, said in pairs if row.gold]
    none = [said is not None and not said for row, said in pairs if not row.gold]
    return Scores(
        function=_mean([one.name_right for one in calls]),
        arguments=_mean([one.right for one in calls]),
        refusals=_mean(none),
        calls=_mean([said is None or bool(said) for _, said in pairs]),
        n=(len(calls), len(none)),
    )


# --------------------------------------------------------------------------------------------------------- picks
def first_tool(request: str, tools: Sequence[Tool]) -> str | None:
    """Always calls: the first tool of the list."""
    return tools[0]["name"] if tools else None


def no_tool(request: str, tools: Sequence[Tool]) -> str | None:
    """Never calls."""
    return None


def words_in_common(request: str, tools: Sequence[Tool]) -> str | None:
    """The tool that has most words in common with the request, each counted the less the more tools have it."""
    texts = [words(said(tool)) for tool in tools]
    asked = words(request)
    weight = {word: 1 / sum(word in one for one in texts) for one in texts for word in one}
    points = [sum(weight[word] for word in asked & one) for one in texts]
    return tools[int(np.argmax(points))]["name"] if tools else None


def nearest(embedder: Embedder, least: float = -1.0) -> Pick:
    """The tool whose name and description are nearest by an embedder; refuses where the cosine is below ``least``."""

    def pick(request: str, tools: Sequence[Tool]) -> str | None:
        cosines_N = cosines(embedder, request, tools)
        best = int(np.argmax(cosines_N)) if len(tools) else -1
        return tools[best]["name"] if best >= 0 and cosines_N[best] >= least else None

    return pick


def cosines(embedder: Embedder, request: str, tools: Sequence[Tool]) -> np.ndarray:
    """Cosine of a request with each tool: float32 ``[N]``."""
    vectors_ND = embedder.embed([request, *map(said, tools)])
    return vectors_ND[1:] @ vectors_ND[0]


def threshold(embedder: Embedder, rows: Sequence[Row]) -> float:
    """The least cosine that splits rows with and without a right call best, by the mean of both shares."""
    best_B = np.array([cosines(embedder, row.request, row.tools).max(initial=-1.0) for row in rows])
    call_B = np.array([bool(row.gold) for row in rows])
    if call_B.all() or not call_B.any():
        return -1.0
    edges = np.unique(best_B)
    cuts = [-1.0, *((edges[1:] + edges[:-1]) / 2), 2.0]
    return float(max(cuts, key=lambda cut: (best_B[call_B] >= cut).mean() + (best_B[~call_B] < cut).mean()))


def said(tool: Tool) -> str:
    """The words of a tool."""
    return f"{tool['name']} {tool['description']}"


def baselines(
    rows: Sequence[Row],
    chosen_on: Sequence[Row],
    embedder: Embedder | None,
    tell: Callable[[float], object] = lambda _: None,
) -> Mapping[str, Scores]:
    """The pickers on rows, by name. They fill in no arguments: those are right where the call needs none.

    Args:
        rows: what is judged on.
        chosen_on: rows on which the threshold of the cosine is chosen.
        embedder: without one, words alone.
        tell: told the share of the texts that is embedded.
    """
    picks: dict[str, Pick] = {"never calls": no_tool, "always calls (first tool)": first_tool}
    picks["words in common"] = words_in_common
    if embedder is not None:
        known, fewer = _Remembered(embedder), chosen_on[:: -(-len(chosen_on) // CHOSEN) or 1]
        known.learn([text for row in (*rows, *fewer) for text in (row.request, *map(said, row.tools))], tell)
        least = threshold(known, fewer)
        picks["nearest description"] = nearest(known)
        picks[f"nearest, refuses below {least:.2f}"] = nearest(known, least)
    found: dict[str, Scores] = {}
    for name, pick in picks.items():
        answers: list[Sequence[Call]] = []
        for row in rows:
            chosen = pick(row.request, row.tools)
            answers.append([] if chosen is None else [{"name": chosen, "arguments": {}}])
        found[name] = scored(rows, answers)
    return found


class _Remembered:
    """An embedder that embeds a text once."""

    def __init__(self, embedder: Embedder) -> None:
        self.id, self.dim, self._embedder = embedder.id, embedder.dim, embedder
        self._known: dict[str, np.ndarray] = {}

    def learn(self, texts: Sequence[str], tell: Callable[[float], object]) -> None:
        every = list(dict.fromkeys(texts))
        for at in range(0, len(every), _BATCH):
            self.embed(every[at : at + _BATCH])
            tell(min(1.0, (at + _BATCH) / len(every)))

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known |= dict(zip(new, self._embedder.embed(new), strict=True))
        return np.stack([self._known[text] for text in texts])


def _mean(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None
