"""Votes, the best of samples, beams and trees at the tokens of 1 to 64 answers, by two values, one policy.

    WARM="python benchmarks/search_warm.py runs/search_policy --env chain:steps=4,digits=1 --scratch --batch 64"
    $WARM --examples 20480; $WARM --examples 2560 --seed 1    # then it is right in about two of five, greedily
    python benchmarks/search_budgets.py --runs runs/search_budgets          # rows that are there are not run again

Sums of five one-digit numbers, a line a step. "likelihood" judges by the policy's mean log-probability, "prm" by a
process reward model that ``openr`` learned from OmegaPRM's labels, with the same seed. An unfinished path is wrong.
"""

import argparse
import json
import os
import shutil
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import team_grid

from evolvent.algos import openr, search
from evolvent.core.config import to_json, with_fields
from evolvent.core.folder import RunFolder
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live

RESULT, COMMAND = Path(__file__).parent / "results" / "search_budgets.json", "python benchmarks/search_budgets.py"
ENV, ANSWER, BUDGETS, TASKS = "chain:steps=4,digits=1", 28, (0, 1, 2, 3, 4, 5, 6), 64
VALUES = {"flat": ("cot_sc",), "likelihood": ("best_of_n", "beam"), "prm": ("best_of_n", "beam", "mcts_rollout")}
"""Searches by value."""


def settings(value, budget):
    """A search at ``2 ** budget`` answers' tokens; a beam is as wide as they carry at every depth."""
    wide, keep = 2 ** ((budget + 1) // 2), 2 ** (budget // 2)
    return {
        "env": ENV,
        "tasks": TASKS,
        "batch": 32,
        "budget_tokens": ANSWER * 2**budget,
        "longest": 12,
        "widths": (wide * keep, wide),
        "keep": (keep,),
        "value": value,
    }


def labelled(seed, policy, runs):
    """The folder of a run of ``openr``, whose process reward model was learned before its one update."""
    path = runs / f"openr-{seed}"
    if not (path / "summary.json").exists():
        shutil.rmtree(path, ignore_errors=True)
        config = with_fields(
            openr.Config(),
            env=ENV,
            model=policy,
            seed=seed,
            how="grpo",
            updates=1,
            prompts=4,
            group=4,
            lr=1e-6,
            questions=192,
            samples=8,
            rollouts=32,
            prm_lr=2e-3,
            dtype="float32",
            eval_tasks=TASKS,
            threads=1,
        )
        with (
            RunFolder.create(
                path, algo="openr", config=to_json(config), env=ENV, seed=seed, command=COMMAND, kind=config.KIND
            ) as folder,
            Live(plain=True) as live,
        ):
            folder.write_summary(openr.run(config, folder, live))
    return path


def cell(key, policy, runs):
    """One row: all searches of a value at one budget."""
    prm = labelled(key["seed"], policy, runs) if key["value"] == "prm" else None
    given = settings(str(prm / "prm") if prm else key["value"], key["budget"])
    ways = ("greedy", "cot_sc") if (key["value"], key["budget"]) == ("flat", 0) else VALUES[key["value"]]
    config = with_fields(search.Config(), **given, model=f"train:{policy}", seed=key["seed"], search=ways)
    path, began = runs / "-".join(map(str, key.values())), time.process_time()
    shutil.rmtree(path, ignore_errors=True)
    with (
        RunFolder.create(
            path, algo="search", config=to_json(config), env=ENV, seed=config.seed, command=COMMAND, kind="search"
        ) as folder,
        Live(plain=True) as live,
    ):
        summary = search.run(config, folder, live)
        folder.write_summary(summary)
    row = {**key, "command": COMMAND, "settings": given | {"value": key["value"]}, "arms": summary["arms"]}
    if prm:
        row["prm"] = json.loads((prm / "prm_labels.json").read_text("utf-8"))
    return row | {"cpu_s": round(time.process_time() - began, 1)}


def main():
    """Run the missing cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="runs/search_policy")
    parser.add_argument("--runs", type=Path, default=Path("runs/search_budgets"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=RESULT)
    a = parser.parse_args()
    begun = provenance()
    for seed in a.seeds:
        for value in VALUES:
            for budget in BUDGETS:
                key = {"value": value, "budget": budget, "seed": seed}
                if not any(key.items() <= row.items() for row in team_grid.rows(a.out)):
                    team_grid.add(a.out, {**cell(key, a.policy, a.runs), **begun})


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    main()
