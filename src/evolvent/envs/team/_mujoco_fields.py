"""Other dynamics in a running MuJoCo simulation: fields of its compiled model, a geometry built anew, a goal moved.

No file is touched. What is derived from a field (``mj_setConst``) is derived again after every change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from evolvent.envs.runners.solo import Solo

FIELDS: dict[str, tuple[str, ...]] = {
    "mass": ("body_mass", "body_inertia"),
    "damping": ("dof_damping",),
    "friction": ("geom_friction",),
    "gear": ("actuator_gear",),
    "gravity": ("opt.gravity",),
    "wind": ("opt.wind", "opt.density"),
    "geometry": (
        "geom_size",
        "geom_rbound",
        "geom_aabb",
        "bvh_aabb",
        "bvh_nodeid",
        "bvh_child",
        "bvh_depth",
        "body_mass",
        "body_inertia",
        "body_ipos",
        "body_iquat",
    ),
    "goal": (),
}
"""What can change, and the arrays of ``MjModel`` that it is made of; a goal is the task's own."""
_LEAST, _AIR = 0.05, 1.2
"""A factor is never less; density of the air in kg/m³ that wind needs where the model has none."""
_POSITIONS = ((2,), (3,), (15,))
"""Shapes of goals that are positions in m: of a point, of five fingertips. Seven numbers are a pose."""


@runtime_checkable
class Simulated(Solo, Protocol):
    """One copy whose simulation can be reached."""

    @property
    def simulation(self) -> Any:
        """The task itself, with MuJoCo's ``model`` and ``data`` where it has them."""
        ...


def fields_of(solo: Solo) -> tuple[str, ...]:
    """Which of ``FIELDS`` a copy has; none where there is no MuJoCo below it. Begins an attempt, which sets a goal."""
    task = solo.simulation if isinstance(solo, Simulated) else None
    model = getattr(task, "model", None)
    if type(model).__name__ != "MjModel":
        return ()
    solo.reset(0)
    found = [name for name, arrays in FIELDS.items() if arrays and name not in ("wind", "geometry")]
    found = [name for name in found if _array(model, FIELDS[name][0]).any()]
    goal = getattr(getattr(task, "goal", None), "shape", None)
    moves = goal in _POSITIONS and hasattr(solo, "look") and hasattr(task, "fullpath")
    return (*found, "wind", *("geometry",) * hasattr(task, "fullpath"), *("goal",) * moves)


class Model:
    """The model of a running simulation, its nominal fields, and changes of them.

    Args:
        task: has ``model``, ``data`` and, for another geometry, the ``fullpath`` of its file.
        names: fields that will change.
    """

    def __init__(self, task: Any, names: Sequence[str]) -> None:
        import mujoco

        self._task, self._model = task, task.model
        self._mujoco: Any = mujoco
        arrays = {array for name in names for array in FIELDS[name]}
        self._nominal = {array: _array(self._model, array).copy() for array in arrays}
        self._scratch = self._mujoco.MjData(self._model)  # what is derived is computed here, beside the running state

    def size(self, name: str) -> tuple[int, ...]:
        """How many numbers a change of a field has: of a body, a joint, …; of all at once: one."""
        if name == "goal":
            return self._task.goal.shape
        first = self._nominal[FIELDS[name][0]]
        return (1,) if name in ("gravity", "geometry", "wind") else (len(first),)

    def restore(self) -> None:
        """Nominal again."""
        for array, nominal in self._nominal.items():
            _write(self._model, array, nominal)

    def change(self, name: str, x: np.ndarray) -> None:
        """A field becomes ``1 + x`` times its value; wind blows with ``x`` m/s along the first axis.

        ``settle`` has to follow.
        """
        factor = np.maximum(1.0 + x, _LEAST)
        if name == "wind":
            _write(self._model, "opt.wind", np.array([x[0], 0.0, 0.0]))
            density = self._nominal["opt.density"]
            _write(self._model, "opt.density", np.where(density > 0, density, _AIR))
        elif name == "geometry":
            self._rebuild(float(factor[0]))
        else:
            for array in FIELDS[name]:
                now = _array(self._model, array)
                _write(self._model, array, now * factor.reshape(-1, *[1] * (now.ndim - 1)))

    def settle(self) -> None:
        """Derive what follows from the fields."""
        self._mujoco.mj_setConst(self._model, self._scratch)

    def move_goal(self, x: np.ndarray) -> None:
        """The goal of the attempt that has just begun lies elsewhere, by ``x`` m."""
        task = self._task
        task.goal = task.goal + x
        if x.shape == (2,):  # Reacher: the goal is a body on two sliding joints, the last ones
            task.set_state(np.concatenate([task.data.qpos[:-2], task.goal]), task.data.qvel.copy())

    def _rebuild(self, factor: float) -> None:
        """Bodies ``factor`` times as thick, with the mass and inertia that follow; limbs keep their length."""
        spec = self._mujoco.MjSpec.from_file(self._task.fullpath)
        for geom in spec.geoms:
            if geom.parent != spec.worldbody and geom.type not in (
                self._mujoco.mjtGeom.mjGEOM_PLANE,
                self._mujoco.mjtGeom.mjGEOM_MESH,
            ):
                geom.size = np.asarray(geom.size) * factor
        built = spec.compile()
        for array in FIELDS["geometry"]:
            _write(self._model, array, _array(built, array))


def _array(model: Any, name: str) -> np.ndarray:
    owner, _, field = name.rpartition(".")
    return np.asarray(getattr(model.opt if owner else model, field))


def _write(model: Any, name: str, value: np.ndarray) -> None:
    owner, _, field = name.rpartition(".")
    if not owner:
        getattr(model, field)[...] = value
    else:
        setattr(model.opt, field, value if value.ndim else float(value))
