"""A run that learns from examples: rows of a file, recorded attempts, or the answers of an environment.

    with open_language(config, folder, live, resume=resume, needs=Needs(training=False)) as run:
        tuning = tuned(run, found, recorded, resume=resume)
        for update in tuning.updates():
            ...

An evaluation measures the loss on examples that are held out; where there is an environment, its held-out tasks are
attempted, too. Of ``functions:`` it is said before and after learning what is called (``calling``).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evolvent.core.config import at_least
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, read_object, write_atomic
from evolvent.core.ledger import Ledger
from evolvent.core.protocols import Completion, Env, Task, distinct
from evolvent.core.seeding import rng
from evolvent.envs.text.functions import Functions
from evolvent.evaluate.live import count
from evolvent.formulas.statistics import clustered_bootstrap
from evolvent.runs.language.calling import judged_calls, show_calls
from evolvent.runs.language.config import LanguageConfig
from evolvent.runs.language.credit import Rule
from evolvent.runs.language.examples import ending, fitted
from evolvent.runs.language.imitation import imitated
from evolvent.runs.language.learn import training_batch
from evolvent.runs.language.pairs import Pairs, Recorded, find_attempts, read_groups
from evolvent.runs.language.rows import Example, read_rows, split_rows
from evolvent.runs.language.run import LanguageRun
from evolvent.runs.language.tasks import some_tasks

Schedule = Literal["cosine", "linear", "constant"]
JUDGED = 200
"""Held-out examples whose loss is measured in an evaluation, at most."""
PHASE, CALLS = "loss", "calls"


@dataclass(frozen=True)
class TuningConfig(LanguageConfig):
    """Settings of passes over examples; ``group`` is for systems that sample, and not read."""

    EXTENDABLE = (("plan.minutes", "t"),)  # the learning rate follows the number of updates

    env: str = ""
    """Environment whose held-out tasks are attempted before and after; empty = the held-out loss alone."""
    updates: int = 100_000
    """Largest number of updates; fewer where the passes over the examples are done sooner."""
    prompts: int = 16
    """Examples in an update: the batch size."""
    epochs: int = 3
    """Epochs: passes over all examples."""
    lr: float = 2e-4
    """Learning rate of AdamW, at its highest."""
    warmup: float = 0.03
    """Share of the updates in which the learning rate rises."""
    schedule: Schedule = "cosine"
    """How the learning rate falls afterwards: cosine, linear (both to 0), or constant."""


@dataclass(frozen=True)
class Source:
    """Where examples come from: rows of a file, recorded attempts, or neither: the answers of the environment."""

    path: Path | None = None
    rows: tuple[Example, ...] = ()
    recorded: Pairs | None = None


class Tuning:
    """What a loop works with that learns from examples.

    Attributes:
        run: model, optimiser, clock, checkpoints.
        train: examples to learn from.
        heldout: examples to be judged by.
        lr: learning rate of the current update.
    """

    def __init__(self, run: LanguageRun, train: Sequence[Episode], heldout: Sequence[Episode]) -> None:
        config: Any = run.config
        self.run, self.train, self.heldout, self.lr = run, list(train), list(heldout), 0.0
        self._drawn = Recorded([[one] for one in self.train], config.prompts, config.seed)
        run.shell.total = min(config.updates, math.ceil(len(self.train) * config.epochs / config.prompts))
        run.judge = self.judge

    def updates(self) -> Iterator[int]:
        """The numbers of the updates to do, each with its learning rate set."""
        config: Any = self.run.config
        for update in self.run.updates():
            self.lr = config.lr * lr_factor(update, self.run.shell.total, config.warmup, config.schedule)
            for optimizer in self.run.optimizers.values():
                for part in optimizer.param_groups:
                    part["lr"] = self.lr
            yield update

    def batch(self, update: int) -> list[Episode]:
        """The examples of an update, in an order that is drawn anew for every pass over all of them."""
        return self._drawn(update)[0]

    def places(self, update: int) -> list[tuple[int, int]]:
        """Of each example of an update the pass over all of them, 0-based, and its place in ``train``."""
        return self._drawn.places(update)

    def log(self, episodes: Sequence[Episode], ledger: Ledger, metrics: Mapping[str, float]) -> None:
        """End an update."""
        run = self.run
        run.attempts += len(episodes)
        learned, size = {**metrics, "lr": self.lr}, sum(len(e.context_ids(e.n_steps - 1)) for e in episodes)
        spent = run.shell.seconds["learn"]
        row = {"examples": len(episodes), "trained_per_s": round(size / spent, 1) if spent else 0.0}
        line = run.logged(row, episodes, ledger, learned)
        known = [f"loss {line['loss']:.3g}"] if "loss" in line else []
        run.shell.tell([*known, f"lr {self.lr:.2g}", f"{row['trained_per_s']:,.0f} tokens/s read"])

    def judge(self) -> dict[str, Any]:
        """Measure the loss on the examples that are held out, and log it; nothing where there are none."""
        run, some = self.run, self.heldout[:JUDGED]
        if not self._logged(CALLS):
            self._judge_calls()
        if not some:
            return {}
        run.live.status(f"loss on {count(len(some), 'held-out example')}")
        found = measured(run, some)
        run.folder.log(run.attempts, phase=PHASE, **found)
        low, high = found["ci95"]
        run.live.note(
            f"held-out loss after update {run.update}: {found['value']:.4g} [{low:.4g}, {high:.4g}], "
            f"{count(found['n'], 'example')}"
        )
        return found

    def finish(self, algo: str, rule: Rule, **more: Any) -> dict[str, Any]:
        """The last evaluation, beside the first, as the content of ``summary.json``; keeps the trained model."""
        run = self.run
        counts = {"examples": len(self.train), "heldout_examples": len(self.heldout), **more}
        if run.heldout:
            found = {**run.finish(algo, rule), **counts, **self._losses()}
            self._judge_calls()
            return found | self._calls()
        rows = run.folder.read_metrics()
        if self.heldout and not (rows[-1].get("phase") == PHASE and rows[-1]["step"] == run.attempts):
            self.judge()
        run.keep_model(rule)
        rows, losses = run.folder.read_metrics(), self._losses()
        name = {"name": "held-out loss, nats a token", "higher_is_better": False}
        updates = [row for row in rows if "update" in row]
        last = losses["heldout_loss"] if losses else {"value": updates[-1].get("loss"), "ci95": None}
        if not losses:
            name["name"] = "loss of the last update (nothing was held out)"
        before = {"before": {**losses["heldout_loss_before"], "higher_is_better": False}} if losses else {}
        return {
            "algo": algo,
            "env": run.config.env,
            "model": run.config.model,
            "seed": run.config.seed,
            "agents": list(run.optimizers),
            "steps": run.attempts,
            "updates": run.update,
            "policy_updates": sum(row.get("updates", 0.0) > 0 for row in updates),
            "score": {**last, **name},
            **before,
            "seconds": rows[-1]["t"],
            **counts,
            **losses,
        }

    def _losses(self) -> dict[str, Any]:
        """The held-out loss before learning, and now."""
        rows = self._logged(PHASE)
        names = ("value", "ci95", "n", "tasks", "tokens")
        ends = [{name: row.get(name) for name in names} for row in (rows[0], rows[-1])] if rows else []
        return dict(zip(("heldout_loss_before", "heldout_loss"), ends, strict=False))

    def _judge_calls(self) -> None:
        """Log what is called on the held-out tasks, where these are functions."""
        run = self.run
        if isinstance(run.env, Functions):
            run.live.status(f"calls at {count(len(run.heldout), 'held-out task')}, names as they are and random")
            run.folder.log(run.attempts, phase=CALLS, judged=judged_calls(run))

    def _calls(self) -> dict[str, Any]:
        """What was called before learning, and what is now; shown."""
        rows = [row["judged"] for row in self._logged(CALLS)]
        if not rows:
            return {}
        show_calls(self.run.live, rows[0], rows[-1])
        return {"calls_before": rows[0], "calls": rows[-1]}

    def _logged(self, phase: str) -> list[dict[str, Any]]:
        return [row for row in self.run.folder.read_metrics() if row.get("phase") == phase]


def examples_of(config: Any) -> Source:
    """Where the examples come from, read as far as it can be without a model.

    Raises:
        BadInput: no source or two, settings out of range, or rows that cannot be learned from.
    """
    at_least(config, {"heldout": 0, "warmup": 0, "max_length": 0, "tasks": 1}, {"heldout": 0.9, "warmup": 1})
    if (config.data and config.recorded) or not (config.data or config.recorded or config.env):
        raise BadInput(
            "examples come from one place",
            got="--data and --recorded" if config.data else "none",
            expected="--data FILE, --recorded DIR, or --env ENV, whose reviewer tells the answers",
            where="--data",
        )
    if config.plan.memory:
        raise BadInput("no attempts, no memory", got=f"--memory {config.plan.memory}", expected="none", where="--data")
    if config.data:
        path = Path(config.data).expanduser()
        return Source(path, rows=tuple(read_rows(path)))
    recorded = find_attempts(config.recorded)
    return Source() if recorded is None else Source(recorded.path, recorded=successes(recorded, config.which))


def successes(found: Pairs, which: Literal["successes", "all"]) -> Pairs:
    """Recorded attempts that succeeded, or, where nobody said so, earned more than 0; or all.

    Raises:
        BadInput: none did.
    """
    kept = [[e for e in group if which == "all" or _succeeded(e)] for group in found.groups]
    groups = tuple(group for group in kept if group)
    if not groups:
        raise BadInput(
            "no recorded attempt succeeded",
            got=f"{sum(map(len, found.groups))} attempts in {found.path}",
            expected="at least one",
            where="--recorded",
            do="--which all learns from all of them",
        )
    return replace(found, groups=groups)


def _succeeded(episode: Episode) -> bool:
    return episode.total_reward > 0 if episode.success is None else episode.success


def tuned(
    run: LanguageRun, found: Source, *, resume: bool, keep: Callable[[Task], bool] = lambda _: True
) -> tuple[Tuning, dict[str, int]]:
    """The examples in the tokens of the run's model, in two parts, and counts of what was left out, for the summary.

    ``keep`` says which training tasks of an environment are examples.

    Raises:
        BadInput: they are others than those that the run began with, none fits, or tokens of another model.
    """
    config: Any = run.config
    if found.path is not None:
        _check_same(run.folder, found.path, resume=resume)
    if found.recorded is not None:
        groups = read_groups(found.recorded, run.model)
        parts, counts = _split_groups(groups, config.heldout), {}
    elif found.rows:
        halves = split_rows(found.rows, config.heldout)
        longest = min(config.max_length or run.model.context, run.model.context)
        stop = run.env.stop if run.heldout and run.env.reset(run.heldout[0], 0).admissible is None else ()
        chat = config.plan.style == "chat"
        fits = [fitted(half, run.model, chat=chat, stop=stop, longest=longest) for half in halves if half]
        parts = [*(one.episodes for one in fits), []][:2]
        counts = {
            "answers_left_out": sum(one.answers_left_out for one in fits),
            "rows_cut": sum(one.rows_cut for one in fits),
        }
        if counts["answers_left_out"]:
            run.live.note(
                f"! {count(counts['answers_left_out'], 'answer')} of {count(counts['rows_cut'], 'row')} left out: "
                f"longer than {longest} tokens with what stands before (--max-length)"
            )
    else:
        tasks = [one for one in distinct(some_tasks(run.env, "train", config.tasks, config.seed)) if keep(one)]
        parts, counts = [answered(run, tasks), answered(run, run.heldout)], {}
    sizes = [sum(e.n_tokens for e in part) for part in parts]
    run.live.note(
        f"{count(len(parts[0]), 'example')} to learn from, {sizes[0]:,} tokens of answers; "
        f"{count(len(parts[1]), 'example')} held out"
    )
    return Tuning(run, *parts), counts


def answered(run: LanguageRun, tasks: Sequence[Task], env: Env | None = None) -> list[Episode]:
    """What the environment's reviewer says to each task, or the answer that it holds, as attempts in the prompts of the
    run; tasks without one are left out, and those that do not fit the context.

    Args:
        run: whose prompts and tokens these are.
        tasks: of ``env``.
        env: the run's own by default.

    Raises:
        BadInput: nobody says anything, or a task is not over with one answer.
        EnvError: none fits.
    """
    env = env or run.env
    told = [(task, body) for task in tasks if (body := _told(env, task))]
    if tasks and not told:
        raise BadInput(
            "this environment tells no answers",
            got=run.config.env,
            expected="review(), or an answer in Task.meta",
            where="--env",
            do="give --data or --recorded",
        )
    by, out, broken = run.attempt_settings.renderer, list[Episode](), list[EnvError]()
    end = ending(run.model, [body for _, body in told], env.stop)("")
    for task, body in told:
        asks = run.attempt(env, task, task.seed, task.id, learns=False)
        try:
            request = next(asks)
        except EnvError as error:
            broken.append(error)
            continue
        ids = np.asarray(by.command(body))
        choice = next((i for i, one in enumerate(request.choices) if np.array_equal(one, ids)), -1)
        said = ids if choice >= 0 else np.concatenate([ids, end])
        try:
            asks.send(Completion(body, said.astype(np.int32), np.zeros(0, np.float32), choice=choice))
        except StopIteration as done:
            out.append(done.value)
            continue
        expected = "a world of one answer"
        raise BadInput("a task goes on after its answer", got=run.config.env, expected=expected, where="--env")
    if broken:
        if not out:
            raise broken[0]
        run.live.note(f"! {len(broken)} of {count(len(told), 'example')} left out: {broken[0]}")
    return out


def _told(env: Env, task: Task) -> str:
    """The answer to a task; "" where nobody tells it."""
    said = env.review(task, task.seed)
    known = task.meta.get("answer") if said is None else said.body
    return known if isinstance(known, str) else ""


def measured(run: LanguageRun, episodes: Sequence[Episode]) -> dict[str, Any]:
    """Mean cross-entropy of the decisions' tokens, nats, with a 95 % interval over examples by bootstrap."""
    batch = training_batch(imitated(episodes), run.config, "policy", level="step", unit="token", fresh=0)
    logp, _ = batch.looked_up(run.logprobs("policy"), run.config.plan.micro_tokens)
    loss_K, of = -logp.double().numpy(), batch.units.trajectory.tolist()
    low, high = clustered_bootstrap(loss_K, of)
    n = len(set(of))
    return {"value": float(loss_K.mean()), "ci95": [low, high], "n": n, "tasks": n, "tokens": len(loss_K)}


def lr_factor(update: int, total: int, warmup: float, schedule: Schedule) -> float:
    """Share of the learning rate in an update, 0-based: up in a line over the share ``warmup`` of all, then down.

    As transformers' schedules, one step ahead: the first update is not one of rate 0.
    """
    rising = math.ceil(total * warmup)
    if update < rising:
        return (update + 1) / rising
    done = (update - rising) / max(total - rising, 1)
    return {"cosine": 0.5 * (1.0 + math.cos(math.pi * done)), "linear": 1.0 - done, "constant": 1.0}[schedule]


def _split_groups(groups: Sequence[Sequence[Episode]], share: float) -> list[list[Episode]]:
    """Recorded attempts in two parts; those at one task are on one side."""
    tasks = sorted({group[0].task_id for group in groups})
    n = min(max(round(share * len(tasks)), 1), len(tasks) - 1) if share > 0 else 0
    apart = {tasks[i] for i in rng(0, "heldout").permutation(len(tasks))[:n].tolist()}
    return [[e for group in groups for e in group if (e.task_id in apart) == side] for side in (False, True)]


def _check_same(folder: RunFolder, path: Path, *, resume: bool) -> None:
    """Note the file's checksum in ``data.json``; a resumed run goes on with the same rows."""
    note, digest = folder.path / "data.json", hashlib.sha256(path.read_bytes()).hexdigest()
    if resume and note.is_file():
        before = read_object(note, "the rows of the run")
        if before["sha256"] != digest:
            raise BadInput(
                "the rows have changed since the run began",
                got=f"{path}, SHA-256 {digest[:12]}",
                expected=before["sha256"][:12],
                where="--resume",
                do="put the file back as it was, or start a new run",
            )
    elif not resume:
        write_atomic(note, dump({"file": str(path), "sha256": digest}, indent=1) + "\n")
