"""Attempts as somebody plays them: every step of all copies, whole attempts only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.team import Frame, TeamEnv
from evolvent.data.recorded.episodes import Attempt

Play = Callable[[Frame], np.ndarray]
"""What B copies show → actions ``[B, A, …]``."""
MAX_STEPS = 10_000_000


def record(
    env: TeamEnv, play: Play, *, steps: int, seed: int, tell: Callable[[float], None] = lambda share: None
) -> tuple[Attempt, ...]:
    """Play until ``steps`` steps are recorded over all copies, then each copy to the end of its attempt.

    No attempt is cut for length, so that short ones are not preferred; ``tell`` is called with the share that is done.

    Raises:
        BadInput: attempts do not end.
    """
    frame, team = env.reset(seed), env.team
    columns: list[dict[str, list[np.ndarray]]] = [{} for _ in range(env.n_envs)]
    going, found, taken = np.ones(env.n_envs, bool), list[Attempt](), 0
    for _ in range(MAX_STEPS):
        action = np.array(play(frame))
        if team.dims:
            numbers = action[..., 1:] if team.kind == "mixed" else action
            np.clip(numbers, -1.0, 1.0, out=numbers)
        for b in np.flatnonzero(going).tolist():
            _see(columns[b], frame, b)
            columns[b].setdefault("action_TA", []).append(action[b])
        frame = env.step(action)
        taken += int(going.sum())
        for b in np.flatnonzero(going).tolist():
            columns[b].setdefault("reward_TA", []).append(frame.reward_BA[b].copy())
            if frame.done_B[b]:
                _see(columns[b], frame, b, "final_")
                whole = {name: np.stack(rows) for name, rows in columns[b].items()}
                found.append(Attempt(terminated=bool(frame.terminated_B[b]), **whole))
                columns[b], going[b] = {}, taken < steps
        tell(min(taken / steps, 0.999))
        if not going.any():
            return tuple(found)
    expected = "an environment with an end or a time limit"
    raise BadInput("attempts do not end", got=f"{MAX_STEPS:,} steps", expected=expected, where=env.name)


def _see(columns: dict[str, list[np.ndarray]], frame: Frame, b: int, prefix: str = "") -> None:
    """What copy ``b`` shows, behind what it showed before."""
    names = {"obs_TAD": "obs_BAD", "state_TS": "state_BS", "available_TAN": "available_BAN", "active_TA": "active_BA"}
    for name, source in names.items():
        if getattr(frame, source) is not None:
            columns.setdefault(name, []).append(getattr(frame, prefix + source)[b].copy())
