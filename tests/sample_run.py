# ruff: noqa: E501
"""Run folders with made-up outcomes, for the tests of reports and comparisons (never for results)."""

from pathlib import Path

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.formulas.statistics import wilson

QUESTIONS = [
    (
        "How many red-eye flights left {} in {}?",
        "SELECT COUNT(*) FROM flights WHERE origin='{}' AND month={} AND (sched_dep_time>=2130 OR sched_dep_time<500)",
    ),
    (
        "On-time rate of flights out of {} in {}?",
        "SELECT AVG(arr_delay<=14) FROM flights WHERE origin='{}' AND month={} AND arr_delay IS NOT NULL",
    ),
    (
        "How many windy hours did {} have in {}?",
        "SELECT COUNT(*) FROM weather WHERE origin='{}' AND month={} AND wind_speed>=20",
    ),
]


def _question(rng):
    form, sql = QUESTIONS[rng.integers(len(QUESTIONS))]
    origin, month = rng.choice(["JFK", "LGA", "EWR"]), int(rng.integers(1, 13))
    return form.format(origin, f"month {month}"), sql.format(origin, month), form.split(" {")[0]


def sample_run(path: Path, *, algo="memlift", seed=0, passes=3, tasks=24, skill=0.8, summary=True, nasty="") -> Path:
    """A finished run: held-out tasks before and after, ``passes`` over a stream, a control; ``nasty`` goes everywhere."""
    rng = np.random.default_rng([seed, round(1000 * skill)])
    plan = [("before", 1, 0.05)]
    plan += [("stream", p, skill * (1 - 0.75**p) * 1.4) for p in range(1, passes + 1)]
    plan += [("after", 1, skill), ("control", 1, 0.05)]
    made = RunFolder.create(
        path,
        algo=algo,
        config={"env": "analyst", "model": "qwen2.5-coder-1.5b", "seed": seed, "k": 3, "note": nasty},
        env="analyst",
        seed=seed,
        command=["evolvent", "run", algo, "--seed", str(seed)],
        kind="memory",
    )
    phases, step = [], 0
    with made as folder:
        for phase, number, p in plan:
            held = phase in ("before", "after", "control")
            draws = np.random.default_rng([seed, 7 if held else 8])
            hits = 0
            for i in range(tasks):
                step += 1
                question, action, kind = _question(draws)
                ok = int(rng.random() < min(p, 0.97))
                hits += ok
                episode = Episode(f"{'h' if held else 't'}{i}", env="analyst", id=f"e{step}")
                episode.observe(question + nasty)
                if phase in ("stream", "after"):
                    episode.recall(
                        f"r{step}", [f"m{i % 9 + 1}", f"m{i % 4 + 11}"], omitted=["m30"] if i % 7 == 0 else []
                    )
                episode.act((action if ok else "SELECT COUNT(*) FROM flights") + nasty)
                episode.end(terminated=True, success=bool(ok))
                folder.log(
                    step,
                    phase=phase,
                    task=episode.task_id,
                    kind=kind + nasty,
                    success=ok,
                    reward=float(ok),
                    first=int(number == 1 and i < 9),
                    repeat=int(number > 1),
                    prompt_tokens=400,
                    tokens=40 + i % 9,
                    seconds=2.0 + i % 5,
                    bank=step,
                    coverage=min(1.0, step / 90),
                    shown=["m1", "m2"],
                    **{"pass": number},
                )
                folder.episode(episode)
            phases.append(
                {"name": phase, "n": tasks, "successes": hits, "rate": hits / tasks, "ci95": wilson(hits, tasks)}
            )
        if summary:
            after, before = phases[-2], phases[0]
            folder.write_summary(_summary(algo, seed, step, phases, after, before, nasty))
    return path


def _summary(algo, seed, step, phases, after, before, nasty):
    memory = {
        "id": "m12" + nasty,
        "key": "How many red-eye flights left Newark in May?" + nasty,
        "value": 0.91,
        "n": 14,
        "lift": 0.62,
        "body": "SELECT COUNT(*) FROM flights WHERE origin='EWR' AND month=5 AND (sched_dep_time>=2130 OR sched_dep_time<500)"
        + nasty,
        "why": "right in 13 of 14 attempts that saw it; right in 2 of 7 where it was left out on purpose" + nasty,
    }
    return {
        "algo": algo,
        "env": "analyst",
        "model": "qwen2.5-coder-1.5b",
        "seed": seed,
        "seconds": 512.0,
        "steps": step,
        "tokens": 61234,
        "score": {
            "name": "held-out success after learning" + nasty,
            "value": after["rate"],
            "ci95": after["ci95"],
            "higher_is_better": True,
        },
        "baseline": {"name": "held-out success before", "value": before["rate"], "ci95": before["ci95"]},
        "phases": phases,
        "top_memories": [memory, {**memory, "id": "m3", "lift": 0.41}, {**memory, "id": "m7", "lift": None}],
        "worst_memories": [
            {
                **memory,
                "id": "m30",
                "value": 0.08,
                "lift": -0.31,
                "adds": "adds −0.31 [−0.52, −0.10]",
                "why": "right in 1 of 9 attempts that saw it",
            }
        ],
        "health": {"items": 64, "coverage": 0.83, "nonzero": 0.7, "updates_per_item": 3.4, "by_kind": {"case": 64}},
    }
