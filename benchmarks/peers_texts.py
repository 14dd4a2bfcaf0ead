"""Texts and vectors for the comparison with peers: questions of the analyst world, embedded once and looked up.

Every question is asked by one of twelve desks, which gives 106,272 different texts of 30 kinds of question; bodies
are the query and the house's definition in words. Nothing here measures anything.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evolvent.envs.text.analyst_flights import FLIGHTS
from evolvent.memory.embedders import load

DIM = 384
DESKS = (
    "",
    "For the revenue desk: ",
    "The board asks: ",
    "For Monday's briefing: ",
    "Crew planning wants to know: ",
    "A journalist asks: ",
    "For the quarterly report: ",
    "Airport relations: ",
    "Customer care asks: ",
    "For the budget: ",
    "Fleet management: ",
    "For the regulator: ",
)


class Text(NamedTuple):
    """One item: what it is found by, what it says, and the kind that searches filter by."""

    key: str
    body: str
    kind: str


def every_text(seed: int = 0) -> list[Text]:
    """All texts in one shuffled order, so that the first thousand look like the first hundred thousand."""
    texts = [
        Text(desk + kind.question(wording, constants), f"{kind.query('gold', constants)}\n-- {kind.meaning}", kind.name)
        for kind in FLIGHTS.kinds
        for constants in kind.constants()
        for wording in range(len(kind.wordings))
        for desk in DESKS
    ]
    random.Random(seed).shuffle(texts)
    return texts


def embedded(folder: Path, texts: Sequence[Text]) -> tuple[np.ndarray, dict[str, float]]:
    """Unit vectors float32 ``[N, 384]`` of the keys by the real model, computed once and kept in ``folder``.

    Also processor seconds a text, alone and in batches: measured while the file is made, or on 200 texts when it is
    there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keys = [t.key for t in texts]
    path = folder / f"minilm-{hashlib.sha256(chr(10).join(keys).encode()).hexdigest()[:16]}.npy"
    model = load()
    model.embed(keys[:16])  # weights are loaded at the first call
    begun = time.process_time()
    if path.exists():
        model.embed(keys[:200])
        batched = (time.process_time() - begun) / 200
    else:
        vec_ND = np.concatenate([model.embed(keys[i : i + 2000]) for i in range(0, len(keys), 2000)])
        batched = (time.process_time() - begun) / len(keys)
        np.save(path.with_suffix(".part.npy"), vec_ND.astype(np.float32))
        path.with_suffix(".part.npy").replace(path)
    begun = time.process_time()
    for key in keys[:50]:
        model.embed([key])
    alone = (time.process_time() - begun) / 50
    return np.load(path, mmap_mode="r"), {"alone": alone, "batched": batched}


class Table:
    """An embedder that looks up: text → row of the prepared vectors. Each peer gets it in the form it wants."""

    id = "all-MiniLM-L6-v2, looked up"
    dim = DIM

    def __init__(self, texts: Sequence[Text], vec_ND: np.ndarray) -> None:
        self._texts, self._vec_ND = texts, vec_ND

    @cached_property
    def _row(self) -> dict[str, int]:
        return {text.key: i for i, text in enumerate(self._texts)}

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Float32 ``[N, 384]``."""
        return np.asarray(self._vec_ND[[self._row[text] for text in texts]])

    def lists(self, texts: Sequence[str]) -> list[list[float]]:
        """The same as lists, for peers that take no arrays."""
        return self.embed(texts).tolist()
