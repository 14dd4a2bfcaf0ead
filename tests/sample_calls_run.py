"""Run folders of calls of functions with made-up answers, for the tests of reports (never for results)."""

import json
from pathlib import Path

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.formulas.call_match import judgement, match

PARAMETERS = {
    "day": {"type": "string", "description": "Date, year-month-day"},
    "guests": {"type": "integer", "default": 2, "description": "How many people"},
    "house": {"type": "string", "enum": ["Harbour", "Old Mill"], "description": "Which house"},
}


def sample_calls_run(path: Path, *, seed=0, tasks=40, functions=15, nasty="") -> Path:
    """A memory learns to call; answers refuse, call another function, have a wrong value, or cannot be read."""
    rng = np.random.default_rng(seed)
    names = [f"{'a_rather_long_name_of_a_function_' * (i == 1)}book_table_{i}{nasty}" for i in range(functions)]
    tools = [{"name": name, "parameters": {"properties": PARAMETERS, "required": ["day"]}} for name in names]
    config = {"env": "functions:fc", "model": "none", "seed": seed}
    about = {"env": "functions:fc", "seed": seed, "command": f"evolvent run memlift --seed {seed}", "kind": "memory"}
    made = RunFolder.create(path, algo="memlift", config=config, **about)
    with made as folder:
        step = 0
        for phase, skill in (("before", 0.2), ("stream", 0.5), ("after", 0.8)):
            for i in range(tasks):
                step += 1
                name = names[min(int(rng.exponential(3)), functions - 1)]
                gold = [] if i % 5 == 4 else [{"name": name, "arguments": {"day": "2026-12-24" + nasty, "guests": 4}}]
                said, draw = gold, rng.random()
                if draw > skill:
                    wrong = {"day": "2026-12-25", "house": "Harbour"}
                    called = names[int(rng.integers(functions))] if i % 3 else name
                    said = [None, [], [{"name": called, "arguments": wrong}]][i % 4 if i % 4 < 3 else 2]
                found = match(said or (), gold)
                right = said is not None and found.right
                episode = Episode(f"t{i}", env="functions", id=f"e{step}")
                shown = "\n".join(map(json.dumps, tools))
                episode.observe(f"{shown}\nRequest: a table for 4 on Christmas Eve, please{nasty}")
                episode.act("broken [" if said is None else json.dumps(said), reward=float(right))
                episode.meta["judged"] = [judgement(said, gold, found, right=right)]
                episode.end(terminated=True, success=right)
                row = {"phase": phase, "task": f"t{i}", "kind": name, "success": int(right), "pass": 1}
                folder.log(step, **row, reward=float(right), tokens=30, seconds=1.0)
                folder.episode(episode)
        folder.write_summary({"algo": "memlift", "env": "functions:fc", "seed": seed, "score": None, "seconds": 60.0})
    return path
