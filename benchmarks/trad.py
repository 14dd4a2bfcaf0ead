"""TRAD against whole trajectories and against no examples: the same thoughts, history, tasks and room in the prompt.

    python benchmarks/trad.py --seeds 0 1 2                                  # all worlds; hours on two cores
    python benchmarks/trad.py --worlds cooking --seeds 0 --train 4 --heldout 3
    python benchmarks/trad.py --page                                         # docs/results/trad.md from the result file

Arms: ``none`` thought and own last steps alone, ``trajectory`` whole trajectories of the nearest tasks beside them (the
published retrieval by task), ``thought`` TRAD, ``no_marks``, ``no_neighbours`` and ``no_history`` without a part of it.
The expert's thoughts are written once a seed (answers of the model are kept beside the runs). A cell that stands in the
result file is not run again; one that was stopped goes on in its folder.
"""

import argparse
import json
import os
import re

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from contextlib import closing
from pathlib import Path

from cached_model import Cached

from evolvent import models
from evolvent.algos import trad
from evolvent.core.config import to_json
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live, interval
from evolvent.formulas.statistics import mcnemar, wilson

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results" / "trad.json", HERE.parent / "docs" / "results" / "trad.md"
WORLDS = {
    "alfworld": ({}, "ALFWorld games: six kinds of household task in rooms that the expert was never in"),
    "cooking": ({"env": "twx:game=cookingworld,step_limit=20"}, "cooking by a recipe in one kitchen, other starts"),
    "household": (
        {"env": "household:food,swap=true", "same_kind": False},
        "one thing to heat or wash; the expert heated another. Nothing in it is drawn, so seeds are no samples",
    ),
    "chores": (
        {"env": "household:chores", "same_kind": False},
        "four things to heat and wash, from any room, some doors open; the expert had other things and another order",
    ),
}
ARMS = {
    "trajectory": {"by": "trajectory"},
    "thought": {},
    "no_marks": {"marks": False},
    "no_neighbours": {"back": 0, "forward": 0},
    "no_history": {"history": 0},
}
DRAWN = tuple(world for world in WORLDS if world != "household")
COLUMNS = ("solved", "tokens a task", "prompt tokens a task", "against none")


def main():
    """Run the missing cells, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=["trajectory", "thought"])
    parser.add_argument("--train", type=int, default=trad.Config.train)
    parser.add_argument("--heldout", type=int, default=trad.Config.heldout)
    parser.add_argument(
        "--chars", type=int, default=trad.Config.chars, help="of examples in a prompt; a table of its own"
    )
    parser.add_argument("--model", default=trad.Config.model)
    parser.add_argument("--runs", default="runs/trad")
    parser.add_argument("--out", default=str(RESULTS))
    parser.add_argument("--page", action="store_true")
    a = parser.parse_args()
    if a.page:
        PAGE.write_text(page(rows(RESULTS)), "utf-8")
        return
    begun = provenance()  # before results are written: of the code that made them
    with closing(models.load(a.model)) as model, closing(Cached(model, Path(a.runs) / "answers.sqlite")) as cached:
        for seed, world, arm in ((s, w, arm) for s in a.seeds for w in a.worlds for arm in a.arms):
            cell = {
                "world": world,
                "arm": arm,
                "seed": seed,
                "model": model.name,
                "train": a.train,
                "heldout": a.heldout,
            } | ({} if a.chars == trad.Config.chars else {"chars": a.chars})
            known = (row for row in rows(a.out) if row.get("chars") == cell.get("chars"))
            if not any(cell.items() <= row.items() for row in known):
                found = run(cell, Path(a.runs), cached)
                write_atomic(
                    Path(a.out),
                    json.dumps([*rows(a.out), cell | {"command": command(cell)} | found | begun], indent=1) + "\n",
                )


def run(cell, runs, model):
    """One cell, gone on with where it was stopped; what each held-out task came to without and with examples."""
    config = trad.Config(
        seed=cell["seed"],
        train=cell["train"],
        heldout=cell["heldout"],
        model=cell["model"],
        chars=cell.get("chars", trad.Config.chars),
        **WORLDS[cell["world"]][0],
        **ARMS[cell["arm"]],
    )
    path = runs / "-".join(
        re.sub(r"[^\w.-]+", "-", str(cell[name]))
        for name in ("world", "arm", "model", "train", "heldout", "seed", "chars")
        if name in cell
    )
    resume = (path / "memory.db").exists()
    make = {
        "algo": "trad",
        "config": to_json(config),
        "env": config.env,
        "seed": config.seed,
        "kind": "memory",
        "command": command(cell),
    }
    with RunFolder.open(path) if resume else RunFolder.create(path, **make) as folder, Live(plain=True) as live:
        summary = trad.run(config, folder, live, resume=resume, model=model)
        lines = [row for row in folder.read_metrics() if row["phase"] != "expert" and row["valid"]]
    kept = ("task", "kind", "success", "tokens", "prompt_tokens")
    tasks = {
        phase: [{name: row[name] for name in kept} for row in lines if row["phase"] == phase]
        for phase in ("before", "after")
    }
    return {"experts": summary["experts"], **tasks}


def command(cell):
    """What runs one cell."""
    words = f"--worlds {cell['world']} --arms {cell['arm']} --seeds {cell['seed']} --model {cell['model']}"
    text = f"python benchmarks/trad.py {words} --train {cell['train']} --heldout {cell['heldout']}"
    return text + (f" --chars {cell['chars']}" if "chars" in cell else "")


def rows(path):
    """Rows that are there."""
    return json.loads(Path(path).read_text("utf-8")) if Path(path).exists() else []


def page(found):
    """The page of results."""

    def solved(world, arm):
        mine = [row for row in found if (row["world"], row["arm"]) == (world, arm)]
        after = [task["success"] for row in mine for task in row["after"]]
        return f"{sum(after)} of {len(after)}"

    none = {row["world"]: [task["success"] for task in row["before"]] for row in found if row["arm"] == "thought"}
    lines = [
        "# TRAD: do steps found by thought help more than whole trajectories?",
        "",
        "<!-- generated by `python benchmarks/trad.py --page` from benchmarks/results/trad.json; do not edit -->",
        "",
        f"In a household task a frozen 1.5B model solves {solved('household', 'thought')} with steps found by thought, "
        f"{solved('household', 'trajectory')} with whole trajectories and {sum(none['household'])} of "
        f"{len(none['household'])} without examples; in ALFWorld {solved('alfworld', 'thought')}, "
        f"{solved('alfworld', 'trajectory')} and {sum(none['alfworld'])}. Steps take fewer tokens of the prompt. It "
        "does not show a difference in success: there is one seed, and nothing in the household is drawn.",
        "",
        f"| world | arm | seeds | {' | '.join(COLUMNS)} |",
        "|---" * 7 + "|",
    ]
    rooms = sorted({row.get("chars", 0) for row in found})  # 0: the default, which no row names
    notes = []
    for world, chars in ((world, chars) for world in WORLDS for chars in rooms):
        here = [row for row in found if (row["world"], row.get("chars", 0)) == (world, chars)]
        if not here:
            continue
        name, drawn = f"{world}{f', {chars:,} characters' if chars else ''}", world in DRAWN
        first = [row for row in here if row["arm"] == here[0]["arm"]]
        cells = [_line("none", [(row["seed"], task) for row in first for task in row["before"]], {}, drawn)]
        for arm in ARMS:
            mine = [row for row in here if row["arm"] == arm]
            if mine:
                before = {(row["seed"], task["task"]): task["success"] for row in mine for task in row["before"]}
                cells.append(_line(arm, [(row["seed"], task) for row in mine for task in row["after"]], before, drawn))
        lines += [f"| {name} {cell}" for cell in cells]
        experts = sorted({(row["model"], row["experts"]["solved"], row["experts"]["steps"]) for row in here})
        notes += [
            f"*{name}*: {WORLDS[world][1]} (`{model}`, {n} {'trajectory' if n == 1 else 'trajectories'}, {steps} steps)"
            for model, n, steps in experts
        ]
    commits = {(row["commit"]["id"][:10], row["commit"]["dirty"]) for row in found}
    made = ", ".join(f"{id_}{' (with uncommitted changes)' if dirty else ''}" for id_, dirty in sorted(commits))
    return "\n".join(
        [
            *lines,
            "",
            "Held-out tasks; every arm says a thought before each command, sees its own last steps (but for "
            "`no_history`) and has the same room for examples. Where tasks are drawn: 95 % Wilson interval, exact "
            f"McNemar against the same tasks without examples. {'; '.join(notes)}. What the arms are: "
            "[trad](../algos/trad.md).",
            "",
            f"`python benchmarks/trad.py`, commits {made}, [trad.json](../../benchmarks/results/trad.json).",
            "",
        ]
    )


def _line(arm, tasks, before, drawn):
    n, won = len(tasks), sum(task["success"] for _, task in tasks)
    cost = [f"{sum(task[name] for _, task in tasks) / n:,.0f}" for name in ("tokens", "prompt_tokens")]
    pairs = [(before[seed, task["task"]], task["success"]) for seed, task in tasks if (seed, task["task"]) in before]
    gained, lost = sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)
    against = f"{gained} won, {lost} lost" if pairs else "–"
    against += f", p = {mcnemar(*zip(*pairs, strict=True)):.2g}" if pairs and drawn else ""
    solved = f"{won} of {n}" + (f", {interval(won / n, wilson(won, n))}" if drawn else "")
    seeds = len({seed for seed, _ in tasks})
    return f"| `{arm}` | {seeds} | {solved} | {' | '.join(cost)} | {against} |"


if __name__ == "__main__":
    main()
