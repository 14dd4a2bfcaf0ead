"""A run of a team learner: environments, clock, storage, evaluation, checkpoints, log. The loop stays in ``algos/``.

    with open_team(config, folder, live, resume=resume) as team:
        ...                                                        # networks for team.env.team, team.steps.obs_dim
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
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError, ModelError
from evolvent.core.folder import Interrupted, RunFolder
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.core.seeding import seed_tree
from evolvent.core.team import Frame, TeamEnv
from evolvent.evaluate.live import Live, duration
from evolvent.evaluate.pages import png
from evolvent.learn import checkpoint
from evolvent.learn.team.batch import Batch, View
from evolvent.runs.sources import pinned
from evolvent.runs.team.checks import check_minibatches, check_settings
from evolvent.runs.team.course import Course
from evolvent.runs.team.evaluation import BASELINES, Act, baselines, play, summarise
from evolvent.runs.team.frames import record_frames
from evolvent.runs.team.sides import Rewards, check_one_side
from evolvent.runs.team.steps import Steps
from evolvent.runs.team.weights import start_from

Phase = Literal["act", "step", "credit", "learn"]


@dataclass(frozen=True)
class Plan:
    """How a run goes about it: nothing here belongs to an algorithm."""

    workers: int | str = 0
    """Processes that step the copies; 0 = this one; ray, or ray:N = actors on a Ray cluster."""
    device: str = "cpu"
    """Where networks live: cpu, cuda."""
    threads: int = 1
    """Threads of torch; networks of this size are fastest with one."""
    eval_every: int = 50
    """Updates between evaluations; 0 = only at the end."""
    eval_episodes: int = 32
    """Attempts of an evaluation."""
    save_every: int = 50
    """Updates between checkpoints (a run that is stopped writes one, too); the environments restart there."""
    init: str = ""
    """Run folder whose newest weights are the start, for fine-tuning; the team may have another size."""
    opposed: bool = False
    """Train on the mean of all rewards even where some agents earn at the expense of others."""


@dataclass(frozen=True)
class TeamConfig:
    """Settings that every team learner has."""

    KIND = "team"
    EXTENDABLE = (("steps", "step"),)

    env: str = "spread:n=3"
    """Environment with its options, e.g. mamujoco:HalfCheetah-6x1 or mpe:simple_spread,n=3."""
    seed: int = 0
    """Root of the seed tree: weights, environments, actions and minibatches follow from it."""
    steps: int = 1_000_000
    """Environment steps in all, over all copies (a step moves every agent of one copy); whole updates only."""
    envs: int = 32
    """Copies of the environment."""
    horizon: int = 100
    """Steps of each copy between two updates (T)."""
    ids: bool = True
    """Append the agent's number (one-hot) to its observation."""
    gamma: float = 0.99
    """Discount per step."""
    gae_lambda: float = 0.95
    """Trace decay of the advantage estimate (lambda)."""
    plan: Plan = Plan()
    """Workers, device, evaluations, checkpoints."""


class TeamRun:
    """What a team learner's loop works with; made by ``open_team``.

    Attributes:
        env: the environments; ``env.team`` describes the team.
        steps: storage of the current update; ``steps.obs_dim`` and ``steps.state_dim`` size the networks.
        generator: torch's random stream of the current update, on the device.
        update: number of updates finished.
    """

    def __init__(self, config: TeamConfig, env: TeamEnv, folder: RunFolder, live: Live, *, resume: bool) -> None:
        self.config, self.env, self.folder, self.live = config, env, folder, live
        self._spec = pinned(folder, config.env)
        self.device = torch.device(config.plan.device)
        self.steps = Steps(env.team, config.horizon, config.envs, ids=config.ids, device=self.device)
        self.generator = torch.Generator(self.device)
        self.update = 0
        self.total = max(1, config.steps // (config.envs * config.horizon))
        self._resume = resume
        self._parts: dict[str, Any] = {}
        self._seconds = dict.fromkeys(("act", "step", "credit", "learn"), 0.0)
        self._course, self._standing = Course(env, config.seed), dict[str, Any]()
        self._told = self._started = time.monotonic()
        self._first = 0
        self._act: Act | None = None
        torch.manual_seed(seed_tree(config.seed, "weights"))

    # ---------------------------------------------------------------------------------------------- the loop
    def keep(self, act: Act, **parts: Any) -> None:
        """Say how the team acts and what a checkpoint must hold; when resuming, restores it.

        Args:
            act: ``(view, greedy, generator) -> actions``, for evaluation.
            **parts: objects with ``state_dict`` and ``load_state_dict``.
        """
        check_minibatches(self.config)
        self._act, self._parts = act, parts
        if self._resume:
            newest = checkpoint.latest(self.folder.path / "checkpoints")
            state = {} if newest is None else checkpoint.load(newest, parts)
            self.update = int(state.get("update", 0))
            self._standing = state.get("environments", {})
            self.folder.truncate(self._step if self.update else -1)
            self.live.note(f"continuing after update {self.update} of {self.total}")
        self._first = self.update
        if self.update == 0:
            if self.config.plan.init:
                self.live.note(start_from(Path(self.config.plan.init), parts, self.config.env))
            each = self.config.envs * self.config.horizon
            measured = baselines(self.env.team)
            without = " and as many without" if "idle" in measured else ""
            self.live.status(
                f"{self._attempts()} with random actions{without}; then {self.total} x {each:,} steps to learn from"
            )
            rewards = Rewards()
            for how, chance in measured.items():
                result = summarise(self.play(chance, how, rewards.watch if how == "random" else None))
                check_one_side(self.config, self.env.team.agents, rewards)
                self.folder.log(0, phase=how, **result)

    def updates(self) -> Iterator[int]:
        """The numbers of the updates to do, 0-based; the environments restart where a checkpoint was written.

        Raises:
            Interrupted: Ctrl-C; the run can be resumed.
        """
        with self.folder.interrupt:
            while self.update < self.total:
                if self.update % self.config.plan.save_every == 0 or self.update == self._first:
                    self._restart()
                self.generator.manual_seed(seed_tree(self.config.seed, "update", self.update))
                self.steps.begin()
                yield self.update
                if self.folder.interrupt.requested and self.update < self.total:
                    self._save()
                    self.live.note(
                        f"stopped after update {self.update}, which is saved: a resumed run goes on from here, "
                        "with the numbers of one that was never stopped"
                    )
                    raise Interrupted

    @property
    def view(self) -> View:
        """What the team sees now."""
        return self.steps.view(self.steps.t)

    @contextmanager
    def clock(self, phase: Phase) -> Iterator[None]:
        """Count the seconds of a part of the loop."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] += time.perf_counter() - start

    def step(self, action: Tensor, logp: Tensor, value: Tensor | None = None, **kept: Tensor) -> View:
        """Take one step in every copy, keep it, and return what is seen next."""
        with self.clock("step"):
            frame = self._course.step(action.cpu().numpy())
        return self.steps.add(action, logp, value, frame, **kept)

    def batch(self, critic: Callable[[View], Tensor], scale: Callable[[Tensor], Tensor] = lambda v: v) -> Batch:
        """The steps of this update; see ``Steps.batch``."""
        return self.steps.batch(critic, scale)

    def log(self, ledger: RolloutLedger, **values: float) -> None:
        """End an update: write its line, tell the person who watches, evaluate and save where it is time.

        Args:
            ledger: the credit of this update; each agent's share goes into the log.
            **values: losses and diagnostics.

        The columns: ``return`` (mean over attempts that ended), seconds of each part of the loop, ``credit`` (each
        agent's share of the absolute advantage).

        Raises:
            ModelError: a value is not finite: the run stops with its last checkpoint.
        """
        bad = [name for name, value in values.items() if not np.isfinite(value)]
        if bad:
            raise ModelError(
                "learning diverged", got=", ".join(f"{name} = {values[name]}" for name in bad), expected="finite",
                where=f"update {self.update}", do="lower lr or clip; the last checkpoint is kept in checkpoints/",
            )  # fmt: skip
        config = self.config
        self.update += 1
        row = {"update": self.update, **self._course.metrics()}
        row |= {f"{name}_s": round(seconds, 4) for name, seconds in self._seconds.items()}
        row |= {"steps_per_s": round(config.envs * config.horizon / max(sum(self._seconds.values()), 1e-9), 1)}
        row |= {"credit": [round(earned.share, 4) for earned in ledger.by_agent().values()], **values}
        self.folder.log(self._step, **row)
        self._tell(row)
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        if config.plan.eval_every and self.update % config.plan.eval_every == 0 and self.update < self.total:
            self.evaluate()
        if self.update % config.plan.save_every == 0 or self.update == self.total:
            self._save()

    # ---------------------------------------------------------------------------------------------- judging
    def evaluate(self) -> dict[str, Any]:
        """Play greedily with fresh copies and log it."""
        assert self._act is not None
        self.live.status(f"{self._attempts()}, greedy")
        result = summarise(self.play(self._act, "greedy"))
        self.folder.log(self._step, phase="eval", **result)
        self.live.note(f"evaluation after update {self.update}: return {_told(result)}")
        return result

    def finish(self, algo: str) -> dict[str, Any]:
        """The last evaluation, greedy and sampled, as the content of ``summary.json``; draws ``behaviour.png``."""
        assert self._act is not None
        last = self.folder.read_metrics()[-1]
        known = last.get("phase") == "eval" and last["step"] == self._step  # stopped after its last evaluation
        final = {k: v for k, v in last.items() if k not in ("t", "step", "phase")} if known else self.evaluate()
        self.live.status(f"{self._attempts()}, actions sampled")
        sampled = summarise(self.play(self._act, "sampled"))
        rows = self.folder.read_metrics()
        before = {
            how: {"name": BASELINES[how], "value": row["value"], "ci95": row["ci95"]}
            for row in rows if (how := row.get("phase")) in BASELINES
        }  # fmt: skip
        summary = {
            "algo": algo, "env": self.config.env, "seed": self.config.seed,
            "score": {"name": "return, greedy", "value": final["value"], "ci95": final["ci95"],
                      "higher_is_better": True},
            "baseline": before.pop("random", {}), **before, "sampled": sampled, "greedy": final,
            "steps": self._step, "updates": self.update,
            "agents": list(self.env.team.agents), "seconds": rows[-1]["t"],
        }  # fmt: skip
        self.folder.write_summary(summary)  # before drawing: a driver that kills the process takes nothing with it
        self.live.status("one more attempt, for a picture of what it does")
        self._film()
        return summary

    def play(self, act: Act, how: str, watch: Callable[[Frame], None] | None = None) -> dict[str, np.ndarray]:
        """Attempts of fresh copies, ``how`` = greedy, sampled, random or idle; otherwise as ``team_eval.play``."""
        config = self.config
        env = envs.load_team(self._spec, min(config.plan.eval_episodes, 32))
        try:
            return play(
                env, act, self.steps, episodes=config.plan.eval_episodes, greedy=how == "greedy",
                generator=self._generator("eval", how), seed=seed_tree(config.seed, "eval"), watch=watch,
            )  # fmt: skip
        finally:
            env.close()

    # ---------------------------------------------------------------------------------------------- inside
    @property
    def _step(self) -> int:
        return self.update * self.config.envs * self.config.horizon

    def _attempts(self) -> str:
        count = self.config.plan.eval_episodes
        return f"playing {count} attempts" if count > 1 else "playing one attempt"

    def _generator(self, *path: str) -> torch.Generator:
        generator = torch.Generator(self.device)
        generator.manual_seed(seed_tree(self.config.seed, *path))
        return generator

    def _film(self) -> None:
        assert self._act is not None
        env = envs.load_team(self._spec, 1)
        try:
            seed = seed_tree(self.config.seed, "film")
            frames = record_frames(env, self._act, self.steps, generator=self._generator("film"), seed=seed)
        except EnvError as error:
            self.live.note(f"no picture of what it does: {error}")
            return
        finally:
            env.close()
        if not frames:
            self.live.note("no picture of what it does: the environment does not draw here")
        else:
            (self.folder.path / "behaviour.png").write_bytes(png.encode(png.sheet(frames)))

    def _restart(self) -> None:
        standing, self._standing = self._standing, {}
        if standing:
            self.live.status(f"repeating {len(standing['taken'])} steps, to where the environments stood")
        frame = self._course.repeat(standing) if standing else self._course.restart(self.update)
        self.steps.begin()
        self.steps.see(frame, 0)

    def rescue(self) -> None:
        """An environment broke: save what was learned since the last checkpoint; a resumed run restarts them."""
        if self.update > self._first:
            if self.update % self.config.plan.save_every:
                self._save(standing=False)
            again = f"evolvent run {self.folder.manifest()['algo']} --resume {shlex.quote(str(self.folder.path))}"
            self.live.note(f"an environment broke; what was learned in {self.update} updates is saved: {again}")

    def _save(self, *, standing: bool = True) -> None:
        state: dict[str, Any] = {"update": self.update}
        if standing and self.update % self.config.plan.save_every:
            state["environments"] = self._course.state()
        checkpoint.save(self.folder.path / "checkpoints", self.update, self._parts, state)

    def _tell(self, row: dict[str, Any]) -> None:
        now = time.monotonic()
        last = self.update == self.total
        if now - self._told < (30.0 if self.live.plain else 0.25) and not last:
            return
        self._told = now
        spent = {name: row[f"{name}_s"] for name in self._seconds}
        whole = max(sum(spent.values()), 1e-9)
        split = " ".join(f"{name} {100 * seconds / whole:.0f}" for name, seconds in spent.items())
        left = (now - self._started) / max(self.update - self._first, 1) * (self.total - self.update)
        gained = "–" if row["return"] is None else f"{row['return']:.4g}"
        facts = [f"update {self.update}/{self.total}", f"return {gained}"]
        facts += [f"{duration(left)} left"] if self.update < self.total else []
        facts += [f"{row['steps_per_s']:,.0f} steps/s", f"{split} %", f"step {self._step:,}"]
        self.live.progress(self.update / self.total, facts)


@contextmanager
def open_team(config: TeamConfig, folder: RunFolder, live: Live, *, resume: bool = False) -> Iterator[TeamRun]:
    """Check the settings, open the environments, and close them at the end.

    Raises:
        BadInput: settings that do not fit together.
    """
    plan = config.plan
    check_settings(config)
    if plan.device.startswith("cuda") and not torch.cuda.is_available():
        raise BadInput("no GPU is at hand", got=plan.device, expected="cpu", where="--device")
    env = envs.load_team(pinned(folder, config.env), config.envs, workers=plan.workers)
    before = torch.get_num_threads()
    torch.set_num_threads(plan.threads)
    try:
        run = TeamRun(config, env, folder, live, resume=resume)
        between = plan.save_every * config.horizon
        if env.team.limit > between and plan.save_every < run.total:
            raise BadInput(
                "attempts would never end: the environments restart with every checkpoint", got=f"{between} steps",
                expected=f"at least the {env.team.limit} steps of an attempt", where="--save-every x --horizon",
            )  # fmt: skip
        try:
            yield run
        except EnvError:
            run.rescue()
            raise
    finally:
        torch.set_num_threads(before)
        env.close()


def _told(result: dict[str, Any]) -> str:
    low, high = result["ci95"]
    return f"{result['value']:.4g} [{low:.4g}, {high:.4g}] over {result['n']} attempt{'s' * (result['n'] != 1)}"
