"""Systems that learn to search, on a small network: TS-LLM's iterations; OpenR's process rewards against the outcome.

    WARM="python benchmarks/search_warm.py runs/search_policy --env chain:steps=4,digits=1 --scratch --batch 64"
    $WARM --examples 20480; $WARM --examples 2560 --seed 1    # then it is right in about two of five, greedily
    python benchmarks/search_learning.py --runs runs/search_learning    # rows that are there are not run again
    python benchmarks/search_learning.py --learned                      # then: the value that TS-LLM has learned
    python benchmarks/search_warm.py runs/search_135m                   # SmolLM2-135M and the Game of 24
    python benchmarks/search_learning.py --tasks game24 && python benchmarks/search_learning.py --learned game24
    python benchmarks/search_warm.py runs/chain_135m --env chain:steps=4,digits=1 --examples 560
    python benchmarks/search_learning.py --tasks chain135m && python benchmarks/search_learning.py --learned chain135m

0.3M parameters, trained from scratch on the solutions that ``search_warm.py`` shows it; sums of five one-digit numbers,
a line a step. "samples" is expert iteration without a search: as many independent samples as the search's tokens pay
for. All arms of a task begin with the same policy; the seed changes tasks and draws. Of the Game of 24, 1,600 solved
puzzles were shown to SmolLM2-135M.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

import team_grid

from evolvent.core.config import to_json, with_fields
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live

ENV, POLICY, COMMAND = "chain:steps=4,digits=1", "runs/search_policy", "python benchmarks/search_learning.py"
GAME = {
    "env": "game24",
    "model": "runs/search_135m",
    "eval_tasks": 96,
    "threads": 1,
    "updates": 2,
    "prompts": 48,
    "rollouts": 16,
    "keep": 16,
    "eval_every": 1,
}
SUMS = {"env": ENV, "model": "runs/chain_135m", "eval_tasks": 192, "threads": 1, "lr": 5e-4}
RUNS = Path("runs/search_learning")
RESULT = Path(__file__).parent / "results" / "search_learning.json"
COMMON = {"env": ENV, "model": POLICY, "eval_tasks": 192, "threads": 1, "dtype": "float32", "lr": 2e-3}
ITERATIONS = {
    "updates": 3,
    "prompts": 512,
    "group": 4,
    "value": "probe",
    "rollouts": 8,
    "keep": 8,
    "simulations": 4,
    "widths": (6, 3),
    "longest": 12,
    "epochs": 3,
    "eval_every": 1,
}
RL = {"how": "grpo", "updates": 48, "prompts": 16, "group": 8, "eval_every": 24}
LABELS = {"questions": 96, "samples": 8, "rollouts": 32, "prm_lr": 2e-3}
CELLS = [
    team_grid.Cell("iterations", "ts_llm", "ts_llm", COMMON | ITERATIONS),
    team_grid.Cell("iterations", "samples", "ts_llm", COMMON | ITERATIONS | {"value": "none", "group": 7}),
    team_grid.Cell("rl", "process", "openr", COMMON | RL | LABELS | {"process": 1.0, "outcome": 1.0}),
    team_grid.Cell("rl", "outcome", "openr", COMMON | RL | LABELS | {"process": 0.0, "outcome": 1.0}),
    team_grid.Cell("game24", "ts_llm", "ts_llm", GAME | {"value": "probe"}),
    team_grid.Cell("game24", "samples", "ts_llm", GAME | {"value": "none", "group": 48}),
    team_grid.Cell("chain135m", "ts_llm", "ts_llm", SUMS | ITERATIONS | {"updates": 2, "prompts": 96}),
    team_grid.Cell(
        "chain135m", "samples", "ts_llm", SUMS | ITERATIONS | {"updates": 2, "prompts": 96, "value": "none", "group": 7}
    ),
]
WAYS = (
    ("learned", ("beam", "best_of_n", "mcts_rollout")),
    ("likelihood", ("greedy", "beam", "best_of_n", "cot_sc")),
    ("rollouts", ("beam",)),
)
SEARCH = {"env": ENV, "tasks": 96, "batch": 32, "budget_tokens": 150, "widths": (6, 3), "keep": (3, 2), "longest": 12}
GAME_WAYS = (
    ("learned", ("greedy", "beam", "best_of_n", "cot_sc")),
    ("judge", ("beam", "best_of_n")),
    ("likelihood", ("beam", "best_of_n")),
)
# by task: where its rows stand, which searches, and what they share
SEARCHES = {
    "iterations": ("searches", WAYS, SEARCH),
    "chain135m": ("chain135m searches", WAYS[:2], {**SEARCH, "budget_tokens": 250}),
    "game24": ("game24 searches", GAME_WAYS, {"env": "game24", "tasks": 48, "batch": 24, "budget_tokens": 400}),
}


def learned(seed: int, task: str) -> None:
    """Searches by the policy and the value that TS-LLM of this seed has left, at one budget; a row a value."""
    import torch

    from evolvent.algos import search
    from evolvent.core.folder import RunFolder

    torch.set_num_threads(1)
    policy, (place, by_value, shared) = RUNS / task / f"ts_llm-{seed}", SEARCHES[task]
    for value, ways in by_value:
        key = {"task": place, "arm": value, "seed": seed}
        if any(key.items() <= row.items() for row in team_grid.rows(RESULT)):
            continue
        common = {
            **shared,
            "model": f"train:{policy}/model",
            "value": f"{policy}/value" if value == "learned" else value,
        }
        config = with_fields(search.Config(), **common, seed=seed, search=ways)
        command = f"{COMMAND} --learned {task} --seeds {seed}"
        began, path = time.process_time(), RUNS / place / f"{value}-{seed}"
        shutil.rmtree(path, ignore_errors=True)
        with (
            RunFolder.create(
                path, algo="search", config=to_json(config), env=config.env, seed=seed, command=command, kind="search"
            ) as folder,
            Live(plain=True) as live,
        ):
            summary = search.run(config, folder, live)
            folder.write_summary(summary)
        team_grid.add(
            RESULT,
            {
                **key,
                "command": command,
                "config": common,
                "arms": summary["arms"],
                "cpu_s": round(time.process_time() - began, 1),
                **provenance(),
            },
        )


if __name__ == "__main__":
    if "--learned" in sys.argv:
        p = argparse.ArgumentParser()
        p.add_argument("--learned", nargs="?", const="iterations", choices=SEARCHES)
        p.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
        a = p.parse_args()
        for one in a.seeds:
            learned(one, a.learned)
    else:
        team_grid.main("search_learning", CELLS, __doc__ or "", seeds=(0, 1, 2))
