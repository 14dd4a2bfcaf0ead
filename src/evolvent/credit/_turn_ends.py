"""Where a turn of several agents ends."""

from __future__ import annotations

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput


def turn_ends(episode: Episode, where: str) -> np.ndarray:
    """Which decisions are the last of their turn: bool ``[T]``; the last of the record always is.

    A turn is over before an agent decides again that has decided in it already. Where an agent may decide twice in a
    turn, or may be absent from one, that rule cannot tell, and ``episode.turn_T`` says it, ascending.
    """
    turn_T = episode.turn_T
    if (turn_T >= 0).any():
        if (turn_T < 0).any() or (np.diff(turn_T) < 0).any():
            raise BadInput(
                "the turns of the decisions do not ascend",
                got=turn_T.tolist(),
                expected="0, 0, 1, … for every one",
                where=f"{where}, episode {episode.id}",
                do="set Episode.turn before each act()",
            )
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
