"""How many agents, and does it help that they differ? A frozen 135M that chooses functions in three ways; a writer.

    nice python benchmarks/agent_scaling.py [--parts choose write]

``choose``: 63 items of BFCL ``multiple``, three ways of SmolLM2-135M to score each function, with five personas and
none; levels L1 to L4 of 1 to 16 agents, by vote and pooled. ``write``: Qwen2.5-Coder-1.5B counts letters, five personas
and none, drawn and greedy; votes of 1 to 8, and debates of three over one round (mesh, ring, hub). Both are runs of
``evolvent run agent_scaling``; the folders stay under ``--runs``, and a part that was stopped goes on.
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path

import evolvent
from evolvent.algos.agent_scaling import arms
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance

OUT = Path(__file__).parent / "results" / "agent_scaling.json"
PARTS = {
    "choose": {"tasks": 63},
    "write": {
        "answer": "write",
        "model": "qwen2.5-coder-1.5b",
        "env": "arithmetic:count",
        "tasks": 20,
        "agents": 8,
        "rounds": 1,
        "debaters": 3,
        "temperature": 0.8,
    },
}
COLUMNS = ("right, %", "to best single, points", "K*", "tokens a task", "alike at equal tokens, %", "bits at least")


def measured(name, settings, runs):
    """A part's run, begun or gone on with, as a row of the result file; ``cpu_s`` is of this process alone."""
    folder, start = runs / name, time.process_time()
    again = folder.exists() and not (folder / "summary.json").exists()
    given = {"resume": folder} if again else {"out": folder, **settings}
    found = evolvent.run("agent_scaling", **given).summary
    kept = {key: found[key] for key in ("model", "env", "steps", "score", "baseline", "words", "cells", "k_star")}
    return {"part": name, **kept, "cpu_s": round(time.process_time() - start), "resumed": again}


def table():
    """The result file as lines of Markdown: of each part one agent alone, and each arm's smallest and largest teams."""
    result = json.loads(OUT.read_text("utf-8"))
    lines = []
    for row in result["rows"]:
        columns, cells = row["cells"]["columns"], row["cells"]["rows"]
        lines += [f"**{row['part']}**: {row['model']}, {row['steps']} tasks of `{row['env']}`.", ""]
        lines += [f"| arm | agents | rule | {' | '.join(COLUMNS)} |", "|---" * (3 + len(COLUMNS)) + "|"]
        for line in arms.brief(cells):
            at = dict(zip(columns, line, strict=True))
            right = f"{at['right, %']:.0f} [{at['from']:.0f}, {at['to']:.0f}]"
            more = ["–" if at[key] is None else f"{at[key]:g}" for key in COLUMNS[1:]]
            lines.append(f"| {' | '.join([at['arm'], str(at['agents']), at['rule'], right, *more])} |")
        lines += ["", *(f"- {text}" for text in row["words"]), ""]
    commit = result["provenance"]["commit"]["id"][:8]
    return [*lines, f"`{'`, `'.join(result['commands'])}`, commit {commit}."]


def main():
    """Run the parts that are asked for; the result file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--tasks", type=int, default=0, help="tasks of each part; 0 = as described")
    parser.add_argument("--embedder", default="all-MiniLM-L6-v2")
    parser.add_argument("--model", default="", help="in place of the part's")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "agent_scaling")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    asked = [one for i, one in enumerate(sys.argv) if i and not {"--out", "--runs"} & set(sys.argv[i - 1 : i + 1])]
    result = {"commands": [], "rows": []} | (json.loads(given.out.read_text("utf-8")) if given.out.exists() else {})
    command = shlex.join(["python", "benchmarks/agent_scaling.py", *asked])
    for name in given.parts:
        more = {key: value for key, value in (("tasks", given.tasks), ("model", given.model)) if value}
        row = measured(name, {**PARTS[name], "embedder": given.embedder, **more}, given.runs)
        before = [one for one in result["rows"] if one["part"] == name]
        row["cpu_s"] += sum(one["cpu_s"] for one in before if row["resumed"])
        result["rows"] = [one for one in result["rows"] if one["part"] != name] + [row]
        result["commands"] = list(dict.fromkeys([*result["commands"], command]))
        write_atomic(given.out, dump(result | {"provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
