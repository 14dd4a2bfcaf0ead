"""``Checked``: what every team environment promises, checked on its way in and out."""

from __future__ import annotations

import dataclasses

import numpy as np

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.team import Frame, TeamEnv
from evolvent.envs.runners.patience import at_most

_WORDS = {
    "obs_BAD": "an observation",
    "reward_BA": "a reward",
    "state_BS": "the state",
    "final_obs_BAD": "the last observation of an attempt",
    "final_state_BS": "the last state of an attempt",
}


class Checked:
    """A team environment that refuses wrong actions and reports numbers that are not finite, by copy, agent and step.

    Continuous parts of an action are clipped to [-1, 1] here, so that no environment sees more. A step or a restart of
    all copies may take ``step_s`` seconds (0 = for ever; ``patience.at_most``).
    """

    def __init__(self, env: TeamEnv, name: str, step_s: float = 0.0) -> None:
        self.env, self.name, self.n_envs, self.team, self._step_s = env, name, env.n_envs, env.team, step_s
        self._age_B = np.zeros(env.n_envs, np.int64)
        self._choices_A = np.array([spec.choices for spec in env.team.actions])
        self._frame: Frame | None = None

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        self._age_B[:] = 0
        self._frame = None
        with at_most(self._step_s, "a restart of the environment", self.name):
            frame = self.env.reset(seed)
        self._frame = self._checked(frame)
        return self._frame

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        if self._frame is None:
            raise EnvError("not reset yet, or it broke before", where=self.name, do="call reset(seed)")
        action = self._allowed(action, self._frame)
        self._frame = None  # an environment that broke takes no further step
        self._age_B += 1
        with at_most(self._step_s, "a step of the environment", self.name):
            frame = self.env.step(action)
        self._frame = self._checked(frame)
        self._age_B[self._frame.done_B] = 0
        return self._frame

    def render(self) -> np.ndarray | None:
        """See ``TeamEnv.render``."""
        return self.env.render()

    def close(self) -> None:
        """See ``TeamEnv.close``."""
        self._frame = None
        self.env.close()

    def _allowed(self, action: np.ndarray, frame: Frame) -> np.ndarray:
        team, action = self.team, np.asarray(action)
        shape = (self.n_envs, team.n_agents, *team.action_shape)
        whole = action.dtype.kind in "iu"
        if action.shape != shape or not (whole or (team.kind != "discrete" and action.dtype.kind == "f")):
            kind = "integers" if team.kind == "discrete" else "numbers"
            got = f"{action.dtype} {action.shape}"
            raise BadInput("action of the wrong shape or type", got=got, expected=f"{kind} {shape}", where=self.name)
        if team.kind == "discrete":
            self._check_choices(action, frame)
            return action
        if not np.isfinite(action).all():
            b, i = np.argwhere(~np.isfinite(action))[0][:2]
            raise BadInput("an action is not finite", got=action[b, i], where=self._place(b, i))
        action = action.astype(np.float32)  # copies: what the caller keeps is not clipped
        if team.kind == "mixed":
            self._check_choices(action[..., 0].astype(np.int64), frame)
        numbers = action[..., -team.dims :]
        np.clip(numbers, -1.0, 1.0, out=numbers)
        return action

    def _check_choices(self, choice_BA: np.ndarray, frame: Frame) -> None:
        bad_BA = ((choice_BA < 0) | (choice_BA >= self._choices_A)) & (self._choices_A > 0)
        if not bad_BA.any() and frame.available_BAN is not None:
            bad_BA = ~np.take_along_axis(frame.available_BAN, choice_BA[..., None].astype(np.int64), 2)[..., 0]
            bad_BA &= self._choices_A > 0
        if frame.active_BA is not None:
            bad_BA &= frame.active_BA
        if bad_BA.any():
            b, i = np.argwhere(bad_BA)[0]
            masked = frame.available_BAN is not None
            open_ = np.flatnonzero(frame.available_BAN[b, i]).tolist() if frame.available_BAN is not None else None
            expected = f"one of {open_}" if masked else f"0 to {self._choices_A[i] - 1}"
            raise BadInput(
                "an action that is not available", got=int(choice_BA[b, i]), expected=expected, where=self._place(b, i)
            )

    def _checked(self, frame: Frame) -> Frame:
        if not isinstance(frame, Frame):
            raise EnvError(
                "not a frame", got=type(frame).__name__, expected="evolvent.core.team.Frame", where=self.name
            )
        if frame.final_obs_BAD is None and frame.done_B.any():
            raise EnvError("an attempt ended without its last observation", where=self.name)
        if self.team.parts and frame.part_BAR is None:
            raise EnvError("a reward without its parts", expected=", ".join(self.team.parts), where=self.name)
        if frame.available_BAN is not None:
            self._check_open(frame.available_BAN, frame.active_BA)
        columns = {field.name: getattr(frame, field.name) for field in dataclasses.fields(frame)}
        for name in _WORDS:
            array = columns[name]
            if array is None or np.isfinite(array.sum()) or np.isfinite(array).all():
                continue
            rows = np.argwhere(~np.isfinite(array))
            if name.startswith("final"):  # read only where an attempt ended
                rows = rows[frame.done_B[rows[:, 0]]]
            if len(rows):
                at = tuple(rows[0])
                place = self._place(at[0], at[1] if "A" in name.rsplit("_", 1)[1] else None)
                raise EnvError(f"{_WORDS[name]} is not finite", got=float(array[at]), where=place)
        return frame

    def _check_open(self, available_BAN: np.ndarray, active_BA: np.ndarray | None) -> None:
        shut_BA = ~available_BAN.any(axis=2) & (self._choices_A > 0)
        if active_BA is not None:
            shut_BA &= active_BA
        if shut_BA.any():
            b, i = np.argwhere(shut_BA)[0]
            do = "leave an agent one choice, or say that it does not take part (active_BA)"
            raise EnvError("no choice is available", expected="at least one", where=self._place(b, i), do=do)

    def _place(self, copy: int, agent: int | None) -> str:
        who = "" if agent is None else f", agent {self.team.agents[agent]}"
        return f"{self.name}, copy {copy} of {self.n_envs}{who}, step {self._age_B[copy]} of its attempt"
