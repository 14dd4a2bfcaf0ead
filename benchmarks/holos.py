"""A market of agents that fail, against the closed form and beside one agent: six memories of a frozen 1.5B.

    nice python benchmarks/holos.py [--seeds 0 1 2] [--newcomers 0 1 2 3 4]

A seed is a run of ``evolvent run holos``: six agents answer 12 questions of six kinds to an analyst once (the only work
of the model); then tasks of four questions are served by processes that crash, hang, lie, come late and trade with
their owners, at r = 0, .1, …, 1. Its folder stays under ``--runs``, and a seed that was stopped goes on. A newcomer is
a sixth agent, as good as the others, that comes when five have served 200 parts; its share of the next 200 is measured.
"""

import argparse
import json
import shlex
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

import evolvent
from evolvent.algos.holos import plans
from evolvent.algos.holos.accounts import Accounts
from evolvent.algos.holos.market import USER, Market, Ranking
from evolvent.algos.holos.pool import Pool
from evolvent.algos.holos.profiles import Profile
from evolvent.algos.holos.summary import closed_form
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.core.protocols import Task
from evolvent.formulas.statistics import wilson

OUT = Path(__file__).parent / "results" / "holos.json"
SETTINGS = {
    "questions": 12,
    "tasks": 30,
    "active": 6,
    "lease_s": 0.25,
    "rates": tuple(round(0.1 * i, 1) for i in range(11)),
}
PARTS = 200  # served before a newcomer comes, and after


def measured(seed, settings, runs):
    """A seed's run, begun or gone on with, as a row of the result file; ``cpu_s`` is of this process alone."""
    folder, start = runs / f"seed{seed}", time.process_time()
    again = folder.exists() and not (folder / "summary.json").exists()
    given = {"resume": folder} if again else {"out": folder, "seed": seed, **settings}
    found = evolvent.run("holos", **given).summary
    kept = {key: found[key] for key in ("model", "env", "steps", "score", "baseline", "words", "cells", "agents")}
    tasks = json.loads((folder / "config.json").read_text("utf-8"))["config"]["tasks"]
    return {"seed": seed, "tasks": tasks, **kept, "cpu_s": round(time.process_time() - start), "resumed": again}


def newcomer(seed):
    """The share of the parts that a newcomer gets among six agents of equal quality, all of them right."""
    names = [f"agent{i}" for i in range(6)]
    agents = [Profile(name, f"owner of {name}", ("able",), 100, vector=(1.0,)) for name in names]
    nodes = plans.plan(plans.shape("chain", 1), [Task("q", "?", "able")], ["able"], 100, 100)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "answers.json")
        file.write_text('{"q": "right"}', encoding="utf-8")
        pool = Pool(dict.fromkeys(names, file), "none", 0.0, seed, active=6, lease_s=30.0)
        with closing(pool), closing(Accounts(":memory:")) as accounts:
            for name in (USER, *(f"stake:{one}" for one in names)):
                accounts.mint(name, 10**6)
            asked, ranking = [], Ranking(explore=0.1)
            for number in range(2 * PARTS):
                there = agents[: 5 + (number >= PARTS)]
                judge, vectors = (lambda node, said: (True, 1.0)), {"q": np.ones(1)}
                market = Market(there, accounts, pool, judge, vectors, ranking, "market", 3, 1, seed)
                asked.append(market.serve(f"t{number}", nodes)["leases"][0]["agent"])
    return asked[PARTS:].count(names[-1]) / PARTS


def _pooled(rows, arm, failure, rate, column):
    """Successes and tasks of a cell over all seeds; ``column``: of the share in per cent."""
    found = [
        (dict(zip(row["cells"]["columns"], line, strict=True)), row["tasks"])
        for row in rows
        for line in row["cells"]["rows"]
        if line[:3] == [arm, rate, failure]
    ]
    return sum(round(line[column] * tasks / 100) for line, tasks in found), sum(tasks for _, tasks in found)


def _shown(won, n):
    low, high = wilson(won, n)
    return f"{100 * won / n:.0f} [{100 * low:.0f}, {100 * high:.0f}]"


def table():
    """The result file as lines of Markdown: delivered by failure beside the closed form, right by arm, newcomers."""
    result = json.loads(OUT.read_text("utf-8"))
    rows = result["rows"]
    cells = [line[:3] for line in rows[0]["cells"]["rows"]]
    failures = list(dict.fromkeys(line[2] for line in cells if line[0] == "market"))
    arms = list(dict.fromkeys(line[0] for line in cells if line[2] == failures[0]))
    rates = list(dict.fromkeys(line[1] for line in cells))
    seeds = ", ".join(str(row["seed"]) for row in rows)
    lines = [f"{rows[0]['model']}, `{rows[0]['env']}`, seeds {seeds}. Delivered by the market, % of tasks:", ""]
    lines += [f"| r | (1 − r³)⁴ | {' | '.join(failures)} |", "|---" * (2 + len(failures)) + "|"]
    for rate in rates:
        shown = [_shown(*_pooled(rows, "market", failure, rate, "delivered, %")) for failure in failures]
        lines.append(f"| {rate:g} | {100 * closed_form(rate, 3, 4):.0f} | {' | '.join(shown)} |")
    lines += ["", f"All four parts right, %, where agents {failures[0]}:", ""]
    lines += [f"| r | {' | '.join(arms)} |", "|---" * (1 + len(arms)) + "|"]
    for rate in rates:
        shown = [_shown(*_pooled(rows, arm, failures[0], rate, "right, %")) for arm in arms]
        lines.append(f"| {rate:g} | {' | '.join(shown)} |")
    lines += ["", *(f"- Seed {row['seed']}: {text}" for row in rows for text in row["words"])]
    if shares := result["newcomers"]:
        shown = ", ".join(f"{100 * one['share']:.0f}" for one in shares)
        lines += [f"- A newcomer among six of equal quality gets {shown} % of the next {PARTS} parts (a sixth is 17)."]
    commit = result["provenance"]["commit"]["id"][:8]
    return [*lines, "", f"`{'`, `'.join(result['commands'])}`, commit {commit}."]


def main():
    """Measure the seeds and newcomers that are asked for; the result file is written after each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--newcomers", nargs="*", type=int, default=[0, 1, 2, 3, 4], help="seeds of newcomers")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="in place of a setting, as JSON")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "holos")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    changed = {name: json.loads(value) for name, _, value in (one.partition("=") for one in given.set)}
    settings = SETTINGS | {name: tuple(one) if isinstance(one, list) else one for name, one in changed.items()}
    asked = [one for i, one in enumerate(sys.argv) if i and not {"--out", "--runs"} & set(sys.argv[i - 1 : i + 1])]
    command = shlex.join(["python", "benchmarks/holos.py", *asked])
    result = {"commands": [], "rows": [], "newcomers": []}
    result |= json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}

    def write(**more):
        result.update(more, commands=list(dict.fromkeys([*result["commands"], command])), provenance=provenance())
        write_atomic(given.out, dump(result, indent=1) + "\n")

    for seed in given.seeds:
        others = [one for one in result["rows"] if one["seed"] != seed]
        write(rows=sorted([*others, measured(seed, settings, given.runs)], key=lambda one: one["seed"]))
    if given.newcomers:
        write(newcomers=[{"seed": seed, "share": newcomer(seed)} for seed in given.newcomers])


if __name__ == "__main__":
    main()
