"""``evolvent eval`` for language models: what a run learned, frozen, on held-out tasks of its own or another world."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evolvent.core.config import from_json
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live, count, interval, judged_on, percent
from evolvent.play.settings import AttemptSettings
from evolvent.runs.language.calling import show_shares
from evolvent.runs.language.config import LanguageConfig
from evolvent.runs.language.evaluation import random_play
from evolvent.runs.language.run import open_language
from evolvent.runs.language.start import Needs
from evolvent.runs.language.tasks import repeated
from evolvent.runs.language.tuning import examples_of, measured, tuned
from evolvent.runs.language.weights import Weights


def evaluate_language(
    kind: type[LanguageConfig],
    folder: RunFolder,
    live: Live,
    episodes: int | None = None,
    *,
    env: str = "",
    attempts: int = 0,
    adapters: Sequence[str] = ("policy",),
    settings: Callable[[AttemptSettings], AttemptSettings] = lambda settings: settings,
) -> dict[str, Any]:
    """Attempt held-out tasks with the newest checkpoint: greedily, sampled, and at random beside it.

    By default at as many tasks as in the run's own evaluations, of its own environment. ``attempts`` sampled ones at
    each, where it is not 0, for avg@k and pass@k. ``settings`` says how attempts go, given how those of one agent do;
    ``adapters`` as for ``open_language``. Nothing in the folder changes.

    Returns:
        The content of ``eval.json``.

    Raises:
        BadInput: no checkpoint yet.
        ModelError: a damaged checkpoint, or one of another model.
    """
    from evolvent.learn import checkpoint

    trained = from_json(kind, folder.config)
    newest = checkpoint.latest(folder.path / "checkpoints")
    if newest is None:
        raise BadInput(
            "the run has no checkpoint",
            got=str(folder.path),
            expected="a run that has finished an update",
            where="checkpoints/",
        )
    if not (env or trained.env):
        return _examples(trained, folder, live, newest)
    plan = dataclasses.replace(trained.plan, eval_tasks=episodes or trained.plan.eval_tasks)
    config = dataclasses.replace(trained, env=env or trained.env, plan=plan)
    with (
        tempfile.TemporaryDirectory() as aside,
        open_language(config, folder, live, adapters=adapters, needs=Needs(training=False)) as run,
    ):
        parts: dict[str, Any] = {f"weights.{name}": Weights(run.model, name) for name in adapters}
        if run.memory is not None:
            run.memory.aside(Path(aside))
            parts["memory"] = run.memory
        state = checkpoint.load(newest, parts)
        run.attempt_settings = settings(run.attempt_settings)
        live.status(f"attempting {count(len(run.heldout), 'held-out task')} of {config.env}")
        played = {"greedy": run.attempt_heldout("greedy"), "sampled": run.attempt_heldout("sampled", attempts)}
        tasks = repeated(run.heldout, plan.eval_tasks)
        chance = random_play(run.copies.spec, tasks, config.seed, run.attempt_settings.world)
    _show({**played, "random actions": chance}, f"{config.env}, weights frozen after update {state['update']}", live)
    return {
        "algo": folder.manifest()["algo"],
        "env": config.env,
        "trained_on": trained.env,
        "model": config.model,
        "seed": config.seed,
        "update": state["update"],
        "n": played["greedy"]["n"],
        "tasks": played["greedy"]["tasks"],
        **played,
        "random": chance,
    }


def _examples(config: LanguageConfig, folder: RunFolder, live: Live, newest: Path) -> dict[str, Any]:
    """The loss on the examples that the run held out, where it has no environment."""
    from evolvent.learn import checkpoint

    with open_language(config, folder, live, needs=Needs(training=False)) as run:
        state = checkpoint.load(newest, {"weights.policy": Weights(run.model, "policy")})
        heldout = tuned(run, examples_of(config), resume=True)[0].heldout
        if not heldout:
            do = "attempt an environment: --env ENV"
            raise BadInput("the run held nothing out", got="--heldout 0", expected="> 0", where=str(folder.path), do=do)
        loss = measured(run, heldout)
    low, high = loss["ci95"]
    live.note(f"held-out loss {loss['value']:.4g} [{low:.4g}, {high:.4g}], {count(loss['n'], 'example')}")
    facts = {"algo": folder.manifest()["algo"], "env": "", "model": config.model, "seed": config.seed}
    return {**facts, "update": state["update"], "n": loss["n"], "tasks": loss["tasks"], "heldout_loss": loss}


def _show(results: Mapping[str, Mapping[str, Any]], title: str, live: Live) -> None:
    rows = [
        [
            how,
            interval(result["value"], result["ci95"], rate=False),
            percent(result["success_mean"]),
            result["length_mean"],
            judged_on(result),
        ]
        for how, result in results.items()
    ]
    live.table(title, ["actions", "return [95 %]", "success", "turns", "judged on"], rows)
    if called := results["greedy"].get("called"):
        show_shares(live, called)
    passed: Mapping[str, Any] = results["sampled"].get("pass_at", {})
    if passed:
        k = results["sampled"]["attempts"]
        names = [f"avg@{k} = pass@1" if n == "1" else f"pass@{n}" for n in passed]
        rates = [interval(one["value"], one["ci95"]) for one in passed.values()]
        rows = [list(row) for row in zip(names, rates, strict=True)]
        live.table(f"{k} sampled attempts at each task", ["", "success [95 %]"], rows)
