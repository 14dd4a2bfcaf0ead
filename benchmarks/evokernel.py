"""EvoKernel against its controls on the same kernels, with the same attempts: rows are written as they come.

    python benchmarks/evokernel.py --seeds 0 1 2                 # all arms (hours on two cores)
    python benchmarks/evokernel.py --arms none refine evokernel --count 3 --budget 6
    python benchmarks/evokernel.py --condition heldout transfer --arms refine evokernel
    python benchmarks/evokernel.py --condition faster faster-heldout faster-transfer --count 6 --budget 8
    python benchmarks/evokernel.py --condition faster-transfer --arms evokernel --model gemma-3-270m \\
        --from-model qwen2.5-coder-1.5b --from-budget 30         # a weak model with the memory of a stronger one
    python benchmarks/evokernel.py --lessons --count 8           # what one lesson does: naive C, one try, greedy
    python benchmarks/evokernel.py --again                       # programs of --lessons that were right, judged anew
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

import evokernel_page
from cached_model import Cached

from evolvent import envs, models
from evolvent.algos import evokernel
from evolvent.algos.evokernel.texts import PRACTICES
from evolvent.core.config import to_json
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live

HERE = Path(__file__).parent
RESULTS, LESSONS = HERE / "results" / "evokernel.json", HERE / "results" / "evokernel_lessons.json"
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
CELL = ("model", "condition", "arm", "seed", "count", "budget", "only", "trained", "from_model", "from_budget")
KEPT = (
    "score",
    "compiled",
    "right",
    "faster",
    "speedup",
    "rounds",
    "kernels",
    "advice",
    "steps",
    "tokens",
    "prompt_tokens",
    "seconds",
)


def main():
    """Run the missing cells, or write the page."""
    a = _arguments()
    if a.page:
        evokernel_page.PAGE.write_text(evokernel_page.page(rows(RESULTS), rows(LESSONS)), "utf-8")
        return
    if a.again:
        again()
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
    given = {"from_model": a.from_model, "from_budget": a.from_budget} if condition in FROM else {}
    return cell | {name: value for name, value in given.items() if value}


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
                facts = {
                    "gate": found.gate,
                    "words": found.words,
                    "copy": copied,
                    "speed": speed,
                    "tokens": len(answer.token_ids),
                    "source": found.source,
                }
                row = cell | facts | {"commit": BEGUN}
                write_atomic(LESSONS, json.dumps([*rows(LESSONS), row], indent=1) + "\n")
                live.note(f"{name} | {lesson[:40] or 'no lesson'} | {found.gate or 'right'} {found.words[:90]}")


def again():
    """Programs of ``lessons`` that were right, by the judge of today; their times are not measured again."""
    world: Any = envs.load("kernels")
    with closing(world) as env:
        found = rows(LESSONS)
        for row in [row for row in found if row["gate"] == ""]:
            verdict = env.start().judge(env.operators[row["kernel"]], row["source"], timed=False)
            row["again"] = {"gate": verdict.gate, "words": verdict.words, "commit": {"commit": BEGUN["commit"]}}
        write_atomic(LESSONS, json.dumps(found, indent=1) + "\n")


def run(cell, runs, model, live):
    """One cell in a folder of its own; the summary."""
    more = {**CONDITIONS[cell["condition"]], **ARMS[cell["arm"]]}
    if cell["condition"] in FROM:
        first = {
            "model": cell.get("from_model", cell["model"]),
            "condition": FROM[cell["condition"]],
            "arm": "evokernel",
            "seed": cell["seed"],
            "count": cell.get("trained", cell["count"]),
            "budget": cell.get("from_budget", cell["budget"]),
        }
        more["memory"] = str(folder_of(first, runs))
        if not Path(more["memory"], "memory.db").exists():
            raise BadInput(
                "no memory to transfer",
                got=more["memory"],
                expected="the run that it comes from",
                where=f"--condition {cell['condition']}",
                do=f"first {command(first)}",
            )
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
    folder = (
        RunFolder.open(path)
        if resume
        else RunFolder.create(
            path,
            algo="evokernel",
            config=to_json(config),
            env=config.env,
            seed=config.seed,
            kind="programs",
            command=command(cell),
        )
    )
    with folder:
        return evokernel.run(config, folder, live, resume=resume, model=model)


def command(cell):
    """What runs one cell."""
    which = f"--kernels {' '.join(cell['only'])}" if "only" in cell else f"--count {cell['count']}"
    which += f" --count {cell['trained']}" if "trained" in cell else ""
    which += f" --from-model {cell['from_model']}" if "from_model" in cell else ""
    which += f" --from-budget {cell['from_budget']}" if "from_budget" in cell else ""
    return (
        f"python benchmarks/evokernel.py --model {cell['model']} --condition {cell['condition']} --arms {cell['arm']} "
        f"{which} --budget {cell['budget']} --seeds {cell['seed']}"
    )


def folder_of(cell, runs):
    """The folder of a cell."""
    which = "+".join(cell.get("only", ())) or cell["count"]
    which = f"{which}-from{cell['trained']}" if "trained" in cell else which
    source = [str(cell[name]) for name in ("from_model", "from_budget") if name in cell]
    which = "-".join([str(which), "by", *source]) if source else which
    model = re.sub(r"[^\w.-]+", "-", cell["model"])
    return runs / f"{model}-{cell['condition']}-{cell['arm']}-{which}x{cell['budget']}-{cell['seed']}"


def attempts(path):
    """Every attempt of a run in order: its kernel, all its tokens, where it stopped, and its ratio to naive C."""
    with RunFolder.open(path) as folder:
        return [
            [row["kernel"], row["prompt_tokens"] + row["tokens"], row["gate"], round(row["ratio"], 4)]
            for row in folder.read_metrics()
        ]


def rows(path):
    """Rows that are there."""
    return json.loads(Path(path).read_text("utf-8")) if Path(path).exists() else []


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--condition", nargs="+", choices=CONDITIONS, default=["train"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--kernels", nargs="+", default=[], help="these, instead of --count drawn by the seed")
    parser.add_argument("--budget", type=int, default=12)
    parser.add_argument("--from-model", default="", help="whose memory is transferred; default: the model's own")
    parser.add_argument("--from-budget", type=int, default=0, help="attempts of the run that left it")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", default=str(RESULTS))
    parser.add_argument("--runs", default="runs/evokernel")
    parser.add_argument("--lessons", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--page", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
