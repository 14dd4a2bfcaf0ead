"""What a search came to at one task: the path that is chosen of those that it found, and its line in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.protocols import Task
from evolvent.core.reward_kinds import reward_kinds, rewards_of
from evolvent.formulas.statistics import auc
from evolvent.formulas.two_state import revisions
from evolvent.search.aggregate import AGGREGATORS
from evolvent.search.attempts import Attempts
from evolvent.search.dser import RIGHT
from evolvent.search.search import Path, Search
from evolvent.search.ways import way, ways

REVISED = ("mended", "wrong_answers", "spoiled", "right_answers")


@dataclass(frozen=True)
class Found:
    """What a search made of one task."""

    path: Path
    answer: str | None
    episode: Episode | None
    right_somewhere: bool
    """Whether any path was right: what an oracle would have chosen."""
    n_paths: int
    pairs: tuple[float, int]
    """Pairs of a right and a wrong path: in how many the right one has the higher value (ties half), and all."""
    broke: bool
    """Whether its attempts broke, so that no path came to an end: it does not count."""

    @property
    def right(self) -> bool:
        """Whether the chosen path is."""
        return bool(self.episode and self.episode.success)


def chosen(search: Search, space: Attempts, task: int, how: str) -> Found:
    """One path of all that were found for a task; ``how`` is a search (its own way) or an aggregator.

    A vote reads no value: of the paths to its answer it takes the first, not the one that a value likes best.
    """
    found = search.of(task)
    choice = getattr(way(how), "AGGREGATE", "last_max") if how in ways() else how
    episodes = {path.leaf: space.episode(path.leaf) for path in found}
    answers = [getattr(episodes[path.leaf], "answer", None) for path in found]
    steps = [search.tree.value[search.tree.path(path.leaf)[1:]].tolist() for path in found]
    answer = AGGREGATORS[choice](answers, steps)
    ranked = [i for i, a in enumerate(answers) if a == answer] or list(range(len(found)))
    best = ranked[0] if choice == "majority" else max(ranked, key=lambda i: found[i].value)
    ends = [episodes[path.leaf] for path in found]
    right = np.array([one is not None and bool(one.success) for one in ends], bool)
    pairs = int(right.sum() * (~right).sum())
    ranked = auc([path.value for path in found], right) * pairs if pairs else 0.0
    path = found[best]
    broke = not path.ended and task in {of for of, _ in space.broken}
    return Found(path, answer, episodes[path.leaf], bool(right.any()), len(found), (ranked, pairs), broke)


def row(search: Search, space: Attempts, task: int, one: Task, found: Found, seconds: float) -> dict[str, Any]:
    """The columns of one task: what ``chosen`` made of it, and what it cost; seconds and prompts are its share of the
    batch.
    """
    meter, n = search.meter, len(search.tree.roots)
    valid = not found.broke and (found.episode is None or found.episode.valid)
    return {
        "task": one.id,
        "kind": one.kind,
        "question": one.text[:500],
        "success": int(found.right),
        "oracle": int(found.right_somewhere),
        "answer": found.answer,
        "value": round(found.path.value, 5),
        "ended": int(found.path.ended),
        "paths": found.n_paths,
        "ranked": found.pairs[0],
        "pairs": found.pairs[1],
        "nodes": len(search.tree.inside(task)),
        "tokens": int(meter.tokens[task]),
        "judge_tokens": int(meter.judge[task]),
        "calls": int(meter.calls[task]),
        "judged": int(meter.judged[task]),
        "seconds": round(seconds / n, 3),
        "model_s": round(meter.model_s / n, 3),
        "value_s": round(meter.value_s / n, 3),
        "valid": int(valid),
        "prompt_tokens": round(meter.prompt / n),
        "cached_tokens": round(meter.cached / n),
        **_revised(search, space, task),
    }


def _revised(search: Search, space: Attempts, task: int) -> dict[str, int]:
    """How often answers were mended and spoiled in the rounds of a task's chains (``search.dser``)."""
    chains = [space.episode(path.leaf) for path in search.of(task)]
    right = [rewards_of(one, RIGHT)[::2] > 0 for one in chains if one is not None and RIGHT in reward_kinds(one)]
    counts = np.sum([revisions(answers.tolist()) for answers in right], axis=0).tolist() if right else []
    return dict(zip(REVISED, counts, strict=False))
