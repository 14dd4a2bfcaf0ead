"""Questions in other words than their memory: is it among the three that a recall shows? No language model.

    python benchmarks/paraphrases.py --label "what this code is"

Real store and embedder; every recall is frozen and nothing has an outcome yet, so only relevance decides. A run adds
its row to the result file under its label and replaces one of the same label. The questions: paraphrase_cases.py.
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import paraphrase_cases as cases

from evolvent import Memory
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance

POLICIES = ("memlift", "memrl", "rag")


def main() -> None:
    """Measure and write benchmarks/results/paraphrases.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--label", required=True, help="name of the row in the result file")
    parser.add_argument("--out", default=str(Path(__file__).parent / "results" / "paraphrases.json"))
    a = parser.parse_args()
    pairs = [pair for some in cases.PAIRS.values() for pair in some]
    shared = [(key, question) for key, question, _ in cases.SHARED]
    asked = {"paraphrased": pairs, "short keys": cases.SHORT, "long keys": cases.LONG, "misleading words": shared}
    right = [key for some in asked.values() for key, _ in some]
    keys = [*right, *(wrong for _, _, wrong in cases.SHARED), *cases.distractors()]
    found: dict[str, dict[str, dict[str, float]]] = {}
    with Memory(sync="normal") as memory, Memory(sync="normal") as small:
        memory.remember_many([{"key": key, "body": key, "merge": None} for key in keys])
        small.remember_many([{"key": key, "body": key, "merge": None} for key in right])
        for policy in POLICIES:
            rows = found[policy] = {}
            for name, some in asked.items():
                rows[name] = _ask(memory, policy, some)
            rows["paraphrased, no other keys"] = _ask(small, policy, pairs)
            rows["the key itself"] = _ask(memory, policy, [(key, key) for key in right])
            rows["nothing fits"] = _ask(memory, policy, [("", question) for question in cases.NOTHING])
            rows["nothing fits, no other keys"] = _ask(small, policy, [("", question) for question in cases.NOTHING])
    path = Path(a.out)
    before = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    command = f'python benchmarks/paraphrases.py --label "{a.label}"'
    row = {"label": a.label, "keys": len(keys), "found": found, "command": command, **provenance()}
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [*(other for other in before if other["label"] != a.label), row]
    write_atomic(path, json.dumps({"benchmark": "paraphrases", "rows": rows}, indent=1) + "\n")
    for policy, sets in found.items():
        for name, row in sets.items():
            print(f"{policy:8} {name:28}", "  ".join(f"{k} {v:g}" for k, v in row.items()))


def _ask(memory: Memory, policy: str, pairs: list[tuple[str, str]]) -> dict[str, float]:
    """How often the right key was shown (of three), how often nothing was, and how many memories on average."""
    shown = [(key, memory.recall(question, k=3, policy=policy, frozen=True).items) for key, question in pairs]
    return {
        "asked": len(pairs),
        "right": sum(any(item.key == key for item in items) for key, items in shown),
        "first": sum(bool(items) and items[0].key == key for key, items in shown),
        "empty": sum(not items for _, items in shown),
        "shown": round(sum(len(items) for _, items in shown) / len(pairs), 2),
    }


if __name__ == "__main__":
    main()
