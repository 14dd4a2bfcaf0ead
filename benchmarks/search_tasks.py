"""The greedy answer, a vote, and the best of samples on puzzles, word problems and programs, by a frozen model.

    taskset -c 1 python benchmarks/search_tasks.py countdown --minutes 15          # tasks that stand are not run again
    taskset -c 1 python benchmarks/search_tasks.py countdown --seeds 0 1 2         # means over seeds, with intervals

Each way of choosing takes its answer of one set of samples, drawn within a budget of tokens, so that all have spent the
same: "one sample" is the first, "majority" the most frequent answer, "likeliest" that of the highest mean
log-probability, "shown tests" (programs) the first of those that pass most of the calls in the question, "oracle" says
whether any was right. "greedy" spends less. What is right is judged by the world, programs by hidden tests as well.
"""

import argparse
import json
import os
import time
from contextlib import closing
from itertools import chain
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from evolvent import envs, models
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.core.reward_kinds import reward_kinds, reward_total
from evolvent.formulas.statistics import mcnemar, student_interval, wilson
from evolvent.models.served.acting import Served
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.runs.search.grow import Grower
from evolvent.runs.search.outcome import chosen
from evolvent.search import best_of_n, values
from evolvent.search.budget import Budget

RESULT, MODEL, TEMPERATURE = Path(__file__).parent / "results" / "search_tasks.json", "qwen2.5-coder-1.5b", 0.8
FAMILIES = {
    "countdown": ("reasoning_gym:countdown,exact=true,settings=min_numbers=3+max_numbers=3+max_target=100", 120),
    "words": ("reasoning_gym:gsm_symbolic,exact=true,work=160,shots=2", 500),
    "programs": ("program:told", 320),
}
"""Worlds, and tokens for each task."""
SHOWN = "shown"


def samples(model, env, task, temperature, budget, paths, seed):
    """A search that drew samples, and its space."""
    grower = Grower(
        [env], AttemptSettings(Text()), Served(model, temperature), unit="answer", budget=Budget(tokens=budget)
    )
    draw = best_of_n.Config(paths=paths, parallel=1)
    return grower.grow([task], lambda search: best_of_n.run(search, draw), values.likelihood, seed=seed)


def solved(model, env, task, budget, seed):
    """One row: which way of choosing was right at a task."""
    began = time.process_time()
    greedy = chosen(*samples(model, env, task, 0.0, 0, 1, seed), 0, "last_max")
    search, space = samples(model, env, task, TEMPERATURE, budget, 64, seed)
    ended = [space.episode(path.leaf) for path in search.paths]
    right = [bool(one is not None and one.success) for one in ended]
    row = {
        "seed": seed,
        "task": task.id,
        "greedy": int(bool(greedy.episode and greedy.episode.success)),
        "one sample": int(any(right[:1])),
    }
    for name, how in (("majority", "majority"), ("likeliest", "last_max")):
        taken = chosen(search, space, 0, how).episode
        row[name] = int(bool(taken is not None and taken.success))
    if ended and ended[0] is not None and SHOWN in reward_kinds(ended[0]):
        passed = [reward_total(one, SHOWN) if one is not None else 0.0 for one in ended]
        row["shown tests"] = int(right[passed.index(max(passed))])
    tokens, cpu_s = int(search.meter.tokens[0]), round(time.process_time() - began, 1)
    return row | {"oracle": int(any(right)), "samples": len(right), "tokens": tokens, "cpu_s": cpu_s}


def table(rows):
    """Share of right answers of each way, with its interval, and against the vote.

    Of several seeds (rows of older files say none) it is the mean of theirs, with Student's interval over seeds. A task
    that several seeds drew counts once against the vote.
    """
    ways = [way for way in rows[0] if way not in ("seed", "task", "samples", "tokens", "cpu_s")]
    seeds, out = sorted({row.get("seed", 0) for row in rows}), {}
    once = list({row["task"]: row for row in reversed(rows)}.values())
    for way in ways:
        won = sum(row[way] for row in rows)
        p = mcnemar([row["majority"] for row in once], [row[way] for row in once])
        interval, means = wilson(won, len(rows)), {}
        if len(seeds) > 1:
            mine = [[row[way] for row in rows if row.get("seed", 0) == seed] for seed in seeds]
            means = {"seeds": [round(sum(some) / len(some), 3) for some in mine]}
            interval = student_interval(means["seeds"])
            means["mean"] = round(sum(means["seeds"]) / len(seeds), 3)
        ci95 = [round(min(max(x, 0.0), 1.0), 3) for x in interval]
        out[way] = {"right": won, "n": len(rows), **means, "ci95": ci95, "p_vote": p}
    return out


def kept(file, family, seed, task):
    """Whether a task stands already, under this seed."""
    return any((row.get("seed", 0), row["task"]) == (seed, task) for row in file.get(family, {}).get("rows", []))


def main():
    """Solve tasks of a family until the minutes are over, each seed's in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--tasks", type=int, default=60, help="of each seed")
    parser.add_argument("--minutes", type=float, default=15.0, help="of processor time")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of tasks and draws")
    parser.add_argument("--out", type=Path, default=RESULT)
    a = parser.parse_args()
    spec, budget = FAMILIES[a.family]
    said = "".join(f" {seed}" for seed in a.seeds)
    command = f"python benchmarks/search_tasks.py {a.family} --tasks {a.tasks} --minutes {a.minutes:g} --seeds{said}"
    with closing(envs.load(spec)) as env, closing(models.load(MODEL, n_threads=1)) as model:
        drawn = [[(seed, task) for task in env.tasks("heldout", a.tasks, seed)] for seed in a.seeds]
        for seed, task in chain.from_iterable(zip(*drawn, strict=True)):
            file = json.loads(a.out.read_text("utf-8")) if a.out.exists() else {}
            if kept(file, a.family, seed, task.id) or time.process_time() > 60 * a.minutes:
                continue
            rows = [*file.get(a.family, {}).get("rows", []), solved(model, env, task, budget, seed)]
            seeds = sorted({row.get("seed", 0) for row in rows})
            facts = {
                "command": command,
                "env": spec,
                "model": MODEL,
                "seeds": seeds,
                "temperature": TEMPERATURE,
                "budget_tokens": budget,
                **provenance(),
                "ways": table(rows),
                "rows": rows,
            }
            write_atomic(a.out, json.dumps(file | {a.family: facts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
