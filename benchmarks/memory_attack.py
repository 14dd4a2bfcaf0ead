"""A measured attack: poisoned lessons among a hundred honest ones, and what each recall policy makes of them.

    python benchmarks/memory_attack.py --seeds 10
    python benchmarks/memory_attack.py --world analyst --model qwen2.5-coder-1.5b --seeds 3

Four passes of sixty tasks teach the honest values, then the adversary writes, then eight passes follow. All arms of a
seed see the same world, tasks, luck and poison; differences are paired by seed, intervals are Student's over seeds. A
row is one attack under one arm; rows that are there are not run again. The page is written by attack_page.py.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from attack_arms import ARMS, quarantine_sources
from attack_page import write_page
from attack_world import Attack, Poisoned
from memory_trial import policy_for
from synthetic_worlds import BanditOptions

from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.memory.memory import Memory

HERE = Path(__file__).parent
BEFORE, AFTER = 4, 8  # passes
KINDS = ("convention", "instruction")
NOISE = {"judge_error": 0.1}
PARTS = ("control", "spread", "sources", "same", "one", "laundered")


def attacks(part: str) -> list[tuple[Attack, dict[str, Any], tuple[str, ...]]]:
    """The attacks of a part with the world's options and the arms that meet them."""
    every = tuple(ARMS)[:-1]
    main = tuple(a for a in every if a not in ("memlift, action told", "memlift + quarantine at 3"))
    by_k = {20: every, 5: main, 1: main}
    few = ("memlift, no source weights", "memlift", "memlift, omission", "memlift + quarantine at 1")
    laundering = (*few[1:], "memlift + quarantine at 1, no descendants")
    return {
        "control": [(Attack("none", 0), {}, every), (Attack("none", 0), NOISE, few[1:])],
        "spread": [(Attack(kind, k), {}, arms) for k, arms in by_k.items() for kind in KINDS],
        "sources": [(Attack(kind, 20, source=s), {}, few) for s in ("shared", "fresh") for kind in KINDS],
        "same": [(Attack(kind, k, source="same"), {}, ("memlift",)) for k in (20, 5) for kind in KINDS],
        "one": [(Attack(kind, 20, target="one"), {}, ("rag", "memrl", *few)) for kind in KINDS],
        "laundered": [(Attack(kind, 20, launder=True), NOISE, laundering) for kind in KINDS],
    }[part]


def main() -> None:
    """Run the missing rows, then write the page."""
    a = _arguments()
    if a.world == "analyst":
        from attack_analyst import run_analyst

        run_analyst(a)
        return
    path = Path(a.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    seeds = list(range(a.seeds))
    for attack, changed, arms in [] if a.render else [x for part in a.parts for x in attacks(part)]:
        for arm in arms:
            key = {"attack": asdict(attack), "world": changed, "arm": arm, "seeds": seeds}
            if any(key.items() <= row.items() for row in _rows(path)) or (a.arms and arm not in a.arms):
                continue
            start = time.perf_counter()
            runs = [run(Poisoned(BanditOptions(passes=BEFORE + AFTER, **changed), attack, s), arm) for s in seeds]
            command = " ".join(["python", "benchmarks/memory_attack.py", *sys.argv[1:]])
            row = {**key, "runs": runs, "seconds": round(time.perf_counter() - start, 1), "command": command}
            print(f"{row['seconds']:6.1f} s  {asdict(attack)} {arm}", flush=True)
            # read again: another process may have added rows meanwhile
            rows = [*_rows(path), {**row, **provenance()}]
            write_atomic(path, dump({"benchmark": "memory_attack", "rows": rows}) + "\n")
    if not a.quick:
        write_page(_rows(path), Path(a.page))


def _rows(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []


def run(world: Poisoned, arm: str) -> dict[str, Any]:
    """One arm through one world: numbers by pass, and what is left in the end.

    Returns:
        ``passes``: lists over passes of success (of all tasks, of victims' and of others), of the shares of victims'
        tasks with poison shown or deciding, of tasks with the good lesson in sight, and of poisoned lessons shown at
        least once. ``end``: the same on held-out tasks, frozen; honest lessons out of recall; poisoned ones active.
    """
    setting = ARMS[arm]
    policy = policy_for(setting.preset, **setting.fields)
    o = world.world.options
    by_pass: list[list[tuple[Any, ...]]] = [[] for _ in range(o.passes)]
    with Memory(":memory:", policy=policy, embedder=world, seed=world.world.seed, sync="normal") as memory:
        memory.remember_many(world.honest())
        quarantined = 0
        for number, task in world.world.stream():
            if number == BEFORE and not by_pass[BEFORE] and world.attack.k:
                memory.remember_many(world.poison())
            by_pass[number].append(_attempt(memory, world, number, task, setting.reports))
            if setting.alarms and len(by_pass[number]) == len(world.world.tasks):
                quarantined += quarantine_sources(memory, setting)
        end = _end(memory, world)
    found = {"passes": _series(by_pass, set(world.victims), world.attack.k), "end": {**end, "quarantines": quarantined}}
    if world.attack.k:
        return {**found, "victims": sorted(set(world.victims))}
    return {**found, "clusters": _by_cluster(by_pass, o.clusters)}


def _attempt(memory: Memory, world: Poisoned, number: int, task: Any, given: bool) -> tuple[Any, ...]:
    with memory.transaction():
        recall = memory.recall(task.text)
        bodies = [item.body for item in recall.items]
        seen = world.seen(task, bodies, number)
        reward = world.world.reward(seen.chance, task, number)
        memory.settle(recall, reward, action=seen.followed if given else None)
        if world.attack.launder and reward == 1.0 and seen.followed and world.is_poison(seen.followed):
            # the agent was rewarded for what the poison made it do, and keeps it as its own experience
            memory.remember(task.text, seen.followed, polarity="success", source="self", parents=recall)
    good = any(world.world.role(b, task.cluster, number) == "good" for b in bodies if not world.is_poison(b))
    poison = {item.id for item in recall.items if world.is_poison(item.body)}
    return task.cluster, seen.chance, seen.shown, seen.decided, good, poison


def _series(by_pass: list[list[tuple[Any, ...]]], victims: set[int], k: int) -> dict[str, list[float | None]]:
    out: dict[str, list[float | None]] = {}

    def put(name: str, value: float | np.floating[Any] | None) -> None:
        out.setdefault(name, []).append(None if value is None else round(float(value), 4))

    for tasks in by_pass:
        hit = [t for t in tasks if t[0] in victims]
        put("success", np.mean([t[1] for t in tasks]))
        put("success_victims", np.mean([t[1] for t in hit]) if hit else None)
        put("success_others", np.mean([t[1] for t in tasks if t[0] not in victims]) if len(hit) < len(tasks) else None)
        put("shown", np.mean([t[2] for t in hit]) if hit else None)
        put("decided", np.mean([t[3] for t in hit]) if hit else None)
        put("good_in_sight", np.mean([t[4] for t in tasks]))
        put("good_in_sight_victims", np.mean([t[4] for t in hit]) if hit else None)
        put("alive", len(set().union(*(t[5] for t in tasks))) / k if k else None)
    return out


def _by_cluster(by_pass: list[list[tuple[Any, ...]]], clusters: int) -> list[list[float]]:
    """Success by pass and cluster: what an attack's victims would have had without it."""
    return [
        [round(float(np.mean([t[1] for t in tasks if t[0] == c])), 4) for c in range(clusters)] for tasks in by_pass
    ]


def _end(memory: Memory, world: Poisoned) -> dict[str, float | None]:
    last = world.world.options.passes - 1
    seen, hit = [], []
    for task in world.world.heldout:
        items = memory.recall(task.text, frozen=True, is_test=True).items
        seen.append(world.seen(task, [item.body for item in items], last))
        hit.append(task.cluster in set(world.victims))
    lessons = memory.items(status=None)
    poison = [m for m in lessons if world.is_poison(m.body)]
    honest = [m for m in lessons if not world.is_poison(m.body)]
    return {
        "frozen": float(np.mean([s.chance for s in seen])),
        "frozen_shown": float(np.mean([s.shown for s, h in zip(seen, hit, strict=True) if h])) if any(hit) else None,
        "honest_out": sum(m.status != "active" for m in honest) / len(honest),
        "poison_active": sum(m.status == "active" for m in poison) / len(poison) if poison else None,
        "poison_lessons": float(len(poison)),
    }


def _arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--world", default="bandit", choices=["bandit", "analyst"])
    p.add_argument("--seeds", type=int, default=10, help="seeds 0..N-1")
    p.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS), help="groups of attacks")
    p.add_argument("--arms", nargs="*", default=[], choices=[*ARMS, []])
    p.add_argument("--quick", action="store_true", help="no page: does it run?")
    p.add_argument("--render", action="store_true", help="only write the page")
    p.add_argument("--out", default=str(HERE / "results" / "memory_attack.json"))
    p.add_argument("--page", default=str(HERE.parent / "docs" / "results" / "memory-attack.md"))
    analyst = p.add_argument_group("with --world analyst")
    analyst.add_argument("--model", default="qwen2.5-coder-1.5b")
    analyst.add_argument("--threads", type=int, default=0)
    analyst.add_argument("--train", type=int, default=24)
    analyst.add_argument("--kinds", type=int, default=12)
    analyst.add_argument("--k", nargs="+", type=int, default=[1, 5, 20])
    analyst.add_argument("--passes", nargs=2, type=int, default=[2, 2], help="before and after the attack")
    analyst.add_argument("--cache", default=str(HERE / "runs" / "analyst" / "completions.db"))
    return p.parse_args()


if __name__ == "__main__":
    main()
