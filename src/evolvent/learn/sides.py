"""Which answers of a group are preferred: the credit that ``learn.preference`` reads, from what attempts earned.

Credit of a side is no advantage: it says wanted or not, and the loss does the rest. Each function returns a ledger at
level "step" (``weighted``: "token") in which attempts that take no part have no credit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger


def best_and_worst(episodes: Sequence[Episode]) -> Ledger:
    """+1 for the attempt of each group that earned most, -1 for the one that earned least; ties by order.

    A group whose attempts all earned the same has no pair.
    """
    side = dict[int, float]()
    for members in _groups(episodes).values():
        returns = [episodes[i].total_reward for i in members]
        if max(returns) > min(returns):
            side[members[int(np.argmax(returns))]] = 1.0
            side[members[int(np.argmin(returns))]] = -1.0
    return _ledger(episodes, side)


def win_rates(episodes: Sequence[Episode]) -> Ledger:
    """``P(wins) - 1/2`` of every attempt against the others of its group, a tie being half a win (SPPO).

    Groups of one take no part.
    """
    side = dict[int, float]()
    for members in _groups(episodes).values():
        returns = np.array([episodes[i].total_reward for i in members])
        for i, mine in zip(members, returns.tolist(), strict=True):
            if len(members) > 1:
                wins = (returns < mine).sum() + 0.5 * ((returns == mine).sum() - 1)
                side[i] = float(wins / (len(members) - 1) - 0.5)
    return _ledger(episodes, side)


def wanted(episodes: Sequence[Episode]) -> Ledger:
    """+1 for attempts that succeeded, -1 for others (KTO); where nobody judged, a return above 0 is wanted."""
    valid = [i for i, e in enumerate(episodes) if e.valid and e.n_steps]
    return _ledger(
        episodes,
        {
            i: 1.0 if (episodes[i].total_reward > 0 if episodes[i].success is None else episodes[i].success) else -1.0
            for i in valid
        },
    )


def weighted(ledger: Ledger, weight: Callable[[np.ndarray], np.ndarray]) -> Ledger:
    """Credit of tokens from that of their steps: ``weight(side_K)``, ``[K]`` from ``[K]`` with NaN = takes no part."""
    out = Ledger.for_episodes(ledger.episodes)
    side_K = ledger.values("step")[ledger.parent_index("token", "step")]
    out.set("token", weight(side_K))
    return out


def taking_part(ledger: Ledger) -> int:
    """Attempts that have a side."""
    scored = ~np.isnan(ledger.values("step"))
    return len(np.unique(ledger.episode_index("step")[scored]))


def _groups(episodes: Sequence[Episode]) -> Mapping[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for i, e in enumerate(episodes):
        if e.valid and e.n_steps:
            groups.setdefault(e.group or e.task_id, []).append(i)
    return groups


def _ledger(episodes: Sequence[Episode], side: Mapping[int, float]) -> Ledger:
    for i in side:
        if not episodes[i].tokens_per_step_T.all():
            raise BadInput(
                "a decision has no tokens", where=f"episode {episodes[i].id}", expected="token ids as sampled",
                do="record act(token_ids=…)",
            )  # fmt: skip
    ledger = Ledger.for_episodes(episodes)
    owner = ledger.episode_index("step")
    ledger.set("step", np.array([side.get(int(i), np.nan) for i in owner]))
    return ledger
