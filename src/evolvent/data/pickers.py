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
Scorer = Callable[[str, Sequence[Tool]], np.ndarray]
"""Request and tools to how well each serves it: float ``[N]``."""
Case = tuple[str, Sequence[Tool], bool]
"""A request, the tools there are, and whether one of them serves it."""
CHOSEN = 300
"""Cases on which a threshold is chosen, at most."""
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


def common_words(request: str, tools: Sequence[Tool]) -> np.ndarray:
    """The share of the request's words that a tool has, each counted the less the more tools have it."""
    texts, asked = [words(said(tool)) for tool in tools], words(request)
    weight = {word: 1 / sum(word in one for one in texts) for one in texts for word in one}
    return np.array([sum(weight[word] for word in asked & one) / max(len(asked), 1) for one in texts])


def cosines(embedder: Embedder) -> Scorer:
    """Nearness of a request to a tool's name and description, by an embedder."""

    def score(request: str, tools: Sequence[Tool]) -> np.ndarray:
        vectors_ND = embedder.embed([request, *map(said, tools)])
        return vectors_ND[1:] @ vectors_ND[0]

    return score


def best(score: Scorer, least: float = -1.0) -> Pick:
    """The tool that scores highest; refuses where that is below ``least``."""

    def pick(request: str, tools: Sequence[Tool]) -> str | None:
        scores_N = score(request, tools) if tools else np.zeros(0)
        k = int(np.argmax(scores_N)) if tools else -1
        return tools[k]["name"] if k >= 0 and scores_N[k] >= least else None

    return pick


def threshold(score: Scorer, cases: Sequence[Case]) -> float:
    """The least score that splits cases with and without a tool that serves best, by the mean of both shares."""
    cases = cases[:: -(-len(cases) // CHOSEN) or 1]
    best_B = np.array([score(request, tools).max(initial=-1.0) for request, tools, _ in cases])
    serves_B = np.array([serves for *_, serves in cases], bool)
    if serves_B.all() or not serves_B.any():
        return -1.0
    edges = np.unique(best_B)
    cuts = [-1.0, *((edges[1:] + edges[:-1]) / 2), 2.0]
    return float(max(cuts, key=lambda cut: (best_B[serves_B] >= cut).mean() + (best_B[~serves_B] < cut).mean()))


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
    picks["words in common"] = best(common_words)
    if embedder is not None:
        known, chosen_on = Remembered(embedder), chosen_on[:: -(-len(chosen_on) // CHOSEN) or 1]
        known.learn([text for row in (*rows, *chosen_on) for text in (row.request, *map(said, row.tools))], tell)
        least = threshold(cosines(known), [(row.request, row.tools, bool(row.gold)) for row in chosen_on])
        picks["nearest description"] = best(cosines(known))
        picks[f"nearest, refuses below {least:.2f}"] = best(cosines(known), least)
    found: dict[str, Scores] = {}
    for name, pick in picks.items():
        answers: list[Sequence[Call]] = []
        for row in rows:
            chosen = pick(row.request, row.tools)
            answers.append([] if chosen is None else [{"name": chosen, "arguments": {}}])
        found[name] = scored(rows, answers)
    return found


class Remembered:
    """An embedder that embeds a text once."""

    def __init__(self, embedder: Embedder) -> None:
        self.id, self.dim, self._embedder = embedder.id, embedder.dim, embedder
        self._known: dict[str, np.ndarray] = {}

    def learn(self, texts: Sequence[str], tell: Callable[[float], object]) -> None:
        """Embed them all; ``tell`` is told the share that is done."""
        every = list(dict.fromkeys(texts))
        for at in range(0, len(every), _BATCH):
            self.embed(every[at : at + _BATCH])
            tell(min(1.0, (at + _BATCH) / len(every)))

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See ``Embedder``."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known |= dict(zip(new, self._embedder.embed(new), strict=True))
        return np.stack([self._known[text] for text in texts])


def _mean(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None
