"""A run that trains and searches its own tasks: trees by the policy of now, and the rows that its value learns from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.protocols import Completion, Task
from evolvent.core.seeding import rng
from evolvent.runs.language.run import LanguageRun
from evolvent.runs.search.grow import Grower
from evolvent.search.attempts import Attempts, Decode
from evolvent.search.search import Search, Value, flat

TOGETHER = 16
"""Tasks that are searched side by side."""
Row = tuple[np.ndarray, float]


def trees(
    run: LanguageRun, tasks: Sequence[Task], by: Callable[[Search], None], value: Value = flat, *,
    widths: tuple[int, ...] = (8,), longest: int, seed: int,
) -> Iterator[tuple[Search, Attempts]]:  # fmt: skip
    """The trees of some tasks, grown by the policy as it is, batch by batch.

    Args:
        run: whose policy, worlds and manner.
        tasks: to search.
        by: the search with its settings.
        value: what states are worth.
        widths: moves at each depth.
        longest: tokens of a move.
        seed: of the draws.
    """
    run.acting.forget()
    for start in range(0, len(tasks), TOGETHER):
        batch = tasks[start : start + TOGETHER]
        grower = Grower(
            run.copies.some(len(batch)), run.manner, run.acting, widths, longest, decode=run.model.decode,
            keeping=run.model.keeping,
        )  # fmt: skip
        yield grower.grow(batch, by, value, seed=seed)


def lines(episode: Episode, decode: Decode) -> list[list[Completion]]:
    """The lines of each answer of an attempt, cut behind the tokens that hold a line break, as a search cuts them."""
    out, logp = list[list[Completion]](), np.split(episode.logp, np.cumsum(episode.tokens_per_step_T)[:-1])
    for t in range(episode.n_steps):
        ids, pieces, start = episode.step_tokens(t), list[Completion](), 0
        for end in [i + 1 for i in range(len(ids)) if "\n" in decode(ids[i : i + 1])] + [len(ids)]:
            text = decode(ids[start:end])
            if text.strip() and decode(ids[end:]).strip():
                pieces.append(Completion(text.rstrip("\n"), ids[start:end], logp[t][start:end]))
                start = end
        pieces.append(Completion(decode(ids[start:]).rstrip("\n"), ids[start:], logp[t][start:]))
        out.append(pieces)
    return out


def behind_lines(episode: Episode, answers: Sequence[Sequence[Completion]]) -> list[np.ndarray]:
    """What was read up to the end of each line: int ``[P]`` each, in order."""
    out: list[np.ndarray] = []
    for t, pieces in enumerate(answers):
        before = episode.context_ids(t)
        for piece in pieces:
            before = np.concatenate([before, piece.token_ids])
            out.append(before)
    return out


class ValueRows:
    """Rows of a value by task, new ones and a sample of the old; part of a checkpoint.

    Args:
        keep: old paths of a task that are kept beside the new ones.
        seed: of the draws.
    """

    def __init__(self, keep: int, seed: int) -> None:
        self.keep, self.seed = keep, seed
        self._paths: list[tuple[str, list[Row]]] = []

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self._paths)

    def add(self, new: Sequence[tuple[str, list[Row]]], update: int) -> None:
        """Add paths, each with its task; of the older paths of every task ``keep`` stay, drawn at random."""
        draw, old = rng(self.seed, "rows", update), dict[str, list[int]]()
        for i, (task, _) in enumerate(self._paths):
            old.setdefault(task, []).append(i)
        kept = sorted(i for mine in old.values() for i in draw.permutation(mine)[: self.keep].tolist())
        self._paths = [self._paths[i] for i in kept] + list(new)

    def columns(self) -> tuple[list[np.ndarray], list[float]]:
        """What was read, and the targets."""
        rows = [row for _, mine in self._paths for row in mine]
        return [ids for ids, _ in rows], [z for _, z in rows]

    def state_dict(self) -> dict[str, Any]:
        """The paths, as arrays."""
        contexts, targets = self.columns()
        return {
            "tasks": [task for task, _ in self._paths], "steps": [len(rows) for _, rows in self._paths],
            "ids": np.concatenate([np.zeros(0, np.int32), *contexts]), "sizes": [len(c) for c in contexts],
            "targets": np.array(targets, np.float64),
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        contexts = (
            np.split(np.asarray(state["ids"], np.int32), np.cumsum(state["sizes"])[:-1]) if state["sizes"] else []
        )
        rows = list(zip(contexts, np.asarray(state["targets"]).tolist(), strict=True))
        ends = np.cumsum([0, *state["steps"]]).tolist()
        spans = itertools.pairwise(ends)
        self._paths = [(task, rows[a:b]) for task, (a, b) in zip(state["tasks"], spans, strict=True)]
