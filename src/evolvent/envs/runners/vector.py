"""B copies of a ``Solo``: in this process, in worker processes over shared memory, or as Ray actors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evolvent.core.team import Frame, TeamSpec
from evolvent.envs.runners.copies import Copies, layout_of
from evolvent.envs.runners.solo import Solo

if TYPE_CHECKING:
    from evolvent.envs.runners.processes import Processes
    from evolvent.envs.runners.ray import RayActors


def vector(make: Callable[[], Solo], n_envs: int, place: str = "here", workers: int = 1) -> Vector:
    """``n_envs`` copies of what ``make`` gives; ``place`` is ``"here"``, ``"processes"`` or ``"ray"``."""
    first = make()
    layout = layout_of(first, n_envs)
    if place == "here":
        columns = {name: np.zeros(shape, kind) for name, (shape, kind) in layout.items()}
        return Vector(first.team, n_envs, Copies(make, columns, 0, first))
    first.close()
    if place == "processes":
        from evolvent.envs.runners.processes import Processes

        return Vector(first.team, n_envs, Processes(make, layout, n_envs, workers))
    from evolvent.envs.runners.ray import RayActors

    return Vector(first.team, n_envs, RayActors(make, layout, n_envs, workers))


class Vector:
    """B copies as one ``TeamEnv``; frames are views into the columns, which the next step overwrites."""

    name = ""

    def __init__(self, team: TeamSpec, n_envs: int, runner: Copies | Processes | RayActors) -> None:
        self.team, self.n_envs, self._runner = team, n_envs, runner

    @property
    def solos(self) -> Sequence[Solo]:
        """The copies, where they live in this process."""
        return self._runner.solos if isinstance(self._runner, Copies) else ()

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        self._runner.reset(seed)
        return self._frame()

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        self._runner.columns["action"][...] = action
        self._runner.step()
        return self._frame()

    def render(self) -> np.ndarray | None:
        """See ``TeamEnv.render``."""
        return self._runner.render()

    def close(self) -> None:
        """See ``TeamEnv.close``."""
        self._runner.close()

    def _frame(self) -> Frame:
        columns = self._runner.columns
        ended = bool((columns["terminated_B"] | columns["truncated_B"]).any())
        shown = {
            name: array
            for name, array in columns.items()
            if name.endswith(("_BAD", "_BA", "_BAR", "_B", "_BAN", "_BS"))
        }
        shown = {name: array for name, array in shown.items() if ended or not name.startswith("final_")}
        info = {name[5:]: array for name, array in columns.items() if name.startswith("info:")} if ended else {}
        return Frame(**shown, info=info)
