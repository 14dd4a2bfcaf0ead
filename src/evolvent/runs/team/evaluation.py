"""Playing a team frozen: a fixed number of attempts in each copy, greedy or sampled, and their mean with interval."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evolvent.core.errors import BadInput
from evolvent.core.team import Frame, TeamEnv, TeamSpec
from evolvent.evaluate.live import Live
from evolvent.formulas.statistics import stratified_bootstrap
from evolvent.learn.team.batch import View
from evolvent.runs.team.steps import Steps

Act = Callable[[View, bool, torch.Generator], Tensor]
"""(what is seen, whether to act greedily, random stream) → actions ``[B, A, ...]``."""
BASELINES = {"random": "random actions", "idle": "no action"}
MAX_STEPS = 100_000
LONG = 2_000
"""Steps after which it is said that no attempt has ended."""
_TELL_S = 10.0


class Waiting:
    """Says how far attempts are that take long, and that none ends where none does.

    Args:
        live: where it is said.
        what: is being waited for.
        limit: steps after which the environment cuts attempts off, 0 = unknown.
    """

    def __init__(self, live: Live, what: str, limit: int = 0) -> None:
        self._live, self._what, self._long = live, what, max(LONG, limit + 1)
        self._steps, self._ended, self._told = 0, 0, time.monotonic()

    def watch(self, frame: Frame) -> None:
        """One step in every copy."""
        self._steps += 1
        self._ended += int(frame.done_B.sum())
        if not self._ended and self._steps == self._long:
            self._long *= 2
            self._live.note(
                f"! no attempt has ended in {self._steps:,} steps: one ends when every agent is terminated or "
                f"truncated; after {MAX_STEPS:,} the run stops"
            )
        if time.monotonic() - self._told > _TELL_S:
            self._told = time.monotonic()
            self._live.status(f"{self._what}: {self._steps:,} steps, {self._ended} ended")


def play(
    env: TeamEnv,
    act: Act,
    steps: Steps,
    *,
    episodes: int,
    greedy: bool,
    generator: torch.Generator,
    seed: int,
    watch: Sequence[Callable[[Frame], None]] = (),
) -> dict[str, np.ndarray]:
    """Play whole attempts; every copy plays the same number, so that short ones do not count more often.

    Args:
        env: B copies of the environment.
        act: the policy.
        steps: makes views of frames (ids, device).
        episodes: least number of episodes; rounded up to a multiple of B.
        greedy: take the most probable action instead of sampling.
        generator: random generator of sampled actions.
        seed: random seed of the environments.
        watch: each is called with every frame.

    Returns:
        Metrics of each episode: ``return``, ``length`` and those of the environment at its end (``success``, …).

    Raises:
        BadInput: the environment does not end its attempts.
    """
    each, copies = -(-episodes // env.n_envs), env.n_envs
    played, length, gained = np.zeros(copies, int), np.zeros(copies, int), np.zeros(copies)
    rows: list[dict[str, float]] = []
    frame = env.reset(seed)
    for _ in range(MAX_STEPS):
        with torch.no_grad():
            action = act(steps.outside(frame), greedy, generator)
        frame = env.step(action.cpu().numpy())
        for one in watch:
            one(frame)
        gained += frame.reward_BA.mean(axis=1)
        length += 1
        for b in np.flatnonzero(frame.done_B):
            if played[b] < each:
                info = {name: float(column[b]) for name, column in frame.info.items()}
                rows.append({"return": float(gained[b]), "length": float(length[b]), **info})
            played[b] += 1
            gained[b], length[b] = 0.0, 0
        if (played >= each).all():
            names = sorted({name for row in rows for name in row})
            return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}
    raise BadInput(
        "attempts do not end",
        got=f"{MAX_STEPS} steps",
        expected="an environment with an end or a time limit",
        where=env.name,
        do="truncate attempts after some steps; what was learned so far is in the checkpoints",
    )


def random_act(team: TeamSpec) -> Act:
    """A team that draws uniformly among what is available: the baseline of every run."""

    def act(view: View, greedy: bool, generator: torch.Generator) -> Tensor:
        batch, device = view.obs.shape[:2], view.obs.device
        parts: list[Tensor] = []
        if team.choices:
            open_ = torch.from_numpy(team.choice_mask()).to(device).expand(*batch, -1)
            weights = (open_ if view.available is None else view.available).float()
            weights[..., 0] += weights.sum(-1) == 0  # who has nothing to choose; nobody reads what is drawn for it
            drawn = torch.multinomial(weights.flatten(0, 1), 1, generator=generator).view(*batch)
            if not team.dims:
                return drawn
            parts.append(drawn[..., None].float())
        parts.append(torch.rand(*batch, team.dims, generator=generator, device=device) * 2 - 1)
        return torch.cat(parts, dim=-1)

    return act


def idle_act(team: TeamSpec) -> Act:
    """A team that does nothing: all numbers 0. Where survival is rewarded that may earn much."""

    def act(view: View, greedy: bool, generator: torch.Generator) -> Tensor:
        return view.obs.new_zeros(*view.obs.shape[:2], team.dims)

    return act


def baselines(team: TeamSpec) -> dict[str, Act]:
    """What every run is measured against: random actions and, where all actions are numbers, none."""
    idle = {"idle": idle_act(team)} if team.kind == "continuous" else {}
    return {"random": random_act(team), **idle}


def summarise(columns: dict[str, np.ndarray]) -> dict[str, Any]:
    """Mean return with a 95 % bootstrap interval over attempts; ``length_mean``, ``success_mean``, … beside it."""
    returns = columns["return"]
    low, high = stratified_bootstrap([returns.tolist()], np.mean) if len(returns) > 1 else (returns[0], returns[0])
    rest = {name: x for name, x in columns.items() if name != "return" and not np.isnan(x).all()}
    others = {f"{name}_mean": float(np.nanmean(x)) for name, x in rest.items()}
    return {"value": float(returns.mean()), "ci95": [float(low), float(high)], "n": len(returns), **others}
