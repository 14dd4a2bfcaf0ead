"""Two levels in one run: GRPO with a memory against either alone, on equal tokens.

    python benchmarks/language_memory.py

SmolLM2-135M on the task and with the settings of ``language_arithmetic.py``. "memory" is the same run with a step size
of 0: attempts are recalled, settled and written, the weights stay. "both" learns both.
"""

import team_grid

SETTINGS = {
    "env": "arithmetic:largest",
    "prompts": 4,
    "group": 8,
    "lr": 5e-4,
    "kl": 0.0,
    "updates": 400,
    "sampled": 3_000,
    "eval_every": 10,
    "eval_tasks": 64,
    "threads": 1,
}
ARMS = {"grpo": {}, "memory": {"memory": "memlift", "lr": 0.0}, "both": {"memory": "memlift"}}
CELLS = [team_grid.Cell("largest", arm, "grpo", SETTINGS | own) for arm, own in ARMS.items()]

if __name__ == "__main__":
    team_grid.main("language_memory", CELLS, __doc__, seeds=(0, 1, 2))
