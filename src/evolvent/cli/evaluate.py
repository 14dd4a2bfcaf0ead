"""`evolvent eval`, `evolvent compare`: numbers about runs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional

from evolvent import catalogue, running
from evolvent.core.arguments import parsed
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.evaluate.live import Live
from evolvent.evaluate.pages import strengths_page

_MOST = 10_000
"""Attempts at a task, at most."""


def evaluate(
    folder: Annotated[Path, Positional],
    *,
    episodes: int | None = None,
    env: str = "",
    attempts: int | None = None,
    strengths: str = "",
    plain: bool = False,
) -> None:
    """Evaluate a run on held-out tasks, without learning from them.

    Example: evolvent eval runs/demo --episodes 20

    Args:
        folder: run folder.
        episodes: number of held-out tasks, or of episodes of a team; default: as in the run.
        env: teams and language models that learned: evaluate on another environment, e.g. spread:n=5 for a team
            trained with 3, program:humaneval for a model; the result is written to eval-ENV.json in the run folder.
        attempts: language models that learned: sampled attempts at each task (k), for avg@k and pass@k with intervals.
        strengths: teams that learned: with --env "disrupt:[ENV]", what each source of disturbance costs at each of
            these strengths, e.g. 0,0.05,0.1; a page is written beside the result.
        plain: plain text output even on a terminal.
    """
    opened = RunFolder.open(folder)
    found = catalogue.of_run(opened)
    name, played = found.name, found.evaluate()
    if played is None:
        instead = f"{folder}/summary.json and report.html have what it came to"
        instead += f"; {found.kind.instead(opened)}" if found.kind.instead else ""
        raise BadInput("this algorithm cannot be evaluated apart from its run", got=name, where=str(folder), do=instead)
    if episodes is not None and episodes < 1:
        raise BadInput("nothing to play", got=episodes, expected="at least 1", where="--episodes")
    if attempts is not None and not 1 <= attempts <= _MOST:
        raise BadInput("no number of attempts", got=attempts, expected=f"1 to {_MOST:,}", where="--attempts")
    given = {"env": env, "attempts": attempts, "strengths": strengths}
    options: dict[str, Any] = {option: value for option, value in given.items() if value}
    taken = inspect.signature(played).parameters
    if env and "env" not in taken:
        raise BadInput("this algorithm is evaluated on its own environment", got=f"--env {env}", where=name)
    if attempts and "attempts" not in taken:
        raise BadInput(
            "this algorithm is not evaluated by several attempts at a task",
            got=f"--attempts {attempts}",
            expected="a language model that was trained",
            where=name,
            do="of a frozen model: evolvent run no_memory --attempts K --temperature 0.8",
        )
    if strengths and "strengths" not in taken:
        raise BadInput("nothing here can be disturbed", got=name, expected="a team that learned", where="--strengths")
    with Live(plain=True if plain else None) as live, opened:
        with found.faults():
            result = played(opened, live, episodes, **options)
        if result is not None:
            other = re.sub(r"[^\w=.-]+", "-", env)[-100:] if env and env != opened.manifest()["env"] else ""
            path = folder / f"eval{other and '-'}{other}.json"
            write_atomic(path, dump(result, indent=2) + "\n")
            live.note(f"result: {path}")
            if strengths:
                live.note(f"page: {strengths_page.write(result, path.with_suffix('.html'))}")


def compare(folders: Annotated[tuple[Path, ...], Positional], *, html: Path | None = None, plain: bool = False) -> None:
    """Compare runs; the first folder is the reference. A folder of run folders is one arm with several seeds.

    Example: evolvent compare runs/memlift runs/no_memory --html compare.html

    Args:
        folders: run folders, or folders of run folders; HTML pages among them are ignored.
        html: also write a page with curves to this file.
        plain: plain text output even on a terminal.
    """
    with Live(plain=True if plain else None) as live:
        running.compare_folders(folders, html, live)


COMMANDS = {
    "eval": lambda arguments: parsed(evaluate, arguments, "evolvent eval"),
    "compare": lambda arguments: parsed(compare, arguments, "evolvent compare"),
}
