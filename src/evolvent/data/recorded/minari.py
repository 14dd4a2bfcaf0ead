"""Recorded attempts of one agent as a dataset of Minari, and back.

What is written has T + 1 observations an attempt, actions in the environment's own units, and the environment's spec,
so that ``minari.load_dataset(NAME).recover_environment()`` works. Attempts that come back are equal to those that went,
number by number; actions up to the rounding of their bounds (exact where those are powers of two, as ±1).
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np

from evolvent import envs
from evolvent.core.errors import BadInput, optional
from evolvent.core.jsonfile import dump
from evolvent.core.team import TeamSpec
from evolvent.data.recorded.boxes import Box
from evolvent.data.recorded.episodes import Attempt, Recorded
from evolvent.data.recorded.opening import team_of
from evolvent.envs.runners.spaces import row_of

_WHERE = "evolvent data convert"
_OURS = "evolvent"
"""Field of a dataset's metadata, as JSON: environment, seeds and scale, for the way back."""


def write(data: Recorded, name: str) -> None:
    """Make the dataset ``name`` of Minari (``hopper/medium-v0``) in its own folder (``MINARI_DATASETS_PATH``).

    Raises:
        BadInput: several agents, an environment that is none of gymnasium's, or a name that is taken or not valid.
        MissingExtra: minari is not installed.
    """
    minari, gymnasium = optional("minari", "minari", _WHERE), optional("gymnasium", "minari", _WHERE)
    task = data.env.partition(":")
    if task[0] != "gymnasium" or data.team.n_agents > 1:
        expected = "an environment of one agent, gymnasium:ID"
        raise BadInput("Minari keeps attempts of one agent", got=data.env or "no name", expected=expected, where=_WHERE)
    box, found = Box(data.env, data.team), envs.find(data.env, _WHERE)
    given = found.given(_WHERE)
    spec = gymnasium.make(given.pop("variant"), **given).spec
    buffers = [
        minari.data_collector.EpisodeBuffer(
            id=number,
            observations=one.obs_TAD[:, 0],
            actions=box.native(one.action_TA[:, 0]),
            rewards=one.reward_TA[:, 0],
            terminations=_last(len(one), one.terminated),
            truncations=_last(len(one), one.truncated),
        )
        for number, one in enumerate(data.attempts)
    ]
    kind = data.attempts[0].obs_TAD.dtype
    space = gymnasium.spaces.Box(-np.inf, np.inf, (data.team.obs_dim,), kind.type)
    scale = {"ref_min_score": data.scale.get("random"), "ref_max_score": data.scale.get("expert")}
    said = {"algorithm_name": data.made_by or None, "description": " ".join(data.notes) or None}
    said |= {} if None in scale.values() else scale
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an author and a link that are not given
            made = minari.create_dataset_from_buffers(name, buffers, env=spec, observation_space=space, **said)
    except ValueError as error:
        raise BadInput("Minari refuses the dataset", got=str(error), where=name) from error
    ours = {"env": data.env, "seeds": data.seeds, "scale": data.scale}
    made.storage.update_metadata({_OURS: dump(ours)})


def read(name: str, env: str = "") -> Recorded:
    """The attempts of a dataset of Minari that lies here; ``env`` in place of the one that it names.

    Raises:
        BadInput: no such dataset, or one that names no environment.
        MissingExtra: minari is not installed.
    """
    minari = optional("minari", "minari", _WHERE)
    try:
        dataset = minari.load_dataset(name)
    except (FileNotFoundError, ValueError) as error:
        known = ", ".join(minari.list_local_datasets()) or "none"
        raise BadInput("no such dataset of Minari here", got=name, expected=known, where=_WHERE) from error
    metadata: dict[str, Any] = dataset.storage.metadata
    ours: dict[str, Any] = json.loads(metadata.get(_OURS, "{}"))
    env = env or ours.get("env") or _spec_of(dataset, name)
    team = team_of(env)
    row, box = row_of(dataset.observation_space, name), Box(env, team)
    attempts = tuple(_attempt(one, row.flat, box, team) for one in dataset.iterate_episodes())
    low, high = metadata.get("ref_min_score"), metadata.get("ref_max_score")
    theirs = {} if low is None or high is None else {"random": float(low), "expert": float(high)}
    scale, seeds = ours.get("scale", theirs), tuple(ours.get("seeds", ()))
    notes = (text,) if (text := str(metadata.get("description") or "")) else ()
    return Recorded(env, team, attempts, str(metadata.get("algorithm_name") or ""), seeds, scale, notes)


def _attempt(one: Any, flat: Any, box: Box, team: TeamSpec) -> Attempt:
    seen, rewards = one.observations, np.asarray(one.rewards)
    if isinstance(seen, np.ndarray) and seen.ndim == 2:
        obs = seen
    else:  # several numbers of other shapes: a row each
        obs = np.stack([flat(_at(seen, t)) for t in range(len(rewards) + 1)])
    action = box.ours(np.asarray(one.actions))
    return Attempt(obs[:, None], action[:, None], rewards[:, None], bool(one.terminations[-1]))


def _at(seen: Any, t: int) -> Any:
    if isinstance(seen, dict):
        return {name: _at(part, t) for name, part in seen.items()}
    return tuple(_at(part, t) for part in seen) if isinstance(seen, tuple) else seen[t]


def _last(steps: int, value: bool) -> list[bool]:
    return [False] * (steps - 1) + [value]


def _spec_of(dataset: Any, name: str) -> str:
    spec = dataset.env_spec
    if spec is None:
        do = "--env gymnasium:ID"
        raise BadInput("the dataset names no environment", got=name, where=_WHERE, do=do)
    options = [f"{key}={value}" for key, value in (spec.kwargs or {}).items() if isinstance(value, int | float | str)]
    return ",".join([f"gymnasium:{spec.id}", *options])
