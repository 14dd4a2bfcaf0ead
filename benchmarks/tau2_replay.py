"""tau2's shop with its gold calls, and with nothing done: the ends between which a model's rows will stand.

python benchmarks/tau2_replay.py
"""

import json
from pathlib import Path

from evolvent.core.machine import provenance
from evolvent.data.calls import written
from evolvent.envs import load
from evolvent.envs.text.tau2 import RELEASE
from evolvent.formulas.statistics import wilson

OUT = Path(__file__).parent / "results" / "tau2.json"


def replay(env, task):
    """Whether the task is solved by its gold calls, one an answer, and the words that the customer must be told."""
    calls, wanted = env.gold(task)
    env.reset(task)
    for one in calls:
        env.step(written([one]))
    return env.step(f"Done. {' '.join(wanted)}").success


def nothing(env, task):
    """Whether it is solved by an answer without any call."""
    env.reset(task)
    return env.step("Done.").success


def main():
    """Write the result file."""
    env = load("tau2:retail,steps=100")
    rows = []
    for split in ("train", "heldout"):
        for task in env.tasks(split, len(env._split[split]), 0):
            told = {"task": task.id, "split": split, "gold": replay(env, task), "nothing": nothing(env, task)}
            rows.append(told)
            print(told, flush=True)
    env.close()
    head = {"command": "python benchmarks/tau2_replay.py", "release": RELEASE, "provenance": provenance()}
    OUT.write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n")


def table():
    """The result file as lines of Markdown."""
    rows = json.loads(OUT.read_text("utf-8"))["rows"]
    lines = ["| tau2 retail, scripted customer | to learn from | held out |", "|---|---|---|"]
    for name, key in (("gold calls", "gold"), ("nothing done", "nothing")):
        cells = [_share([row[key] for row in rows if row["split"] == split]) for split in ("train", "heldout")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, "", "`python benchmarks/tau2_replay.py`"]


def _share(right):
    low, high = wilson(sum(right), len(right))
    return f"{sum(right)} of {len(right)} [{low:.0%}, {high:.0%}]"


if __name__ == "__main__":
    main()
