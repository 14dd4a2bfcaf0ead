"""A study in a process of its own, which somebody kills: ``python worth_worker.py OUT WORKERS``."""

import random
import sys
import time

import evolvent


def run(task, parts, seed):
    time.sleep(0.004)
    evolvent.spent(10 + 20 * bool(parts["planner"]) + task["id"])
    if task["id"] == 5 and parts["critic"]:
        raise ValueError("broke")
    draw = random.Random(f"{task['id']} {seed} {parts['planner']} {parts['llm']}")
    return draw.random() < 0.3 + 0.3 * bool(parts["planner"]) + 0.2 * (parts["llm"] == "large")


if __name__ == "__main__":
    report = evolvent.worth(
        run,
        {"planner": (None, "plan"), "critic": (None, "critique"), "llm": ("small", "large")},
        [{"id": i} for i in range(20)],
        lambda task, answer: answer,
        out=sys.argv[1],
        workers=int(sys.argv[2]),
        seeds=2,
        quiet=True,
    )
    print(
        {name: (one.shapley, one.takes["tokens"]) for name, one in report.parts.items()}, report.best, report.verified
    )
