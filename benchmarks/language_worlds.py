"""Environments of other packages that a small model learns in minutes: GRPO by its defaults but for the rate.

    python benchmarks/language_worlds.py

SmolLM2-135M. A room of BabyAI whose worlds start otherwise when held out (chance succeeds in a fifth of them), sums of
two digits from reasoning-gym. The step size was found by single short runs and is the same for all; the divergence from
the reference is off (``--kl 0``), which saves a pass.
"""

import team_grid

COMMON = {"lr": 1e-3, "kl": 0.0, "eval_every": 0, "eval_tasks": 32, "threads": 1}
SUM = "reasoning_gym:chain_sum,settings=min_terms=2+max_terms=2+min_digits=1+max_digits=1,exact=true"
WORLDS = {
    "red-ball": {"env": "babyai:GoToRedBallNoDists", "prompts": 8, "group": 4, "updates": 16},
    "chain-sum": {"env": SUM, "prompts": 4, "group": 8, "updates": 16},
}
CELLS = [team_grid.Cell(world, "grpo", "grpo", COMMON | own) for world, own in WORLDS.items()]

if __name__ == "__main__":
    team_grid.main("language_worlds", CELLS, __doc__, seeds=(0, 1, 2))
