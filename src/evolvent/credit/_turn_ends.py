"""Where a turn of several agents ends."""

from __future__ import annotations

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput


def turn_ends(episode: Episode, where: str) -> np.ndarray:
    """Which decisions are the last of their turn: bool ``[T]``; the last of the record always is.

    A turn is over before an agent decides again that has decided in it already. Where an agent may decide twice in a
    turn, or may be absent from one, that rule cannot tell, and ``episode.meta["turns"]`` says it: the number of the
    turn of every decision, ``[T]``, ascending.
    """
    given = episode.meta.get("turns")
    if given is not None:
        turn_T = np.asarray(given)
        if turn_T.shape != (episode.n_steps,) or turn_T.dtype.kind not in "iu" or (np.diff(turn_T) < 0).any():
            raise BadInput(
                'meta["turns"] does not fit', got=given, expected=f"{episode.n_steps} ascending integers",
                where=f"{where}, episode {episode.id}",
            )  # fmt: skip
    else:
        seen: set[str] = set()
        turn, turns = 0, list[int]()
        for agent in episode.agents_T:
            if agent in seen:
                seen.clear()
                turn += 1
            seen.add(agent)
            turns.append(turn)
        turn_T = np.array(turns, dtype=np.int64)
    return np.append(np.diff(turn_T) > 0, np.ones(min(1, episode.n_steps), np.bool_))
