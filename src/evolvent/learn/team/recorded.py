"""Recorded attempts as a replay buffer, so that learners from data and learners that act draw from one thing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from evolvent.data.recorded.episodes import Attempt, Recorded
from evolvent.learn.team.replay import Replay
from evolvent.learn.team.views import Views

_SEEN = {"obs": "obs_TAD", "state": "state_TS", "available": "available_TAN", "active": "active_TA"}


def replay_of(views: Views, data: Recorded, *, n_step: int = 1, gamma: float = 0.99) -> Replay:
    """All steps of the data, as of one copy; an attempt that was cut off is bootstrapped from what was seen last.

    Memory: observations are held twice, before and after each step.
    """
    columns: dict[str, Tensor] = {}
    for name, source in _SEEN.items():
        if getattr(data.attempts[0], source) is not None:
            columns[name] = _rows(data, lambda one, of=source: _seen(one, of)[:-1])
            columns[f"after_{name}"] = _rows(data, lambda one, of=source: _seen(one, of)[1:])
    columns["action"] = _rows(data, lambda one: one.action_TA)
    columns["reward"] = _rows(data, lambda one: one.reward_TA)
    columns["ended"] = _rows(data, _last)
    columns["terminated"] = _rows(data, lambda one: _last(one) & one.terminated)
    replay = Replay(views, data.steps, 1, n_step=n_step, gamma=gamma)
    replay.load_state_dict({"at": 0, "size": data.steps, "columns": columns})
    return replay


def take_in(views: Views, data: Recorded) -> None:
    """Everything that was seen in the data counts for the statistics of ``views``, where it has some."""
    for attempt in data.attempts if views.norms else ():
        active = None if attempt.active_TA is None else torch.from_numpy(attempt.active_TA)
        views.norms["obs_norm"].update(torch.from_numpy(attempt.obs_TAD), active)
        if "state_norm" in views.norms and attempt.state_TS is not None:
            views.norms["state_norm"].update(torch.from_numpy(attempt.state_TS).unsqueeze(-2))


def _seen(attempt: Attempt, name: str) -> np.ndarray:
    return getattr(attempt, name)


def _last(attempt: Attempt) -> np.ndarray:
    """Bool ``[T]``, set at the last step."""
    return np.arange(len(attempt)) == len(attempt) - 1


def _rows(data: Recorded, of: Callable[[Attempt], np.ndarray]) -> Tensor:
    """A column of all attempts, ``[steps, 1, …]``; numbers as float32."""
    column = np.concatenate([of(attempt) for attempt in data.attempts])
    column = column.astype(np.float32) if column.dtype.kind == "f" else column
    return torch.from_numpy(np.ascontiguousarray(column)).unsqueeze(1)
