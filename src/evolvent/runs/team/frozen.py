"""``evolvent eval`` for teams: what a run learned, played frozen, on its own environment or on another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from evolvent import envs
from evolvent.core.config import from_json
from evolvent.core.folder import RunFolder
from evolvent.core.seeding import seed_tree
from evolvent.core.team import TeamSpec
from evolvent.evaluate.live import Live, interval
from evolvent.runs.sources import pinned

if TYPE_CHECKING:
    from evolvent.envs.team.disrupt import Attack
    from evolvent.learn.team.player import Act, TeamPlayer
    from evolvent.learn.team.views import Views

    Build = Callable[[Any, Views], tuple[Act, Mapping[str, Any]]]
    """(configuration, views of the team) → how it acts, and the parts of the checkpoint that this needs, by name."""
    Arms = Callable[[Any, Views], tuple[Attack, Mapping[str, Any]]]
    """The same → an adversary, and the parts that this needs."""


def evaluate_team(
    kind: type[Any],
    build: Build,
    folder: RunFolder,
    live: Live,
    episodes: int | None = None,
    *,
    env: str = "",
    strengths: str = "",
    attack: Arms | None = None,
) -> dict[str, Any]:
    """Play the newest checkpoint frozen: greedily, with sampled actions, and the baselines beside it.

    ``kind`` are the system's settings: ``EnvConfig``, or another with ``env``, ``seed``, ``ids`` and a plan for
    evaluations; ``build`` makes the networks. By default as many attempts as the run's own evaluations, in its own
    environment; ``env`` may be another, e.g. a larger team. Nothing in the folder changes.

    With ``strengths``, numbers with commas, ``env`` is ``disrupt:[…]`` and every source that it disturbs is measured at
    each of them (``runs.team.strengths``). ``attack`` makes the adversary that knows the networks, where the system
    has one.

    Returns:
        The content of ``eval.json``.

    Raises:
        BadInput: no checkpoint yet, or strengths that cannot be measured.
        ModelError: the weights do not fit the team of ``env``.
    """
    from evolvent.learn.team.player import TeamPlayer
    from evolvent.runs.team.checks import check_settings
    from evolvent.runs.team.evaluation import BASELINES, baselines, play_copies, summarise
    from evolvent.runs.team.run import on_device
    from evolvent.runs.team.strengths import cells, measured

    trained = from_json(kind, folder.config)
    count = trained.plan.eval_episodes if episodes is None else episodes
    plan = dataclasses.replace(trained.plan, eval_episodes=count)
    config = dataclasses.replace(trained, env=env or trained.env, plan=plan)
    check_settings(config)
    grid = cells(config.env, strengths, live) if strengths else []
    spec = pinned(folder, grid[0].env if grid else config.env)
    with on_device(config):
        team = team_of(spec, plan.step_s)
        views, act, state = _restored(config, build, folder, team)
        enemy = _armed(config, attack, folder, views) if attack else None
        about = {"algo": folder.manifest()["algo"], "env": config.env, "trained_on": trained.env, "seed": config.seed}
        about["update"] = state["update"]
        if grid:
            return about | measured(TeamPlayer(views, act), config, grid, live, enemy)
        live.status(f"playing {count} attempts of {config.env}, weights of update {state['update']}")

        def played_by(act: Act, how: str) -> dict[str, Any]:
            return summarise(play_copies(TeamPlayer(views, act), how, config, spec, live, attack=enemy))

        beside = {how: played_by(baseline, how) for how, baseline in baselines(team).items()}
        played = {how: played_by(act, how) for how in ("greedy", "sampled")}
    rows = [[BASELINES.get(how, how), *_cells(result)] for how, result in {**played, **beside}.items()]
    live.table(
        f"{config.env}, weights frozen after update {state['update']}",
        ["actions", "return [95 %]", "success", "length", "attempts"],
        rows,
    )
    return {**about, "n": played["greedy"]["n"], **played, **beside, "agents": list(team.agents)}


def policy_of(kind: type[Any], build: Build, folder: RunFolder, *, env: str = "") -> TeamPlayer:
    """What a run learned, as a player: ``act(frame, greedy=…, generator=…)`` and ``play(env, …)``.

    Arguments and errors as ``evaluate_team``; torch's own random stream stays where it is.
    """
    import torch

    from evolvent.learn.team.player import TeamPlayer

    trained = from_json(kind, folder.config)
    config = dataclasses.replace(trained, env=env or trained.env)
    with torch.random.fork_rng(devices=[]):
        views, act, _ = _restored(config, build, folder, team_of(pinned(folder, config.env), config.plan.step_s))
    return TeamPlayer(views, act)


def _restored(config: Any, build: Build, folder: RunFolder, team: TeamSpec) -> tuple[Views, Act, dict[str, Any]]:
    """What a team is shown, how it acts with the weights of the newest checkpoint, and that one's plain data."""
    import torch

    from evolvent.learn.team.views import Views
    from evolvent.runs.shell import device
    from evolvent.runs.team.observed import adopt
    from evolvent.runs.team.weights import load_parts

    torch.manual_seed(seed_tree(config.seed, "weights"))
    views = Views(team, ids=config.ids, device=device(config.plan.device))
    act, parts = build(config, views)
    parts = {**parts, **adopt(views, folder.path)}
    return views, act, load_parts(folder.path, parts, folder.manifest()["env"], config.env)


def _armed(config: Any, attack: Arms, folder: RunFolder, views: Views) -> Attack:
    """The adversary that knows the networks of the newest checkpoint."""
    from evolvent.runs.team.weights import load_parts

    enemy, parts = attack(config, views)
    load_parts(folder.path, parts, folder.manifest()["env"], config.env)
    return enemy


def team_of(spec: str, step_s: float = 0.0) -> TeamSpec:
    """The shape of the team of an environment, of which one copy is opened for it."""
    with closing(envs.load_team(spec, 1, step_s=step_s)) as env:
        return env.team


def _cells(result: Mapping[str, Any]) -> list[object]:
    success = result.get("success_mean")
    said = None if success is None else f"{100 * success:.0f} %"
    return [interval(result["value"], result["ci95"], rate=False), said, result.get("length_mean"), result["n"]]
