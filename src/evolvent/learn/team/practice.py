"""A team that learns without a run folder: what the loop of a system works with inside another run.

    with practice(env, steps=20_000, horizon=256, seed=3) as team:
        loop(config, team)                              # the system's own loop, which a run has too
        play = team.player                              # what was learned

Nothing is written, evaluated or restarted on the way. The random streams are those of a run with that seed whose
environments are not restarted: it learns the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.core.seeding import seed_tree
from evolvent.core.team import TeamEnv
from evolvent.envs.team.disrupt import Attack, arm
from evolvent.learn.team.batch import Batch, View
from evolvent.learn.team.course import Course
from evolvent.learn.team.descent import decaying
from evolvent.learn.team.player import Act, TeamPlayer
from evolvent.learn.team.steps import Steps
from evolvent.learn.team.views import Views

Watch = Callable[[TeamPlayer, dict[str, Any]], object]
"""Takes who plays and the metrics of an update: ``return`` and ``attempts``, losses by name."""


class Practice:
    """The members of ``runs.team.run.TeamRun`` that a loop uses."""

    def __init__(
        self, env: TeamEnv, steps: int, horizon: int, seed: int, device: str, watch: Watch | None, lr_end: float
    ) -> None:
        self.env, self.device, self._seed, self._watch = env, torch.device(device), seed, watch
        self.views = Views(env.team, ids=False, device=self.device)
        self.steps = Steps(self.views, horizon, env.n_envs)
        self.generator = torch.Generator(self.device)
        self.restarted = False
        self._player: TeamPlayer | None = None
        self._total = max(1, steps // (horizon * env.n_envs))
        self._course = Course(env, seed, remember=False)
        self._lr_end, self._decay = lr_end, decaying({}, lr_end)

    def keep(self, act: Act, **parts: Any) -> None:
        """Say how the team acts; there are no checkpoints for ``parts``."""
        self._decay = decaying(parts, self._lr_end)
        self._player = TeamPlayer(self.views, act)

    def arm(self, attack: Attack) -> None:
        """Say what an adversary in the environment does."""
        arm(self.env, attack)

    @property
    def player(self) -> TeamPlayer:
        """What plays; there is one after ``keep``."""
        assert self._player is not None
        return self._player

    def updates(self) -> Iterator[int]:
        """The numbers of the updates to do."""
        self.steps.see(self._course.restart(0), 0)
        self.steps.recall(None)
        for update in range(self._total):
            self.restarted = update == 0
            self.generator.manual_seed(seed_tree(self._seed, "update", update))
            self._decay(update / self._total)
            self.steps.begin()
            yield update

    @property
    def view(self) -> View:
        """What the team sees now."""
        return self.steps.view(self.steps.t)

    def step(self, action: Tensor, logp: Tensor, value: Tensor | None = None, **extra: Tensor) -> View:
        """Take one step in every copy, keep it, and return what is seen next."""
        return self.steps.add(action, logp, value, self._course.step(action.cpu().numpy()), **extra)

    def batch(self, critic: Callable[[View], Tensor], scale: Callable[[Tensor], Tensor] = lambda v: v) -> Batch:
        """The steps of this update; see ``Steps.batch``."""
        return self.steps.batch(critic, scale)

    def clock(self, phase: str) -> AbstractContextManager[None]:
        """Nothing is timed."""
        return nullcontext()

    def log(self, ledger: RolloutLedger, **values: float) -> None:
        """End an update."""
        row = {**self._course.metrics(), **values}
        if self._watch is not None:
            self._watch(self.player, row)


@contextmanager
def practice(
    env: TeamEnv,
    *,
    steps: int,
    horizon: int,
    seed: int,
    device: str = "cpu",
    watch: Watch | None = None,
    lr_end: float = 1.0,
) -> Iterator[Practice]:
    """A team that learns in environments which are open, for ``steps`` steps over all copies (whole updates).

    ``horizon`` steps of each copy are an update; ``watch`` is called after each; learning rates fall to ``lr_end``
    times what they begin with. torch's own random stream is the
    learner's inside and goes on afterwards as if nothing had been.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_tree(seed, "weights"))
        yield Practice(env, steps, horizon, seed, device, watch, lr_end)
