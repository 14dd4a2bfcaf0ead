"""A team that plays, apart from training: it is shown frames, acts, plays whole attempts, and is filmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from evolvent.core.errors import BadInput, EnvError, EvolventError
from evolvent.core.team import Frame, TeamEnv
from evolvent.learn.team.batch import View
from evolvent.learn.team.views import Views

Act = Callable[[View, bool, torch.Generator], Tensor]
"""(what is seen, whether to act greedily, random stream) → actions ``[B, A, ...]``; a policy with memory writes what it
now remembers over ``View.memory``."""
MAX_STEPS = 100_000


@runtime_checkable
class Remembering(Protocol):
    """An ``Act`` that goes by what came before."""

    def __call__(self, view: View, greedy: bool, generator: torch.Generator, /) -> Tensor:
        """See ``Act``."""
        ...

    def begin(self) -> None:
        """All copies start over."""
        ...

    def follow(self, frame: Frame) -> None:
        """What the actions before led to: rewards and ends; called with each frame before it is acted upon."""
        ...


_FILMED_STEPS = 4000


class TeamPlayer:
    """A policy and what it is shown: views of frames, with agents' numbers, normalised, on its device."""

    def __init__(self, views: Views, act: Act) -> None:
        self.views, self._act = views, act
        self._memory: Tensor | None = None

    def begin(self) -> None:
        """Forget: all attempts begin anew. Those that end by themselves are forgotten one by one."""
        self._memory = None
        if isinstance(self._act, Remembering):
            self._act.begin()

    @torch.no_grad()
    def act(self, frame: Frame, *, greedy: bool, generator: torch.Generator) -> np.ndarray:
        """Actions ``[B, A, ...]`` for what B copies show: sampled, or the most probable ones."""
        if isinstance(self._act, Remembering):
            self._act.follow(frame)
        view = self.views.of(frame)
        if self.views.memory:
            view = replace(view, memory=self._recalled(frame, view))
        return self._act(view, greedy, generator).cpu().numpy()

    def play(
        self,
        env: TeamEnv,
        *,
        episodes: int,
        greedy: bool,
        generator: torch.Generator,
        seed: int,
        watch: Sequence[Callable[[Frame], None]] = (),
    ) -> dict[str, np.ndarray]:
        """Play whole attempts; every copy plays the same number, so that short ones do not count more often.

        At least so many ``episodes``, a multiple of the copies; each of ``watch`` is called with every frame.

        Returns:
            Metrics of each episode: ``return``, ``length`` and those of the environment at its end (``success``, …).

        Raises:
            BadInput: the environment does not end its attempts.
        """
        each, copies = -(-episodes // env.n_envs), env.n_envs
        played, length, gained = np.zeros(copies, int), np.zeros(copies, int), np.zeros(copies)
        rows: list[dict[str, float]] = []
        frame = env.reset(seed)
        self.begin()
        for _ in range(MAX_STEPS):
            frame = env.step(self.act(frame, greedy=greedy, generator=generator))
            for one in watch:
                one(frame)
            gained += frame.worth_B
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

    def film(self, env: TeamEnv, *, generator: torch.Generator, seed: int, count: int = 8) -> list[np.ndarray]:
        """Play copy 0 greedily to the end of its attempt and keep frames at equal distances, uint8 ``[H, W, 3]``.

        ``count`` frames, fewer where the attempt is shorter, none where the environment does not draw; the generator is
        for a policy that draws all the same.

        Raises:
            EnvError: the environment broke, or its drawing did.
        """
        frame, first = env.reset(seed), _draw(env)
        self.begin()
        if first is None:
            return []
        frames, every = [first], 1
        for t in range(1, _FILMED_STEPS):
            frame = env.step(self.act(frame, greedy=True, generator=generator))
            if frame.done_B[0]:  # what would be drawn now is the next attempt
                break
            if t % every == 0 and (shot := _draw(env)) is not None:
                frames.append(shot)
                if len(frames) == 4 * count:  # the attempt is long: every second one, and half as many from here on
                    frames, every = frames[::2], 2 * every
        chosen = np.linspace(0, len(frames) - 1, min(count, len(frames))).round().astype(int)
        return [frames[i] for i in chosen]

    def _recalled(self, frame: Frame, view: View) -> Tensor:
        shape = (*view.obs.shape[:2], self.views.memory)
        if self._memory is None or self._memory.shape != shape:
            self._memory = view.obs.new_zeros(shape)
        self._memory[torch.from_numpy(frame.done_B).to(view.obs.device)] = 0.0
        return self._memory


def _draw(env: TeamEnv) -> np.ndarray | None:
    try:
        picture = env.render()
    except EvolventError:
        raise
    except NotImplementedError:  # of one that has no picture: PettingZoo's own render
        return None
    except Exception as error:  # drivers and windows fail in ways of their own
        raise EnvError("the environment cannot draw here", got=repr(error), where=env.name) from error
    return None if picture is None else np.array(picture, np.uint8)
