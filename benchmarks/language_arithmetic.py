"""Rules that compare attempts, on equal tokens: REINFORCE, RLOO, GRPO, Dr. GRPO and DAPO on a task that can be learned.

    python benchmarks/language_arithmetic.py

SmolLM2-135M says which of three digits is the largest, after four worked examples. Every arm may sample the same number
of tokens, in updates of 4 tasks x 8 attempts; KL is off for all, so that the rules are compared and not their anchors.
"""

import team_grid

SAMPLED = 3_000
SETTINGS = {
    "env": "arithmetic:largest",
    "prompts": 4,
    "group": 8,
    "lr": 5e-4,
    "updates": 400,
    "sampled": SAMPLED,
    "eval_every": 10,
    "eval_tasks": 64,
    "threads": 1,
}
ARMS = {
    "reinforce": {},
    "rloo": {"kl_reward": 0.0},
    "grpo": {"kl": 0.0},
    "dr_grpo": {"length": 4},
    "dapo": {},
}
CELLS = [team_grid.Cell("largest", arm, arm, SETTINGS | own) for arm, own in ARMS.items()]

if __name__ == "__main__":
    team_grid.main("language_arithmetic", CELLS, __doc__, seeds=(0, 1, 2))
