"""The analyst grid: memory systems × reviewer errors × seeds on the real model, and the drift run.

    python benchmarks/analyst.py --condition wrong0.4 --arms rag memrl memlift --seeds 0 1 2

Twelve kinds of question, 24 questions in the stream, 24 held out. "drift": half of the definitions change before the
third of four passes. "free": wordings by hand, half of them without a word in common. "baseball": another database,
which no rule was tuned on. Gate and k are those of each system's defaults; "icl" has every
lesson in the prompt, newest last, "icl-relevance" the most relevant last. "-hybrid" arms have our relevance with the
published learning rule, "memlift-1", "memlift-2", "memlift-8" and "memlift-24" (of all, without a gate) show as many
memories instead of three. "no ..." arms are memlift without one of its parts. "cases" is Memento by similarity,
"cases-kernel" and "cases-classifier" by an estimate; all keep the reviewer's corrections, too.
"""

import grid

from evolvent.algos import icl, memento, memlift, memp, memq, memrl, no_memory, rag

CASES = {"lessons": ("corrections", "successes", "failures")}
GRID = grid.Grid(
    name="analyst",
    conditions={
        "wrong0": "analyst:kinds=12",
        "wrong0.2": "analyst:kinds=12,reviewer_wrong=0.2",
        "wrong0.4": "analyst:kinds=12,reviewer_wrong=0.4",
        "drift": "analyst:kinds=12,drift=0.5,drift_at=3",
        "free": "analyst:kinds=12,words=free",
        "free0.4": "analyst:kinds=12,words=free,reviewer_wrong=0.4",
        "baseball0": "analyst:database=baseball,kinds=12",
        "baseball0.3": "analyst:database=baseball,kinds=12,reviewer_wrong=0.3",
        "baseball0.4": "analyst:database=baseball,kinds=12,reviewer_wrong=0.4",
    },
    arms={
        "none": (no_memory, {"passes": 1}),
        "pass@3": (no_memory, {"passes": 1, "attempts": 3, "temperature": 0.8}),
        "shuffled": (rag, {"shuffled": True}),
        "rag": (rag, {}),
        "icl": (icl, {}),
        "icl-relevance": (icl, {"order": "relevance"}),
        "rag-hybrid": (rag, {"relevance": "hybrid"}),
        "memp": (memp, {}),
        "cases": (memento, CASES),
        "cases-kernel": (memento, CASES | {"learn": "kernel"}),
        "cases-classifier": (memento, CASES | {"learn": "classifier"}),
        "memrl": (memrl, {}),
        "memrl-hybrid": (memrl, {"relevance": "hybrid", "gate": 0.3}),
        "memq": (memq, {}),
        "memlift": (memlift, {}),
        "memlift-1": (memlift, {"k": 1}),
        "memlift-2": (memlift, {"k": 2}),
        "memlift-8": (memlift, {"k": 8}),
        "memlift-24": (memlift, {"k": 24, "pool": 100, "gate": -1.0}),
        "no hiding": (memlift, {"hide": 0.0}),
    },
    settings={"passes": 3, "train": 24, "heldout": 24},
    by_condition={"drift": {"passes": 4}},
)

if __name__ == "__main__":
    grid.main(GRID, __doc__ or "")
