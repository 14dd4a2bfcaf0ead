"""``evolvent eval`` for teams: what a run learned, played frozen, on its own environment or on another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from evolvent.core.config import from_json
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live, interval
from evolvent.runs.team.config import TeamConfig

if TYPE_CHECKING:
    from evolvent.runs.team.evaluation import Act
    from evolvent.runs.team.run import TeamRun

    Build = Callable[[Any, TeamRun], tuple[Act, Mapping[str, Any]]]
    """(configuration, run) → how the team acts, and the parts of the checkpoint that this needs, by name."""


def evaluate_team(
    kind: type[TeamConfig], build: Build, folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = ""
) -> dict[str, Any]:
    """Play the newest checkpoint frozen: greedily, with sampled actions, and the baselines beside it.

    Args:
        kind: the algorithm's ``Config``.
        build: makes the networks.
        folder: the run; nothing in it changes.
        live: where the result is shown.
        episodes: attempts; as many as the run's own evaluations by default.
        env: another environment than the run's, e.g. a larger team.

    Returns:
        The content of ``eval.json``.

    Raises:
        BadInput: no checkpoint yet.
        ModelError: the weights do not fit the team of ``env``.
    """
    from evolvent.runs.team.evaluation import BASELINES, baselines, summarise
    from evolvent.runs.team.observed import adopt
    from evolvent.runs.team.run import open_team
    from evolvent.runs.team.weights import load_parts

    trained = from_json(kind, folder.config)
    count = trained.plan.eval_episodes if episodes is None else episodes
    plan = dataclasses.replace(trained.plan, workers=0, eval_episodes=count, init="")
    # no update is made, so no attempt is cut short by a restart, however long it is there
    config = dataclasses.replace(trained, env=env or trained.env, envs=min(count, 32), steps=1, plan=plan)
    with open_team(config, folder, live) as run:
        act, parts = build(config, run)
        parts = {**parts, **adopt(run.steps, folder.path)}
        state = load_parts(folder.path, parts, trained.env, config.env)
        live.status(f"playing {count} attempts of {config.env}, weights of update {state['update']}")
        beside = {how: summarise(run.play(act_, how)) for how, act_ in baselines(run.env.team).items()}
        played = {how: summarise(run.play(act, how)) for how in ("greedy", "sampled")}
    rows = [[BASELINES.get(how, how), *_cells(result)] for how, result in {**played, **beside}.items()]
    live.table(
        f"{config.env}, weights frozen after update {state['update']}",
        ["actions", "return [95 %]", "success", "length", "attempts"],
        rows,
    )
    return {
        "algo": folder.manifest()["algo"],
        "env": config.env,
        "trained_on": trained.env,
        "seed": config.seed,
        "update": state["update"],
        "n": played["greedy"]["n"],
        **played,
        **beside,
        "agents": list(run.env.team.agents),
    }


def _cells(result: Mapping[str, Any]) -> list[object]:
    success = result.get("success_mean")
    said = None if success is None else f"{100 * success:.0f} %"
    return [interval(result["value"], result["ci95"], rate=False), said, result.get("length_mean"), result["n"]]
