"""The stored rollouts of a team run as whole attempts, also where those are longer than a piece.

Environments restart with every checkpoint (``Plan.save_every``), and a rollout is a piece of ``horizon`` steps. A piece
goes on where the one of the update before ended if both are there and the first thing seen is what was seen last; so
`--keep-rollouts 0`, which keeps every update's, loses nothing. What was running at a restart, or at the last piece, is
an attempt that was cut off; a piece that begins in the middle of an attempt is read from its first end on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.rollout import Rollout
from evolvent.core.rollout_codec import load_rollout
from evolvent.core.seeding import seed_tree
from evolvent.core.team import TeamSpec
from evolvent.data.recorded.episodes import Attempt, Recorded

_COLUMNS = {
    "obs_TAD": "obs_TBAD",
    "action_TA": "action_TBA",
    "reward_TA": "reward_TBA",
    "state_TS": "state_TBS",
    "available_TAN": "available_TBAN",
    "active_TA": "mask_TBA",
}
Row = dict[str, list[np.ndarray]]


def stitched(folder: Path, team_of: Callable[[str], TeamSpec]) -> Recorded:
    """The attempts in the rollouts that a team run kept; ``notes`` say what was cut.

    Raises:
        BadInput: no rollouts, or of a version that did not keep what was seen last.
    """
    run = RunFolder.open(folder)
    env, config = run.manifest()["env"], run.config
    every = int(config.get("plan", {}).get("save_every", 1))
    team = team_of(env)
    found = _files(folder)
    attempts: list[Attempt] = []
    cut = dropped = 0
    running: list[Row | None] = []  # by copy; None = in the middle of an attempt whose beginning was not kept
    last: tuple[int, np.ndarray] | None = None
    for update, path in found:
        piece = load_rollout(path)
        if piece.last_obs_BAD is None or piece.final_obs_EAD is None:
            do = "run it again with this version and --keep-rollouts 0"
            raise BadInput("a rollout without what was seen last", got=str(path), where="--data", do=do)
        restarted, next_one = (update - 1) % every == 0, last is not None and last[0] == update - 1
        if restarted or last is None or not next_one or not np.array_equal(last[1], piece.obs_TBAD[0]):
            attempts += (ended := [_attempt(row, False, team) for row in running if row and row["reward_TA"]])
            cut += len(ended)
            running = [_row() if restarted or next_one else None for _ in range(piece.shape[1])]
        for b in range(piece.shape[1]):
            dropped += running[b] is None
            attempts += _of_copy(piece, b, running, team)
        last = (update, piece.last_obs_BAD)
    attempts += (ended := [_attempt(row, False, team) for row in running if row and row["reward_TA"]])
    cut += len(ended)
    if not attempts:
        do = "run it with --keep-rollouts 0, which keeps those of every update"
        raise BadInput(
            "the rollouts of this run hold no beginning of an attempt", got=str(folder), where="--data", do=do
        )
    notes = [f"{cut} attempts were cut by a restart at a checkpoint or by the end of the recording"] if cut else []
    notes += [f"{dropped} parts of attempts whose beginning was not kept were left out"] if dropped else []
    seeds = {seed_tree(int(config.get("seed", 0)), "env", update) for update in range(found[-1][0])}
    made_by = f"{run.manifest()['algo']}, while it learned"
    return Recorded(env, team, tuple(attempts), made_by, tuple(sorted(seeds)), notes=tuple(notes))


def _files(folder: Path) -> list[tuple[int, Path]]:
    """The stored rollouts with the number of their update, counted from 1."""
    kept = sorted((folder / "rollouts").glob("update-*.json"))
    found = [(int(number[0]), path) for path in kept if (number := re.findall(r"\d+", path.stem))]
    if not found:
        do = "run the team with --keep-rollouts 0"
        raise BadInput("the run has kept no rollouts", got=str(folder), expected="rollouts/", where="--data", do=do)
    return found


def _row() -> Row:
    return {name: [] for name in _COLUMNS}


def _of_copy(piece: Rollout, b: int, running: list[Row | None], team: TeamSpec) -> Iterator[Attempt]:
    """The attempts that end in a piece of copy ``b``; what goes on stays in ``running``."""
    steps, done_TB = piece.shape[0], piece.done_TB
    number_TB = np.cumsum(done_TB.ravel()).reshape(done_TB.shape) - 1
    start = 0
    for end in [*np.flatnonzero(done_TB[:, b]), None]:
        row, part = running[b], slice(start, steps if end is None else end + 1)
        if row is not None:
            for name, source in _COLUMNS.items():
                column = getattr(piece, source)
                if column is not None and part.stop > part.start:
                    row[name].append(column[part, b])
            row["last"] = [piece.last_obs_BAD[b]] if piece.last_obs_BAD is not None else []
            row["last_state"] = [] if piece.last_state_BS is None else [piece.last_state_BS[b]]
        if end is None:
            return
        if row is not None:
            e = int(number_TB[end, b])
            assert piece.final_obs_EAD is not None
            row["last"] = [piece.final_obs_EAD[e]]
            row["last_state"] = [] if piece.final_state_ES is None else [piece.final_state_ES[e]]
            yield _attempt(row, bool(piece.terminated_TB[end, b]), team)
        running[b], start = _row(), int(end) + 1


def _attempt(row: Row, terminated: bool, team: TeamSpec) -> Attempt:
    """Rows as an attempt, with what was seen last behind them."""
    whole = {name: np.concatenate(row[name]) for name in _COLUMNS if row[name]}
    last = {
        "obs_TAD": row["last"][0],
        "state_TS": row["last_state"][0] if row["last_state"] else None,
        "available_TAN": team.choice_mask() if team.choices else None,
        "active_TA": whole["active_TA"][-1] if "active_TA" in whole else None,
    }
    for name, value in last.items():
        if name in whole and value is not None:
            whole[name] = np.concatenate([whole[name], value[None]])
    action = whole["action_TA"]
    if team.dims:  # environments clip the numbers of an action themselves: this is what was done
        action = action.copy()
        numbers = action[..., 1:] if team.kind == "mixed" else action
        np.clip(numbers, -1.0, 1.0, out=numbers)
    return Attempt(terminated=terminated, **{**whole, "action_TA": action})
