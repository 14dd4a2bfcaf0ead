"""Populations with exact responses: NashConv by iteration of PSRO's solvers and its controls, beside CFR; dispatching.

    nice python benchmarks/psro.py [--parts kuhn leduc drawn dispatch]

``kuhn`` and ``leduc``: runs of ``evolvent run``, 120 iterations, payoffs and responses exact, so that nothing is drawn
and there is one seed; CFR is OpenSpiel's (C++), NashConv of its mean policy, twice the exploitability. ``drawn``: Kuhn
poker with payoffs from plays, as many for every cell or most where it is uncertain; five seeds. ``dispatch``:
tasks that sleep, on two workers: tasks a second, and how long a free worker waits.
"""

import argparse
import json
import shlex
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

import evolvent
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.runs.population.tasks import workers

OUT = Path(__file__).parent / "results" / "psro.json"
EXACT = {
    "psro": ("psro", {}),
    "psro, alpha-rank": ("psro", {"solver": "alpha_rank"}),
    "psro, projected replicator": ("psro", {"solver": "projected"}),
    "psro, rectified": ("psro", {"rectified": True}),
    "fsp": ("fsp", {}),
    "self_play": ("self_play", {}),
}
LARGE = ("psro", "psro, projected replicator", "fsp", "self_play")
DRAWN = {"as many for all": {"plays": 100, "more": 0}, "more where uncertain": {"plays": 20, "more": 40}}
SHOWN = (0, 1, 2, 5, 10, 20, 40, 80, 120)
SLEEPS_S = (0.0, 0.01, 0.1, 0.5)


def exact(env, arm, iterations, runs):
    """A run with exact payoffs; its NashConv before each iteration and at the end."""
    system, settings = EXACT[arm]
    folder, start = runs / f"{env}-{arm.replace(', ', '-').replace(' ', '-')}", time.process_time()
    more = {"env": env, "iterations": iterations, "tolerance": 0.0, "out": folder, "quiet": True}
    found = evolvent.run(system, **settings, **more).summary
    curve = [row["nash_conv"] for row in RunFolder.open(folder).read_metrics()]
    return {
        "part": env,
        "arm": arm,
        "nash_conv": [*curve, found["score"]["value"]],
        "cpu_s": time.process_time() - start,
    }


def cfr(env, iterations):
    """Counterfactual regret minimisation, as many iterations: two passes over the game each, no response."""
    import pyspiel

    game, start = pyspiel.load_game({"kuhn": "kuhn_poker", "leduc": "leduc_poker"}[env]), time.process_time()
    solver, curve = pyspiel.CFRSolver(game), list[float]()
    for _ in range(iterations + 1):
        curve.append(pyspiel.nash_conv(game, solver.average_policy()))
        solver.evaluate_and_update_policy()
    return {"part": env, "arm": "CFR", "nash_conv": curve, "cpu_s": time.process_time() - start}


def drawn(arm, seeds, iterations, runs):
    """Runs with payoffs from plays; NashConv at the end and the plays it took, by seed."""
    folders = [runs / f"drawn-{arm.replace(' ', '-')}-{seed}" for seed in seeds]
    more = {"env": "kuhn", "iterations": iterations, "tolerance": 0.0, "quiet": True, **DRAWN[arm]}
    found = [evolvent.run("psro", seed=seed, out=out, **more) for seed, out in zip(seeds, folders, strict=True)]
    plays = [RunFolder.open(one.folder).read_metrics()[-1]["plays"] for one in found]
    scores = [one.summary["score"]["value"] for one in found]
    return {"part": "drawn", "arm": arm, "seeds": list(seeds), "nash_conv_by_seed": scores, "plays_by_seed": plays}


def dispatched(place, seconds, tasks):
    """Tasks that sleep, all asked for at once, on workers that have begun."""
    with workers(place) as at:
        for round_ in ("first", "warm"):
            for i in range(4):
                at.start(f"{round_} {i}", time.sleep, 0.2)
            while at.next() is not None:
                pass
        for i in range(tasks):
            at.start(str(i), time.sleep, seconds)
        done = []
        while (one := at.next()) is not None:
            done.append(one)
    wall = max(one.ended for one in done) - min(one.asked for one in done)
    waits = []
    for worker in {one.worker for one in done}:
        own = sorted((one for one in done if one.worker == worker), key=lambda one: one.began)
        waits += [b.began - max(b.asked, a.ended) for a, b in pairwise(own)]
    busy = sum(one.ended - one.began for one in done)
    found = {"tasks_per_s": tasks / wall, "wait_ms": 1000 * float(np.median(waits)), "of_one": wall / busy}
    return {"part": "dispatch", "arm": str(place), "task_s": seconds, "tasks": tasks, **found}


def rows_of(part, given):
    """The rows of a part, one after the other."""
    if part in ("kuhn", "leduc"):
        for arm in EXACT if part == "kuhn" else LARGE:
            limit = 48 if "alpha" in arm else 15 if "rectified" in arm else 120  # alpha-rank solves all joint choices
            yield exact(part, arm, min(given.iterations, limit), given.runs)
        yield cfr(part, given.iterations)
    elif part == "drawn":
        for arm in DRAWN:
            yield drawn(arm, range(given.seeds), min(given.iterations, 20), given.runs)
    else:
        for place in (0, 2, "ray:2"):
            for seconds in SLEEPS_S:
                yield dispatched(place, seconds, given.tasks)


def table():
    """The result file as lines of Markdown."""
    result = json.loads(OUT.read_text("utf-8"))
    lines = list[str]()
    for part, name in (("kuhn", "Kuhn poker"), ("leduc", "Leduc poker")):
        rows = [row for row in result["rows"] if row["part"] == part]
        if rows:
            lines += [f"{name}: NashConv before the response of iteration", ""]
            lines += [f"| | {' | '.join(map(str, SHOWN))} | CPU s |", "|---" * (len(SHOWN) + 2) + "|"]
        for row in rows:
            cells = [f"{row['nash_conv'][i]:.4g}" if i < len(row["nash_conv"]) else "–" for i in SHOWN]
            lines.append(f"| {row['arm']} | {' | '.join(cells)} | {row['cpu_s']:.1f} |")
        lines += [""] * bool(rows)
    if rows := [row for row in result["rows"] if row["part"] == "drawn"]:
        lines += ["Kuhn poker with payoffs from plays: NashConv after 20 iterations, mean and range over seeds", ""]
        lines += ["| plays | in all | NashConv | seeds |", "|---|---|---|---|"]
        for row in rows:
            found, plays = row["nash_conv_by_seed"], np.mean(row["plays_by_seed"])
            spread = f"{np.mean(found):.3f} [{min(found):.3f}, {max(found):.3f}]"
            lines.append(f"| {row['arm']} | {plays:,.0f} | {spread} | {len(row['seeds'])} |")
        lines.append("")
    if rows := [row for row in result["rows"] if row["part"] == "dispatch"]:
        lines += ["Tasks that sleep, on two workers", ""]
        lines += ["| workers | seconds a task | tasks a second | wait, ms | time, of one worker's |", "|---" * 5 + "|"]
        for row in rows:
            numbers = f"{row['tasks_per_s']:.4g} | {row['wait_ms']:.2g}"
            lines.append(f"| {row['arm']} | {row['task_s']:g} | {numbers} | {row['of_one']:.2g} |")
        lines.append("")
    commit = result["provenance"]["commit"]["id"][:8]
    return [*lines, f"`{'`, `'.join(result['commands'])}`, commit {commit}."]


def main():
    """Run the parts that are asked for; the result file is written after each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["kuhn", "leduc", "drawn", "dispatch"]
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument("--iterations", type=int, default=120)
    parser.add_argument("--seeds", type=int, default=5, help="of the part drawn")
    parser.add_argument("--tasks", type=int, default=40, help="of the part dispatch")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "psro-benchmark")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    asked = [one for i, one in enumerate(sys.argv) if i and not {"--out", "--runs"} & set(sys.argv[i - 1 : i + 1])]
    result = {"commands": [], "rows": []} | (json.loads(given.out.read_text("utf-8")) if given.out.exists() else {})
    result["commands"] = list(
        dict.fromkeys([*result["commands"], shlex.join(["python", "benchmarks/psro.py", *asked])])
    )
    for part in given.parts:
        result["rows"] = [row for row in result["rows"] if row["part"] != part]
        for row in rows_of(part, given):
            result["rows"].append(row)
            write_atomic(given.out, dump(result | {"provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
