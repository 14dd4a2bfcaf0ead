"""Frames of one greedy attempt, where the environment can draw."""

from __future__ import annotations

import numpy as np
import torch

from evolvent.core.errors import EnvError, EvolventError
from evolvent.core.team import TeamEnv
from evolvent.runs.team.evaluation import Act
from evolvent.runs.team.steps import Steps

_STEPS_MAX = 4000


def record_frames(
    env: TeamEnv, act: Act, steps: Steps, *, generator: torch.Generator, seed: int, count: int = 8
) -> list[np.ndarray]:
    """Play copy 0 until its attempt ends and keep ``count`` frames at equal distances, uint8 ``[H, W, 3]``.

    Args:
        env: the environments; one copy is enough.
        act: how the team acts; called greedily.
        steps: makes views of frames.
        generator: for a policy that draws all the same.
        seed: of the environment.
        count: frames to keep; fewer where the attempt is shorter. None where the environment does not draw.

    Raises:
        EnvError: the environment broke, or its drawing did.
    """
    frame, first = env.reset(seed), _draw(env)
    if first is None:
        return []
    kept, every = [first], 1
    for t in range(1, _STEPS_MAX):
        with torch.no_grad():
            action = act(steps.outside(frame), True, generator)
        frame = env.step(action.cpu().numpy())
        if frame.done_B[0]:  # what would be drawn now is the next attempt
            break
        if t % every == 0 and (shot := _draw(env)) is not None:
            kept.append(shot)
            if len(kept) == 4 * count:  # the attempt is long: every second one, and half as many from here on
                kept, every = kept[::2], 2 * every
    chosen = np.linspace(0, len(kept) - 1, min(count, len(kept))).round().astype(int)
    return [kept[i] for i in chosen]


def _draw(env: TeamEnv) -> np.ndarray | None:
    try:
        picture = env.render()
    except EvolventError:
        raise
    except Exception as error:  # drivers and windows fail in ways of their own
        raise EnvError("the environment cannot draw here", got=repr(error), where=env.name) from error
    return None if picture is None else np.array(picture, np.uint8)
