"""Relevance alone: how often is the most relevant memory of the same kind as the question? No language model.

    python benchmarks/relevance.py --seeds 10

The analyst's 60 training questions are the memory, 48 held-out questions are asked, both in short wordings (which
resemble templates) and in free ones; the real store, embedder and recall are used. "cosine" is the published relevance
of MemRL and MemQ, "hybrid" is memlift's.
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from evolvent import Memory, envs
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.formulas.statistics import student_interval
from evolvent.memory.policies import preset


def main() -> None:
    """Measure and write benchmarks/results/relevance.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", default=str(Path(__file__).parent / "results" / "relevance.json"))
    a = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    for words in ("short", "free"):
        env = envs.load(f"analyst:words={words}")
        for seed in range(a.seeds):
            for relevance, ranks in _asked(env.tasks("train", 60, seed), env.tasks("heldout", 48, seed)).items():
                rates = found.setdefault(f"{relevance}, {words} wordings", {"first": [], "any_of_3": []})
                rates["first"].append(sum(r[0] for r in ranks) / len(ranks))
                rates["any_of_3"].append(sum(any(r) for r in ranks) / len(ranks))
    result = {
        "command": f"python benchmarks/relevance.py --seeds {a.seeds}",
        "rates": {
            name: {key: {"mean": sum(v) / len(v), "ci95": student_interval(v), "values": v} for key, v in rates.items()}
            for name, rates in found.items()
        },
        **provenance(),
    }
    Path(a.out).parent.mkdir(parents=True, exist_ok=True)
    write_atomic(Path(a.out), json.dumps(result, indent=1) + "\n")
    for name, rates in result["rates"].items():
        print(name, {key: (round(r["mean"], 3), [round(x, 3) for x in r["ci95"]]) for key, r in rates.items()})


def _asked(train: list, heldout: list) -> dict[str, list[list[bool]]]:
    """By relevance, whether each of three memories is of the kind of the question."""
    kind = {task.text: task.kind for task in train}
    with Memory(sync="normal") as memory:
        memory.remember_many([{"key": t.text, "body": t.kind, "merge": None} for t in train])
        return {
            relevance: [
                [kind[item.key] == task.kind for item in memory.recall(task.text, k=3, policy=policy).items]
                for task in heldout
            ]
            for relevance in ("cosine", "hybrid")
            for policy in [preset("rag", relevance=relevance)]
        }


if __name__ == "__main__":
    main()
