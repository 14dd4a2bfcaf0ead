"""EvoKernel against its controls on the same kernels, with the same attempts: rows are written as they come.

    python benchmarks/evokernel.py --seeds 0 1 2                 # all arms (hours on two cores)
    python benchmarks/evokernel.py --arms none refine evokernel --count 3 --budget 6
    python benchmarks/evokernel.py --condition heldout transfer --arms refine evokernel
    python benchmarks/evokernel.py --condition faster faster-heldout faster-transfer --count 6 --budget 8
    python benchmarks/evokernel.py --lessons --count 8           # what one lesson does: naive C, one try, greedy
    python benchmarks/evokernel.py --page                        # docs/results/kernels.md from the result files

Arms: ``none`` drafts alone (pass@k), ``refine`` refinement without memory, ``similar`` memories by cosine alone,
``random`` any memories, ``lesson`` refinement with one lesson for everyone, ``evokernel`` values choose. Conditions:
``train`` from nothing, ``heldout`` other kernels from nothing, ``transfer`` these with the memory that the run
``evokernel`` of ``train`` of the same seed left, ``fast_math`` everything compiled with -ffast-math; ``faster``,
``faster-heldout`` and ``faster-transfer`` the same where naive C is given and asked to be made faster. A cell that
stands in the result file is not run again; one that was stopped goes on in its folder. Attempts are equal; tokens are
told.
"""

import argparse
import json
import os
import re

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from cached_model import Cached

from evolvent import envs, models
from evolvent.algos import evokernel
from evolvent.core.config import to_json
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live, interval
from evolvent.formulas.refinement import GAIN
from evolvent.formulas.statistics import wilson
from evolvent.runs.programs.words import PRACTICES

HERE = Path(__file__).parent
RESULTS, LESSONS = HERE / "results" / "evokernel.json", HERE / "results" / "evokernel_lessons.json"
PAGE = HERE.parent / "docs" / "results" / "kernels.md"
LESSON = next(lesson for lesson in PRACTICES if "fast-math" in lesson)
INTRICATE = next(lesson for lesson in PRACTICES if "16 sums" in lesson)
BEGUN = provenance()  # before results are written: of the code that made them
ARMS = {
    "none": {"refine": False, "select": "none"},
    "refine": {"select": "none"},
    "similar": {"select": "similar"},
    "random": {"select": "random"},
    "lesson": {"select": "none", "lesson": LESSON},
    "evokernel": {},
}
CONDITIONS = {
    "train": {},
    "heldout": {"split": "heldout"},
    "transfer": {"split": "heldout"},
    "fast_math": {"env": "kernels:fast_math=true"},
    "faster": {"env": "kernels:faster"},
    "faster-heldout": {"env": "kernels:faster", "split": "heldout"},
    "faster-transfer": {"env": "kernels:faster", "split": "heldout"},
}
FROM = {"transfer": "train", "faster-transfer": "faster"}
"""Conditions that begin with a memory, and the one whose run of ``evokernel`` left it."""
CELL = ("model", "condition", "arm", "seed", "count", "budget", "only", "trained")
KEPT = ("score", "compiled", "right", "faster", "speedup", "rounds", "kernels", "advice", "steps", "tokens",
        "prompt_tokens", "seconds")  # fmt: skip


def main():
    """Run the missing cells, or write the page."""
    a = _arguments()
    if a.page:
        PAGE.write_text(page(rows(RESULTS), rows(LESSONS)), "utf-8")
        return
    engine = models.load(a.model, **({"n_threads": a.threads} if a.threads else {}))
    with closing(engine), Live(plain=True) as live:
        model = Cached(engine, Path(a.runs) / "completions.db")
        if a.lessons:
            lessons(a, model, live)
            return
        for seed in a.seeds:
            for condition in a.condition:
                for arm in a.arms:
                    cell = cell_of(a, condition, arm, seed)
                    if any(cell == {name: row[name] for name in CELL if name in row} for row in rows(a.out)):
                        continue
                    live.phase(f"{condition} · {arm} · seed {seed}")
                    summary = run(cell, Path(a.runs), model, live)
                    row = cell | {"command": command(cell)} | {name: summary[name] for name in KEPT} | {"commit": BEGUN}
                    row["attempts"] = attempts(folder_of(cell, Path(a.runs)))
                    Path(a.out).parent.mkdir(parents=True, exist_ok=True)
                    write_atomic(Path(a.out), json.dumps([*rows(a.out), row], indent=1) + "\n")


def cell_of(a, condition, arm, seed):
    """What a row is of; named kernels are others than as many that the seed draws."""
    cell = {"model": a.model, "condition": condition, "arm": arm, "seed": seed, "count": a.count, "budget": a.budget}
    if a.kernels:
        cell |= {"only": a.kernels, "count": len(a.kernels)}
        if condition in FROM:  # its memory is of kernels that the seed drew
            cell["trained"] = a.count
    return cell


def lessons(a, model, live):
    """Every kernel made faster from naive C, once for each lesson: greedy, no memory, nothing refined."""
    world: Any = envs.load("kernels")
    with closing(world) as env:
        names = [task.kind for task in [*env.tasks("train", 20, 0), *env.tasks("heldout", 10, 0)]]
        for name in names[: a.count]:
            for lesson in ("", LESSON, INTRICATE):
                cell = {"model": a.model, "kernel": name, "lesson": lesson}
                if any(cell.items() <= row.items() for row in rows(LESSONS)):
                    continue
                text = env.asked(name, env.operators[name].source) + (f"\nAdvice: {lesson}" if lesson else "")
                prompt = f"{env.instructions}Task: {text}\nC:"
                answer = model.generate(prompt, max_tokens=env.max_tokens, stop=env.stop)
                found = env.start().judge(env.operators[name], answer.text, 0)
                speed = found.speed and {"ratio": found.speed.ratio, "low": found.speed.low, "high": found.speed.high}
                copied = found.source.split() == env.operators[name].source.split()
                told = {"gate": found.gate, "words": found.words, "copy": copied, "speed": speed,
                        "tokens": len(answer.token_ids), "source": found.source}  # fmt: skip
                row = cell | told | {"commit": BEGUN}
                write_atomic(LESSONS, json.dumps([*rows(LESSONS), row], indent=1) + "\n")
                live.note(f"{name} | {lesson[:40] or 'no lesson'} | {found.gate or 'right'} {found.words[:90]}")


def run(cell, runs, model, live):
    """One cell in a folder of its own; the summary."""
    more = {**CONDITIONS[cell["condition"]], **ARMS[cell["arm"]]}
    if cell["condition"] in FROM:
        first = {name: cell[name] for name in cell if name not in ("only", "trained")}
        first |= {"condition": FROM[cell["condition"]], "arm": "evokernel", "count": cell.get("trained", cell["count"])}
        more["memory"] = str(folder_of(first, runs))
        if not Path(more["memory"], "memory.db").exists():
            raise BadInput("no memory to transfer", got=more["memory"], expected="the run that it comes from",
                           where=f"--condition {cell['condition']}", do=f"first {command(first)}")  # fmt: skip
    config = evokernel.Config(
        model=cell["model"],
        seed=cell["seed"],
        count=cell["count"],
        budget=cell["budget"],
        kernels=tuple(cell.get("only", ())),
        **more,
    )
    path = folder_of(cell, runs)
    resume = (path / "memory.db").exists()
    folder = RunFolder.open(path) if resume else RunFolder.create(
        path, algo="evokernel", config=to_json(config), env=config.env, seed=config.seed, kind="programs",
        command=command(cell),
    )  # fmt: skip
    with folder:
        return evokernel.run(config, folder, live, resume=resume, model=model)


def command(cell):
    """What runs one cell."""
    which = f"--kernels {' '.join(cell['only'])}" if "only" in cell else f"--count {cell['count']}"
    which += f" --count {cell['trained']}" if "trained" in cell else ""
    return (
        f"python benchmarks/evokernel.py --model {cell['model']} --condition {cell['condition']} --arms {cell['arm']} "
        f"{which} --budget {cell['budget']} --seeds {cell['seed']}"
    )


def folder_of(cell, runs):
    """The folder of a cell."""
    which = "+".join(cell.get("only", ())) or cell["count"]
    which = f"{which}-from{cell['trained']}" if "trained" in cell else which
    model = re.sub(r"[^\w.-]+", "-", cell["model"])
    return runs / f"{model}-{cell['condition']}-{cell['arm']}-{which}x{cell['budget']}-{cell['seed']}"


def attempts(path):
    """Every attempt of a run in order: its kernel, all its tokens, where it stopped, and its ratio to naive C."""
    with RunFolder.open(path) as folder:
        return [[row["kernel"], row["prompt_tokens"] + row["tokens"], row["gate"], round(row["ratio"], 4)]
                for row in folder.read_metrics()]  # fmt: skip


def rows(path):
    """Rows that are there."""
    return json.loads(Path(path).read_text("utf-8")) if Path(path).exists() else []


HEAD = """# Kernels: what a memory of lessons is worth

Generated by `python benchmarks/evokernel.py --page` from `benchmarks/results/evokernel.json` and
`evokernel_lessons.json`. What the arms and the gates are: [kernels](../kernels.md). **Few kernels and few seeds:**
intervals over kernels (Wilson) are wide. What is not in a table was not run.
"""
ONE = """## One lesson, one try

Each kernel is made faster from naive C once, greedily, without a lesson and with one. Faster: at least 1.15 times as
fast as naive C. Median: of the ratio of those that are right.

| model | lesson | kernels | compiles | right [95 %] | a copy | faster [95 %] | median |
|---|---|---|---|---|---|---|---|"""
ARMS_HEAD = """## Arms

Attempts are equal in the arms of a row, tokens are not, and are shown: written, and with the
prompt's an attempt. Gain: median of the best over the first right program.
First and best: naive C's time over theirs, 1 where they are less than 1.15 times apart; intervals are as measured.

| model | condition | arm | seed | kernels × n | compiled | right | faster | gain (n) | tokens | an attempt | minutes |
|---|---|---|---|---|---|---|---|---|---|---|---|"""
ROUNDS = """## By iteration

Share of the kernels that have a compiled, a right and a faster program by so many attempts at each.

| model | condition | arm | seed | kernels | attempts | compiled | right | faster |
|---|---|---|---|---|---|---|---|---|"""
EQUAL = """## At equal tokens

Arms that had the same kernels and seed, each up to as many tokens (prompts and answers) as the one with the fewest.

| model | condition | kernels | seed | tokens | arm | attempts | right | faster |
|---|---|---|---|---|---|---|---|---|"""


def page(found, single):
    """The page of results."""
    lines = [HEAD, *_one(single), *_arms(found)]
    commits = {(row["commit"]["commit"]["id"][:10], row["commit"]["commit"]["dirty"]) for row in [*found, *single]}
    told = ", ".join(f"{id_}{' (with uncommitted changes)' if dirty else ''}" for id_, dirty in sorted(commits))
    return "\n".join([*lines, f"Commits {told}.", ""])


def _one(single):
    if not single:
        return []
    lines = [ONE]
    for model, lesson in dict.fromkeys((row["model"], row["lesson"]) for row in single):
        mine = [row for row in single if (row["model"], row["lesson"]) == (model, lesson)]
        right = [row["speed"]["ratio"] for row in mine if row["gate"] == ""]
        fast, n = sum(ratio >= 1.15 for ratio in right), len(mine)
        compiles = sum(row["gate"] in ("", "correct") for row in mine)
        shares = [interval(k / n, wilson(k, n)) for k in (len(right), fast)]
        told = [model, lesson or "none", n, compiles, shares[0], sum(row["copy"] for row in mine), shares[1],
                f"{np.median(right):.2f}" if right else "–"]  # fmt: skip
        lines.append(f"| {' | '.join(map(str, told))} |")
    told = list(dict.fromkeys(row["lesson"] for row in single))
    lines += ["", f"| kernel | {' | '.join(lesson or 'none' for lesson in told)} |", f"|{'---|' * (len(told) + 1)}"]
    for name in dict.fromkeys(row["kernel"] for row in single):
        cells = {row["lesson"]: _cell(row) for row in single if row["kernel"] == name}
        lines.append(f"| {name} | {' | '.join(cells.get(lesson, '–') for lesson in told)} |")
    lines += ["", "What the compiler or the checker said:", ""]
    lines += [f"- {row['kernel']}, {row['lesson'] or 'no lesson'}: `{row['words']}`" for row in single if row["gate"]]
    return [*lines, ""]


def _cell(row):
    speed = row["speed"]
    return row["gate"] if row["gate"] else f"{interval(speed['ratio'], [speed['low'], speed['high']], rate=False)}"


def _arms(found):
    if not found:
        return ["The arms of EvoKernel (`--arms`) were not run yet.", ""]
    lines = [ARMS_HEAD]
    for row in found:
        gain, share = row["speedup"], [interval(row[what]["rate"], row[what]["ci95"]) for what in ("right", "faster")]
        median = f"{gain['median']:.2f} ({gain['n']})" if gain["n"] else "–"
        minutes = round(row["seconds"] / 60, 1)
        told = [row["model"], row["condition"], f"`{row['arm']}`", row["seed"], f"{row['count']} × {row['budget']}",
                row["compiled"]["successes"], *share, median, f"{row['tokens']:,}",
                f"{(row['tokens'] + row['prompt_tokens']) / row['steps']:,.0f}", minutes]  # fmt: skip
        lines.append(f"| {' | '.join(map(str, told))} |")
    lines += [
        "",
        "| condition | arm | seed | kernel | first right at | first | best |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        for k in row["kernels"]:
            first = "–" if k["first"] is None else f"{k['first']:.2f}"
            told = [row["condition"], f"`{row['arm']}`", row["seed"], k["name"], k["first_right_at"] or "–", first,
                    interval(k["best"], k["ci95"], rate=False)]  # fmt: skip
            lines.append(f"| {' | '.join(map(str, told))} |")
    return [*lines, "", *_rounds(found), *_equal(found)]


def _rounds(found):
    lines = [ROUNDS]
    for row in found:
        last = len(row["rounds"])
        for one in row["rounds"]:
            if one["round"] in (1, 2, 4, 8, 16, last):
                shares = [interval(one[what], None) for what in ("compiled", "right", "faster")]
                told = [
                    row["model"],
                    row["condition"],
                    f"`{row['arm']}`",
                    row["seed"],
                    f"{row['count']} × {row['budget']}",
                    one["round"],
                    *shares,
                ]
                lines.append(f"| {' | '.join(map(str, told))} |")
    return [*lines, ""]


def _equal(found):
    """Of arms that share everything else, what each had reached with the tokens of the cheapest."""
    groups = {}
    for row in found:
        same = (row["model"], row["condition"], tuple(row.get("only", ())), row["count"], row["budget"], row["seed"])
        groups.setdefault(same, []).append(row)
    lines = [EQUAL]
    for (model, condition, only, count, _, seed), group in groups.items():
        least = min(sum(tokens for _, tokens, _, _ in row["attempts"]) for row in group)
        for row in group if len(group) > 1 else []:
            spent = np.cumsum([tokens for _, tokens, _, _ in row["attempts"]])
            within = row["attempts"][: int(np.searchsorted(spent, least, side="right"))]
            right = {name for name, _, gate, _ in within if gate == ""}
            faster = {name for name, _, gate, ratio in within if gate == "" and ratio >= GAIN}
            told = [model, condition, ", ".join(only) or count, seed, f"{least:,}", f"`{row['arm']}`", len(within),
                    f"{len(right)} of {row['count']}", f"{len(faster)} of {row['count']}"]  # fmt: skip
            lines.append(f"| {' | '.join(map(str, told))} |")
    return [*lines, ""] if len(lines) > 1 else []


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--condition", nargs="+", choices=CONDITIONS, default=["train"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--kernels", nargs="+", default=[], help="these, instead of --count drawn by the seed")
    parser.add_argument("--budget", type=int, default=12)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", default=str(RESULTS))
    parser.add_argument("--runs", default="runs/evokernel")
    parser.add_argument("--lessons", action="store_true")
    parser.add_argument("--page", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
