"""A run folder of searches with made-up outcomes, for the tests of reports (never for results)."""

import json
from pathlib import Path

import numpy as np

from evolvent.core.folder import RunFolder
from evolvent.runs.search.config import SearchConfig
from evolvent.runs.search.summary import summarise


def sample_search_run(
    path: Path, *, arms=("greedy", "cot_sc", "mcts_rollout"), tasks=4, seed=0, summary=True, deep=0
) -> Path:
    """Each search is right a little more often than the one before it; ``deep`` draws two trees of that many levels."""
    rng = np.random.default_rng(seed)
    config = SearchConfig(env="arithmetic:addition", model="none", search=arms, tasks=tasks, seed=seed)
    fields = {"env": config.env, "model": config.model, "search": list(arms), "tasks": tasks, "seed": seed}
    made = RunFolder.create(
        path, algo="search", config=fields, env=config.env, seed=seed, command="evolvent run search", kind="search"
    )
    trees = []
    with made as folder:
        for number, name in enumerate(arms):
            for task in range(tasks):
                right = int(rng.random() < 0.2 + 0.35 * number)
                step = number * tasks + task
                folder.log(
                    step,
                    phase=name,
                    task=f"addition/{task}",
                    kind="addition",
                    question=f"{task} + {task}?",
                    success=right,
                    oracle=1,
                    answer=str(2 * task),
                    value=0.4,
                    ended=1,
                    paths=8,
                    nodes=9,
                    tokens=60,
                    calls=8,
                    judged=0,
                    seconds=0.2,
                    model_s=0.1,
                    value_s=0.0,
                    valid=1,
                    prompt_tokens=80,
                    cached_tokens=0,
                )
                nodes = [_node(-1, "", taken=True)]
                for depth in range(1, 9):
                    end = depth == 8
                    said = f"step {depth}: {task} + {task} is {2 * task}, carry nothing"
                    nodes.append(_node(depth - 1, said, taken=True, right=bool(right) if end else None))
                    nodes.append(_node(depth - 1, f"another thought {depth}", taken=False))
                    nodes[-2]["parent"] = 0 if depth == 1 else 2 * depth - 3
                    nodes[-1]["parent"] = nodes[-2]["parent"]
                trees.append(
                    {"step": step, "search": name, "question": f"{task} + {task}?", "left_out": 3, "nodes": nodes}
                )
        if summary:
            folder.write_summary(summarise(config, "none", folder.read_metrics()))
    trees = [deep_tree(deep, every) for every in (0, 1)] if deep else trees
    (path / "trees.jsonl").write_text("".join(json.dumps(tree) + "\n" for tree in trees))
    return path


def deep_tree(levels, every):
    """A path of so many states; at every ``every``-th another way begins, 0: at none. One line is wrong."""
    nodes, at = [_node(-1, "", taken=True)], 0
    for depth in range(1, levels + 1):
        if every and depth % every == 0:
            nodes.append(_node(at, f"another way from level {depth}", taken=False))
        said = f"go to the countertop by the window and take mug {depth}, which is the {depth}th of {levels}"
        nodes.append(_node(at, said, taken=True, right=True if depth == levels else None))
        nodes[-1]["wrong"] = depth == levels // 2
        at = len(nodes) - 1
    return {"step": every, "search": "mcts_alpha", "question": f"{levels} levels", "left_out": 0, "nodes": nodes}


def _node(parent, said, *, taken, right=None):
    return {
        "parent": parent,
        "text": said,
        "value": 0.3 + 0.4 * taken,
        "visits": 6 if taken else 1,
        "tokens": 5,
        "taken": taken,
        "right": right,
        "dead": False,
    }
