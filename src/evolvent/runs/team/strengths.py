"""The grid of ``evolvent eval RUN --env "disrupt:[ENV]" --strengths 0,0.05,0.1``: every source at every strength."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.envs.team._disturbance import read
from evolvent.envs.team.disrupt import SOURCES
from evolvent.evaluate import strengths as grids
from evolvent.evaluate.live import Live, interval
from evolvent.runs.team.evaluation import play_copies

if TYPE_CHECKING:
    from evolvent.envs.team.disrupt import Attack
    from evolvent.learn.team.player import TeamPlayer

_NOISE = {"obs": "gaussian", "reward": "gaussian", "action": "gaussian", "dynamics": "mass:gaussian"}


class Cell(NamedTuple):
    """One source at one strength; ``how`` is its mode, ``env`` the environment."""

    source: str
    how: str
    strength: float
    env: str


def cells(spec: str, said: str, live: Live) -> list[Cell]:
    """The cells of an environment ``disrupt:[…]``, a source's modes (with commas) one after the other.

    Without a source all that apply are measured with Gaussian noise; choices are replaced, dynamics change masses.

    Raises:
        BadInput: another environment, or strengths that are no numbers, below 0 or fewer than two.
    """
    where = "--env"
    found = envs.find(spec, where)
    if not found.module.__name__.endswith("team.disrupt"):
        do = f'--env "disrupt:[{spec}]"'
        raise BadInput("strengths of what?", got=spec, expected="an environment disrupt:[…]", where=where, do=do)
    given, at = found.given(where), _numbers(said)
    variant = given.pop("variant")
    modes = {source: given.pop(source) for source in SOURCES if given.get(source)} or _applying(variant, live)
    rest = "".join(f",{name}={value}" for name, value in given.items())
    out: list[Cell] = []
    for source, text in modes.items():
        for one in (read(source, part, where) for part in text.split(",")):
            how = str(dataclasses.replace(one, strength=math.nan))
            for s in at:
                out.append(
                    Cell(source, how, s, f"disrupt:[{variant}],{source}={dataclasses.replace(one, strength=s)}{rest}")
                )
    return out


def measured(
    player: TeamPlayer, config: Any, grid: Sequence[Cell], live: Live, attack: Attack | None
) -> dict[str, Any]:
    """Play every cell greedily with the same starts: rows by source for ``evaluate.strengths``."""
    rows, at = list[dict[str, Any]](), sorted({cell.strength for cell in grid})
    undisturbed: list[float] = []
    for source, how in dict.fromkeys((cell.source, cell.how) for cell in grid):
        returns: list[list[float]] = []
        for cell in (one for one in grid if (one.source, one.how) == (source, how)):
            live.status(f"{source} {how} at {cell.strength:g}: {config.plan.eval_episodes} attempts")
            if cell.strength or not undisturbed:
                found = play_copies(player, "greedy", config, cell.env, live, attack=attack)["return"].tolist()
                undisturbed = undisturbed if cell.strength else found
            returns.append(found if cell.strength else undisturbed)
        rows.append(grids.row(source, how, at, returns))
    shown = [[f"{row['source']}: {row['how']}", *map(_told, row["cells"])] for row in rows]
    live.table("return by source and strength", ["source", *(f"{s:g}" for s in at)], shown)
    return {"n": rows[0]["cells"][0]["n"], "strengths": at, "rows": rows}


def _told(cell: dict[str, Any]) -> str:
    return interval(cell["iqm"], cell["ci95"], rate=False)


def _numbers(said: str) -> list[float]:
    try:
        at = sorted({float(one) for one in said.split(",")})
    except ValueError:
        at = []
    if len(at) < 2 or not (at[0] >= 0 and math.isfinite(at[-1])):
        expected = "two or more numbers of at least 0: 0,0.05,0.1"
        raise BadInput("strengths", got=said, expected=expected, where="--strengths")
    return at


def _applying(variant: str, live: Live) -> dict[str, str]:
    """All sources that an environment can have, with the usual noise."""
    modes = dict(_NOISE)
    with closing(envs.load_team(variant, 1)) as env:
        modes["action"] = "gaussian" if env.team.dims else "uniform"
    try:
        envs.load_team(f"disrupt:[{variant}],dynamics=mass:gaussian:0", 1).close()
    except BadInput as error:
        live.note(f"dynamics are left out: {error.what}")
        del modes["dynamics"]
    return modes
