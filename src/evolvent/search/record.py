"""A searched tree as records: the attempts that were found, what several share once, their moves as decisions.

Where a move is a line or a token of an answer, each is a decision of its own: its context is what was said before it,
and what the answer earned is paid to its last one. Of every move the record notes ``visits`` (simulations through it)
and ``search_value`` (their mean worth), at each of its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.core.branches import graft
from evolvent.core.episode import Episode
from evolvent.core.episode_dict import add_node, rows_of
from evolvent.core.protocols import Completion
from evolvent.search.attempts import Attempts
from evolvent.search.search import Search


def records(search: Search, space: Attempts, leaves: Sequence[int]) -> list[Episode]:
    """The attempts that end in ``leaves``, each once: those that share a beginning are one record.

    Args:
        search: what was searched.
        space: what it was searched over.
        leaves: ends of paths, of one task.
    """
    trees: list[Episode] = []
    grown: list[tuple[list[int], int, int]] = []  # path, which tree, which attempt in it
    for leaf in dict.fromkeys(int(search.tree.state[leaf]) for leaf in leaves):
        episode = space.episode(leaf)
        if episode is None:
            continue
        path = search.tree.path(leaf)[1:]
        one = divided(episode, space.answers(leaf), _moves(search, path))
        shared = [_common(path, other) for other, *_ in grown]
        best = int(np.argmax(shared)) if shared else -1
        if best >= 0 and 0 < shared[best] < min(len(path), len(grown[best][0])):
            _, at, of = grown[best]
            grown.append((path, at, graft(trees[at], one, of=of, steps=shared[best])))
        else:
            trees.append(one)
            grown.append((path, len(trees) - 1, 0))
    return trees


def divided(
    episode: Episode,
    answers: Sequence[Sequence[Completion]],
    moves: dict[str, Sequence[float]] | None = None,
    pays: Sequence[float] | None = None,
) -> Episode:
    """A copy of an attempt in which every piece of an answer is a decision.

    Args:
        episode: ended; its decisions are ``answers``.
        answers: the pieces of each.
        moves: further notes, one number a piece.
        pays: the reward of each piece, in place of the attempt's own; what that was stands in kind "outcome".
    """
    out = Episode(
        episode.task_id, env=episode.env, seed=episode.seed, group=episode.group, meta=episode.meta, id=episode.id
    )
    place: dict[int, int] = {-1: -1}
    decisions, paid = iter(answers), iter(pays or ())
    for number, row in enumerate(rows_of(episode)):
        row["parent"] = place[row["parent"]]
        pieces = list(next(decisions)) if row["kind"] == "action" else []
        at = 0
        for piece in pieces[:-1]:
            cut = at + len(piece.token_ids)
            part: dict[str, Any] = {**row, "text": piece.text, "reward": 0.0, "finish": "stop"}
            part |= {name: row[name][at:cut] for name in ("token_ids", "logp")}
            part |= {} if pays is None else {"reward": next(paid)}
            row["parent"], at = add_node(out, part, part), cut
        if len(pieces) > 1:
            row |= {"text": pieces[-1].text} | {name: row[name][at:] for name in ("token_ids", "logp")}
        if pays is not None and row["kind"] == "action":
            row |= {"reward": next(paid)}
        place[number] = add_node(out, row, row)
    out.turn, out.offers_tools, out.budget_tokens = None, episode.offers_tools, episode.budget_tokens
    sizes = [len(pieces) for pieces in answers]
    for kind, values in episode.rewards_by_kind.items():
        out.rewards_by_kind[kind] = _last(values, sizes) if isinstance(values, list) else values
    if pays is not None:
        out.rewards_by_kind["outcome"] = _last(episode.rewards_T.tolist(), sizes)
    out.end()
    out.ends[0] = episode.ends[0]
    for name, column in episode.notes.items():
        out.note(name, column)
    for name, values in (moves or {}).items():
        out.note(name, np.repeat(np.asarray(values, np.float32), out.tokens_per_step_T))
    return out


def _last(values: Sequence[float], sizes: Sequence[int]) -> list[float]:
    """One number a decision as one a piece: the last piece of each has it, the others 0."""
    return [x for value, n in zip(values, sizes, strict=True) for x in (*[0.0] * (n - 1), value)]


def _moves(search: Search, path: Sequence[int]) -> dict[str, Sequence[float]]:
    at = np.array(path, np.int64)
    return {"visits": search.tree.taken[at].tolist(), "search_value": search.tree.q(at).tolist()}


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    n = min(len(one), len(other))
    differ = [i for i in range(n) if one[i] != other[i]]
    return differ[0] if differ else n
