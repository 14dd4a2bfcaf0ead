"""Evaluating a team: attempts in copies of their own, baselines beside it, and their mean with interval."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evolvent import envs
from evolvent.core.seeding import seed_tree
from evolvent.core.team import Frame, TeamSpec
from evolvent.envs.team.disrupt import Attack, arm
from evolvent.evaluate.live import Live
from evolvent.formulas.statistics import stratified_bootstrap
from evolvent.learn.team.batch import View
from evolvent.learn.team.player import MAX_STEPS, Act, TeamPlayer

BASELINES = {"random": "random actions", "idle": "no action"}
LONG = 2_000
"""Steps after which it is said that no attempt has ended."""
_TELL_S = 10.0


class Waiting:
    """Says how far attempts are that take long, and that none ends where none does, after the environment's ``limit``
    of steps.
    """

    def __init__(self, live: Live, what: str, limit: int = 0) -> None:
        self._live, self._what, self._long = live, what, max(LONG, limit + 1)
        self._steps, self._ended, self._last_s = 0, 0, time.monotonic()

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
        if time.monotonic() - self._last_s > _TELL_S:
            self._last_s = time.monotonic()
            self._live.status(f"{self._what}: {self._steps:,} steps, {self._ended} ended")


def play_copies(
    player: TeamPlayer,
    how: str,
    config: Any,
    spec: str,
    live: Live,
    watch: Sequence[Callable[[Frame], None]] = (),
    attack: Attack | None = None,
) -> dict[str, np.ndarray]:
    """Attempts in copies of an environment that are opened for them; as many as an evaluation has.

    ``how`` is greedy, sampled, or the name of a baseline, which seeds the actions; each of ``watch`` is called with
    every frame; ``attack`` is what an adversary in the environment does.

    Returns:
        Metrics of each episode; as ``TeamPlayer.play``.
    """
    plan = config.plan
    with closing(envs.load_team(spec, min(plan.eval_episodes, 32), step_s=plan.step_s, testing=True)) as env:
        arm(env, attack)
        waiting = Waiting(live, attempts(plan.eval_episodes), env.team.limit)
        return player.play(
            env,
            episodes=plan.eval_episodes,
            greedy=how == "greedy",
            generator=generator_of(config, "eval", how),
            seed=seed_tree(config.seed, "eval"),
            watch=[waiting.watch, *watch],
        )


def attempts(count: int) -> str:
    """What is said while so many attempts are played."""
    return f"playing {count} attempts" if count > 1 else "playing one attempt"


def generator_of(config: Any, *path: str) -> torch.Generator:
    """A random stream of a run for one purpose, on the device of its policy."""
    generator = torch.Generator(torch.device(config.plan.device))
    generator.manual_seed(seed_tree(config.seed, *path))
    return generator


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
    """Mean return with a 95 % bootstrap interval over attempts, and all ``returns`` in order of size; ``length_mean``,
    ``success_mean``, … beside it.
    """
    returns = columns["return"]
    low, high = stratified_bootstrap([returns.tolist()], np.mean) if len(returns) > 1 else (returns[0], returns[0])
    rest = {name: x for name, x in columns.items() if name != "return" and not np.isnan(x).all()}
    others = {f"{name}_mean": float(np.nanmean(x)) for name, x in rest.items()}
    sorted_ = [round(float(one), 6) for one in np.sort(returns)]
    ends = [float(low), float(high)]
    return {"value": float(returns.mean()), "ci95": ends, "n": len(returns), **others, "returns": sorted_}
