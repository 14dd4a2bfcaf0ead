"""Attempts with a common beginning: one record, which holds the shared part once.

A tree of attempts is an ``Episode`` with several ``ends``. Credit rules and learners read attempts one by one:
``branches`` gives each as an episode of its own, ``linear`` does so for a list, ``trees_of`` is the way back.
``Ledger.over_trees`` carries the credit of attempts back to the tree, where a shared part is credited once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.episode_dict import add_node, rows_of
from evolvent.core.errors import BadInput
from evolvent.core.nodes import Fork
from evolvent.core.strict_json import escape


class Branch(Episode):
    """One attempt of several that share a beginning, as an episode to read and to score.

    How it ended is stored in the tree. Notes are written to the tree too, but branches that were made before do not see
    them. Rewards that are added stay in the branch.

    Attributes:
        tree: the record.
        number: of the attempt in it.
        steps: its decisions, by their index in the tree: int ``[T]``.
        tokens: its sampled tokens likewise: int ``[K]``.
        shared: how many of its decisions belong to the attempt that it parted from.
    """

    def __init__(self, tree: Episode, number: int) -> None:
        fork, end = tree.forks[number], tree.ends[number]
        super().__init__(
            tree.task_id,
            env=tree.env,
            group=tree.group,
            meta=tree.meta,
            id=f"{tree.id}.{number}",
            seed=tree.seed if fork.seed is None else fork.seed,
        )
        self.tree, self.number = tree, number
        nodes = tree.attempt_nodes(number)
        self.steps, self.tokens = self._take(tree, nodes)
        self.shared = int((tree.step_nodes_T[self.steps] <= fork.after).sum())
        self.offers_tools, self.budget_tokens = tree.offers_tools, tree.budget_tokens
        for kind, values in tree.rewards_by_kind.items():
            if isinstance(values, list):
                self.rewards_by_kind[kind] = [values[s] for s in self.steps]
            elif number == 0:
                self.rewards_by_kind[kind] = values
        self.rewards_by_kind |= fork.rewards
        self.ends, self.forks, self.ended = [end], [Fork(leaf=len(nodes) - 1)], True

    def note(self, name: str, values: object) -> None:
        """As ``Episode.note``, in the tree too."""
        super().note(name, values)  # type: ignore[arg-type]
        column = self.tree.notes.get(name, np.full(self.tree.n_tokens, np.nan, np.float32))
        column[self.tokens] = self.notes[name]
        self.tree.note(name, column)


def branches(episode: Episode) -> list[Episode]:
    """The attempts of a record, the first one first; an attempt alone is itself."""
    return [episode] if len(episode.ends) == 1 else [Branch(episode, k) for k in range(len(episode.ends))]


def linear(episodes: Iterable[Episode]) -> list[Episode]:
    """All attempts of some records: what credit rules and learners take."""
    return [one for episode in episodes for one in branches(episode)]


def trees_of(episodes: Iterable[Episode]) -> list[Episode]:
    """The records of some attempts, each once."""
    trees = [e.tree if isinstance(e, Branch) else e for e in episodes]
    return list({id(tree): tree for tree in trees}.values())


def graft(tree: Episode, attempt: Episode, *, of: int, steps: int) -> int:
    """Add an attempt that repeats the first ``steps`` decisions of attempt ``of`` of a tree, and what follows them.

    Both have ended; the repeated decisions are in ``attempt``, too: at least 1, and less than either has. The tree
    grows by what the attempt does not share.

    Returns:
        The number of the new attempt.

    Raises:
        BadInput: it does not repeat them, or is paid in other kinds of reward.
    """
    begin, own = Branch(tree, of), attempt.step_nodes_T
    if not 0 < steps < min(len(own), begin.n_steps):
        raise BadInput("nothing to share", got=f"{steps} decisions", expected="some, not all", where="graft")
    cut, nodes = int(own[steps]), tree.attempt_nodes(of)
    rows, known = rows_of(attempt), escape(rows_of(begin))
    for number, row in enumerate(escape(rows[:cut])):  # NaN is like NaN
        if row != known[number]:
            where = f"graft, node {number}"
            raise BadInput("the attempt does not repeat the other", got=row, expected=known[number], where=where)
    lists = {kind: values for kind, values in attempt.rewards_by_kind.items() if isinstance(values, list)}
    if lists.keys() != {kind for kind, values in tree.rewards_by_kind.items() if isinstance(values, list)}:
        raise BadInput("the attempt is paid in other kinds", got=list(lists), where="graft")
    notes, n_tokens = tree.notes, tree.n_tokens
    tree.fork(nodes[cut - 1], of=of, seed=attempt.seed)
    place = [*nodes[:cut]]
    for row in rows[cut:]:
        place.append(add_node(tree, {**row, "parent": place[row["parent"]] if row["parent"] >= 0 else -1}, row))
    first = int(attempt.tokens_per_step_T[:steps].sum())
    tree.end()
    tree.ends[-1] = attempt.ends[0]
    alone = {kind: v for kind, v in attempt.rewards_by_kind.items() if not isinstance(v, list)}
    tree.forks[-1] = tree.forks[-1]._replace(rewards=alone)
    for kind, values in lists.items():
        tree.rewards_by_kind[kind] = [*np.atleast_1d(tree.rewards_by_kind[kind]).tolist(), *values[steps:]]
    for name in notes.keys() | attempt.notes.keys():
        before = notes.get(name, np.full(n_tokens, np.nan, np.float32))
        more = attempt.notes.get(name, np.full(attempt.n_tokens, np.nan, np.float32))
        tree.note(name, np.concatenate([before, more[first:]]))
    return len(tree.ends) - 1
