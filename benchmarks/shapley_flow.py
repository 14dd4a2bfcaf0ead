"""What is each slot of a workflow worth? A 135M model against a 1.5B in each, and what one pays for beside a model.

    nice python benchmarks/shapley_flow.py [--slots workflow no-oracle analyst placebo]

``workflow``: the published loop of plan, reason, act and reflect on two-digit sums, in which an oracle says whether to
try again; ``no-oracle``: the same without. ``analyst``: model, memory, schema and repair on questions about the flights
database. ``placebo``: twenty comments in the prompts of the 135M, which counts letters, each against none. All are runs
of ``evolvent run shapley_flow``; the folders stay under ``--runs``, and what was stopped goes on.
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path

import evolvent
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.evaluate.live import interval, number

OUT = Path(__file__).parent / "results" / "shapley_flow.json"
LOOP = {"slots": "workflow", "tasks": 20, "fresh": 8, "steps": 2, "line": 24}
PARTS = {
    "workflow": LOOP,
    "no-oracle": {**LOOP, "oracle_stop": False},
    "analyst": {"slots": "analyst", "env": "analyst", "tasks": 48, "fresh": 12},
    "placebo": {"slots": "analyst", "env": "arithmetic:count", "players": ("placebo",), "tasks": 32, "fresh": 0},
}
COMMENTS = 20
KEPT = ("env", "model", "against_model", "score", "best", "parts", "interactions", "configurations", "against", "words")


def study(folder, settings):
    """A run, begun or gone on with: its summary, and whether it was."""
    again = folder.exists()
    return evolvent.run("shapley_flow", **{"resume" if again else "out": folder}, **settings).summary, again


def measured(name, settings, runs):
    """A part as a row of the result file; ``cpu_s`` is of this process alone."""
    start, again = time.process_time(), False
    if name == "placebo":
        worths = []
        for comment in range(1, COMMENTS + 1):
            found, before = study(runs / f"{name}-{comment}", {**settings, "comment": comment})
            worth = found["parts"]["placebo"]
            worths.append({"comment": comment, "value": worth["value"], "ci95": worth["ci95"]})
            again |= before
        row = {key: found[key] for key in ("env", "model", "tasks")} | {"worths": worths}
    else:
        found, again = study(runs / name, settings)
        row = {key: found[key] for key in (*KEPT, "tasks", "held", "runs")}
    row |= {"seed": found["seed"], "settings": settings, "cpu_s": round(time.process_time() - start)}
    return {"part": name, **row, "resumed": again}


def table():
    """The result file as lines of Markdown."""
    result = json.loads(OUT.read_text("utf-8"))
    lines = [line for row in result["rows"] for line in (_placebo(row) if "worths" in row else _study(row))]
    commit = result["provenance"]["commit"]["id"][:8]
    return [*lines, f"`{'`, `'.join(result['commands'])}`, commit {commit}."]


def _study(row):
    said = f"{row['tasks']} tasks of `{row['env']}`, {row['held']} held apart, seed {row['seed']}."
    lines = [f"**{row['part']}**: {row['model']} against {row['against_model']}, {said}", ""]
    lines += ["| slot | Shapley | Banzhaf | left out | alone | tokens | seconds |", "|---|---|---|---|---|---|---|"]
    for name, one in row["parts"].items():
        ways = [_said(one), *(_said(one[way]) for way in ("banzhaf", "leave_one_out", "first_in"))]
        costs = [number(one["takes"][of].get("value")) for of in ("tokens", "seconds")]
        lines.append(f"| {' | '.join([name, *ways, *costs])} |")
    lines += ["", "| strong | right | if slots add | beyond that | tokens | seconds |", "|---|---|---|---|---|---|"]
    for one in sorted(row["configurations"], key=lambda one: -one["value"]):
        beyond = one["beyond"].get("value")
        added = "" if beyond is None else number(one["value"] - beyond, 0.1)
        costs = [number(one["takes"][of]) for of in ("tokens", "seconds")]
        cells = [" + ".join(one["strong"]) or "none", _said(one), added, _said(one["beyond"]), *costs]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *(f"- {text}" for text in row["words"]), ""]


def _placebo(row):
    covered = sum(one["ci95"][0] <= 0 <= one["ci95"][1] for one in row["worths"])
    other = sum(one["value"] != 0 for one in row["worths"])
    text = f"{covered} of {len(row['worths'])} intervals hold 0; {other} comments changed the score"
    return [
        f"**placebo**: comments in the prompts of {row['model']}, {row['tasks']} tasks of `{row['env']}`: {text}.",
        "",
    ]


def _said(one):
    return interval(one["value"], one["ci95"], rate=False) if one else ""


def main():
    """Run the parts that are asked for; the result file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--tasks", type=int, default=0, help="tasks of each part; 0 = as described")
    parser.add_argument("--model", default="", help="in place of the 135M")
    parser.add_argument("--strong", default="", help="in place of the 1.5B")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "shapley_flow")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    asked = [one for i, one in enumerate(sys.argv) if i and not {"--out", "--runs"} & set(sys.argv[i - 1 : i + 1])]
    result = {"commands": [], "rows": []} | (json.loads(given.out.read_text("utf-8")) if given.out.exists() else {})
    command = shlex.join(["python", "benchmarks/shapley_flow.py", *asked])
    for name in given.slots:
        more = {key: value for key in ("tasks", "model", "strong") if (value := getattr(given, key))}
        row = measured(name, {**PARTS[name], **more}, given.runs)
        result["rows"] = [one for one in result["rows"] if one["part"] != name] + [row]
        result["commands"] = list(dict.fromkeys([*result["commands"], command]))
        write_atomic(given.out, dump(result | {"provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
