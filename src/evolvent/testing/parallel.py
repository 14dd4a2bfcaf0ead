"""What is odd about a parallel environment, and taken all the same: reported by ``evolvent check env``, not refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evolvent.core.team import TeamEnv
from evolvent.envs.team._answers import READ
from evolvent.envs.team._parallel import ParallelSolo


def oddities(env: TeamEnv, *, steps: int = 1_000, seed: int = 0) -> list[str]:
    """What is odd about one copy of a parallel environment, played with random actions to the end of one attempt.

    Args:
        env: made with ``load_team``, in this process; any other than a PettingZoo environment of somebody's gives [].
        steps: to play at most.
        seed: of environment and actions.
    """
    solo = next(iter(getattr(getattr(env, "env", None), "solos", ())), None)
    if not isinstance(solo, ParallelSolo):
        return []
    spy = _Spy(solo.env)
    solo.env, generator = spy, np.random.default_rng(seed)
    try:
        seen = solo.reset(seed)
        for _ in range(steps):
            seen = solo.step(_random(solo, seen.available or {}, generator))
            if seen.terminated or seen.truncated:
                return spy.odd + _left(spy, list(solo.team.agents))
    finally:
        solo.env = spy.env
    return [
        *spy.odd,
        f"no attempt ended in {steps:,} steps: set terminations or truncations of all agents at the end or at a limit",
    ]


class _Spy:
    """The environment, and what is odd about what it returns."""

    def __init__(self, env: Any) -> None:
        self.env, self.odd = env, list[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(self, seed: int | None = None) -> Any:
        shown = self.env.reset(seed=seed)
        if isinstance(shown, Mapping):
            self.odd.append("reset returns no infos: return observations, infos")
        return shown

    def step(self, actions: Mapping[str, Any]) -> Any:
        shown = self.env.step(actions)
        infos = shown[4] if isinstance(shown, tuple) and len(shown) == 5 and isinstance(shown[4], Mapping) else {}
        others = {agent for agent in infos if agent not in self.env.possible_agents}
        unread = {name for info in infos.values() if isinstance(info, Mapping) for name in info} - {*READ}
        for what, names in (("infos of nobody", others), ("infos that nothing reads", unread)):
            note = f"{what}: {', '.join(sorted(map(str, names)))}; by agent, {', '.join(READ)} are read"
            if names and note not in self.odd:
                self.odd.append(note)
        return shown


def _left(spy: _Spy, agents: list[str]) -> list[str]:
    listed = [agent for agent in getattr(spy.env, "agents", []) if agent in agents]
    if not listed:
        return []
    return [
        f"agents still lists {', '.join(map(str, listed))} when all have terminated or were cut off: taken as the end; "
        "PettingZoo takes out who has ended"
    ]


def _random(solo: ParallelSolo, open_: Mapping[str, np.ndarray], generator: np.random.Generator) -> np.ndarray:
    """A row of random actions, among those that are allowed."""
    team = solo.team
    row = generator.uniform(-1, 1, (team.n_agents, *team.action_shape)).astype(np.float32)
    if not team.choices:
        return row
    choices = [
        generator.choice(np.flatnonzero(mask)) if (mask := open_.get(agent, np.ones(spec.choices))).any() else 0
        for agent, spec in zip(team.agents, team.actions, strict=True)
    ]
    if team.kind == "discrete":
        return np.array(choices, np.int64)
    row[..., 0] = choices
    return row
