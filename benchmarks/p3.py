"""P3 against its controls at equal CPU seconds, those of scoring included.

    nice python benchmarks/p3.py

SmolLM2-135M imitates solutions of the Game of 24 (three lines, 39 tokens) and is judged by the loss on solutions to
held-out puzzles, nats a token. The natural pool holds solutions alone; in the hopeless one four of five examples have
their form with digits drawn at random: there is nothing in them to learn but the form. ``p3`` and ``pace`` learn from a
third of the pool in each of three epochs; the others from as many examples as p3's CPU seconds, scoring and learning,
would have paid for. ``hopeless`` is the share of such examples among those that were learned from.
"""

import argparse
import json
import random
import shlex
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import search_warm

from evolvent import envs
from evolvent.algos import p3
from evolvent.core.config import to_json
from evolvent.core.folder import RunFolder
from evolvent.core.machine import provenance
from evolvent.envs.text import game24
from evolvent.evaluate.live import Live
from evolvent.formulas.statistics import student_interval
from evolvent.runs.language import tuning
from evolvent.runs.language.config import Plan
from evolvent.runs.language.examples import fitted
from evolvent.runs.language.rows import read_rows

OUT = Path(__file__).parent / "results" / "p3.json"
POOLS = {"natural": 0.0, "hopeless": 0.8}
ARMS = ("p3", "pace", "random", "all")
EPOCHS = 3


def pool(share, n, seed):
    """``n`` examples as (prompt, completion), and how many of them, the first ones, are hopeless."""
    draw = random.Random(seed)
    rows, bad = search_warm.examples("game24", n, seed), round(share * n)
    digits = [(q, "".join(str(draw.randrange(10)) if c.isdigit() else c for c in a)) for q, a in rows[:bad]]
    return digits + rows[bad:], bad


def heldout(n):
    """Held-out puzzles with a solution each, the same for all runs."""
    draw = random.Random(0)
    texts = [task.text for task in envs.load("game24").tasks("heldout", n, 0)]
    solved = [game24.worked(tuple(int(text[i : i + 2]) for i in range(0, 8, 2)), draw) for text in texts]
    return [(f"Numbers: {question}\nSteps:", f" {answer}\n\n") for question, answer in solved]


def as_rows(path, pairs):
    """The pairs as a file of rows."""
    path.write_text("".join(json.dumps({"prompt": q, "completion": a.rstrip("\n")}) + "\n" for q, a in pairs))
    return path


def judged_by(path):
    """``tuned``, whose held-out examples are those of a file."""

    def tuned(run, source, *, resume):
        made, counts = tuning.tuned(run, source, resume=resume)
        made.heldout = fitted(read_rows(path), run.model, chat=False, stop=(), longest=run.model.context).episodes
        return made, counts

    return tuned


def measure(config, rows, bad, judges):
    """A run and what it came to."""
    with TemporaryDirectory() as place:
        path = Path(place)
        data, p3.tuned = as_rows(path / "rows.jsonl", rows), judged_by(as_rows(path / "heldout.jsonl", judges))
        config = p3.Config(data=str(data), heldout=0.0, plan=Plan(eval_every=0, threads=1, save_every=100), **config)
        named = {"algo": "p3", "env": "", "seed": config.seed, "command": "benchmarks/p3.py", "kind": config.KIND}
        start = time.process_time()
        folder = RunFolder.create(path / "run", config=to_json(config), **named)
        with folder, Live(plain=True) as live:
            summary = p3.run(config, folder, live)
        epochs = [json.loads((path / f"run/chosen/{e + 1}.json").read_text()) for e in range(config.updates)]
    learned = [i for epoch in epochs for i in epoch["chosen"]]
    return {
        "arm": config.choose,
        "seed": config.seed,
        "n": len(rows),
        "select": config.select,
        "epochs": config.updates,
        "learned_from": len(learned),
        "hopeless": float(np.mean([i < bad for i in learned])),
        **{name: summary[name] for name in p3.CPU},
        "whole_cpu_s": round(time.process_time() - start, 1),
        "before": summary["heldout_loss_before"]["value"],
        "after": summary["heldout_loss"]["value"],
    }


def sizes(arm, n, first):
    """Examples of an epoch and epochs of an arm: as many as the seconds of p3's run pay for."""
    if arm in p3.PACE:
        return {"select": n // 3, "updates": EPOCHS}
    paid = sum(first[name] for name in p3.CPU) / (first["learning_cpu_s"] / first["learned_from"])
    if arm == "random":
        return {"select": round(paid / EPOCHS), "updates": EPOCHS}
    return {"select": n, "updates": max(1, round(paid / n))}


def table():
    """The result file as lines of Markdown: means over seeds with Student's interval."""
    result = json.loads(OUT.read_text("utf-8"))
    lines = [
        "| pool | arm | learned from | hopeless | CPU-s, scoring + learning | nats a token before → after [95 %] |"
    ]
    lines.append("|---|---|---|---|---|---|")
    for name in POOLS:
        for arm in ARMS:
            rows = [row for row in result["rows"] if (row["pool"], row["arm"]) == (name, arm)]
            if not rows:
                continue
            mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0] if key not in ("pool", "arm")}
            low, high = student_interval([row["after"] for row in rows])
            interval = f"[{low:.2f}, {high:.2f}]" if len(rows) > 2 else "[–]"
            each = ", ".join(f"{row['after']:.2f}" for row in rows)
            cells = [name, f"`{arm}`", f"{mean['learned_from']:.0f}", f"{mean['hopeless']:.0%}"]
            cells += [f"{mean['scoring_cpu_s']:.1f} + {mean['learning_cpu_s']:.1f}"]
            cells += [f"{mean['before']:.2f} → {mean['after']:.2f} {interval} ({each})"]
            lines.append(f"| {' | '.join(cells)} |")
    n, model = result["rows"][0]["n"], result["settings"]["model"]
    commit = result["provenance"]["commit"]["id"][:8]
    return [*lines, "", f"`{'`, `'.join(result['commands'])}`, {model}, pools of {n}, commit {commit}; a value a seed."]


def main():
    """Run what is asked for and not there yet; the result file is written after every run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=24, help="examples in a pool")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--pools", nargs="+", default=list(POOLS), choices=list(POOLS))
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS), help="p3 before random and all")
    parser.add_argument("--heldout", type=int, default=24)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    judges, settings = heldout(given.heldout), {"model": given.model, "lr": given.lr, "prompts": 4}
    asked = [one for i, one in enumerate(sys.argv) if i and "--out" not in sys.argv[i - 1 : i + 1]]
    commands = [shlex.join(["python", "benchmarks/p3.py", *asked])]
    result = {"commands": commands, "provenance": provenance(), "settings": settings, "rows": []}
    if given.out.exists():
        before = json.loads(given.out.read_text("utf-8"))
        result |= {"commands": list(dict.fromkeys(before["commands"] + commands)), "rows": before["rows"]}
    found = {(row["pool"], row["seed"], row["arm"]): row for row in result["rows"]}
    for seed in given.seeds:
        for name in given.pools:
            rows, bad = pool(POOLS[name], given.n, seed)
            for arm in given.arms:
                if (name, seed, arm) not in found:
                    first = found.get((name, seed, "p3"), {})
                    own = settings | {"choose": arm, "seed": seed} | sizes(arm, given.n, first)
                    found[name, seed, arm] = {"pool": name, **measure(own, rows, bad, judges)}
                    result["rows"] = list(found.values())
                    print(json.dumps(result["rows"][-1]), flush=True)
                    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
