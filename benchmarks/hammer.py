"""Hammer as a 2×2: names masked or not, tools taken away or not; does masking teach to read descriptions?

    nice python benchmarks/hammer.py

SmolLM2-135M learns calls of generated tools (``hammer_tools``) by ``evolvent run hammer`` and is judged on requests in
other words: with the functions' own names, with random ones, and with those of a row's tools exchanged; of functions
that training knows and of unseen ones; and on requests that no listed tool serves. ``picked``: the default embedder
picks the tool, and the model sees only that one. All arms of a seed learn from the same rows and answer the same items.
"""

import argparse
import dataclasses
import json
import shlex
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import hammer_tools
import numpy as np

from evolvent.algos import hammer
from evolvent.core.config import to_json
from evolvent.core.folder import RunFolder
from evolvent.core.machine import provenance
from evolvent.data.pickers import baselines, said
from evolvent.envs.text.functions import Functions
from evolvent.evaluate.live import Live
from evolvent.formulas.statistics import paired_rates_interval
from evolvent.learn import checkpoint
from evolvent.memory import embedders
from evolvent.runs.account.calls import COLUMNS
from evolvent.runs.language.calling import answers
from evolvent.runs.language.config import Plan
from evolvent.runs.language.system import Needs, open_language
from evolvent.runs.language.weights import Weights

OUT = Path(__file__).parent / "results" / "hammer.json"
ARMS = {"neither": (0.0, 0.0), "masked": (0.67, 0.0), "irrelevance": (0.0, 0.15), "both": (0.67, 0.15)}
"""Shares of rows with random names, and without their tools."""
NAMES = ("own", "random", "swapped")
HELD = {"heldout": "seen", "unseen": "unseen"}
FEWER = 0.4
"""Share of the items that is asked with other names than their own, or with the picked tool alone."""
PAIRS = (("masked", "neither"), ("both", "irrelevance"), ("irrelevance", "neither"), ("both", "masked"))
LINE = ("functions right", "calls right", "refusals right", "call rate")
CELLS = [f"{names}, {held}" for names in NAMES for held in HELD.values()]


def items(rows, share, split):
    """The first ``share`` of a split's requests that a tool serves, and of those that none does."""
    mine = [row for row in rows if row.split == split]
    kinds = [[row for row in mine if bool(row.gold) == served] for served in (True, False)]
    return [row for some in kinds for row in some[: max(1, round(share * len(some)))]]


def picked(row, embedder):
    """The row with one of its tools alone: the one whose name and description are nearest."""
    vectors_ND = embedder.embed([row.request, *map(said, row.tools)])
    return dataclasses.replace(row, tools=(row.tools[int(np.argmax(vectors_ND[1:] @ vectors_ND[0]))],))


def cells(rows, embedder):
    """By name of a cell: its environment and tasks."""
    found = {}
    for split, held in HELD.items():
        for names in (*NAMES, "picked"):
            some = items(rows, 1.0 if names == "own" else FEWER, split)
            if names == "picked":
                some = [picked(row, embedder) for row in some if row.gold]
            world = Functions(some, "own" if names == "picked" else names, "all")
            found[f"{names}, {held}"] = (world, world.tasks("heldout", len(some), 0))
    return found


def picked_without_a_model(judged, others, embedder):
    """Shares of the pickers in each cell; the threshold of the cosine is chosen on ``others``."""
    found = {}
    for name in CELLS:
        world, tasks = judged[name]
        told = baselines([world.row(task.id) for task in tasks], others, embedder)
        found[name] = {key.partition(" below")[0]: one.shares for key, one in told.items()}
    return found


def measure(arm, seed, rows, judged, given):
    """A run, and what is right of its answers: a text of 0 and 1 for each column of each cell."""
    share, irrelevant = ARMS[arm]
    plan = {"lora_rank": 16, "lora_alpha": 32, "lora_targets": ("q_proj", "k_proj", "v_proj", "o_proj")}
    plan |= {"answer": 80, "eval_every": 0, "eval_tasks": 2, "threads": 1, "save_every": 10_000}
    with TemporaryDirectory() as place, Live(plain=True) as live:
        path = Path(place)
        (path / "rows.jsonl").write_text("".join(json.dumps(row.to_dict()) + "\n" for row in rows))
        learns = {"mask": share, "irrelevant": irrelevant, "epochs": given.epochs, "lr": given.lr, "seed": seed}
        config = hammer.Config(env=f"functions:{path}", model=given.model, **learns, plan=Plan(**plan))
        named = {"algo": "hammer", "env": config.env, "seed": seed, "command": "benchmarks/hammer.py"}
        started = time.process_time()
        with RunFolder.create(path / "run", config=to_json(config), kind=config.KIND, **named) as folder:
            summary = hammer.run(config, folder, live)
            learned = time.process_time()
            with open_language(config, folder, live, needs=Needs(training=False)) as run:
                newest = checkpoint.latest(path / "run" / "checkpoints")
                checkpoint.load(newest, {"weights.policy": Weights(run.model, "policy")})
                found = {name: bits(answers(run, *judged[name])) for name in judged}
        losses = [row["loss"] for row in folder.read_metrics() if "update" in row]
    return {
        "arm": arm,
        "seed": seed,
        "learned_from": summary["steps"],
        "learning_cpu_s": round(learned - started, 1),
        "judging_cpu_s": round(time.process_time() - learned, 1),
        "loss": round(float(np.mean(losses[-10:])), 4),
        "cells": found,
    }


def bits(graded):
    """Each column of graded answers as a text, an item a character; "-" where it has no such column."""
    return {what: "".join("-" if what not in one else str(int(one[what])) for one in graded) for what in COLUMNS}


def known(rows, arm, names, what):
    """A column of an arm's items with such names, all seeds, seen functions and unseen ones: bool ``[N]``."""
    texts = [row["cells"][f"{names}, {held}"][what] for row in rows if row["arm"] == arm for held in HELD.values()]
    return np.array([c == "1" for c in "".join(texts) if c != "-"])


def share(rows, arm, cell, what):
    """The share of a column of an arm in a cell, all seeds."""
    text = "".join(row["cells"][cell][what] for row in rows if row["arm"] == arm)
    return text.count("1") / (len(text) - text.count("-"))


def table():
    """The result file as lines of Markdown."""
    result = json.loads(OUT.read_text("utf-8"))
    rows = sorted(result["rows"], key=lambda row: row["seed"])
    seeds = [{row["seed"] for row in rows if row["arm"] == arm} for arm in ARMS]
    rows = [row for row in rows if row["seed"] in set.intersection(*seeds)] or rows
    arms = [arm for arm in ARMS if any(row["arm"] == arm for row in rows)]
    columns = [*CELLS, "refused: own, random", "calls: own, random", "tool picked"]
    lines = [f"| arm | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for arm in arms:
        shown = _cells(lambda cell, i, arm=arm: share(rows, arm, cell, LINE[i]))
        shown.append(" / ".join(f"{known(rows, arm, 'picked', what).mean():.0%}" for what in LINE[:2]))
        lines.append(f"| `{arm}` | {' | '.join(shown)} |")
    pickers = [result["pickers"][str(seed)] for seed in sorted({row["seed"] for row in rows})]
    for name in pickers[0][CELLS[0]]:
        means = {cell: np.mean([one[cell][name] for one in pickers], axis=0) for cell in CELLS}
        shown = _cells(lambda cell, i, means=means: means[cell][i])
        lines.append(f"| {name} | {' | '.join(shown).replace(' / 0%', ' / –')} | – |")
    lines += ["", "| points [95 %] | own | random | swapped | refused | calls |", "|---|---|---|---|---|---|"]
    for a, b in PAIRS if len(arms) == len(ARMS) else ():
        of = [*((names, LINE[1]) for names in NAMES), *(("own", what) for what in LINE[2:])]
        lines.append(f"| `{a}` − `{b}` | {' | '.join(_difference(rows, a, b, *one) for one in of)} |")
    n, cpu = len(known(rows, arms[0], "own", LINE[1])), np.mean([row["learning_cpu_s"] for row in rows])
    model, learned = result["settings"]["model"], rows[0]["learned_from"]
    facts = f"{model}, {learned} rows, {cpu:.0f} CPU-s an arm, {len(pickers)} seeds"
    notes = "Functions right / whole calls right; pickers fill in no arguments. `tool picked`: own names, both parts. "
    notes += f"Differences, and of each seed: whole calls, refusals, calls, paired over items ({n} with own names)."
    commands = f"`{'`, `'.join(result['commands'])}`, {facts}, commit {result['provenance']['commit']['id'][:8]}."
    return [*lines, "", notes, commands]


def _cells(of):
    """The columns of an arm, of what ``of`` says of a cell and a column."""
    both = [f"{of(cell, 0):.0%} / {of(cell, 1):.0%}" for cell in CELLS]
    means = [[np.mean([of(f"{names}, {held}", i) for held in HELD.values()]) for names in NAMES[:2]] for i in (2, 3)]
    return both + [", ".join(f"{one:.0%}" for one in two) for two in means]


def _difference(rows, a, b, names, what):
    """Points that ``a`` is ahead, with the interval over all items, and of each seed."""
    pairs = [[known([row], row["arm"], names, what) for row in rows if row["arm"] == arm] for arm in (a, b)]
    mean, low, high = paired_rates_interval(*(np.concatenate(some) for some in pairs))
    each = ", ".join(f"{100 * (x.mean() - y.mean()):+.0f}" for x, y in zip(*pairs, strict=True))
    return f"{100 * mean:+.0f} [{100 * low:+.0f}, {100 * high:+.0f}] ({each})"


def main():
    """Run what is asked for and not there yet; the result file is written after every run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=500, help="rows to learn from")
    parser.add_argument("--items", type=int, nargs=2, default=[150, 40], help="of a split, to be called and not")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--embedder", default=embedders.DEFAULT)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    asked = [one for i, one in enumerate(sys.argv) if i and "--out" not in sys.argv[i - 1 : i + 1]]
    command, settings = shlex.join(["python", "benchmarks/hammer.py", *asked]), {"model": given.model, "lr": given.lr}
    result = {"commands": [], "provenance": provenance(), "settings": settings, "pickers": {}, "rows": []}
    if given.out.exists():
        result |= {key: json.loads(given.out.read_text("utf-8"))[key] for key in ("commands", "pickers", "rows")}
    result["commands"] = list(dict.fromkeys([*result["commands"], command]))
    done = {(row["arm"], row["seed"]) for row in result["rows"]}
    embedder, sizes = embedders.load(given.embedder), dict.fromkeys(HELD, given.items)
    for seed in given.seeds:
        rows, others = hammer_tools.rows(given.n, sizes, seed), hammer_tools.rows(0, sizes, seed + 1000)
        judged = cells(rows, embedder)
        if str(seed) not in result["pickers"]:
            result["pickers"][str(seed)] = picked_without_a_model(judged, others, embedder)
        for arm in given.arms:
            if (arm, seed) not in done:
                result["rows"].append(measure(arm, seed, rows, judged, given))
                shown = {cell: f"{share(result['rows'][-1:], arm, cell, LINE[1]):.0%}" for cell in judged}
                print(arm, seed, result["rows"][-1]["loss"], shown, flush=True)
                given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
