"""The synthetic memory worlds as a table: recall policies × worlds × seeds, each cell with its interval.

    python benchmarks/memory_worlds.py --seeds 10 --out benchmarks/results/memory_worlds.json [--quick]

A row is one world under one policy; it is written when its seeds are done, and rows that are there are not run again,
so the table can be stopped and continued. ``worlds_page.py`` writes the page.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from memory_trial import policy_for, run_bandit, run_chain
from synthetic_worlds import Bandit, BanditOptions, Chain, ChainOptions

from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.formulas.statistics import clustered_bootstrap
from evolvent.memory.policies import to_dict

HERE = Path(__file__).parent
SOURCE = HERE / "results" / "memory_worlds.json"
ALL = ("none", "random", "rag", "memp", "memrl", "memq", "memlift", "oracle")
FEW = ("rag", "memrl", "memq", "memlift")

_SOME = ("rag", "memrl", "memlift")
_LOW = {"clusters": 6, "passes": 20, "penalty": 0.01}
# name: (what it asks, options, policies, at most this many seeds)
BANDITS: dict[str, tuple[str, dict[str, Any], tuple[str, ...], int]] = {
    "plain": ("the good memory is nearest, misleading and useless ones follow", {}, ALL, 99),
    "nearer 2/3": ("two of three misleading ones are nearer", {"more_similar": 2 / 3}, ALL, 99),
    "nearer 3/3": ("all three are", {"more_similar": 1.0}, ALL, 99),
    "noise": ("reward noise .3, the judge wrong in 10 %", {"reward_noise": 0.3, "judge_error": 0.1}, ALL, 99),
    "judge 20 %": ("the judge wrong in 20 %", {"judge_error": 0.2}, FEW, 99),
    "useless companion": ("a useless memory as near as the good", {"companions": 1}, ALL, 99),
    "harmful companion": (
        "it costs .2 when shown",
        {"companions": 1, "companion_penalty": 0.2},
        ALL,
        99,
    ),
    "drift": ("at half time good and misleading change roles in half of the clusters", {"drift": 0.5}, ALL, 99),
    "low .02": ("success .02, with the good memory .3", {**_LOW, "p0": 0.02, "p1": 0.3}, _SOME, 99),
    "low .1": (".1, .4", {**_LOW, "p0": 0.1, "p1": 0.4}, _SOME, 99),
    "low .02, nearer 2/3": (
        "both",
        {**_LOW, "p0": 0.02, "p1": 0.3, "more_similar": 2 / 3},
        _SOME,
        99,
    ),
    "low .01": (".01, .08", {**_LOW, "p0": 0.01, "p1": 0.08}, _SOME, 99),
    "bank 10^3": ("nearer 2/3 among 1,000", {"more_similar": 2 / 3, "bank_size": 1_000}, FEW, 5),
    "bank 10^4": ("among 10,000", {"more_similar": 2 / 3, "bank_size": 10_000}, FEW, 5),
    "bank 10^5": (
        "among 100,000, 3 passes, 2 seeds",
        {"more_similar": 2 / 3, "bank_size": 100_000, "passes": 3},
        ("rag", "memrl", "memlift"),
        2,
    ),
    "long": ("plain, 20 passes instead of 10", {"passes": 20}, FEW, 5),
    "long, harmful companion": ("20 passes", {"passes": 20, "companions": 1, "companion_penalty": 0.2}, FEW, 5),
}
# name: (what it asks, options, {row name: (policy, fields)})
_REACH = {"gamma": 0.8, "trace": 0.9}  # credit of a reward reaches the first of four stages with a weight of .37
_CHAIN_ARMS = {
    "rag": ("rag", {}),
    "memrl": ("memrl", {}),
    "memq": ("memq", {}),
    "memq γ.8 λ.9": ("memq", _REACH),
    "memlift": ("memlift", {}),
}
CHAINS: dict[str, tuple[str, dict[str, Any]]] = {
    "chain": ("four stages", {}),
    "chain, half the edges wrong": ("parents wrong with probability .5", {"wrong_edges": 0.5}),
    "chain, all edges wrong": ("every parent wrong", {"wrong_edges": 1.0}),
}
COLUMNS = (*FEW[:-1], "memq γ.8 λ.9", "memlift")


def main() -> None:
    """Run the missing rows, then write the page."""
    a = _arguments()
    path = Path(a.out)
    rows = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    path.parent.mkdir(parents=True, exist_ok=True)
    redo = set(a.redo)
    for cell in _cells(a.seeds, a.quick):
        key = {k: cell[k] for k in ("world", "arm", "options", "policy", "seeds")}
        done = any(all(row[k] == v for k, v in key.items()) for row in rows)
        if done and cell["preset"] not in redo:
            continue
        rows = [r for r in rows if (r["world"], r["arm"]) != (cell["world"], cell["arm"])]
        rows.append(_run(cell))
        print(_line(rows[-1]), flush=True)
        write_atomic(path, dump({"benchmark": "memory_worlds", "rows": rows}, indent=1) + "\n")
    if path == SOURCE and not a.quick:
        import worlds_page

        worlds_page.main()


def _cells(n_seeds: int, quick: bool) -> list[dict[str, Any]]:
    """Every row of the table, not run yet; values as JSON keeps them."""
    cells = []
    for world, (about, changed, arms, most) in BANDITS.items():
        options = BanditOptions(**{**changed, **({"passes": 2} if quick else {})})
        if quick and options.bank_size > 1_000:
            continue
        for arm in arms:
            policy = None if arm == "oracle" else to_dict(policy_for(arm))
            seeds = list(range(min(n_seeds, most)))
            cells.append(
                {
                    "kind": "bandit",
                    "world": world,
                    "about": about,
                    "arm": arm,
                    "options": asdict(options),
                    "policy": policy,
                    "fields": {},
                    "preset": arm,
                    "seeds": seeds,
                }
            )
    for world, (about, changed) in CHAINS.items():
        options = ChainOptions(**{**changed, **({"attempts": 5} if quick else {})})
        for arm, (name, extra) in _CHAIN_ARMS.items():
            fields, seeds = {"k": 1, **extra}, list(range(n_seeds))
            cells.append(
                {
                    "kind": "chain",
                    "world": world,
                    "about": about,
                    "arm": arm,
                    "options": asdict(options),
                    "policy": to_dict(policy_for(name, **fields)),
                    "fields": fields,
                    "preset": name,
                    "seeds": seeds,
                }
            )
    return json.loads(json.dumps(cells))


def _run(cell: dict[str, Any]) -> dict[str, Any]:
    """One row: every seed in a store of its own on disk."""
    start, found = time.perf_counter(), []
    policy = None if cell["policy"] is None else policy_for(cell["preset"], **cell["fields"])
    for seed in cell["seeds"]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "memory.db"
            if cell["kind"] == "bandit":
                found.append(run_bandit(Bandit(BanditOptions(**cell["options"]), seed), policy, path=path))
            else:
                assert policy is not None
                found.append(run_chain(Chain(ChainOptions(**cell["options"]), seed), policy, path=path))
    metrics = {name: _summary([row[name] for row in found]) for name in found[0]}
    command = " ".join(["python", "benchmarks/memory_worlds.py", *sys.argv[1:]])
    return {
        **cell,
        "metrics": metrics,
        "seconds": round(time.perf_counter() - start, 2),
        "command": command,
        **provenance(),
    }


def _summary(values: list[float | None]) -> dict[str, Any] | None:
    """Mean over seeds with its 95 % bootstrap interval; ``None`` where the metric does not apply."""
    x = [v for v in values if v is not None]
    if not x:
        return None
    return {"mean": sum(x) / len(x), "ci95": list(clustered_bootstrap(x, range(len(x)))), "values": x}


def _line(row: dict[str, Any]) -> str:
    m = {k: f"{v['mean']:.3f}" for k, v in row["metrics"].items() if v}
    return f"{row['world']:26} {row['arm']:14} {row['seconds']:6.1f} s  {m}"


def section(rows: list[dict[str, Any]]) -> list[str]:
    """The part of docs/results/memory-worlds.md: one line a world."""
    commits = {r["commit"]["id"][:10] + " (dirty)" * r["commit"]["dirty"] for r in rows if r["commit"]}
    return [
        "`memlift` is by the rule before failures were blamed by record ([memlift](../memlift.md)). It pays nothing "
        "to what was recalled before: in the chains, where only the last stage is settled, it learns nothing of the "
        "first.",
        "",
        *_table(rows, "bandit", "regret_late", "regret, second half"),
        "",
        "Lower is better; mean shortfall to the oracle's probability of success, 95 % bootstrap over five seeds.",
        "",
        *_table(rows, "chain", "late", "success, last quarter"),
        "",
        "Higher is better. Memories in chains stand on one another, and the reward comes at the last of four stages.",
        "",
        f"`python benchmarks/memory_worlds.py --seeds 5`; commits {', '.join(sorted(commits))}. Controls (no memory, "
        "random, oracle) and other measures: [memory_worlds.json](../../benchmarks/results/memory_worlds.json).",
    ]


def _table(rows: list[dict[str, Any]], kind: str, measure: str, title: str) -> list[str]:
    found: dict[str, dict[str, Any]] = {}
    for row in (r for r in rows if r["kind"] == kind):
        found.setdefault(row["world"], {})[row["arm"]] = row
    columns = [arm for arm in COLUMNS if any(arm in by_arm for by_arm in found.values())]
    about = {name: options[0] for name, options in (BANDITS | CHAINS).items()}
    out = [f"| {title} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for world, by_arm in found.items():
        cells = [_cell(by_arm[arm]["metrics"].get(measure)) if arm in by_arm else "" for arm in columns]
        out.append(f"| {world}: {about[world]} | {' | '.join(cells)} |")
    return out


def _cell(metric: dict[str, Any] | None) -> str:
    if not metric:
        return "–"
    lo, hi = metric["ci95"]
    return f"{metric['mean']:.3f}" + ("" if lo is None or lo != lo or lo == hi else f" [{lo:.3f}, {hi:.3f}]")


def _arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", type=int, default=10, help="seeds 0..N-1 (fewer in the expensive rows)")
    p.add_argument("--out", default=str(SOURCE))
    p.add_argument("--quick", action="store_true", help="two passes, small banks, no page: does it run?")
    p.add_argument("--redo", nargs="*", default=[], help="policies whose rows are run again (their code has changed)")
    return p.parse_args()


if __name__ == "__main__":
    main()
