"""A run that trains and searches its own tasks: trees by the policy of now, and the rows that its value learns from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.protocols import Completion, Renderer, Task
from evolvent.core.seeding import rng
from evolvent.runs.language.run import LanguageRun
from evolvent.runs.search.grow import Grower
from evolvent.search.attempts import Attempts, Decode
from evolvent.search.search import Search, Value, flat

TOGETHER = 16
"""Tasks that are searched side by side."""
Row = tuple[np.ndarray, float]


def trees(
    run: LanguageRun,
    tasks: Sequence[Task],
    by: Callable[[Search], None],
    value: Value = flat,
    *,
    widths: tuple[int, ...] = (8,),
    longest: int,
    seed: int,
) -> Iterator[tuple[Search, Attempts]]:
    """The trees of some tasks, grown by the policy as it is, batch by batch: ``by`` a search, ``widths`` moves at each
    depth, of at most ``longest`` tokens.
    """
    run.acting.forget()
    for start in range(0, len(tasks), TOGETHER):
        batch = tasks[start : start + TOGETHER]
        grower = Grower(
            run.copies.some(len(batch)),
            run.attempt_settings,
            run.acting,
            widths,
            longest,
            decode=run.model.decode,
            keeping=run.model.keeping,
        )
        yield grower.grow(batch, by, value, seed=seed)


def lines(episode: Episode, decode: Decode) -> list[list[Completion]]:
    """The lines of each answer of an attempt, cut behind the tokens that hold a line break, as a search cuts them."""
    out, logp = list[list[Completion]](), np.split(episode.logp, np.cumsum(episode.tokens_per_step_T)[:-1])
    for t in range(episode.n_steps):
        ids = episode.step_tokens(t)
        spans = [slice(a, b) for a, b in itertools.pairwise([0, *line_ends(ids, decode)])]
        out.append([Completion(decode(ids[span]).rstrip("\n"), ids[span], logp[t][span]) for span in spans])
    return out


def line_ends(ids: np.ndarray, decode: Decode) -> list[int]:
    """Where the lines of an answer end, behind the tokens that hold a line break; empty lines are parts of others."""
    ends, start = list[int](), 0
    for end in [i + 1 for i in range(len(ids)) if "\n" in decode(ids[i : i + 1])]:
        if decode(ids[start:end]).strip() and decode(ids[end:]).strip():
            ends.append(end)
            start = end
    return [*ends, len(ids)]


def labelled_lines(env: Any, renderer: Renderer, decode: Decode, tasks: Sequence[Task]) -> list[Row]:
    """Labels of lines that the world finds by changing them (``env.line_labels``): what is read up to a line, 0 or 1.

    Tokens are those of the text as the policy would be taught it, its stop string behind it, cut where an answer is
    cut; a program that this cuts into other lines is left out.
    """
    rows = dict[bytes, Row]()
    for task in tasks:
        prompt = np.asarray(renderer.first(env, env.reset(task, task.seed)))
        for text, number, label in env.line_labels(task):
            ids = np.asarray(renderer.command(text + "".join(env.stop[:1])))
            ends = line_ends(ids, decode)
            if len(ends) == sum(bool(line.strip()) for line in text.splitlines()):
                context = np.concatenate([prompt, ids[: ends[number]]])
                rows.setdefault(context.tobytes(), (context, float(label)))  # the right program's lines come first
    return list(rows.values())


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
    """Rows of a value by task, new ones and those of ``keep`` old paths a task; part of a checkpoint."""

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
        retained = sorted(i for mine in old.values() for i in draw.permutation(mine)[: self.keep].tolist())
        self._paths = [self._paths[i] for i in retained] + list(new)

    def columns(self) -> tuple[list[np.ndarray], list[float]]:
        """What was read, and the targets."""
        rows = [row for _, mine in self._paths for row in mine]
        return [ids for ids, _ in rows], [z for _, z in rows]

    def state_dict(self) -> dict[str, Any]:
        """The paths, as arrays."""
        contexts, targets = self.columns()
        return {
            "tasks": [task for task, _ in self._paths],
            "steps": [len(rows) for _, rows in self._paths],
            "ids": np.concatenate([np.zeros(0, np.int32), *contexts]),
            "sizes": [len(c) for c in contexts],
            "targets": np.array(targets, np.float64),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        contexts = (
            np.split(np.asarray(state["ids"], np.int32), np.cumsum(state["sizes"])[:-1]) if state["sizes"] else []
        )
        rows = list(zip(contexts, np.asarray(state["targets"]).tolist(), strict=True))
        ends = np.cumsum([0, *state["steps"]]).tolist()
        spans = itertools.pairwise(ends)
        self._paths = [(task, rows[a:b]) for task, (a, b) in zip(state["tasks"], spans, strict=True)]
