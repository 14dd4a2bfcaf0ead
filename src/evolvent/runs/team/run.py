"""A run of a team learner: environments, clock, storage, evaluation, checkpoints, log. The loop stays in ``algos/``.

    with open_team(config, folder, live, resume=resume) as team:
        ...                                                        # networks for team.views.team, team.views.state_dim
        team.keep(act, actors=actors, adam=adam)                   # what a checkpoint holds; restored when resuming
        for _ in team.updates():
            view = team.view
            for _ in range(config.horizon):
                with team.clock("act"), torch.no_grad():           # ACT
                    action, logp = actors.act(view.obs, available_BAN=view.available, generator=team.generator)
                    said = value(view)
                view = team.step(action, logp, said)               # STEP
            with team.clock("credit"):                             # CREDIT
                batch = team.batch(value)
                ledger = agent_gae.assign(batch.rollout, agent_gae.Config(config.gamma, config.gae_lambda))
            with team.clock("learn"):                              # LEARN
                metrics = learn(batch, batch.credit(ledger))          # losses by name
            team.log(ledger, **metrics)
        return team.finish("mine")

A resumed run ends with the numbers of an uninterrupted one: every random stream is seeded by the number of the update,
and every ``save_every`` updates, where a checkpoint is written, all environments restart with a seed of their own. A
checkpoint in between, of a run that was stopped or has ended, holds what was done since then: it is done again.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.folder import RunFolder
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.core.seeding import seed_tree
from evolvent.core.team import Frame, TeamEnv
from evolvent.envs.team.disrupt import Attack, arm
from evolvent.evaluate.live import Live
from evolvent.evaluate.pages import png
from evolvent.learn.team.batch import Batch, View
from evolvent.learn.team.course import Course
from evolvent.learn.team.descent import decaying
from evolvent.learn.team.player import Act, TeamPlayer
from evolvent.learn.team.steps import Steps
from evolvent.learn.team.views import Views
from evolvent.runs.shell import Shell, device, threads
from evolvent.runs.sources import pinned
from evolvent.runs.team.account import PICTURES
from evolvent.runs.team.checks import check_minibatches, check_settings
from evolvent.runs.team.config import EnvConfig
from evolvent.runs.team.evaluation import BASELINES, attempts, baselines, generator_of, play_copies, summarise
from evolvent.runs.team.observed import Sizes, decided
from evolvent.runs.team.record import store
from evolvent.runs.team.sides import Rewards, check_one_side
from evolvent.runs.team.weights import start_from


class TeamRun:
    """What a team learner's loop works with; made by ``open_team``.

    Attributes:
        env: the environments; ``env.team`` describes the team.
        views: what the team is shown; ``team.obs_dim`` and ``state_dim`` size the networks.
        steps: storage of the current update.
        generator: torch's random stream of the current update, on the device.
        restarted: whether all environments began anew with this update.
        shell: clock, updates, checkpoints; ``clock`` is its.
    """

    def __init__(self, config: EnvConfig, env: TeamEnv, folder: RunFolder, live: Live, *, resume: bool) -> None:
        self.config, self.env, self.folder, self.live = config, env, folder, live
        self._spec = pinned(folder, config.env)
        self.device = torch.device(config.plan.device)
        self.views = Views(env.team, ids=config.ids, device=self.device)
        self.steps = Steps(self.views, config.horizon, config.envs)
        self.generator = torch.Generator(self.device)
        self._each = config.envs * config.horizon
        self.shell = Shell(
            folder,
            live,
            max(1, config.steps // self._each),
            config.plan.save_every,
            config.plan.eval_every,
            resume=resume,
            evaluate=self.evaluate,
            state=self._state,
        )
        self.clock = self.shell.clock
        self._course, self._standing = Course(env, config.seed), dict[str, Any]()
        self.restarted = False
        self._broken = False
        self._ledger: RolloutLedger | None = None
        self._player: TeamPlayer | None = None
        self._attack: Attack | None = None
        self._decay: Callable[[float], None] = lambda done: None
        torch.manual_seed(seed_tree(config.seed, "weights"))

    # ---------------------------------------------------------------------------------------------- the loop
    def keep(self, act: Act, **parts: Any) -> None:
        """Say how the team acts in evaluations and what a checkpoint must hold; when resuming, restores it."""
        check_minibatches(self.config)
        self._player = TeamPlayer(self.views, act)
        norms = self.views.normalise() if decided(self.config, self.folder.path, resume=self.shell.resume) else {}
        parts |= norms
        self._decay = decaying(parts, self.config.plan.lr_end)
        self.shell.keep(**parts)
        self._standing = self.shell.restore(lambda state: int(state["update"]) * self._each).get("environments", {})
        if self.shell.update > 0:
            return
        if self.config.plan.init:
            self.live.note(start_from(Path(self.config.plan.init), parts, self.config.env))
        measured = baselines(self.env.team)
        without = " and as many without" if "idle" in measured else ""
        to_come = f"{self.shell.total} x {self._each:,} steps to learn from"
        if self.config.steps != (whole := self.shell.total * self._each):
            self.live.note(
                f"! {whole:,} steps, not {self.config.steps:,}: an update takes {self._each:,} (--envs times "
                "--horizon), and only whole updates are run"
            )
        self.live.status(f"{attempts(self.config.plan.eval_episodes)} with random actions{without}; then {to_come}")
        rewards, sizes = Rewards(), Sizes(self.views, norms if not self.config.plan.init else {})
        for how, chance in measured.items():
            watch = [rewards.watch, sizes.watch] if how == "random" else []
            result = summarise(self._play(TeamPlayer(self.views, chance), how, watch))
            check_one_side(self.config, self.env.team.agents, rewards)
            self.folder.log(0, phase=how, **result)
        sizes.tell(self.live, normalised=bool(norms) or not self.config.one_size)

    def arm(self, attack: Attack) -> None:
        """Say what an adversary in the environment does, in training and evaluations; before ``keep``."""
        self._attack = attack
        arm(self.env, attack)

    def updates(self) -> Iterator[int]:
        """The numbers of the updates to do (``Shell.updates``); environments restart where a checkpoint was written."""
        for update in self.shell.updates():
            self.restarted = False
            if update % self.config.plan.save_every == 0 or update == self.shell.first:
                self._restart()
            self.generator.manual_seed(seed_tree(self.config.seed, "update", update))
            self._decay(update / self.shell.total)
            self.steps.begin()
            yield update

    @property
    def player(self) -> TeamPlayer:
        """What plays; there is one after ``keep``."""
        assert self._player is not None
        return self._player

    @property
    def view(self) -> View:
        """What the team sees now."""
        return self.steps.view(self.steps.t)

    def step(self, action: Tensor, logp: Tensor, value: Tensor | None = None, **extra: Tensor) -> View:
        """Take one step in every copy, keep it, and return what is seen next."""
        with self.clock("step"):
            frame = self._course.step(action.cpu().numpy())
        return self.steps.add(action, logp, value, frame, **extra)

    def batch(self, critic: Callable[[View], Tensor], scale: Callable[[Tensor], Tensor] = lambda v: v) -> Batch:
        """The steps of this update; see ``Steps.batch``."""
        return self.steps.batch(critic, scale)

    def log(self, ledger: RolloutLedger, **values: float) -> None:
        """End an update: write its metrics, and show progress.

        ``values`` are losses and diagnostics.

        The columns: ``return`` (mean over attempts that ended), seconds of each part of the loop, ``credit`` (each
        agent's share of the absolute advantage).

        Raises:
            ModelError: a value is not finite: the run stops with its last checkpoint.
        """
        spent, whole = dict(self.shell.seconds), max(sum(self.shell.seconds.values()), 1e-9)
        row = {**self._course.metrics(), "steps_per_s": round(self._each / whole, 1)}
        row["credit"] = [round(earned.share, 4) for earned in ledger.by_agent().values()]
        self.steps.take_in()
        self.shell.log(self._step + self._each, row, values)
        self._ledger = ledger
        if self.config.plan.keep_rollouts == 0:
            store(self.folder.path, ledger, self.shell.update, 0)
        split = " ".join(f"{name} {100 * seconds / whole:.0f}" for name, seconds in spent.items())
        gained = "–" if row["return"] is None else f"{row['return']:.4g}"
        speed = f"{row['steps_per_s']:,.0f} steps/s"
        self.shell.tell([f"return {gained}", speed, f"{split} %", f"step {self._step:,}"])

    # ---------------------------------------------------------------------------------------------- judging
    def evaluate(self) -> dict[str, Any]:
        """Play greedily with fresh copies and log it."""
        self.live.status(f"{attempts(self.config.plan.eval_episodes)}, greedy")
        result = summarise(self._play(self.player, "greedy"))
        self.folder.log(self._step, phase="eval", **result)
        self.live.note(f"evaluation after update {self.shell.update}: return {_described(result)}")
        return result

    def finish(self, algo: str) -> dict[str, Any]:
        """The last evaluation, greedy and sampled, as the content of ``summary.json``; draws ``behaviour.png``."""
        final = self.shell.judged(self._step)
        self.live.status(f"{attempts(self.config.plan.eval_episodes)}, actions sampled")
        sampled = summarise(self._play(self.player, "sampled"))
        rows = self.folder.read_metrics()
        before = {
            how: {"name": BASELINES[how], "value": row["value"], "ci95": row["ci95"]}
            for row in rows
            if (how := row.get("phase")) in BASELINES
        }
        summary = {
            "algo": algo,
            "env": self.config.env,
            "seed": self.config.seed,
            "score": {
                "name": "return, greedy",
                "value": final["value"],
                "ci95": final["ci95"],
                "higher_is_better": True,
            },
            "baseline": before.pop("random", {}),
            **before,
            "sampled": sampled,
            "greedy": final,
            "steps": self._step,
            "updates": self.shell.update,
            "agents": list(self.env.team.agents),
            "seconds": rows[-1]["t"],
        }
        self.folder.write_summary(summary)  # before drawing: a driver that kills the process takes nothing with it
        self.live.status("two more attempts, for pictures of what random actions and the team do")
        chance = TeamPlayer(self.views, baselines(self.env.team)["random"])
        for name, player in ((PICTURES[0], chance), (PICTURES[1], self.player)):
            if not self._film(player, name):
                break
        return summary

    # ---------------------------------------------------------------------------------------------- inside
    @property
    def _step(self) -> int:
        return self.shell.update * self._each

    def _play(
        self, player: TeamPlayer, how: str, watch: Sequence[Callable[[Frame], None]] = ()
    ) -> dict[str, np.ndarray]:
        return play_copies(player, how, self.config, self._spec, self.live, watch, self._attack)

    def _film(self, player: TeamPlayer, name: str) -> bool:
        """Draw an attempt, always from the same start; whether that was possible."""
        env = envs.load_team(self._spec, 1, step_s=self.config.plan.step_s, testing=True)
        arm(env, self._attack)
        try:
            seed = seed_tree(self.config.seed, "film")
            frames = player.film(env, generator=generator_of(self.config, "film"), seed=seed)
        except EnvError as error:
            self.live.note(f"no picture of what it does: {error}")
            return False
        finally:
            env.close()
        if not frames:
            self.live.note("no picture of what it does: the environment does not draw here")
        else:
            (self.folder.path / name).write_bytes(png.encode(png.sheet(frames)))
        return bool(frames)

    def _restart(self) -> None:
        standing, self._standing = self._standing, {}
        self.restarted = not standing
        if standing:
            self.live.status(f"repeating {len(standing['taken'])} steps, to where the environments stood")
        frame = self._course.repeat(standing) if standing else self._course.restart(self.shell.update)
        self.steps.begin()
        self.steps.recall(standing.get("memory"))
        self.steps.see(frame, 0)

    def rescue(self) -> None:
        """An environment broke: save what was learned since the last checkpoint; a resumed run restarts them."""
        self._broken = True
        if self.shell.update > self.shell.first:
            self.shell.save()
            again = f"evolvent run {self.folder.manifest()['algo']} --resume {shlex.quote(str(self.folder.path))}"
            self.live.note(f"an environment broke; what was learned in {self.shell.update} updates is saved: {again}")

    def _state(self) -> dict[str, Any]:
        """Where the environments stand, between two restarts; where one broke that is not known.

        Stores the rollout, unless that of every update is.
        """
        retain = self.config.plan.keep_rollouts
        if self._ledger is not None and not self._broken and retain:
            store(self.folder.path, self._ledger, self.shell.update, retain)
        between = self.shell.update % self.config.plan.save_every and not self._broken
        memory = {} if self.steps.memory is None else {"memory": self.steps.memory[self.steps.t]}
        return {"environments": {**self._course.state(), **memory}} if between else {}


@contextmanager
def open_team(config: EnvConfig, folder: RunFolder, live: Live, *, resume: bool = False) -> Iterator[TeamRun]:
    """Check the settings, open the environments, and close them at the end.

    Raises:
        BadInput: settings that do not fit together.
    """
    plan = config.plan
    check_settings(config)
    spec = pinned(folder, config.env)
    with on_device(config), closing(envs.load_team(spec, config.envs, workers=plan.workers, step_s=plan.step_s)) as env:
        run = TeamRun(config, env, folder, live, resume=resume)
        between = plan.save_every * config.horizon
        if env.team.limit > between and plan.save_every < run.shell.total:
            raise BadInput(
                "attempts would never end: the environments restart with every checkpoint",
                got=f"{between} steps",
                expected=f"at least the {env.team.limit} steps of an attempt",
                where="--save-every x --horizon",
            )
        try:
            yield run
        except EnvError:
            run.rescue()
            raise


@contextmanager
def on_device(config: Any) -> Iterator[torch.device]:
    """The device of a team's networks, with as many threads as asked for until the end.

    Raises:
        BadInput: there is no such device.
    """
    found = device(config.plan.device)
    with threads(config.plan.threads):
        yield found


def _described(result: dict[str, Any]) -> str:
    low, high = result["ci95"]
    return f"{result['value']:.4g} [{low:.4g}, {high:.4g}] over {result['n']} attempt{'s' * (result['n'] != 1)}"
