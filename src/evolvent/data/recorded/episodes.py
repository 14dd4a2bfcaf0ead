"""``Recorded``: whole attempts of a team in one environment, in memory and in a folder.

    data = open_recorded("data/hopper")          # of data/recorded/opening.py: own folders, team runs, .npz files
    for attempt in data.attempts:
        attempt.obs_TAD, attempt.action_TA, attempt.reward_TA, attempt.terminated

An attempt of T steps has T + 1 rows of what was seen: the row after the last step is what was seen at the end, before
any restart. It ended by the rules of the environment (``terminated``) or was cut off (a time limit, or the recording
stopped); a value after the end is 0 only in the first case.

In a folder: ``recorded.json``, which says where the data come from and what the columns are, and one npz with the
attempts one behind the other (``length_E`` says where each ends). Both can be read without this library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.blob import blob_name, drop_old, read_blob, write_blob
from evolvent.core.config import from_json, to_json
from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import dump, read_object, write_atomic
from evolvent.core.machine import provenance
from evolvent.core.team import TeamSpec

NAME = "recorded.json"
SCHEMA = 1
RETURN_TOLERANCE = 1e-4
"""Share of the absolute rewards by which a stored return may differ from their sum: float32 adds up to that."""
_SEEN = ("obs_TAD", "state_TS", "available_TAN", "active_TA")
_DONE = ("action_TA", "reward_TA")


@dataclass(frozen=True, eq=False)
class Attempt:
    """T steps of A agents from a start to an end.

    Attributes:
        obs_TAD: what each agent saw, any real dtype ``[T + 1, A, D]``, without one-hot numbers of agents.
        action_TA: int64 ``[T, A]``, or float32 ``[T, A, parts]`` with numbers in [-1, 1] (``TeamSpec.action_shape``).
        reward_TA: what followed each step, ``[T, A]``; a team reward is repeated for each agent.
        terminated: ended by the rules of the environment; otherwise it was cut off.
        state_TS: the shared state ``[T + 1, S]``, where the team has one.
        available_TAN: bool ``[T + 1, A, N]``, choices that were open; ``None`` = all that an agent has. Where the
            last row was not recorded it is all that an agent has.
        active_TA: bool ``[T + 1, A]``, who was alive; ``None`` = everybody.
    """

    obs_TAD: np.ndarray
    action_TA: np.ndarray
    reward_TA: np.ndarray
    terminated: bool
    state_TS: np.ndarray | None = None
    available_TAN: np.ndarray | None = None
    active_TA: np.ndarray | None = None

    def __len__(self) -> int:
        """T."""
        return len(self.reward_TA)

    @property
    def truncated(self) -> bool:
        """It was cut off: what would have followed is unknown, not 0."""
        return not self.terminated

    @property
    def gained(self) -> float:
        """Its return: the undiscounted sum of rewards, as the mean over agents, as runs of teams count it."""
        return float(self.reward_TA.mean(axis=1, dtype=np.float64).sum())


@dataclass(frozen=True, eq=False)
class Recorded:
    """Attempts of one team in one environment; checked when made.

    Attributes:
        env: the environment by name, as ``--env`` takes it; "" = it is not known.
        team: its shape.
        attempts: at least one.
        made_by: who acted, in words.
        seeds: with which the environments were reset (``TeamEnv.reset``); no evaluation may use them.
        scale: mean returns of whole attempts by ``"random"`` and ``"expert"``, where they were measured.
        notes: what a reader should know of how the attempts came about.
    """

    env: str
    team: TeamSpec
    attempts: tuple[Attempt, ...]
    made_by: str = ""
    seeds: tuple[int, ...] = ()
    scale: Mapping[str, float] = field(default_factory=dict[str, float])
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises BadInput that names the attempt and the column."""
        if not self.attempts:
            raise BadInput("no attempts", expected="at least one", where=f"recorded data of {self.env or 'no name'}")
        for number, attempt in enumerate(self.attempts):
            _check(attempt, self.team, f"attempt {number}")

    @property
    def steps(self) -> int:
        """Steps of all attempts."""
        return sum(map(len, self.attempts))

    @property
    def returns_E(self) -> np.ndarray:
        """``gained`` of each attempt, float64 ``[E]``."""
        return np.array([attempt.gained for attempt in self.attempts])

    def normalised(self, value: float) -> float | None:
        """A return on the scale of the data, random play 0 and the expert 100; ``None`` where that is not known."""
        low, high = self.scale.get("random"), self.scale.get("expert")
        return None if low is None or high is None or low == high else 100.0 * (value - low) / (high - low)

    def best(self, share: float) -> Recorded:
        """The best attempts by return, so many that they hold ``share`` (0..1) of the steps, in their order."""
        order, wanted = np.argsort(-self.returns_E, kind="stable"), share * self.steps
        before = np.cumsum([0, *(len(self.attempts[i]) for i in order[:-1])])
        kept = sorted(order[before < wanted].tolist())
        return Recorded(
            self.env, self.team, tuple(self.attempts[i] for i in kept), self.made_by, self.seeds, self.scale, self.notes
        )

    def save(self, folder: str | Path) -> Path:
        """Write a folder, replacing what it held of this kind; returns it."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        path, columns = folder / NAME, self._columns()
        described = {name: {"dtype": column.dtype.str, "shape": list(column.shape)} for name, column in columns.items()}
        manifest: dict[str, Any] = {
            "kind": "recorded",
            "schema": SCHEMA,
            "env": self.env,
            "team": to_json(self.team),
            "made_by": self.made_by,
            "seeds": list(self.seeds),
            "scale": dict(self.scale),
            "notes": list(self.notes),
            "attempts": len(self.attempts),
            "steps": self.steps,
            "file": blob_name(path, columns),
            "columns": described,
            **provenance(),
        }
        write_blob(path, columns)
        write_atomic(path, dump(manifest, indent=1) + "\n")
        drop_old(path, manifest["file"])
        return folder

    def _columns(self) -> dict[str, np.ndarray]:
        columns = {
            "length_E": np.array([len(attempt) for attempt in self.attempts], np.int64),
            "terminated_E": np.array([attempt.terminated for attempt in self.attempts], np.bool_),
            "return_E": self.returns_E,
        }
        for name in (*_SEEN, *_DONE):
            found = [getattr(attempt, name) for attempt in self.attempts]
            if found[0] is not None:
                columns[name] = np.concatenate(found)
        return columns


def read_folder(folder: Path) -> Recorded:
    """What ``Recorded.save`` wrote.

    Raises:
        BadInput: missing, damaged, of a newer version, or columns and returns that do not fit each other.
    """
    path = folder / NAME
    manifest = read_object(path, "a folder of `evolvent data make`")
    if manifest.get("kind") != "recorded":
        raise BadInput("this is no recorded data", expected='"kind": "recorded"', where=str(path))
    if not isinstance(manifest.get("schema"), int) or manifest["schema"] > SCHEMA:
        expected = f"schema up to {SCHEMA}"
        raise BadInput(
            "data of a newer version", got=manifest.get("schema"), expected=expected, where=str(path), do="upgrade"
        )
    columns = read_blob(folder / Path(str(manifest["file"])).name, str(path), "the file of attempts")
    attempts = cut_up(columns, str(path))
    returns_E = columns.get("return_E", np.zeros(0))
    check_returns(attempts, returns_E, str(path))
    return Recorded(
        str(manifest["env"]),
        from_json(TeamSpec, manifest["team"], str(path)),
        attempts,
        str(manifest.get("made_by", "")),
        tuple(manifest.get("seeds", ())),
        dict(manifest.get("scale", {})),
        tuple(manifest.get("notes", ())),
    )


def cut_up(columns: Mapping[str, np.ndarray], where: str) -> tuple[Attempt, ...]:
    """Attempts that stand one behind the other, as views of the columns.

    Raises:
        BadInput: a column that is missing or has another number of rows than ``length_E`` says.
    """
    if missing := [name for name in ("length_E", "terminated_E", "obs_TAD", *_DONE) if name not in columns]:
        raise BadInput("columns are missing", got=sorted(columns), expected=", ".join(missing), where=where)
    length_E = columns["length_E"]
    if (length_E < 1).any() or len(columns["terminated_E"]) != len(length_E):
        raise BadInput("no ends are marked", got=length_E, expected="a length of at least 1 each", where=where)
    done_E = np.concatenate([[0], np.cumsum(length_E)])
    seen_E = done_E + np.arange(len(done_E))  # an attempt has one more row of what was seen
    for name in (*_SEEN, *_DONE):
        rows = int((seen_E if name in _SEEN else done_E)[-1])
        if name in columns and len(columns[name]) != rows:
            raise BadInput(f"{name} is cut short", got=f"{len(columns[name])} rows", expected=rows, where=where)
    attempts: list[Attempt] = []
    for e, terminated in enumerate(columns["terminated_E"]):
        seen, done = slice(seen_E[e], seen_E[e + 1]), slice(done_E[e], done_E[e + 1])
        given = {name: columns[name][seen if name in _SEEN else done] for name in (*_SEEN, *_DONE) if name in columns}
        attempts.append(Attempt(terminated=bool(terminated), **given))
    return tuple(attempts)


def check_returns(attempts: Sequence[Attempt], returns_E: np.ndarray, where: str) -> None:
    """Returns that somebody wrote down are the sums of the rewards.

    Raises:
        BadInput: names the first attempt where they are not.
    """
    if len(returns_E) != len(attempts):
        expected = f"{len(attempts)}, one for each attempt"
        raise BadInput("returns are missing", got=len(returns_E), expected=expected, where=where)
    for number, (attempt, said) in enumerate(zip(attempts, returns_E, strict=True)):
        size = float(np.abs(attempt.reward_TA).mean(axis=1, dtype=np.float64).sum())
        if not abs(attempt.gained - said) <= RETURN_TOLERANCE * (1.0 + size):
            raise BadInput(
                "returns do not match the rewards",
                got=f"{float(said):g}",
                expected=f"{attempt.gained:g}, the sum of its rewards",
                where=f"{where}, attempt {number}",
                do="record the data again: rewards were scaled, or rows are missing",
            )


def check_fits(data: Recorded, env: str, team: TeamSpec) -> None:
    """The data are of this environment: its name where the data say one, and its shape.

    Raises:
        BadInput: another environment, other agents, sizes, or actions.
    """
    if data.env and data.env != env:
        raise BadInput(
            "the data are of another environment", got=data.env, expected=env, where="--data", do=f"--env {data.env}"
        )
    ours = data.team
    if ours.n_agents != team.n_agents:
        got, expected = f"{ours.n_agents} agents in the data", f"{team.n_agents} in {env}"
        raise BadInput("another number of agents", got=got, expected=expected, where="--data")
    for what in ("obs_dim", "state_dim", "actions"):
        got, expected = getattr(ours, what), getattr(team, what)
        if got != expected:
            raise BadInput(f"the data have another {what}", got=got, expected=f"{expected}, of {env}", where="--data")


def _check(attempt: Attempt, team: TeamSpec, where: str) -> None:
    steps, agents = len(attempt), team.n_agents
    if attempt.reward_TA.ndim == 2 and attempt.reward_TA.shape[1] != agents:
        got = f"{attempt.reward_TA.shape[1]} agents in the data"
        raise BadInput("another number of agents", got=got, expected=agents, where=where)
    shapes = {
        "obs_TAD": (steps + 1, agents, team.obs_dim),
        "action_TA": (steps, agents, *team.action_shape),
        "reward_TA": (steps, agents),
        "state_TS": (steps + 1, team.state_dim),
        "available_TAN": (steps + 1, agents, team.choices),
        "active_TA": (steps + 1, agents),
    }
    for name, shape in shapes.items():
        column = getattr(attempt, name)
        if column is None:
            continue
        if column.shape != shape:
            raise BadInput(f"{name} has the wrong shape", got=column.shape, expected=shape, where=where)
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            first = int(np.argwhere(~np.isfinite(column))[0][0])
            raise BadInput(f"{name} is not finite", got=column[first], where=f"{where}, step {first}")
    if steps < 1:
        raise BadInput("an attempt without a step", expected="at least 1", where=where)
    if team.state_dim and attempt.state_TS is None:
        raise BadInput("the shared state is missing", expected=f"state_TS {shapes['state_TS']}", where=where)
    _check_actions(attempt.action_TA, team, where)


def _check_actions(action_TA: np.ndarray, team: TeamSpec, where: str) -> None:
    wanted = "iu" if team.kind == "discrete" else "f"
    if action_TA.dtype.kind not in wanted:
        expected = "integers" if team.kind == "discrete" else "floats"
        raise BadInput("actions of another kind", got=action_TA.dtype, expected=expected, where=where)
    choice_TA = action_TA if team.kind == "discrete" else action_TA[..., 0] if team.kind == "mixed" else None
    if choice_TA is not None:
        most_A = np.array([max(spec.choices, 1) for spec in team.actions])
        if ((choice_TA < 0) | (choice_TA >= most_A)).any():
            raise BadInput(
                "a choice that there is not", got=int(choice_TA.max()), expected=f"0 to {most_A.max() - 1}", where=where
            )
    numbers = action_TA[..., 1:] if team.kind == "mixed" else action_TA
    if team.dims and (np.abs(numbers) > 1.0).any():
        got = float(np.abs(numbers).max())
        raise BadInput("an action out of its box", got=got, expected="numbers in [-1, 1]", where=where)
