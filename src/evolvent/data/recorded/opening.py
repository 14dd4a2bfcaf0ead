"""``open_recorded``: a folder of `evolvent data make`, a team run's stored rollouts, or an npz of your own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.core.team import TeamSpec
from evolvent.data.recorded import episodes, flat, pieces
from evolvent.data.recorded.episodes import Recorded
from evolvent.data.recorded.named import named


def open_recorded(path: str | Path, env: str = "") -> Recorded:
    """Read recorded attempts, checked.

    Args:
        path: a folder of `evolvent data make` or ``Recorded.save``; a run folder of a team; an .npz with flat columns
            (``data.recorded.flat``); or a name, ``bandit:p=0.1`` (``data.recorded.named``).
        env: the environment; needed for an .npz, which does not name one. Where it is given, the data must be of it.

    Raises:
        BadInput: nothing of this kind there, damaged, or of another environment.
    """
    team = team_of(env) if env else None
    made, path = named(str(path)), Path(path).expanduser()
    if made is not None:
        data = made
    elif path.suffix == ".npz" and path.is_file():
        if team is None:
            raise BadInput("a file that names no environment", got=str(path), expected="--env NAME", where="--data")
        data = flat.read(path, env, team)
    elif (path / episodes.NAME).is_file():
        data = episodes.read_folder(path)
    elif (path / "config.json").is_file():
        data = pieces.stitched(path, team_of)
    else:
        raise BadInput(
            "no recorded data",
            got=str(path),
            expected=f"a folder with {episodes.NAME}, the run folder of a team, or an .npz",
            where="--data",
            do="evolvent data make --env gymnasium:Hopper-v5 --quality medium --out DIR",
        )
    if team is not None:
        episodes.check_fits(data, env, team)
    return data


def team_of(env: str) -> TeamSpec:
    """The shape of the team of an environment, of which one copy is opened for it."""
    with closing(envs.load_team(env, 1)) as one:
        return one.team
