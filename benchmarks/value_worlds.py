"""Value worlds as a table: which rule finds the advice that helps, over base rates, effects, noise, companions, drift.

    python benchmarks/value_worlds.py [--seeds 6] [--redo memlift] [--part judgement first] [--worlds …] [--quick]

Of the shipped rule ``hazard`` and whom a failure is blamed on were seen here, too (judged in ``random_worlds.py``). All
policies choose among the same candidates (gate, pool, relevance and margin of the shipped default), in the real
``Memory`` with a store in memory. Rows that are there are not run again; ``--render`` writes the page alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import thompson
from value_trial import Options, Oracle, WithMemory, World, run

from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.formulas.statistics import clustered_bootstrap
from evolvent.memory.policies import Policy, preset, to_dict

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "results" / "value-worlds.svg"
COLOURS = {"memlift": "#b5380f", "thompson": "#1f6fb8", "memrl": "#2a9d8f", "rag": "#777777"}
SOURCE = HERE / "results" / "value_worlds.json"
RIVALS = ("memrl", "thompson", "rag")
ARMS = ("memlift", *RIVALS, "oracle")
_SAME = ("gate", "pool", "relevance", "margin")
_STREAM = {"base": 0.2, "gain": 0.6, "loss": 0.15, "follows": "one"}
# without advice little succeeds, and the first advice there is belongs to other tasks
_MANY = {"base": 0.03, "gain": 0.85, "loss": 0.0, "kinds": 60, "questions": 3, "common": 0.55, "follows": "one"}
World_ = tuple[str, dict[str, Any]]
JUDGEMENT: dict[str, World_] = {
    "base .02": ("success .02, with right advice .32", {"base": 0.02, "gain": 0.3}),
    "base .1": (".1, with right advice .4", {"base": 0.1, "gain": 0.3}),
    "base .3, +.5": (".3, with right advice .8", {"base": 0.3, "gain": 0.5}),
    "base .5, +.05": ("a small effect", {"base": 0.5, "gain": 0.05, "loss": 0.05}),
    "base .5, +.2": (".5, right advice +.2, wrong −.2", {"base": 0.5, "gain": 0.2}),
    "base .9, −.4": ("hardly needed; wrong advice costs .4", {"base": 0.9, "gain": 0.05, "loss": 0.4}),
    "only wrong": ("no advice helps, three of five cost .4", {"base": 0.6, "right": 0, "wrong": 3, "loss": 0.4}),
    "nearer": ("wrong advice is nearer than right", {"nearer": True, "gain": 0.5}),
    "judge 20 %": ("outcomes reported wrongly", {"judge_error": 0.2}),
    "companion": ("a useless memory under the right one's key", {"companions": 1}),
    "harmful companion": ("one that costs .25", {"companions": 1, "companion_loss": 0.25}),
    "complement": (
        "one that adds .3",
        {"gain": 0.2, "companions": 1, "companion_loss": -0.3},
    ),
    "k = 1": ("one memory is shown", {"k": 1}),
    "k = 5": ("five wrong, three useless", {"k": 5, "wrong": 5, "useless": 3}),
    "delayed": ("outcomes 40 tasks later", {"delay": 40}),
    "missing": ("60 % of outcomes never come", {"missing": 0.6}),
    "long prompts": ("half of the prompts hold one memory less and succeed half as often", {"long": 0.5}),
    "drift": ("at half time right advice turns wrong, new advice arrives", {"drift": True, "loss": 0.3}),
    "advice": ("corrections and own successes are written", {**_STREAM, "mistaken": 0.0}),
    "advice, 20 % wrong": ("of the corrections", {**_STREAM, "mistaken": 0.2}),
    "advice, 40 % wrong": ("", {**_STREAM, "mistaken": 0.4}),
    "many kinds": ("60, the advice of one near the tasks of another", {**_MANY, "mistaken": 0.0}),
    "many kinds, 20 % wrong": ("", {**_MANY, "mistaken": 0.2}),
    "advice, drift": ("at half time definitions change", {**_STREAM, "mistaken": 0.0, "drift": True}),
    "advice, drift, 20 % wrong": ("", {**_STREAM, "mistaken": 0.2, "drift": True}),
}
_FIRST = {"base": 0.02, "gain": 0.48, "loss": 0.0, "follows": "first"}
_USUAL = {"base": 0.3, "gain": 0.5, "loss": 0.2, "follows": "first"}
FIRST: dict[str, World_] = {
    "f nearest": ("right advice is nearest; success .02, with it .5", {**_FIRST, "nearest": True}),
    "f nearest, k = 1": ("", {**_FIRST, "nearest": True, "k": 1}),
    "f anywhere": ("right advice as near as the rest", _FIRST),
    "f nearer": ("wrong advice nearest, costs nothing", {**_FIRST, "nearer": True}),
    "f usual, nearest": ("success .3, with right advice .8, wrong .1", {**_USUAL, "nearest": True}),
    "f usual, anywhere": ("", _USUAL),
    "f advice": ("corrections are written; the action is told", {**_STREAM, **_FIRST, "mistaken": 0.0}),
    "f advice, 30 % wrong": ("", {**_STREAM, **_FIRST, "mistaken": 0.3}),
    "f many kinds, 20 % wrong": ("", {**_MANY, **_FIRST, "mistaken": 0.2}),
}
PARTS = {"judgement": (JUDGEMENT, 0), "first": (FIRST, 2000)}  # with the first seed
WORLDS = JUDGEMENT | FIRST


def policy_of(arm: str, k: int) -> Policy:
    """The policy of an arm: the shipped default as it is, the others among its candidates."""
    default = preset("memlift", k=k)
    if arm == "memlift":
        return default
    same = {"k": k, **{name: getattr(default, name) for name in _SAME}}
    return thompson.Config(**same) if arm == "thompson" else preset(arm, **same)


def one(options: Options, arm: str, seed: int) -> dict[str, Any]:
    """One arm through one world."""
    world = World(options, seed)
    thompson.start(seed)
    if arm == "oracle":
        return run(world, Oracle(world))
    return run(world, WithMemory(world, policy_of(arm, options.k)))


def main() -> None:
    """Run the missing rows, then write the page."""
    a = _arguments()
    path = Path(a.out)
    rows = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    for cell in [] if a.render else _cells(a):
        key = {k: cell[k] for k in ("part", "world", "arm", "options", "policy", "seeds")}
        if cell["arm"] not in a.redo and any(all(_whole(row)[k] == v for k, v in key.items()) for row in rows):
            continue
        start = time.perf_counter()
        found = [one(Options(**cell["options"]), cell["arm"], seed) for seed in cell["seeds"]]
        metrics = {name: [row[name] for row in found] for name in found[0]}
        seconds = round(time.perf_counter() - start, 2)
        rows = [r for r in rows if (r["world"], r["arm"]) != (cell["world"], cell["arm"])]
        command = " ".join(["python", "benchmarks/value_worlds.py", *sys.argv[1:]])
        rows.append({**cell, "metrics": metrics, "seconds": seconds, "command": command, **provenance()})
        late = np.mean(np.array(metrics["late"], float))
        print(f"{cell['world']:28} {cell['arm']:9} {seconds:6.1f} s  late {late:.3f}", flush=True)
        lines = ",\n".join(map(dump, rows))
        write_atomic(path, f'{{"benchmark": "value_worlds", "rows": [\n{lines}\n]}}\n')
    if not a.quick:
        import worlds_page

        picture(rows)
        worlds_page.main()


def _cells(a: argparse.Namespace) -> list[dict[str, Any]]:
    cells = []
    for part in a.part:
        worlds, first = PARTS[part]
        for world, (about, changed) in worlds.items():
            if a.worlds and world not in a.worlds:
                continue
            options = Options(**{**changed, **({"tasks": 60} if a.quick else {})})
            for arm in ARMS:
                policy = None if arm == "oracle" else to_dict(policy_of(arm, options.k))
                if policy:
                    policy.pop("file", None)
                cells.append(
                    {
                        "part": part,
                        "world": world,
                        "about": about,
                        "arm": arm,
                        "options": asdict(options),
                        "policy": policy,
                        "seeds": list(range(first, first + a.seeds)),
                    }
                )
    return json.loads(json.dumps(cells))


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the options that came after it, as they were then: at their defaults."""
    return row | {"options": asdict(Options()) | row["options"]}


# ------------------------------------------------------------------------------------------------------------ the page
def section(rows: list[dict[str, Any]]) -> list[str]:
    """The part of docs/results/memory-worlds.md."""
    return [
        *_regret(rows),
        "",
        "**Late regret**: mean shortfall, in the last third, of the probability of success to what the best advice "
        "in the store would have given; lower is better, the oracle has 0. Differences are paired by seed, 95 % "
        "bootstrap over seeds (bold: without 0). `hazard` of `memlift`, and whom a failure is blamed on, were seen "
        "here, too ([memlift](../memlift.md)). Worlds that begin with *f* have an agent that follows the first advice "
        "it sees.",
        "",
        "![Regret over time, mean of the seeds and one standard error](value-worlds.svg)",
        "",
        _source(rows),
    ]


def verdict(rows: list[dict[str, Any]]) -> str:
    """In how many worlds the default is ahead of the others and behind them."""
    names = {"memrl": "MemRL", "thompson": "Thompson sampling", "rag": "similarity alone"}
    found = [f"{names[rival]} in {ahead} and behind it in {behind}" for rival, ahead, behind in _count(rows)]
    return (
        f"In {len(_by_world(rows))} worlds, by intervals without 0, `memlift` is ahead of {', of '.join(found)}, where "
        "many kinds of task look alike or the right note is nearest and the agent follows the first."
    )


def _count(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Worlds in which the interval of the difference to a rival is below and above zero."""
    found = []
    for rival in RIVALS:
        gaps = [np.subtract(by["memlift"]["late"], by[rival]["late"]) for by in _by_world(rows).values()]
        spans = [clustered_bootstrap(gap, range(len(gap))) for gap in gaps]
        found.append((rival, sum(high < 0.0 for _, high in spans), sum(low > 0.0 for low, _ in spans)))
    return found


def picture(rows: list[dict[str, Any]]) -> None:
    """docs/results/value-worlds.svg: regret over time in the worlds whose rows have curves."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "value-worlds"
    import matplotlib.pyplot as plt

    worlds = {
        world: arms
        for world, arms in _by_world([r for r in rows if r["part"] == "judgement"]).items()
        if all("curve" in arms[arm] for arm in COLOURS)
    }
    figure, axes = plt.subplots(
        -(-len(worlds) // 3),
        3,
        figsize=(8.4, 2.2 * -(-len(worlds) // 3)),
        squeeze=False,
        sharex=True,
        layout="constrained",
    )
    for axis in axes.flat[len(worlds) :]:
        axis.axis("off")
    for axis, (world, arms) in zip(axes.flat, worlds.items(), strict=False):
        for arm, colour in COLOURS.items():
            curves_SB = np.array(arms[arm]["curve"], float)
            at, mean, n = (
                np.arange(1, curves_SB.shape[1] + 1) * 100 / curves_SB.shape[1],
                curves_SB.mean(0),
                len(curves_SB),
            )
            spread = curves_SB.std(0, ddof=1) / np.sqrt(n)
            axis.fill_between(at, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
            axis.plot(at, mean, color=colour, label=arm)
        axis.set_title(world, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(COLOURS), fontsize=8)
    figure.supxlabel("% of the tasks", fontsize=8)
    figure.supylabel("regret", fontsize=8)
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


def _regret(rows: list[dict[str, Any]]) -> list[str]:
    out = ["| world | what it asks | memlift | " + " | ".join(f"− {arm}" for arm in RIVALS) + " |"]
    out.append("|---" * (3 + len(RIVALS)) + "|")
    for world, by_arm in _by_world(rows).items():
        cells = [f"{np.mean(by_arm['memlift']['late']):.3f}"]
        cells += [_paired(by_arm["memlift"]["late"], by_arm[arm]["late"]) for arm in RIVALS]
        out.append(f"| {world} | {WORLDS[world][0]} | " + " | ".join(cells) + " |")
    return out


def _by_world(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(row["world"], {})[row["arm"]] = row["metrics"]
    return {world: found[world] for world in WORLDS if set(ARMS) <= found.get(world, {}).keys()}


def _paired(mine: list[float], other: list[float]) -> str:
    gap = np.subtract(mine, other)
    lo, hi = clustered_bootstrap(gap, range(len(gap)))
    text = f"{gap.mean():+.3f} [{lo:+.3f}, {hi:+.3f}]"
    return f"**{text}**" if hi < 0.0 or lo > 0.0 else text


def _source(rows: list[dict[str, Any]]) -> str:
    used = [r["commit"] for r in rows if r["commit"]]
    commits = sorted({f"{c['id'][:10]}{' with uncommitted changes' if c['dirty'] else ''}" for c in used})
    seeds = sorted({len(r["seeds"]) for r in rows})
    return (
        f"`python benchmarks/value_worlds.py` (which rows were run again: in the file), {seeds[0]} seeds; commits "
        f"{', '.join(commits)}; [value_worlds.json](../../benchmarks/results/value_worlds.json)."
    )


def _arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", type=int, default=6, help="seeds of each world")
    p.add_argument("--part", nargs="+", default=list(PARTS), choices=list(PARTS))
    p.add_argument("--worlds", nargs="*", default=[], help="these alone")
    p.add_argument("--out", default=str(SOURCE))
    p.add_argument("--quick", action="store_true", help="60 tasks, no page: does it run?")
    p.add_argument("--redo", nargs="*", default=[], help="arms that are run again (their code has changed)")
    p.add_argument("--render", action="store_true", help="only write the page")
    return p.parse_args()


if __name__ == "__main__":
    main()
