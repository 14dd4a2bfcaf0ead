"""An npz of one's own with flat columns, as D4RL has them: N steps of all attempts, one behind the other.

    observations        [N, D], of a team [N, A, D]      what was seen before each step
    actions             [N, d] or [N] (choices), of a team with A behind N; numbers in the environment's own units
    rewards             [N], or [N, A] where they differ
    terminals           [N], not 0 where the attempt ended by the environment's rules after this step
    timeouts            [N], not 0 where it was cut off after this step
    next_observations   as observations, what was seen after each step, before a restart: optional
    returns             [E], of each attempt: optional, compared with the rewards

Without ``next_observations`` what was seen after the last step of an attempt is not in the file. Where it terminated
nothing asks for it, and the last observation stands there once more; where it was cut off its last step is left out.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.team import TeamSpec
from evolvent.data.recorded.boxes import Box
from evolvent.data.recorded.episodes import Attempt, Recorded, check_returns

_NEEDED = ("observations", "actions", "rewards", "terminals", "timeouts")


def read(path: Path, env: str, team: TeamSpec) -> Recorded:
    """The attempts in such a file, of the environment ``env`` with this team.

    Raises:
        BadInput: damaged, columns missing or of different length, no ends marked, or of another team.
    """
    where = str(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            columns: dict[str, np.ndarray] = {name: file[name] for name in file.files}
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput("the file cannot be read", got=str(error), expected="a whole .npz", where=where) from error
    if missing := [name for name in _NEEDED if name not in columns]:
        raise BadInput("columns are missing", got=sorted(columns), expected=", ".join(missing), where=where)
    steps = len(columns["observations"])
    for name in (*_NEEDED, "next_observations"):
        if name in columns and len(columns[name]) != steps:
            expected = f"{steps} rows, as observations have"
            raise BadInput(f"{name} is cut short", got=f"{len(columns[name])} rows", expected=expected, where=where)
    attempts, notes = _attempts(columns, env, team, where)
    if "returns" in columns:
        check_returns(attempts, columns["returns"], where)
    return Recorded(env, team, tuple(attempts), where, notes=tuple(notes))


def _attempts(
    columns: Mapping[str, np.ndarray], env: str, team: TeamSpec, where: str
) -> tuple[list[Attempt], list[str]]:
    agents, steps = team.n_agents, len(columns["observations"])
    terminal, timeout = columns["terminals"].reshape(-1).astype(bool), columns["timeouts"].reshape(-1).astype(bool)
    ends = np.flatnonzero(terminal | timeout)
    if not len(ends):
        expected, do = "some terminals or timeouts", "mark the last step of each attempt"
        raise BadInput("no ends are marked", got=f"{steps} steps", expected=expected, where=where, do=do)
    obs = _by_agent(columns["observations"], agents, 3, where, "observations")
    after = columns.get("next_observations")
    after = None if after is None else _by_agent(after, agents, 3, where, "next_observations")
    rank = 2 if team.kind == "discrete" else 3
    action = _by_agent(Box(env, team).ours(columns["actions"]), agents, rank, where, "actions")
    reward = columns["rewards"].reshape(steps, -1)
    reward = np.repeat(reward, agents, axis=1) if reward.shape[1] == 1 else reward
    found, left_out, notes = list[Attempt](), 0, list[str]()
    if ends[-1] != steps - 1:
        ends = np.append(ends, steps - 1)
        notes.append("the last attempt has no end and counts as cut off")
    start = 0
    for end in ends.tolist():
        part, over = slice(start, end + 1), bool(terminal[end])
        start = end + 1
        if after is None and not over:
            part, last = slice(part.start, end), obs[end]
            left_out += 1
        else:
            last = obs[end] if after is None else after[end]
        if part.stop > part.start:
            seen = np.concatenate([obs[part], last[None]])
            found.append(Attempt(seen, action[part], reward[part], over))
    if left_out:
        notes.append(f"the last steps of {left_out} attempts that were cut off are left out: no next_observations")
    return found, notes


def _by_agent(column: np.ndarray, agents: int, rank: int, where: str, name: str) -> np.ndarray:
    """With an axis of agents behind the steps, which a file of one agent need not have."""
    if rank == 2 and column.ndim == 2 and column.shape[1] == 1 and agents == 1:
        return column
    if column.ndim == rank - 1 and agents == 1:
        return column[:, None]
    if column.ndim != rank:
        expected = f"rank {rank}, or {rank - 1} for one agent"
        raise BadInput(f"{name} has the wrong rank", got=column.shape, expected=expected, where=where)
    if column.shape[1] != agents:
        got = f"{column.shape[1]} agents in {name}"
        raise BadInput("another number of agents", got=got, expected=agents, where=where)
    return column
