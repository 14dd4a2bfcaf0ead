"""Run folders of teams with made-up numbers, for the tests of reports and comparisons (never for results)."""

from pathlib import Path

import numpy as np

from evolvent.core.folder import RunFolder


def sample_team_run(
    path: Path, *, algo="mat", seed=0, updates=60, agents=3, skill=10.0, summary=True, name="agent{}", **more
) -> Path:
    """Returns rise from -20 to about ``-20 + skill``; the first agent earns more and more of the advantage."""
    rng, per = np.random.default_rng([seed, round(1000 * abs(skill))]), 32 * 50
    names = [name.format(i) for i in range(agents)]
    config = {"env": f"spread:n={agents}", "seed": seed, "steps": updates * per, "envs": 32, "horizon": 50, **more}
    made = RunFolder.create(
        path,
        algo=algo,
        config=config,
        env=config["env"],
        seed=seed,
        command=f"evolvent run {algo} --seed {seed}",
        kind="team",
    )

    def judged(value, n=32):
        half = 1.5 + rng.random()
        ends = {"ci95": [value - half, value + half], "n": n, "length_mean": 25.0}
        ends["returns"] = [round(value + x, 3) for x in np.linspace(-4, 4, n)]
        return {"value": value, **ends, "covered_mean": 0.5, "success_mean": float(np.clip(value / 20 + 1, 0, 1))}

    with made as folder:
        chance = judged(-20 + rng.normal())
        folder.log(0, phase="random", **chance)
        for update in range(1, updates + 1):
            done = update / updates
            value = -20 + skill * (1 - np.exp(-4 * done)) + rng.normal()
            raw = np.array([1 + 2 * done, *[1.0] * (agents - 1)]) * (1 + 0.1 * rng.random(agents))
            times = {"act_s": 0.4, "step_s": 0.1, "credit_s": 0.02, "learn_s": 1.3 + 0.2 * rng.random()}
            folder.log(
                update * per,
                update=update,
                **{"return": None if update % 7 == 3 else value},
                attempts=64,
                success_mean=float(np.clip(value / 20 + 1, 0, 1)),
                covered_mean=done,
                **times,
                steps_per_s=per / sum(times.values()),
                credit=(raw / raw.sum()).round(4).tolist(),
                policy_loss=-0.01 * rng.random(),
                value_loss=2 * np.exp(-3 * done),
                entropy=1.4 - done,
                clipped=0.1,
            )
            if update % 10 == 0 and update < updates:
                folder.log(update * per, phase="eval", **judged(value + 0.5))
        if summary:
            final = judged(-20 + skill + 0.3 * rng.normal())
            folder.log(updates * per, phase="eval", **final)
            folder.write_summary(
                {
                    "algo": algo,
                    "env": config["env"],
                    "seed": seed,
                    "steps": updates * per,
                    "updates": updates,
                    "score": {"name": "return, greedy", "higher_is_better": True, **final},
                    "baseline": {"name": "random actions", "value": chance["value"], "ci95": chance["ci95"]},
                    "sampled": judged(final["value"] - 1),
                    "greedy": final,
                    "agents": names,
                    "seconds": 130.0,
                }
            )
    return path
