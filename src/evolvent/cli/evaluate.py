"""`evolvent eval`, `evolvent compare`, `evolvent bench`: numbers about runs and about the machine."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional

from evolvent import catalogue, running
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import check_target, dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.core.words import parsed
from evolvent.evaluate.live import Live


def evaluate(
    folder: Annotated[Path, Positional], *, episodes: int | None = None, env: str = "", plain: bool = False
) -> None:
    """Evaluate a run on held-out tasks, without learning from them.

    Args:
        folder: run folder.
        episodes: number of held-out tasks, or of episodes of a team; default: as in the run.
        env: teams and language models that learned: evaluate on another environment, e.g. spread:n=5 for a team
            trained with 3, program:humaneval for a model; the result is written to eval-ENV.json in the run folder.
        plain: plain text output even on a terminal.
    """
    opened = RunFolder.open(folder)
    found = catalogue.of_run(opened)
    name, played = found.name, found.evaluate()
    if played is None:
        told = f"{folder}/summary.json and report.html have what it came to"
        told += f"; {found.kind.instead(opened)}" if found.kind.instead else ""
        raise BadInput("this algorithm cannot be evaluated apart from its run", got=name, where=str(folder), do=told)
    if episodes is not None and episodes < 1:
        raise BadInput("nothing to play", got=episodes, expected="at least 1", where="--episodes")
    options: dict[str, Any] = {"env": env} if env else {}
    if env and "env" not in inspect.signature(played).parameters:
        raise BadInput("this algorithm is evaluated on its own environment", got=f"--env {env}", where=name)
    with Live(plain=True if plain else None) as live, opened:
        with found.faults():
            result = played(opened, live, episodes, **options)
        if result is not None:
            other = re.sub(r"[^\w=.-]+", "-", env)[-100:] if env and env != opened.manifest()["env"] else ""
            path = folder / f"eval{other and '-'}{other}.json"
            write_atomic(path, dump(result, indent=2) + "\n")
            live.note(f"result: {path}")


def compare(folders: Annotated[tuple[Path, ...], Positional], *, html: Path | None = None, plain: bool = False) -> None:
    """Compare runs; the first folder is the reference. A folder of run folders is one arm with several seeds.

    Args:
        folders: run folders, or folders of run folders; HTML pages among them are ignored.
        html: also write a page with curves to this file.
        plain: plain text output even on a terminal.
    """
    with Live(plain=True if plain else None) as live:
        running.compare_folders(folders, html, live)


def bench(
    name: Annotated[str, Positional],
    *,
    seed: int = 0,
    sizes: tuple[int, ...] = (),
    device: str = "cpu",
    json: Path | None = None,
    plain: bool = False,
) -> None:
    """Measure, as ratios within one run, which can be compared across machines: speed, or what a recall finds.

    Args:
        name: benchmark; an unknown name lists the benchmarks.
        seed: random seed of the inputs.
        sizes: input sizes (number of memories, or of agents), for benchmarks with a choice; default: their own.
        device: torch device of the networks, for benchmarks with networks (marl): cpu, cuda.
        json: also write the result, with versions and machine, to this file.
        plain: plain text output even on a terminal.
    """
    check_target(json, "--json")
    module = catalogue.benchmark(name)
    accepted = inspect.signature(module.run).parameters
    if sizes and "sizes" not in accepted:
        raise BadInput("this benchmark has no sizes to choose", got=sizes, where=name, do="leave --sizes out")
    if device != "cpu" and "device" not in accepted:
        raise BadInput("this benchmark has no networks", got=f"--device {device}", where=name, do="leave --device out")
    options: dict[str, Any] = {"sizes": sizes} if sizes else {}
    if device != "cpu":
        options["device"] = device
    with Live(plain=True if plain else None) as live:
        live.status(f"measuring {name}")
        if "progress" in accepted:
            options["progress"] = live.status
        result = module.run(seed, **options)
        single = [[key, value] for key, value in result.items() if not isinstance(value, dict | list)]
        live.table(name, ["", "value"], single)
        for key, value in result.items():
            if isinstance(value, dict):
                live.table(key.replace("_", " "), ["", "value"], [[k, v] for k, v in value.items()])
        if json is not None:
            chosen = "".join(f" {size}" for size in sizes)
            command = f"evolvent bench {name} --seed {seed}" + (f" --sizes{chosen}" if sizes else "")
            command += f" --device {device}" if device != "cpu" else ""
            content = {"benchmark": name, "command": command, "result": result, **provenance()}
            write_atomic(json, dump(content, indent=2) + "\n")
            live.note(f"result: {json}")
    failed = [check for check, passed in result.get("checks", {}).items() if not passed]
    if failed:
        raise BadInput("the budget is not kept", got=", ".join(failed), expected="every check passed", where=name)


COMMANDS = {
    "eval": lambda words: parsed(evaluate, words, "evolvent eval"),
    "compare": lambda words: parsed(compare, words, "evolvent compare"),
    "bench": lambda words: parsed(bench, words, "evolvent bench"),
}
