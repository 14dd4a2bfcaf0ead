"""``ParallelSolo``: one copy of a PettingZoo parallel environment as a ``Solo``; its agents may die, not appear."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, EnvError
from evolvent.envs.runners.solo import Seen, native, only_of, team_of
from evolvent.envs.runners.spaces import LONGEST, row_of
from evolvent.envs.team._answers import READ, complete, mask_of, started, stepped, success_of

_MASK = READ[0]


class ParallelSolo:
    """One copy.

    Args:
        env: follows PettingZoo's ``ParallelEnv``.
        limit: steps after which it cuts itself off, 0 = unknown.
        foreign: it may be anybody's: agents can leave before the end (who left shows zeros and is not active), and
            infos are read.
        state: show ``env.state()`` too.

    An agent is out when it is terminated, truncated, or no longer among ``env.agents``; the attempt ends when all are.
    It counts as cut off, for everybody, if anybody was cut off in its last step.
    Observations become rows of numbers (``runners.spaces``); dictionaries may have an ``action_mask`` beside the rest.
    Of infos an ``action_mask`` is read too, where ``reset`` gives one, and ``success`` or ``is_success``: the attempt's
    success is the mean over the agents that reported one, each the last it reported.
    """

    def __init__(self, env: Any, *, limit: int = 0, foreign: bool = False, state: bool = False) -> None:
        self.env, self._state, self._foreign = env, state, foreign
        agents = list(env.possible_agents)
        spaces = {agent: env.observation_space(agent) for agent in agents}
        actions = {agent: env.action_space(agent) for agent in agents}
        self._masked = {agent for agent, space in spaces.items() if _has_mask(space)}
        self._rows = {
            agent: row_of(_without_mask(space) if agent in self._masked else space, f"agent {agent}")
            for agent, space in spaces.items()
        }
        infos = started(env.reset(seed=0))[1] if state or foreign else {}
        self._masks_in_infos = foreign and any(info and _MASK in info for info in infos.values())
        size = np.asarray(env.state()).size if state else 0
        if size > LONGEST:
            raise BadInput("a shared state that is too long", got=f"{size:,} numbers", expected=f"at most {LONGEST:,}")
        widths = [self._rows[agent].width for agent in agents]
        self.team = team_of(agents, widths, actions, state_dim=size, limit=limit)
        self.gives: tuple[str, ...] = ("available",) * bool(self._masked or self._masks_in_infos) + (
            "active",
        ) * foreign
        self.columns: tuple[str, ...] = ("success",) * foreign
        self._native = native(self.team, actions)
        self._choices = {agent: spec.choices for agent, spec in zip(agents, self.team.actions, strict=True)}
        self._alive: list[str] = []
        self._success: dict[str, float] = {}

    def reset(self, seed: int) -> Seen:
        """See ``Solo.reset``."""
        obs, infos = started(self.env.reset(seed=seed))
        self._alive, self._success = [agent for agent in self._rows if agent in self._listed], {}
        if not self._alive:
            expected = ", ".join(map(str, self._rows))
            do = "set self.agents = list(self.possible_agents) in reset"
            raise EnvError("nobody is there after reset", got=f"agents = {self._listed}", expected=expected, do=do)
        return self._seen(obs, infos, 0.0)

    def step(self, action: np.ndarray) -> Seen:
        """See ``Solo.step``."""
        # whom the environment still lists acts, though it may be out: some look everybody's action up
        actions = {agent: one for agent, one in self._native(action).items() if agent in self._listed}
        obs, reward, over, cut, infos = stepped(self.env.step(actions))
        for flags in (over, cut):
            only_of(flags, self._rows)
        complete("reward", reward, self._alive)
        before, out = self._alive, {agent for flags in (over, cut) for agent, is_so in flags.items() if is_so}
        self._alive = [agent for agent in before if agent in self._listed and agent not in out]
        complete("observation", obs, self._alive)
        was_cut = not self._alive and any(cut.values())
        last = [agent for agent in before if cut.get(agent) and not over.get(agent)]
        return self._seen(obs, infos, reward, cut=was_cut, last=last)

    def render(self) -> np.ndarray | None:
        """See ``Solo.render``."""
        picture = self.env.render()
        return picture if isinstance(picture, np.ndarray) and picture.ndim == 3 else None

    def close(self) -> None:
        """See ``Solo.close``."""
        self.env.close()

    @property
    def _listed(self) -> Collection[str]:
        """Who is there as the environment has it; one that keeps no list has all its agents."""
        return getattr(self.env, "agents", self._rows)

    def _seen(
        self,
        obs: Mapping[str, Any],
        infos: Mapping[str, Any],
        reward: Mapping[str, Any] | float,
        *,
        cut: bool = False,
        last: list[str] | None = None,
    ) -> Seen:
        only_of(obs, self._rows)
        masks = {agent: obs[agent][_MASK] for agent in self._masked if agent in obs}
        if self._foreign:
            masks |= self._read(infos)
        ended = not self._alive
        info = {"success": float(np.mean([*self._success.values()]))} if ended and self._success else {}
        return Seen(
            obs={agent: self._rows[agent].flat(self._view(agent, seen)) for agent, seen in obs.items()},
            reward=reward,
            terminated=ended and not cut,
            truncated=cut,
            alive=last if cut else self._alive,
            available={agent: mask_of(mask, self._choices[agent], agent) for agent, mask in masks.items()} or None,
            state=self.env.state() if self._state else None,
            info=info,
        )

    def _view(self, agent: str, seen: Any) -> Any:
        if agent not in self._masked:
            return seen
        rest = {name: part for name, part in seen.items() if name != _MASK}
        return next(iter(rest.values())) if len(rest) == 1 else rest

    def _read(self, infos: Mapping[str, Any]) -> dict[str, Any]:
        """Masks in the infos; keeps what they say of success."""
        masks: dict[str, Any] = {}
        for agent, info in infos.items():
            if agent not in self._rows or not isinstance(info, Mapping):
                continue
            if (success := success_of(info, agent)) is not None:
                self._success[agent] = success
            if _MASK in info and agent not in self._masked:
                masks[agent] = info[_MASK]
        if masks and not self._masks_in_infos:
            raise EnvError(
                "a mask of actions in the infos of step, and none in those of reset",
                got=f"agents {', '.join(map(str, masks))}",
                expected="one in both, or in neither",
                do="put the mask of the first action into the infos of reset",
            )
        return masks


def _has_mask(space: Any) -> bool:
    parts = getattr(space, "spaces", None)
    return isinstance(parts, Mapping) and _MASK in parts and len(parts) > 1


def _without_mask(space: Any) -> Any:
    """The space beside the mask; one that is alone is not a dictionary."""
    rest = {name: part for name, part in space.spaces.items() if name != _MASK}
    return next(iter(rest.values())) if len(rest) == 1 else type(space)(rest)
