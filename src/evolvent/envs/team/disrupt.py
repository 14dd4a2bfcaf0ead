"""Any team environment, disturbed: ``disrupt:[gymnasium:Hopper-v5],obs=gaussian:0.1,dynamics=mass*1.5``.

Gu et al. 2025, Robust Gymnasium (arXiv 2502.19652): what is seen (``obs``), what is paid (``reward``), what is done
(``action``) or the world itself (``dynamics``) differs from the nominal one.

    a' = a + x_a,   s', r ~ (P + x_P)(s, a'),   seen: s' + x_s, r + x_r      (what was done is remembered as a)

x is, by source, one of

    gaussian:S        N(0, S^2)                          each number for itself
    uniform:S         U(-S, S)
    shift:S           S
    fixed:S           one draw from U(-S, S), which stays until all copies restart
    schedule:S:RATE   S sin(RATE i) in attempt i, counted since all copies restarted; RATE .3
    adversary:S       within [-S, S], what the critic of who plays thinks least of; adversary:S:policy: what changes
                      the action most. Observations; actions where the critic judges actions

Of choices it is S the probability that one is replaced by another draw (``action=uniform:S``). Dynamics name a field of
the MuJoCo model: ``mass:gaussian:.2`` makes it 1 + x times as large, ``mass*1.5`` is short for a shift; ``wind`` is in
m/s, a ``goal`` moves by x m; several stand behind one another with commas.

Differs from the released package: noise is drawn for each number (there one draw for all), from the seed; the first
observation is disturbed too; dynamics do change (there a file is rewritten that nobody reads again); returns count the
undisturbed reward.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from evolvent.core.errors import BadInput, closest
from evolvent.core.team import Frame, TeamEnv
from evolvent.envs.runners.solo import Seen, Solo
from evolvent.envs.team._disturbance import MODES, Disturbance, read
from evolvent.envs.team._mujoco_fields import Model, Simulated, fields_of

SOURCES, _NONE = tuple(MODES), Disturbance("")


class Attack(Protocol):
    """What an adversary does, within the ball that it is given; both get and return ``[B, A, …]``."""

    def on_obs(self, frame: Frame, radius: float, by: str) -> np.ndarray:
        """What is to be seen instead; ``by`` is "critic" or "policy"."""
        ...

    def on_action(self, frame: Frame, action: np.ndarray, radius: float, by: str) -> np.ndarray:
        """What is to be done instead."""
        ...


def make_team(
    variant: str,
    *,
    load_inner: Callable[..., TeamEnv],
    in_test: bool = False,
    obs: str = "",
    reward: str = "",
    action: str = "",
    dynamics: str = "",
    by: str = "",
    every: int = 1,
    during: str = "both",
) -> Disrupted:
    """Copies of the environment ``variant``, in brackets where it has options.

    Args:
        variant: any team environment.
        load_inner: makes the copies of it.
        in_test: nobody learns here.
        obs: how observations are disturbed.
        reward: how rewards are.
        action: how actions are.
        dynamics: how the world is.
        by: whether x is drawn anew in every "step", or for each "episode"; as it is usual: dynamics by episode.
        every: steps of an attempt between two that are disturbed; dynamics: between two draws.
        during: whether "train"ing, "test"s, or "both" are disturbed.
    """
    where = f"disrupt:[{variant}]"
    said = {"obs": obs, "reward": reward, "action": action, "dynamics": dynamics}
    found = {name: [read(name, one, where) for one in text.split(",")] for name, text in said.items() if text}
    if every < 1 or by not in ("", "step", "episode") or during not in ("both", "train", "test"):
        expected = "every of at least 1, by step or episode, during both, train or test"
        raise BadInput(
            "when to disturb", got=f"every={every}, by={by}, during={during}", expected=expected, where=where
        )
    for one in (one for ones in found.values() for one in ones):
        if math.isnan(one.strength):
            do = f"write {one}:0.1, or measure several: evolvent eval RUN --env … --strengths 0,0.05,0.1"
            raise BadInput("a disturbance without its strength", got=str(one), where=where, do=do)
    for source in found.keys() - {"dynamics"}:
        if len(found[source]) > 1:
            do = "put one disrupt:[…] around another; or compare them: evolvent eval RUN --env … --strengths 0,0.1"
            raise BadInput("several ways to disturb one source", got=said[source], where=where, do=do)
    if during == ("train" if in_test else "test"):
        found = {}
    named = found.pop("dynamics", [])
    around = partial(changed, named=named, every=every if by == "step" else 0, where=where)
    env = load_inner(variant, *[around] * bool(named))
    return Disrupted(env, {name: ones[0] for name, ones in found.items()}, by or "step", every)


def arm(env: Any, attack: Attack | None) -> None:
    """Tell every adversary around an environment how to attack."""
    while env is not None:
        if isinstance(env, Disrupted):
            env.attack = attack
        env = getattr(env, "env", None)


def ball(env: Any) -> tuple[TeamEnv, float]:
    """The environment below an adversary of observations, and the radius of its ball.

    Raises:
        BadInput: there is no such adversary right around it.
    """
    disrupted = getattr(env, "env", None)
    if isinstance(disrupted, Disrupted) and disrupted.found.get("obs", _NONE).mode == "adversary":
        return disrupted.env, disrupted.found["obs"].strength
    expected, do = "disrupt:[ENV],obs=adversary:EPS", f'--env "disrupt:[{env.name}],obs=adversary:0.1"'
    raise BadInput("no adversary that could learn", got=env.name, expected=expected, where="--env", do=do)


class Disrupted:
    """Copies whose observations, rewards and actions are disturbed on their way.

    Attributes:
        env: the undisturbed copies.
        found: what disturbs, by source.
        attack: what an adversary does; set by who knows the networks.
    """

    def __init__(self, env: TeamEnv, found: dict[str, Disturbance], by: str, every: int) -> None:
        self.env, self.name, self.n_envs = env, f"disrupt:[{env.name}]", env.n_envs
        self.attack: Attack | None = None
        self._by, self._every = by, every
        for source, one in found.items():
            if source == "action" and not env.team.dims and (one.mode != "uniform" or one.strength > 1):
                expected = "uniform:P, each choice replaced by another draw with probability P"
                raise BadInput("choices cannot be disturbed so", got=str(one), expected=expected, where=self.name)
        self.found = {source: one for source, one in found.items() if one.strength}
        # the parts of a reward are not those of a disturbed one
        self.team = dataclasses.replace(env.team, parts=()) if "reward" in self.found else env.team
        B, A = env.n_envs, env.team.n_agents
        sizes = {"obs": (B, A, env.team.obs_dim), "reward": (B, A), "action": (B, A, env.team.dims or 1)}
        self._sizes = {source: sizes[source] for source in self.found}
        self._held: dict[str, np.ndarray] = {}

    def reset(self, seed: int) -> Frame:
        """See ``TeamEnv.reset``."""
        if self.attack is None and any(one.mode == "adversary" for one in self.found.values()):
            do = "evolvent eval RUN --env …, or train with it: evolvent run atla (or ppo) --env …"
            raise BadInput("an adversary that knows nobody to play against", where=self.name, do=do)
        self._rng = {source: np.random.default_rng([seed, SOURCES.index(source)]) for source in self.found}
        self._age_B, self._attempt_B = np.zeros(self.n_envs, int), np.zeros(self.n_envs, int)
        self._held = {source: self._draw(source) for source in self.found}
        self._frame = frame = self.env.reset(seed)
        return self._shown(dataclasses.replace(frame, part_BAR=None) if "reward" in self.found else frame)

    def step(self, action: np.ndarray) -> Frame:
        """See ``TeamEnv.step``."""
        if "action" in self.found:
            action = self._acted(action)
        self._frame = frame = self.env.step(action)
        self._age_B += 1
        changed: dict[str, Any] = {}
        if "reward" in self.found:
            paid_BA = frame.reward_BA + self._noise("reward").astype(np.float32)
            changed = {"reward_BA": paid_BA, "undisturbed_BA": frame.reward_BA, "part_BAR": None}
        if "obs" in self.found and frame.final_obs_BAD is not None:
            ends = {
                name: getattr(frame, f"final_{name}") for name in ("obs_BAD", "state_BS", "available_BAN", "active_BA")
            }
            changed["final_obs_BAD"] = self._seen(dataclasses.replace(frame, **ends))
        if (done_B := frame.done_B).any():
            self._age_B[done_B] = 0
            self._attempt_B[done_B] += 1
            for source, one in self.found.items():
                if one.mode != "fixed":
                    self._held[source][done_B] = self._draw(source)[done_B]
        return self._shown(dataclasses.replace(frame, **changed) if changed else frame)

    def render(self) -> np.ndarray | None:
        """See ``TeamEnv.render``."""
        return self.env.render()

    def close(self) -> None:
        """See ``TeamEnv.close``."""
        self.env.close()

    def _draw(self, source: str) -> np.ndarray:
        return self.found[source].draw(self._sizes[source], self._rng[source], self._attempt_B)

    def _noise(self, source: str) -> np.ndarray:
        """X of a source in this step, 0 where it is not disturbed."""
        held = self._by == "episode" or self.found[source].mode == "fixed"
        x = self._held[source] if held else self._draw(source)
        return x if self._every == 1 else x * self._now(x.ndim)

    def _now(self, ndim: int) -> np.ndarray:
        """Which copies are disturbed in this step, ``[B, 1, …]``."""
        return (self._age_B % self._every == 0).reshape(-1, *[1] * (ndim - 1))

    def _shown(self, frame: Frame) -> Frame:
        return dataclasses.replace(frame, obs_BAD=self._seen(frame)) if "obs" in self.found else frame

    def _seen(self, frame: Frame) -> np.ndarray:
        """Observations as they are seen; who is out shows zeros all the same."""
        one, obs_BAD = self.found["obs"], frame.obs_BAD
        if one.mode == "adversary":
            assert self.attack is not None
            x = self.attack.on_obs(frame, one.strength, one.more) - obs_BAD
            x = x.clip(-one.strength, one.strength) * self._now(3)
        else:
            x = self._noise("obs")
        x = x if frame.active_BA is None else x * frame.active_BA[..., None]
        return (obs_BAD + x).astype(np.float32)

    def _acted(self, action: np.ndarray) -> np.ndarray:
        """Actions as they are done; numbers are clipped to [-1, 1] below, or choices drawn among what is open."""
        one, team = self.found["action"], self.env.team
        if not team.dims:
            shape = (*action.shape, team.choices)
            open_BAN = self._frame.available_BAN
            open_BAN = np.broadcast_to(team.choice_mask(), shape) if open_BAN is None else open_BAN
            rng = self._rng["action"]
            drawn_BA = (rng.random(shape) * open_BAN).argmax(axis=2)
            swapped_BA = (rng.random(action.shape) < one.strength) & self._now(2) & open_BAN.any(axis=2)
            return np.where(swapped_BA, drawn_BA, action)
        numbers = action[..., -team.dims :]
        if one.mode == "adversary":
            assert self.attack is not None
            x = self.attack.on_action(self._frame, numbers, one.strength, one.more) - numbers
            x = x.clip(-one.strength, one.strength) * self._now(3)
        else:
            x = self._noise("action")
        x = (x * team.dim_mask()).astype(np.float32)
        return np.concatenate([action[..., : -team.dims], numbers + x], axis=-1)


def changed(solo: Solo, named: list[Disturbance], every: int, where: str) -> Solo:
    """A copy whose dynamics change: before each attempt, and every ``every`` steps of it (0 = no more).

    Raises:
        BadInput: it has no such dynamics.
    """
    known = fields_of(solo)
    for one in named:
        if isinstance(solo, Changed):
            raise BadInput("dynamics disturbed twice", where=where, do="name all in one place, with commas")
        if not known:
            got, expected = f"dynamics={one}", "a task of MuJoCo, e.g. gymnasium:Hopper-v5"
            do = "disturb obs, action or reward"
            raise BadInput("no dynamics that could change", got=got, expected=expected, where=where, do=do)
        if one.field not in known:
            expected = closest(one.field, known)
            raise BadInput("no such field of the dynamics", got=one.field, expected=expected, where=where)
    changes = [one for one in named if one.strength]
    return Changed(solo, changes, every) if changes and isinstance(solo, Simulated) else solo


class Changed:
    """One copy with other dynamics; see ``changed``."""

    def __init__(self, solo: Simulated, changes: list[Disturbance], every: int) -> None:
        self.team, self.gives, self.columns, self.attempt = solo.team, solo.gives, solo.columns, 0
        self._solo, self._changes, self._every = solo, changes, every
        self._age, self._fixed = 0, dict[str, np.ndarray]()
        self._model = Model(solo.simulation, [one.field for one in changes])

    def reset(self, seed: int) -> Seen:
        """See ``Solo.reset``."""
        self._age, self._rng = 0, np.random.default_rng([seed, len(SOURCES)])
        if self.attempt == 0:
            self._fixed = {}
            self._fixed = {one.field: self._x(one) for one in self._changes if one.mode == "fixed"}
        self._apply()
        seen = self._solo.reset(seed)
        for one in self._changes:
            if one.field == "goal":
                self._model.move_goal(self._x(one))
                seen = dataclasses.replace(seen, obs=self._solo.look())  # pyright: ignore[reportAttributeAccessIssue]
        return seen

    def step(self, action: np.ndarray) -> Seen:
        """See ``Solo.step``."""
        if self._every and self._age and self._age % self._every == 0:
            self._apply()
        self._age += 1
        return self._solo.step(action)

    def render(self) -> np.ndarray | None:
        """See ``Solo.render``."""
        return self._solo.render()

    def close(self) -> None:
        """See ``Solo.close``."""
        self._solo.close()

    def _apply(self) -> None:
        self._model.restore()
        for one in self._changes:
            if one.field != "goal":
                self._model.change(one.field, self._x(one))
        self._model.settle()

    def _x(self, one: Disturbance) -> np.ndarray:
        if one.mode == "fixed" and one.field in self._fixed:
            return self._fixed[one.field]
        return one.draw(self._model.size(one.field), self._rng, self.attempt)
