"""`evolvent data make|inspect|convert`: recorded attempts to learn from without an environment."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from evolvent import catalogue, running
from evolvent.core import config as configs
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.seeding import seed_tree
from evolvent.evaluate.live import Live, count, number
from evolvent.running import Where

Quality = Literal["random", "medium", "medium-replay", "medium-expert", "expert"]
_PARTS = {"medium-expert": ("medium", "expert")}


def make(
    *,
    env: str,
    quality: Quality,
    out: Path,
    steps: int = 100_000,
    by: Annotated[Path | None, arg(name="from")] = None,
    train_steps: int = 1_000_000,
    seed: int = 0,
    plain: bool = False,
) -> None:
    """Record attempts of random play or of a policy that learned, and measure both ends of their scale.

    medium is a policy a third of the way from random play to the best that it came to; medium-replay all attempts until
    there; medium-expert half of both; expert the end. Who acts is `ppo`, or `mappo` for a team, trained first into
    OUT/behaviour; the same command goes on where it was stopped.

    Example: evolvent data make --env gymnasium:Hopper-v5 --quality medium-replay --out data/hopper

    Args:
        env: environment with its options.
        quality: of the attempts.
        out: folder for the data.
        steps: steps to record; of medium-replay there are as many as were learned from.
        by: run folder of a team whose policy acts, or a folder that this command made, in place of training.
        train_steps: environment steps of the training.
        seed: of the training and of what is played; runs that are judged take other environments.
        plain: plain text output even on a terminal.
    """
    from evolvent.data.recorded import episodes
    from evolvent.data.recorded.opening import team_of

    if (out / episodes.NAME).exists():
        do = "another --out, or remove the file"
        raise BadInput(
            "there are recorded attempts already", got=str(out), expected="a new folder", where="--out", do=do
        )
    configs.at_least(_Sizes(steps, train_steps), {"steps": 1, "train_steps": 1})
    with Live(plain=True if plain else None) as live:
        learned = None if quality == "random" and by is None else _learned(env, out, by, train_steps, seed, live)
        data = episodes.Recorded(env, team_of(env), **_made(env, quality, out, learned, steps, seed, live))
        if not data.scale:  # of random play alone
            data = dataclasses.replace(data, scale={"random": float(data.returns_E.mean())})
        data.save(out)
        _tell(data, None, live)
        quoted = shlex.join(["--data", str(out), "--env", env])
        live.note(f"next: evolvent data inspect {shlex.quote(str(out))}\n      evolvent run bc {quoted}")


def inspect(
    data: Annotated[Path, Positional], *, env: str = "", reference: Path | None = None, plain: bool = False
) -> None:
    """What recorded attempts hold: returns, lengths, ends, duplicates, how good and how wide they are, what to expect.

    Example: evolvent data inspect data/hopper

    Args:
        data: folder of `evolvent data make`, run folder of a team, or your own .npz.
        env: the environment, where the data do not name it.
        reference: attempts of a learner on its way (medium-replay), to measure the width against (SACo).
        plain: plain text output even on a terminal.
    """
    from evolvent.data.recorded.opening import open_recorded

    with Live(plain=True if plain else None) as live:
        other = None if reference is None else open_recorded(reference, env)
        _tell(open_recorded(data, env), other, live)


def convert(
    data: Annotated[Path | None, Positional] = None,
    *,
    minari: str = "",
    from_minari: str = "",
    env: str = "",
    out: Path | None = None,
    plain: bool = False,
) -> None:
    """Recorded attempts as a dataset of Minari, or from one; nothing is lost on the way.

    Example: evolvent data convert data/hopper --minari hopper/medium-v0

    Args:
        data: folder of `evolvent data make`, run folder of a team, or your own .npz.
        minari: name of the dataset to make, in Minari's own folder.
        from_minari: name of a dataset of Minari to read, with --out.
        env: the environment, where the data do not name it.
        out: folder for what is read.
        plain: plain text output even on a terminal.
    """
    from evolvent.data.recorded import minari as datasets
    from evolvent.data.recorded.opening import open_recorded

    if (
        bool(minari) == bool(from_minari)
        or bool(minari) != (data is not None)
        or bool(from_minari) != (out is not None)
    ):
        expected = "DIR --minari NAME, or --from-minari NAME --out DIR"
        raise BadInput("it goes one way at a time", expected=expected, where="evolvent data convert")
    with Live(plain=True if plain else None) as live:
        if data is not None:
            found = open_recorded(data, env)
            datasets.write(found, minari)
            live.note(f"{count(len(found.attempts), 'attempt')} → minari.load_dataset({minari!r})")
        elif out is not None:
            found = datasets.read(from_minari, env)
            found.save(out)
            live.note(f"{count(len(found.attempts), 'attempt')} of {found.env} → {out}")


# ------------------------------------------------------------------------------------------------------- making
@dataclasses.dataclass(frozen=True)
class _Sizes:
    steps: int
    train_steps: int


def _learned(env: str, out: Path, by: Path | None, train_steps: int, seed: int, live: Live) -> RunFolder:
    """The run whose end is the expert: the one that was named, or one that is trained, or gone on with, in ``out``."""
    from evolvent.data.recorded.opening import team_of

    if by is not None:
        inside = by / "behaviour" / "expert"
        found = RunFolder.open(inside if inside.exists() else by)
        if found.manifest()["env"] != env or not found.finished:
            got = f"{found.manifest()['env']}, {'ended' if found.finished else 'not ended'}"
            raise BadInput("not the run of a policy that can act here", got=got, expected=env, where=f"--from {by}")
        return found
    team = team_of(env)
    system = catalogue.system("ppo" if team.n_agents == 1 else "mappo")
    wanted: dict[str, Any] = {"env": env, "seed": seed, "steps": train_steps}
    wanted |= {"normalise_obs": "on"} if team.dims else {}
    config = configs.with_fields(system.settings(), **wanted)
    return _run(system, config, out / "behaviour" / "expert", live)


def _shorter(out: Path, by: Path | None, learned: RunFolder, live: Live) -> RunFolder:
    """The run that ends a third of the way: the beginning of ``learned`` once more, with all its attempts kept."""
    from evolvent.runs.offline.behaviour import a_third

    beside = learned.path.parent / "medium"
    if beside.parent.name == "behaviour" and (beside / "summary.json").exists():
        return RunFolder.open(beside)
    system, summary = catalogue.of_run(learned), learned.summary()
    config = configs.from_json(system.Config, learned.config)
    update = a_third(learned.read_metrics(), float(summary["baseline"]["value"]))
    each = int(summary["steps"]) // int(summary["updates"])
    live.note(f"a third of the way is reached after {update * each:,} steps, which are done once more")
    shorter = configs.with_fields(config, steps=update * each, keep_rollouts=0, eval_every=0)
    return _run(system, shorter, out / "behaviour" / "medium", live)


def _run(system: catalogue.System, config: Any, folder: Path, live: Live) -> RunFolder:
    where = Where(resume=folder) if (folder / "config.json").exists() else Where(out=folder)
    running.start(system, config, where, f"evolvent data make, who acts: {folder.name}", live)
    return RunFolder.open(folder)


def _made(
    env: str, quality: Quality, out: Path, learned: RunFolder | None, steps: int, seed: int, live: Live
) -> dict[str, Any]:
    """The fields of ``Recorded`` beside environment and team."""
    from evolvent.data.recorded import pieces
    from evolvent.data.recorded.opening import team_of
    from evolvent.runs.offline import behaviour

    scale: dict[str, float] = {}
    if learned is not None:
        summary = learned.summary()
        scale = {"random": float(summary["baseline"]["value"]), "expert": float(summary["score"]["value"])}
    if quality == "medium-replay":
        assert learned is not None
        found = pieces.stitched(_shorter(out, None, learned, live).path, team_of)
        said = {"attempts": found.attempts, "made_by": found.made_by, "seeds": found.seeds, "notes": found.notes}
        return {**said, "scale": scale}
    attempts, seeds, names = [], [], []
    parts = _PARTS.get(quality, (quality,))
    for part in parts:
        if part == "random" or learned is None:
            player, name = behaviour.random_player(env), "random actions"
        else:
            folder = learned if part == "expert" else _shorter(out, None, learned, live)
            found = catalogue.of_run(folder)
            player = found.module.policy(folder)
            name = f"{found.name} after {folder.summary()['steps']:,} steps, actions sampled"
        seeds.append(seed_tree(seed, "data", part))
        names.append(name)
        tell = live.advancing(f"recording {steps // len(parts):,} steps of {name}")
        attempts += behaviour.played(player, env, max(1, steps // len(parts)), seeds[-1], tell)
    return {"attempts": tuple(attempts), "made_by": "; ".join(names), "seeds": tuple(seeds), "scale": scale}


# ------------------------------------------------------------------------------------------------------- telling
def _tell(data: Any, reference: Any, live: Live) -> None:
    from evolvent.data.recorded.measures import advice, measure

    found = measure(data, reference)
    live.note(f"{data.env or 'an environment without a name'}, by {data.made_by or 'nobody named'}")
    columns = ("", "least", "25 %", "median", "75 %", "most")
    rows = [["return", *map(number, found.returns)], ["steps of an attempt", *map(number, found.lengths)]]
    live.table(f"{count(found.attempts, 'attempt')}, {found.steps:,} steps", columns, rows)
    measures: dict[str, Any] = {
        "mean return": number(found.mean),
        "ended by the rules": found.terminated,
        "cut off": found.truncated,
        "copies of others": found.duplicates,
        "unique (state, action), 100 bins": f"{found.unique:.1%}",
        "random play": _or(data.scale.get("random")),
        "expert": _or(data.scale.get("expert")),
        "TQ": _or(found.tq),
        "SACo": _or(found.saco),
    }
    live.table("what they are", ("", ""), list(measures.items()))
    for said in (*data.notes, *advice(data, found, data.team.limit)):
        live.note(f"! {said}")


def _or(value: float | None) -> str:
    return "not known" if value is None else number(value)
