"""Few-shot: trained with three agents, played and fine-tuned with five and eight, against training from scratch.

    python benchmarks/marl_few_shot.py --seeds 0 1 2

The built-in spread, where an agent sees its nearest three landmarks and two others whatever the size of the team. MAT
without agent numbers, whose networks do not depend on n. "zero-shot": the team of three's weights play, nothing is
learned. "fine-tuned" starts from them, "scratch" does not; both learn for a third of the steps that the team of three
had. 64 copies x 25 steps an update, 10 passes.
"""

from pathlib import Path

import team_grid
from team_grid import HERE, Cell, add, folder_of, rows

from evolvent.algos import mat
from evolvent.core.folder import RunFolder
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live

NAME, SEEDS, SIZES = "marl_few_shot", (0, 1, 2), (5, 8)
SIZE = {"envs": 64, "horizon": 25, "ids": False, "epochs": 10, "eval_every": 20, "eval_episodes": 128}
BEFORE, AFTER = 960_000, 320_000


def cells() -> list[Cell]:
    """The team that is trained first, then those that start from it or do not."""
    first = ("spread-3", "scratch")
    out = [Cell(*first, "mat", {**SIZE, "env": "spread:n=3", "steps": BEFORE})]
    for n in SIZES:
        settings = {**SIZE, "env": f"spread:n={n}", "steps": AFTER}
        out += [
            Cell(f"spread-{n}", "scratch", "mat", settings),
            Cell(f"spread-{n}", "fine-tuned", "mat", settings, start=first),
        ]
    return out


def zero_shot(runs: Path, results: Path) -> None:
    """Rows of the first team's weights with more agents, where its run has ended."""
    known = rows(results)
    for row in [row for row in known if row["task"] == "spread-3"]:
        for n in SIZES:
            key = {"task": f"spread-{n}", "arm": "zero-shot", "seed": row["seed"]}
            if any(key.items() <= other.items() for other in known):
                continue
            with (
                Live(plain=True) as live,
                RunFolder.open(folder_of(runs, "spread-3", "scratch", row["seed"])) as folder,
            ):
                result = mat.evaluate(folder, live, 128, env=f"spread:n={n}")
            random = {"name": "random actions", "value": result["random"]["value"], "ci95": result["random"]["ci95"]}
            add(
                results,
                {
                    **key,
                    "algo": "mat",
                    "command": f"python benchmarks/{NAME}.py --seeds {row['seed']}",
                    "config": {**row["config"], "env": f"spread:n={n}"},
                    "greedy": result["greedy"],
                    "sampled": result["sampled"],
                    "random": random,
                    "steps": 0,
                    "updates": 0,
                    "curve": [],
                    "evaluations": [],
                    **provenance(),
                },
            )


if __name__ == "__main__":
    team_grid.main(NAME, cells(), __doc__, seeds=SEEDS)
    zero_shot(HERE / "runs" / NAME, HERE / "results" / f"{NAME}.json")
