"""A run that learns from recorded attempts: data, progress, evaluations in the environment, checkpoints.

The loop of a system stands in its own file; this is what it calls:

    with open_offline(config, folder, live, resume=resume) as offline:
        offline.keep(act, actors=actors, adam=adam)             # how it plays, and what a checkpoint holds
        for _ in offline.updates():
            losses = []
            for _ in range(config.log_every):
                with offline.clock("learn"):                    # LEARN
                    losses.append(improve(offline.replay.sample(config.batch, offline.generator)))
            offline.log(**means(losses))
        return offline.finish("mine")

The random stream of an update is seeded by its number, so that a run that was killed ends with the numbers of one that
was not. Evaluations are played in environments whose seeds are not among those of the data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, read_object, write_atomic
from evolvent.core.seeding import seed_tree
from evolvent.data.recorded.episodes import Recorded, check_fits
from evolvent.data.recorded.opening import open_recorded
from evolvent.evaluate.live import Live, interval
from evolvent.learn.team.player import Act, TeamPlayer
from evolvent.learn.team.recorded import replay_of, take_in
from evolvent.learn.team.replay import Replay
from evolvent.learn.team.views import Views
from evolvent.runs.offline.config import OfflineConfig
from evolvent.runs.shell import Shell, device, threads
from evolvent.runs.sources import pinned
from evolvent.runs.team.checks import check_settings
from evolvent.runs.team.evaluation import BASELINES, attempts, baselines, play_copies, summarise
from evolvent.runs.team.frozen import team_of

DATA = "data.json"
"""What a run folder keeps of its data: where they lie, how many, their returns and their scale."""


class OfflineRun:
    """What a learner's loop works with; made by ``open_offline``.

    Attributes:
        data: what it learns from.
        views: what its team is shown, normalised by the data where that is asked for.
        generator: torch's random stream of the current update, on the device.
        shell: clock, updates, checkpoints; ``clock`` is its.
    """

    def __init__(
        self, config: OfflineConfig, data: Recorded, folder: RunFolder, live: Live, *, resume: bool = False
    ) -> None:
        self.config, self.data, self.folder, self.live = config, data, folder, live
        self._spec = pinned(folder, config.env)
        self.device = torch.device(config.plan.device)
        self.views = Views(data.team, ids=config.ids, device=self.device)
        self._norms = self.views.normalise() if config.plan.normalise else {}
        take_in(self.views, data)
        self.generator = torch.Generator(self.device)
        plan, total = config.plan, max(1, config.steps // config.log_every)
        self.shell = Shell(folder, live, total, plan.save_every, plan.eval_every, resume=resume, evaluate=self.evaluate)
        self.clock = self.shell.clock
        self._player: TeamPlayer | None = None
        torch.manual_seed(seed_tree(config.seed, "weights"))

    @cached_property
    def replay(self) -> Replay:
        """All steps of the data, to be drawn as transitions of one step; ``gamma`` is the configuration's, or 0.99."""
        return replay_of(self.views, self.data, gamma=getattr(self.config, "gamma", 0.99))

    # ---------------------------------------------------------------------------------------------- the loop
    def keep(self, act: Act, **parts: Any) -> None:
        """Say how the team acts in evaluations and what a checkpoint must hold; when resuming, restores it."""
        self._player = TeamPlayer(self.views, act)
        self.shell.keep(**parts, **self._norms)
        self.shell.restore(lambda state: int(state["update"]) * self.config.log_every)
        if self.shell.update > 0:
            return
        self.live.status(f"{attempts(self.config.plan.eval_episodes)} with random actions")
        for how, chance in baselines(self.data.team).items():
            self.folder.log(0, phase=how, **summarise(self._play(TeamPlayer(self.views, chance), how)))

    def updates(self) -> Iterator[int]:
        """The numbers of the updates to do, of ``log_every`` gradient steps each."""
        for update in self.shell.updates():
            self.generator.manual_seed(seed_tree(self.config.seed, "update", update))
            yield update

    def log(self, **values: float) -> None:
        """End an update: write its line, show progress; ``values`` are losses and diagnostics.

        Raises:
            ModelError: a value is not finite: the run stops with its last checkpoint.
        """
        spent = max(self.shell.seconds["learn"], 1e-9)
        row = {"trained_per_s": round(self.config.log_every / spent, 1)}
        self.shell.log(self._step + self.config.log_every, row, values)
        first = [f"{name} {value:.3g}" for name, value in values.items()][:1]
        self.shell.tell([*first, f"{row['trained_per_s']:,.0f} gradient steps/s"])

    # ---------------------------------------------------------------------------------------------- judging
    def evaluate(self) -> dict[str, Any]:
        """Play greedily with fresh copies and log it."""
        assert self._player is not None
        self.live.status(f"{attempts(self.config.plan.eval_episodes)}, greedy")
        result = summarise(self._play(self._player, "greedy"))
        self.folder.log(self._step, phase="eval", **result)
        said = interval(result["value"], result["ci95"], rate=False)
        self.live.note(
            f"evaluation after {self._step:,} gradient steps: return {said}{self._on_scale(result['value'])}"
        )
        return result

    def asked(
        self, targets: Sequence[float], act_of: Callable[[float], Act], how: str = "greedy"
    ) -> list[dict[str, Any]]:
        """What came of it when a policy was asked for each of these returns, as ``summary.json`` keeps it."""
        rows: list[dict[str, Any]] = []
        for target in targets:
            self.live.status(f"{attempts(self.config.plan.eval_episodes)}, asked for {target:.4g}")
            result = summarise(self._play(TeamPlayer(self.views, act_of(target)), how))
            rows.append({"asked": target, **{name: result[name] for name in ("value", "ci95", "n")}})
        return rows

    def finish(self, algo: str, **more: Any) -> dict[str, Any]:
        """The last evaluation as the content of ``summary.json``; ``more`` stands there, too."""
        final, rows = self.shell.judged(self._step), self.folder.read_metrics()
        before = {
            how: {"name": BASELINES[how], "value": row["value"], "ci95": row["ci95"]}
            for row in rows
            if (how := row.get("phase")) in BASELINES
        }
        returns_E = self.data.returns_E
        score = {"name": "return, greedy", "value": final["value"], "ci95": final["ci95"], "higher_is_better": True}
        return {
            "algo": algo,
            "env": self.config.env,
            "seed": self.config.seed,
            "score": score,
            "baseline": before.pop("random", {}),
            **before,
            "greedy": final,
            "normalised": self.data.normalised(final["value"]),
            "data": {"mean": float(returns_E.mean()), "best": float(returns_E.max()), "attempts": len(returns_E)},
            "steps": self._step,
            "extendable": bool(self.config.EXTENDABLE),
            "updates": self.shell.update,
            "agents": list(self.data.team.agents),
            "seconds": rows[-1]["t"],
            **more,
        }

    @property
    def _step(self) -> int:
        return self.shell.update * self.config.log_every

    def _play(self, player: TeamPlayer, how: str) -> dict[str, np.ndarray]:
        return play_copies(player, how, self.config, self._spec, self.live)

    def _on_scale(self, value: float) -> str:
        scaled = self.data.normalised(value)
        return "" if scaled is None else f", {scaled:.1f} on the scale of the data (random 0, expert 100)"


@contextmanager
def open_offline(
    config: OfflineConfig, folder: RunFolder, live: Live, *, share: float = 1.0, resume: bool = False
) -> Iterator[OfflineRun]:
    """Open and check the data before anything else; ``share`` of their steps, the best attempts, is learned from.

    Raises:
        BadInput: settings out of range; no data, damaged ones, or of another environment; other data than those that
            a resumed run began with; evaluations that would repeat the seeds of the data.
    """
    check_settings(config)
    if not config.data:
        do = "evolvent data make --env gymnasium:Hopper-v5 --quality medium --out DIR"
        raise BadInput("there is nothing to learn from", expected="--data DIR", where="--data", do=do)
    spec = pinned(folder, config.env)
    nameless = config.data.endswith(".npz")  # it is taken for what it is opened with
    data = open_recorded(config.data, spec if nameless else "")
    check_fits(data, spec if nameless else config.env, team_of(spec, config.plan.step_s))
    if seed_tree(config.seed, "eval") in data.seeds:
        expected, do = "seeds that are not those of the data", f"--seed {config.seed + 1}"
        raise BadInput("evaluations would repeat the data", got=config.seed, expected=expected, where="--seed", do=do)
    data = data.best(share) if share < 1.0 else data
    _remember(config, data, folder, resume=resume)
    live.note(f"{len(data.attempts):,} attempts, {data.steps:,} steps, from {config.data}")
    for note in data.notes:
        live.note(f"! {note}")
    device(config.plan.device)
    with threads(config.plan.threads):
        yield OfflineRun(config, data, folder, live, resume=resume)


def _remember(config: OfflineConfig, data: Recorded, folder: RunFolder, *, resume: bool) -> None:
    """Keep in the run folder what its page says of the data; a resumed run must have the same."""
    returns_E, length_E = data.returns_E, np.array([len(attempt) for attempt in data.attempts])
    digest = hashlib.sha256(returns_E.tobytes() + length_E.tobytes()).hexdigest()[:12]
    path = folder.path / DATA
    if resume and path.exists():
        if read_object(path, "the data of a run")["digest"] != digest:
            do = "restore them, or start a new run"
            raise BadInput("the data have changed since the run began", got=config.data, where="--resume", do=do)
        return
    about = {
        "data": config.data,
        "env": data.env,
        "made_by": data.made_by,
        "attempts": len(returns_E),
        "steps": data.steps,
        "terminated": sum(attempt.terminated for attempt in data.attempts),
        "length": float(length_E.mean()),
        "scale": dict(data.scale),
        "notes": list(data.notes),
        "returns": np.quantile(returns_E, np.linspace(0, 1, min(len(returns_E), 201))).tolist(),
        "digest": digest,
    }
    write_atomic(path, dump(about, indent=1) + "\n")
