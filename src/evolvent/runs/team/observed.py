"""Whether a run normalises what its team sees, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.core.team import Frame
from evolvent.evaluate.live import Live
from evolvent.learn import checkpoint
from evolvent.learn.team.obs_norm import ObsNorm
from evolvent.learn.team.views import Views

PART = "obs_norm"
APART = 30.0
"""Times that features may differ in size before it is said: beyond that learners were seen to miss the smaller one."""


def decided(config: Any, folder: Path, *, resume: bool) -> bool:
    """Whether observations are normalised: by the weights a run goes on with or starts from, else by its settings.

    Raises:
        BadInput: the setting contradicts the weights that the run starts from.
    """
    asked = {"on": True, "off": False}.get(config.plan.normalise_obs)
    if resume and (newest := checkpoint.latest(folder / "checkpoints")) is not None:
        return PART in checkpoint.part_names(newest)
    if config.plan.init and (newest := checkpoint.latest(Path(config.plan.init) / "checkpoints")) is not None:
        has = PART in checkpoint.part_names(newest)
        if asked is not None and asked != has:
            raise BadInput(
                "these weights were trained otherwise",
                got=f"--normalise-obs {config.plan.normalise_obs}",
                expected="on" if has else "off",
                where=f"--init {config.plan.init}",
                do="leave --normalise-obs out",
            )
        return has
    return envs.is_own(config.env) if asked is None else asked


def adopt(views: Views, folder: Path) -> dict[str, Any]:
    """Let ``views`` be as the newest checkpoint of a run wants them; the part of it to load, where it has one."""
    newest = checkpoint.latest(folder / "checkpoints")
    if newest is None or PART not in checkpoint.part_names(newest):
        return {}
    return {PART: views.normalise()[PART]}


class Sizes:
    """How large the numbers are that a team sees, from random play."""

    def __init__(self, views: Views, norms: Mapping[str, ObsNorm]) -> None:
        self._norms = norms or {PART: ObsNorm(views.team.obs_dim)}

    def watch(self, frame: Frame) -> None:
        """One step in every copy."""
        active = None if frame.active_BA is None else torch.from_numpy(frame.active_BA)
        self._norms[PART].update(torch.from_numpy(frame.obs_BAD), active)
        if frame.state_BS is not None and "state_norm" in self._norms:
            self._norms["state_norm"].update(torch.from_numpy(frame.state_BS).unsqueeze(-2))

    def tell(self, live: Live, *, normalised: bool) -> None:
        """Say it where features differ much and nothing is done about it."""
        factor = self._norms[PART].factor()
        if factor > APART and not normalised:
            live.note(
                f"! what agents see differs in size by a factor of {factor:,.0f}; the smaller features may not be "
                "learned from: --normalise-obs on brings all to one size"
            )
