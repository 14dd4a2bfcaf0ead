"""Searches for a source: played alike by learners and planners, counted, filmed; and the page of such a run.

The score is the share of attempts that stopped and were right. What is paid in the world (``envs.team.ste``) is no
score: whoever is paid for being sure may be sure of the wrong place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.seeding import seed_tree
from evolvent.core.team import Frame, TeamEnv
from evolvent.envs.runners.checked import Checked
from evolvent.envs.team._belief import systematic
from evolvent.envs.team.ste import MEASURES, SourceSearch
from evolvent.evaluate.blocks import Block, Comparison, Headline, Number, Outcomes, Page, Table
from evolvent.evaluate.blocks import Frame as Film
from evolvent.evaluate.live import Live
from evolvent.formulas import plume
from evolvent.formulas.statistics import wilson
from evolvent.runs.account.updates import section
from evolvent.runs.team import kind
from evolvent.runs.team.account import account as of_team

if TYPE_CHECKING:
    from evolvent.learn.team.player import Act, TeamPlayer

FILM, _TEMPLATE = "search.html", Path(__file__).with_suffix(".html")
COPIES, SHOWN, GRID = 32, 120, 48
RANDOM = "random moves"
COLUMNS = ("searches", "n", "found", "stopped wrongly", "steps, mean", "way, mean", "error, median")
_READING = (
    "An attempt succeeds where the belief was sure and its estimate is within 2 units of the source; it stopped "
    "wrongly where it was sure and further away. Rates have Wilson's 95 % interval. Runs with one seed make the same "
    "searches."
)


def searching(env: TeamEnv) -> SourceSearch:
    """The searches inside an environment that ``envs.load_team`` gave.

    Raises:
        BadInput: another environment.
    """
    inner = env.env if isinstance(env, Checked) else env
    if not isinstance(inner, SourceSearch):
        raise BadInput("no search for a source", got=env.name, expected="ste:wide, ste:released, …", where="--env")
    return inner


def player_of(env: TeamEnv, act: Act) -> TeamPlayer:
    """Who acts so, in these searches."""
    import torch

    from evolvent.learn.team.player import TeamPlayer
    from evolvent.learn.team.views import Views

    return TeamPlayer(Views(env.team, ids=False, device=torch.device("cpu")), act)


def judged(
    config: Any,
    player: Callable[[TeamEnv], TeamPlayer],
    live: Live,
    episodes: int,
    folder: RunFolder | None = None,
) -> dict[str, dict[str, list[float]]]:
    """Measures of at least so many attempts, greedily and, beside them, with random moves; a film of one in ``folder``.

    The attempts follow from ``config.seed``: the k-th of a copy meets the same, whoever plays it.

    Returns:
        By who plays, ``steps`` and the ``MEASURES`` of each attempt, by copy and number.
    """
    from evolvent.runs.team.evaluation import random_act

    found: dict[str, dict[str, list[float]]] = {}
    for how, of in (("greedy", player), ("random", lambda env: player_of(env, random_act(env.team)))):
        live.status(f"{episodes} searches, {how}")
        with closing(envs.load_team(config.env, min(episodes, COPIES))) as env:
            searching(env)
            found[how] = played(of(env), env, episodes, config.seed)
    if folder is not None:
        with closing(envs.load_team(config.env, 1)) as env:
            write_atomic(folder.path / FILM, film(player(env), env, config.seed))
    return found


def played(player: TeamPlayer, env: TeamEnv, episodes: int, seed: int) -> dict[str, list[float]]:
    """Measures of at least so many attempts, played greedily: ``steps`` and the ``MEASURES``, by copy and number."""
    rows: dict[tuple[int, int], dict[str, float]] = {}
    each, age, done = -(-episodes // env.n_envs), np.zeros(env.n_envs, int), np.zeros(env.n_envs, int)

    def watch(frame: Frame) -> None:
        nonlocal age
        age += 1
        for b in np.flatnonzero(frame.done_B & (done < each)):
            rows[int(b), int(done[b])] = {
                "steps": int(age[b]),
                **{name: float(frame.info[name][b]) for name in MEASURES},
            }
        done[frame.done_B] += 1
        age[frame.done_B] = 0

    player.play(
        env, episodes=episodes, greedy=True, generator=_generator(seed), seed=seed_tree(seed, "eval"), watch=[watch]
    )
    return {name: [rows[key][name] for key in sorted(rows)] for name in ("steps", *MEASURES)}


def _generator(seed: int) -> Any:
    import torch

    return torch.Generator().manual_seed(seed_tree(seed, "eval", "greedy"))


def summary_of(algo: str, config: Any, played: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """What stands in ``summary.json``: success with its interval, and the measures of every attempt."""

    def score(how: str, name: str) -> dict[str, Any]:
        won = played[how]["success"]
        low, high = wilson(sum(won), len(won))
        return {"name": name, "value": sum(won) / len(won), "ci95": [low, high], "n": len(won)}

    return {
        "algo": algo,
        "env": config.env,
        "seed": config.seed,
        "score": {**score("greedy", "found the source"), "higher_is_better": True},
        "baseline": score("random", RANDOM),
        "searches": {how: dict(columns) for how, columns in played.items()},
    }


# ------------------------------------------------------------------------------------------------ the page
def account(folder: RunFolder) -> Page:
    """The page of a team's run, headed by what its searches came to."""
    page = of_team(folder)
    searches = folder.summary().get("searches") if folder.finished else None
    if not searches:
        return page
    own, other = (searches[how] for how in ("greedy", "random"))
    names = [f"search {i}" for i in range(len(own["success"]))]
    score = _rate("found the source", own["success"])
    body: list[Block] = [
        Headline((score, _rate("stopped wrongly", own["wrong_stop"]), _rate(RANDOM, other["success"])))
    ]
    pairs = tuple((name, int(a), int(b)) for name, a, b in zip(names, own["success"], other["success"], strict=True))
    body += [Comparison(RANDOM, pairs=pairs, thing="attempt")]
    body += [Outcomes(tuple((name, int(won), "") for name, won, _ in pairs), thing="attempt")]
    if (folder.path / FILM).exists():
        film = Film(
            FILM, "a search", "step by step: the plume, the belief, the way, the moment of stopping.", tall=True
        )
        body += section("A search", [film])
    body += section("All searches", [Table(COLUMNS, table_of(searches), said=True)])
    body += [block for block in page.blocks if not isinstance(block, Headline | Comparison)]
    page = replace(page, blocks=tuple(body), score=score, reading=_READING)
    manifest = folder.manifest()
    if "planner" not in manifest["config"]:
        return page
    facts = (f"seed {manifest['seed']}", f"{len(names)} searches", "nothing is trained")
    return replace(page, title=f"{manifest['config']['planner']} on {manifest['env']}", facts=facts, steps=None)


def _rate(name: str, won: Sequence[float]) -> Number:
    return Number(name, sum(won) / len(won), wilson(sum(won), len(won)), rate=True, n=len(won), over="searches")


def table_of(searches: Mapping[str, Mapping[str, Sequence[float]]]) -> tuple[tuple[Any, ...], ...]:
    """Rows under ``COLUMNS``."""
    return tuple((name, *_row(searches[how])) for name, how in (("this run", "greedy"), (RANDOM, "random")))


def _row(one: Mapping[str, Sequence[float]]) -> tuple[Any, ...]:
    shares = [f"{100 * float(np.mean(one[name])):.0f} %" for name in ("success", "wrong_stop")]
    steps, way = (round(float(np.mean(one[name])), 1) for name in ("steps", "distance"))
    return len(one["steps"]), *shares, steps, way, round(float(np.median(one["error"])), 2)


KIND = replace(kind.KIND, account=account, choices=())


# ------------------------------------------------------------------------------------------------ the film
def film(player: TeamPlayer, env: TeamEnv, seed: int) -> str:
    """A page that plays one attempt in copy 0: greedily, from a start that follows from ``seed``, until it is sure."""
    world, generator = searching(env), _generator(seed)
    world.options = replace(world.options, stops=False)  # what it saw when it stopped is to be shown
    box, frame = world.options.box, env.reset(seed_tree(seed, "film"))
    axis, source = (np.arange(GRID) + 0.5) * box / GRID, world.source_B8[0].copy()
    places = np.stack([*np.meshgrid(axis, axis), np.zeros((GRID, GRID))], axis=2)
    there = plume.concentration(places, source[:, None])[..., 0] / world.options.threshold
    shown, sure = [_seen(world)], False
    while not sure:
        frame = env.step(player.act(frame, greedy=True, generator=generator))
        if frame.done_B[0]:  # the time is up, and the next attempt has begun
            break
        sure = bool(world.sure()[0])
        shown.append(_seen(world))
    data = {
        "box": box,
        "grid": np.minimum(np.log1p(there) / 4 * 99, 99).astype(int).tolist(),
        "source": source[:2].round(2).tolist(),
        "sure": sure,
        "steps": shown,
    }
    return _TEMPLATE.read_text("utf-8").replace('"FILM"', dump(data).replace("<", "\\u003c"))


def _seen(world: SourceSearch) -> dict[str, Any]:
    belief = world.belief
    drawn = systematic(belief.weight_BN[0], 0.5)[:: max(1, belief.weight_BN.shape[1] // SHOWN)]
    mean, spread = belief.mean()[0], float(np.sqrt(belief.cov()[0, :2].sum()))
    return {
        "at": world.at_B3[0, :2].round(2).tolist(),
        "read": float(f"{world.reading_B[0]:.3g}"),
        "mean": mean.astype(float).round(2).tolist(),
        "spread": round(spread, 2),
        "dots": belief.theta_B8N[0, :2, drawn].astype(float).round(1).ravel().tolist(),
    }
