"""AGDC beside planners that learn nothing, on the same searches for a source; arms, false alarms, speed.

    nice python benchmarks/agdc.py [--parts planners wide released arms zeta learners west speed]

Every row is of the same 224 searches (seed 0, at least 200; no learner was trained on them), with 600 particles in the
wide world and 300 in the released one. Learners are trained with 300. ``zeta``: the test for being sure is changed in
the judging alone, for the first seed of ``wide``. ``arms``: what AGDC is made of, left out one at a time; ``west``: the
source in the western half while learning, in the eastern one when judged. ``speed``: steps of all copies a CPU second,
random moves.
"""

import argparse
import json
import shlex
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import get_args

import numpy as np

import evolvent
from evolvent import envs
from evolvent.algos import agdc, infotaxis
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.formulas.statistics import paired_rates_interval, student_interval, wilson
from evolvent.runs.team.searches import played
from evolvent.testing.team_env import random_action

OUT = Path(__file__).parent / "results" / "agdc.json"
PLANNERS = get_args(infotaxis.Planner)
REFERENCES, ZETAS = ("dcee", "infotaxis"), (0.5, 2.0, 4.0)
ARMS = {
    "whole": "",
    "position alone": ",sees=position",
    "no self-feedback": ",feedback=false",
    "no stopping": ",stops=false",
}
SPEEDS = ((1, 600), (32, 300), (32, 600))
PARTS = ("planners", "speed", "wide", "zeta", "released", "arms", "west", "learners")


def row(part, arm, world, player, given, **more):
    """The measures of a policy on the searches of ``world``."""
    start = time.process_time()
    with closing(envs.load_team(world, min(32, given.episodes))) as env:
        found = played(player(env), env, given.episodes, seed=0)
    means = {name: float(np.mean(found[name])) for name in ("wrong_stop", "steps", "distance")}
    won = [int(one) for one in found["success"]]
    seconds = round(time.process_time() - start, 1)
    shown = {"part": part, "arm": arm, "world": world, **more, "n": len(won), "found": sum(won) / len(won), **means}
    return {
        **shown,
        "error": float(np.median(found["error"])),
        "judged_s": seconds,
        "by_search": "".join(map(str, won)),
    }


def planner(name, world):
    """A planner as a player."""
    return infotaxis.planned(infotaxis.Config(env=world, planner=name))


def trained(name, world, steps, seed, given, **settings):
    """A run of AGDC, made where it is not there yet: its folder, and the CPU seconds that it took."""
    folder, start = given.runs / f"{name}-{seed}", time.process_time()
    if not (folder / "summary.json").exists():
        more = {"eval_every": 0, "eval_episodes": min(32, given.episodes), "out": folder, "quiet": True}
        evolvent.run("agdc", env=world, steps=min(steps, given.steps), seed=seed, **settings, **more)
    return RunFolder.open(folder), round(time.process_time() - start, 1)


def learned(part, arm, train, judge, steps, seed, given, **settings):
    """A row of a learner: trained in one world, judged in another."""
    name = f"{part}-{arm}".replace(",", "").replace(" ", "-")
    folder, seconds = trained(name, train, steps, seed, given, **settings)
    more = {"seed": seed, "trained": train, "steps_trained": min(steps, given.steps), "trained_s": seconds}
    return row(part, arm, judge, lambda env: agdc.policy(folder, env=judge), given, **more)


def rows_of(part, given):
    """The rows of a part, one after the other."""
    wide, few = "ste:wide", "ste:wide,particles=300"
    if part == "planners":
        for world in (wide, "ste:released"):
            for name in PLANNERS:
                yield row(part, name, world, planner(name, world), given)
    elif part in ("wide", "released"):
        world, train, steps = (wide, few, 600_000) if part == "wide" else ("ste:released", "ste:released", 100_000)
        for seed in range(given.seeds):
            yield learned(part, "agdc, ppo", train, world, steps, seed, given)
    elif part == "zeta":
        folder, _ = trained("wide-agdc-ppo", few, 600_000, 0, given)
        for zeta in ZETAS:
            world = f"{wide},zeta={zeta}"
            for name in ("towards_mean", "dcee"):
                yield row(part, name, world, planner(name, world), given, zeta=zeta)
            yield row(
                part, "agdc, ppo", world, lambda env, world=world: agdc.policy(folder, env=world), given, zeta=zeta
            )
    elif part == "arms":
        for arm, option in ARMS.items():
            judge = wide + (option if "sees" in option else "")
            yield learned(part, arm, few + option, judge, 300_000, 0, given)
    elif part == "west":
        for side in ("west", "east"):
            yield learned(part, f"judged {side}", f"{few},side=west", f"{wide},side={side}", 300_000, 0, given)
            world = f"{wide},side={side}"
            yield row(part, f"dcee, {side}", world, planner("dcee", world), given)
    elif part == "learners":
        for learner, option in (("dqn", ""), ("ddpg", ",heading=true"), ("ppo", ",heading=true")):
            arm = f"agdc, {learner}{', angles' if option else ''}"
            yield learned(part, arm, few + option, wide + option, 300_000, 0, given, learner=learner)
        world = wide + ",heading=true"
        for name in ("towards_mean", "dcee"):
            yield row(part, f"{name}, angles", world, planner(name, world), given)
    else:
        for copies, particles in SPEEDS:
            yield {"part": part, "arm": f"{copies} x {particles}", "steps_per_s": speed(copies, particles, given)}


def speed(copies, particles, given):
    """Steps of all copies a CPU second."""
    with closing(envs.load_team(f"ste:wide,particles={particles}", copies)) as env:
        frame, draw, done, start = env.reset(0), np.random.default_rng(0), 0, time.process_time()
        while (spent := time.process_time() - start) < given.speed_s:
            frame, done = env.step(random_action(env.team, frame, draw)), done + copies
    return done / spent


# ------------------------------------------------------------------------------------------------ the table
def table():
    """The result file as lines of Markdown."""
    result = json.loads(OUT.read_text("utf-8"))
    by = {part: [one for one in result["rows"] if one["part"] == part] for part in PARTS}
    names = {name: name.partition(",")[0] for name in (one["arm"] for one in result["rows"])}
    controls = {(names[one["arm"]], one["world"]): one for one in result["rows"] if names[one["arm"]] in REFERENCES}
    lines = list[str]()
    for world, title in (("ste:wide", "The wide world"), ("ste:released", "The released world")):
        found = [one for one in (*by["planners"], *by["wide"], *by["released"]) if one["world"] == world]
        lines += [f"{title}, `{world}`", "", *_table(found, controls), ""] if found else []
    for part, title in (
        ("arms", "What AGDC is made of, left out one at a time; PPO, 300,000 steps, one seed, the wide world"),
        ("learners", "Other learners and other moves, 300,000 steps, one seed, the wide world"),
        ("west", "Trained with the source in the western half alone, 300,000 steps, one seed"),
    ):
        lines += [f"{title}", "", *_table(by[part], controls), ""] if by[part] else []
    if by["zeta"]:
        lines += ["Wrong stops against steps as zeta varies, the wide world; AGDC was trained with 1, seed 0", ""]
        lines += ["| zeta | policy | found | stopped wrongly | steps |", "|---" * 5 + "|"]
        same = [{**one, "zeta": 1.0} for one in (*by["planners"], *by["wide"]) if _of_zeta(one)]
        for one in sorted([*by["zeta"], *same], key=lambda one: (one["arm"], one["zeta"])):
            shown = f"{_rate(one)} | {100 * one['wrong_stop']:.0f} % | {one['steps']:.0f}"
            lines.append(f"| {one['zeta']:g} | {one['arm']} | {shown} |")
        lines.append("")
    if by["speed"]:
        lines += ["| copies x particles | steps a CPU second |", "|---|---|"]
        lines += [f"| {one['arm']} | {one['steps_per_s']:,.0f} |" for one in by["speed"]] + [""]
    commit = result["provenance"]["commit"]["id"][:8]
    return [*lines, f"`{'`, `'.join(result['commands'])}`, commit {commit}."]


def _of_zeta(one):
    return one["world"] == "ste:wide" and one["arm"] in ("towards_mean", "dcee", "agdc, ppo") and not one.get("seed")


def _table(rows, controls):
    minus = [f"minus {name}" for name in REFERENCES]
    head = ["policy", "found, %", *minus, "stopped wrongly", "steps", "way", "error, median", "CPU s to train"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for arm in dict.fromkeys(one["arm"] for one in rows):
        mine = [one for one in rows if one["arm"] == arm]
        cells = [arm + (f", {len(mine)} seeds" if len(mine) > 1 else ""), _rate(*mine)]
        for name in REFERENCES:
            other = controls.get((name, mine[0]["world"].replace(",sees=position", "")))
            cells.append(_minus(mine, other) if other is not None and other is not mine[0] else "")
        cells += [f"{100 * _mean(mine, 'wrong_stop'):.0f} %"]
        cells += [f"{_mean(mine, 'steps'):.0f}", f"{_mean(mine, 'distance'):.0f}", f"{_mean(mine, 'error'):.2f}"]
        spent = [one["trained_s"] for one in mine if one.get("trained_s", 0) > 1]
        lines.append("| " + " | ".join([*cells, f"{np.mean(spent):.0f}" if spent else ""]) + " |")
    return lines


def _mean(rows, name):
    return float(np.mean([one[name] for one in rows]))


def _rate(*rows):
    """Found, in per cent, with Wilson's interval; of several seeds their mean, with the interval of one."""
    low, high = wilson(round(_mean(rows, "found") * rows[0]["n"]), rows[0]["n"])
    each = ", ".join(f"{100 * one['found']:.0f}" for one in rows)
    seeds = f" (seeds {each})" if len(rows) > 1 else ""
    return f"{100 * _mean(rows, 'found'):.0f} [{100 * low:.0f}, {100 * high:.0f}]{seeds}"


def _minus(rows, reference):
    """The difference on the same searches: paired by search; of several seeds at least as wide as Student's t."""
    other = [int(one) for one in reference["by_search"]]
    found = [paired_rates_interval([int(one) for one in row["by_search"]], other) for row in rows]
    gain, low, high = np.mean(found, axis=0)
    if len(found) > 1:
        ends = student_interval([one[0] for one in found])
        low, high = min(low, ends[0]), max(high, ends[1])
    return f"{100 * gain:+.0f} [{100 * low:+.0f}, {100 * high:+.0f}]"


def main():
    """Run the parts that are asked for; the result file is written after each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--episodes", type=int, default=224)
    parser.add_argument("--seeds", type=int, default=3, help="of the parts wide and released")
    parser.add_argument("--steps", type=int, default=10**9, help="at most, of every training")
    parser.add_argument("--speed-s", type=float, default=5.0)
    parser.add_argument("--runs", type=Path, default=Path("runs") / "agdc-benchmark")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    asked = [one for i, one in enumerate(sys.argv) if i and not {"--out", "--runs"} & set(sys.argv[i - 1 : i + 1])]
    result = {"commands": [], "rows": []} | (json.loads(given.out.read_text("utf-8")) if given.out.exists() else {})
    result["commands"] = list(
        dict.fromkeys([*result["commands"], shlex.join(["python", "benchmarks/agdc.py", *asked])])
    )
    for part in given.parts:
        result["rows"] = [one for one in result["rows"] if one["part"] != part]
        for one in rows_of(part, given):
            result["rows"].append(one)
            write_atomic(given.out, dump(result | {"provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
