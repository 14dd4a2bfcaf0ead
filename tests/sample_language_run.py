# ruff: noqa: E501
"""Run folders of language models with made-up numbers, for the tests of reports and comparisons (never for results)."""

import re
from pathlib import Path

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.runs.account import changed

WARNING = "in 95% of the groups all attempts earned the same: nothing is compared (docs/when-it-does-not-learn.md#no-difference)"
RULES = [
    {
        "name": "token_bad",
        "level": "token",
        "summary": "Bellman backup inside and between actions (POAD).",
        "trained": True,
        "unit": "token",
    },
    {
        "name": "step_group_std",
        "level": "step",
        "summary": "Return against the group, in standard deviations (GRPO).",
        "trained": False,
        "unit": "turn",
    },
    {
        "name": "step_gae",
        "level": "step",
        "summary": "GAE over whole actions (action-level PPO).",
        "trained": False,
        "unit": "turn",
    },
]
ROOM = (
    "Task: make a tomato salad. You stand at the counter. A tomato is on the table (1,2), a bowl at (3,0), a knife at "
    "(5,5).\nYou hold nothing. The tomato is whole.\nWhat do you do? "
)
ACTIONS = (
    "go to the table and pick up the tomato",
    "bring the tomato to the cutting board and chop it",
    "put the chopped tomato into the bowl",
    "serve the bowl with the salad to the guests",
    "wait and look around",
)


def sample_language_run(
    path: Path, *, algo="poad", seed=0, updates=40, skill=0.8, summary=True, credit=True, nasty=""
) -> Path:
    """Return and success rise from .1 to about ``skill``; ``nasty`` is added to everything that a model or a task says."""
    rng = np.random.default_rng([seed, round(1000 * skill)])
    config = {
        "env": "overcooked:tomato-salad",
        "model": "smollm2-135m",
        "seed": seed,
        "updates": updates,
        "lora_rank": 8,
    }
    made = RunFolder.create(
        path,
        algo=algo,
        config=config,
        env=config["env"],
        seed=seed,
        command=f"evolvent run {algo} --seed {seed}",
        kind="language",
    )

    def judged(p, n=32):
        hits = rng.binomial(n, np.clip(p, 0, 1))
        half = 0.12 * (1 + rng.random())
        means = {"success_mean": hits / n, "length_mean": 4.0, "tokens_mean": 31.5, "cut_mean": 0.1, "flat_mean": None}
        means |= {"reward_format_mean": 0.5 + p / 2}
        return {"value": hits / n - 0.02, "ci95": [hits / n - half, hits / n + half], "n": n, **means}

    with made as folder:
        chance, greedy = judged(0.06), judged(0.1)
        folder.log(0, phase="random", **chance)
        folder.log(0, phase="eval", **greedy)
        before = greedy
        for update in range(1, updates + 1):
            p = 0.1 + (skill - 0.1) * (1 - np.exp(-4 * update / updates))
            said = judged(p)
            folder.log(
                32 * update,
                update=update,
                **{"return": said["value"]},
                attempts=32,
                broken=0,
                **{name: said[name] for name in said if name.endswith("_mean")} | {"flat_mean": 1 - p},
                act_s=3 + rng.random(),
                step_s=0.2,
                credit_s=0.1,
                learn_s=5.0,
                tokens=1000.0,
                sampled_per_s=310.0,
                trained_per_s=190.0,
                loss=-0.01 * rng.random(),
                ratio_mean=1.0 + 0.01 * p,
                reward_overlong_mean=-p,
                entropy=1.4 * (1.2 - p),
                kl_ref=p / 9,
                gap=2e-5,
                approx_kl=0.002,
                clip_low=0.0,
                clip_high=0.01 * p,
                grad_norm=0.4,
                discarded=0.0,
                **({"warnings": [WARNING]} if update in (3, 23) else {}),
            )
            for _ in range(2):
                folder.episode(_episode(rng, rng.random() < p, nasty))
            if update % 10 == 0 and update < updates:
                greedy = judged(p)
                folder.log(32 * update, phase="eval", **greedy)
        if summary:
            greedy = judged(skill)
            folder.log(32 * updates, phase="eval", **greedy)
            folder.write_summary(
                {
                    "algo": algo,
                    "env": config["env"],
                    "model": config["model"],
                    "seed": seed,
                    "seconds": 512.0,
                    "score": {"name": "held-out return, greedy", "higher_is_better": True, **greedy},
                    "greedy": greedy,
                    "baseline": {"name": "random actions", "value": chance["value"], "ci95": chance["ci95"]},
                    "before": {name: before[name] for name in ("value", "ci95", "success_mean")},
                    "sampled": judged(skill - 0.05),
                    "steps": 32 * updates,
                    "updates": updates,
                    "agents": ["policy"],
                }
            )
    for when, right in (("before", 0.1), ("after", skill)):
        changed.write(path, when, [_episode(rng, rng.random() < right, nasty, i) for i in range(12)])
    if credit:
        write_atomic(path / "credit.json", dump(sample_credit(seed, nasty=nasty)))
    return path


def sample_credit(seed=0, *, episodes=5, turns=4, words=ACTIONS, nasty="", rules=RULES) -> dict:
    """Attempts with credit that a token rule puts on few tokens, and turn rules on all of a turn alike."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(episodes):
        good = number % 3 != 2
        nodes = []
        for turn in range(turns):
            nodes.append({"kind": "observation", "agent": "agent", "text": ROOM * (1 + 3 * (turn == 1)) + nasty})
            action = words[turn % len(words) if good or turn < 2 else -1] + nasty
            tokens = [*re.findall(r" ?[^ ]+|\s+", action), "<|im_end|>"]
            share = rng.normal(0, 0.02, len(tokens))
            share[-1 - turn % 3] += (0.4 if good else -0.35) * (1 + turn) / turns
            whole = float(share.sum())
            given = [share.round(4).tolist(), [1.12 if good else -0.89] * len(tokens), [whole] * len(tokens)]
            columns = dict(zip([rule["name"] for rule in rules], given, strict=False))
            if turn == 0:
                columns[rules[0]["name"]][1] = None
            nodes.append(
                {
                    "kind": "action",
                    "agent": "agent",
                    "text": action,
                    "reward": float(good and turn == turns - 1),
                    "tokens": tokens,
                    "logp": (-rng.random(len(tokens))).tolist(),
                    "value": share.cumsum().tolist(),
                    "entropy": None if number == 1 else rng.random(len(tokens)).tolist(),
                    "credit": columns,
                }
            )
        rows.append(
            {
                "id": f"e{number}",
                "task": f"tomato-salad-{number // 2}{nasty}",
                "group": f"39.{number // 2}{nasty}",
                "return": float(good),
                "success": good,
                "update": 39,
                "nodes": nodes,
            }
        )
    return {"rules": list(rules), "episodes": rows}


def _episode(rng, good, nasty, number=0):
    episode = Episode(f"tomato-salad-{number}{nasty}", env="overcooked", id=f"e{rng.integers(1 << 30)}")
    for turn in range(3):
        episode.observe(ROOM + nasty)
        episode.act(ACTIONS[turn if good else -1] + nasty, reward=float(good and turn == 2))
    episode.end(terminated=True, success=bool(good))
    return episode
