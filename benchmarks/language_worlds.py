"""Worlds that a small model learns in minutes, a tool, and programs that are run: GRPO by its defaults but for the
rate.

    python benchmarks/language_worlds.py

SmolLM2-135M. A room of BabyAI whose worlds start otherwise when held out (chance succeeds in a fifth of them), sums of
two digits from reasoning-gym; sums and products of three and four digits with a calculator to call, and without one.
The step size was found by single short runs and is the same for worlds, half of it for the calculator (that of its
example); the divergence from the reference is off (``--kl 0``), which saves a pass. Of programs the reward is 1 where
all tests pass, hidden ones too; held out are functions with other constants. Run it where the repository begins.
"""

import team_grid

COMMON = {"lr": 1e-3, "kl": 0.0, "eval_every": 0, "eval_tasks": 32, "threads": 1}
SUM = "reasoning_gym:chain_sum,settings=min_terms=2+max_terms=2+min_digits=1+max_digits=1,exact=true"
WORLDS = {
    "red-ball": {"env": "babyai:GoToRedBallNoDists", "prompts": 8, "group": 4, "updates": 16},
    "chain-sum": {"env": SUM, "prompts": 4, "group": 8, "updates": 16},
    "programs": {"env": "program:easy", "prompts": 4, "group": 8, "updates": 16},
    "calculator": {"env": "graded:examples/calculator_task.py", "lr": 5e-4, "updates": 15},
    "no-calculator": {"env": "graded:benchmarks/no_calculator.py", "lr": 5e-4, "updates": 15},
}
CELLS = [team_grid.Cell(world, "grpo", "grpo", COMMON | own) for world, own in WORLDS.items()]

if __name__ == "__main__":
    team_grid.main("language_worlds", CELLS, __doc__, seeds=(0, 1, 2))
