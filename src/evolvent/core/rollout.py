"""``Rollout``: the dense twin of ``Episode``, for environments stepped in lockstep (time × environment × agent).

One array per column; row t holds what was seen, what was done and what followed. Ended and cut off are two flags.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.team import parts_differ

_FLAGS = ("terminated_TB", "truncated_TB", "mask_TBA", "available_TBAN")


@dataclass(frozen=True, eq=False)
class Rollout:
    """T steps of B environments with A agents; checked when made.

    Attributes:
        obs_TBAD: what each agent saw before acting, any real dtype ``[T, B, A, D]``.
        action_TBA: discrete actions, integers ``[T, B, A]``, or continuous ones ``[T, B, A, D']``.
        reward_TBA: what followed the action, finite ``[T, B, A]``; a team reward is repeated for each agent.
        terminated_TB: the environment ended by its own rules after this step, bool ``[T, B]``.
        truncated_TB: it was cut off after this step (time limit), bool ``[T, B]``; the next row is a fresh start.
        value_TBA: the critic's value of ``obs_TBAD`` when acting.
        logp_TBA: log-probability of the action when acting, in nats.
        mask_TBA: bool, which agents took part in the step; ``None`` = all.
        bootstrap_BA: value of the observation after the last row, for environments that go on, ``[B, A]``.
        final_value_TBA: value of the last observation before the restart, read where ``truncated_TB`` is set.
        available_TBAN: bool, which of the N choices were open to each agent when acting; ``None`` = all.
        last_obs_BAD: what was seen after the last row, ``[B, A, D]``; a fresh start where an attempt ended there.
        final_obs_EAD: what was seen last in each attempt that ended, before the restart: a row for each ``True`` of
            ``done_TB``, in its order (by step, then by environment).
        state_TBS: what a central critic saw before acting, ``[T, B, S]``; ``None`` = the observations in a row.
        last_state_BS: as ``last_obs_BAD``.
        final_state_ES: as ``final_obs_EAD``.
        part_TBAR: named parts whose sum is ``reward_TBA``, ``[T, B, A, R]``.
        parts: their R distinct names.
        agents: names of the A agents; ``agent0``… where none are given.
    """

    obs_TBAD: np.ndarray
    action_TBA: np.ndarray
    reward_TBA: np.ndarray
    terminated_TB: np.ndarray
    truncated_TB: np.ndarray
    value_TBA: np.ndarray | None = None
    logp_TBA: np.ndarray | None = None
    mask_TBA: np.ndarray | None = None
    bootstrap_BA: np.ndarray | None = None
    final_value_TBA: np.ndarray | None = None
    available_TBAN: np.ndarray | None = None
    last_obs_BAD: np.ndarray | None = None
    final_obs_EAD: np.ndarray | None = None
    state_TBS: np.ndarray | None = None
    last_state_BS: np.ndarray | None = None
    final_state_ES: np.ndarray | None = None
    part_TBAR: np.ndarray | None = None
    parts: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check ranks, shapes and dtypes.

        Raises:
            BadInput: naming the column, its shape and the one that was expected.
        """
        if self.obs_TBAD.ndim != 4:
            raise BadInput(
                "obs_TBAD has the wrong rank", got=self.obs_TBAD.shape, expected="[T, B, A, D]", where="Rollout"
            )
        sizes = dict(zip("TBAD", self.obs_TBAD.shape, strict=True))
        for field in fields(self):
            array = getattr(self, field.name)
            if field.name in ("obs_TBAD", "parts", "agents") or array is None:
                continue
            axes = field.name.rsplit("_", 1)[1]
            if axes[0] == "E":
                sizes["E"] = int(self.done_TB.sum())
            shape = tuple(sizes[axis] if axis in sizes else array.shape[-1] for axis in axes if array.ndim)
            got = array.shape[:3] if field.name == "action_TBA" and array.ndim == 4 else array.shape
            if got != shape:
                raise BadInput(f"{field.name} has the wrong shape", got=array.shape, expected=shape, where="Rollout")
            if field.name in _FLAGS and array.dtype != np.bool_:
                raise BadInput(f"{field.name} is not bool", got=array.dtype, expected="bool", where="Rollout")
        if not np.isfinite(self.reward_TBA if self.mask_TBA is None else self.reward_TBA[self.mask_TBA]).all():
            raise BadInput("a reward is not finite", where="Rollout.reward_TBA", do="mask out the steps that broke")
        self._check_parts()
        names = self.agents or tuple(f"agent{i}" for i in range(sizes["A"]))
        if len(names) != sizes["A"] or len(set(names)) != len(names):
            raise BadInput("agents do not fit", got=names, expected=f"{sizes['A']} distinct names", where="Rollout")
        object.__setattr__(self, "agents", names)

    def _check_parts(self) -> None:
        part = np.zeros((*self.reward_TBA.shape, 0)) if self.part_TBAR is None else self.part_TBAR
        if part.shape[-1] != len(self.parts) or len(set(self.parts)) != len(self.parts):
            expected = f"{part.shape[-1]} distinct names"
            raise BadInput("parts of the reward do not fit", got=self.parts, expected=expected, where="Rollout.parts")
        if self.part_TBAR is not None and (off_TBA := parts_differ(part, self.reward_TBA) & self.active_TBA).any():
            at = tuple(np.argwhere(off_TBA)[0].tolist())
            parts = dict(zip(self.parts, part[at].tolist(), strict=True))
            where = f"Rollout.part_TBAR, step, copy and agent {at}"
            raise BadInput("parts do not sum to the reward", got=parts, expected=self.reward_TBA[at], where=where)

    @property
    def shape(self) -> tuple[int, int, int]:
        """T, B, A."""
        steps, batch, agents = self.reward_TBA.shape
        return steps, batch, agents

    @property
    def done_TB(self) -> np.ndarray:
        """Whether the attempt ended with this step, either way: bool ``[T, B]``."""
        return self.terminated_TB | self.truncated_TB

    @property
    def active_TBA(self) -> np.ndarray:
        """Which agents took part: bool ``[T, B, A]``."""
        return np.ones(self.shape, np.bool_) if self.mask_TBA is None else self.mask_TBA

    @property
    def next_value_TBA(self) -> np.ndarray:
        """Value of what followed each step: float64 ``[T, B, A]``, 0 after termination.

        The next row's value, ``bootstrap_BA`` after the last row, ``final_value_TBA`` where the attempt was cut off.

        Raises:
            BadInput: a value that this needs was not recorded.
        """
        if self.value_TBA is None or not self.shape[0]:
            raise BadInput("no values were recorded", where="Rollout.value_TBA", do="record the critic when acting")
        cut_TB = self.truncated_TB & ~self.terminated_TB
        goes_on_B = ~self.done_TB[-1]
        if (goes_on_B.any() and self.bootstrap_BA is None) or (cut_TB.any() and self.final_value_TBA is None):
            missing = "final_value_TBA" if cut_TB.any() and self.final_value_TBA is None else "bootstrap_BA"
            raise BadInput(f"{missing} is needed", where="Rollout.next_value_TBA", do="value the last observation too")
        last_BA = np.zeros(self.shape[1:]) if self.bootstrap_BA is None else self.bootstrap_BA
        next_TBA = np.concatenate([self.value_TBA[1:], last_BA[None]]).astype(np.float64)
        if self.final_value_TBA is not None:
            next_TBA[cut_TB] = self.final_value_TBA[cut_TB]
        next_TBA[self.terminated_TB] = 0.0
        return next_TBA
