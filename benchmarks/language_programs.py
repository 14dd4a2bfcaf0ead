"""Rewards from execution: what the tests say, handed out by different rules, in one loop on the same small programs.

    python benchmarks/language_programs.py

SmolLM2-135M on `program:easy`, 24 updates of 8 tasks with 8 attempts each, the loss of GRPO without a reference. The
rate was found by short trials of `outcome` (GRPO, paid 1 where all tests pass) with half of the tasks; nothing was
tuned for the others. `b_coder` is a system of its own: five of its updates teach its values alone. With a GPU:
--device cuda.
"""

import team_grid

COMMON = {
    "env": "program:easy",
    "updates": 24,
    "prompts": 8,
    "group": 8,
    "lr": 1e-3,
    "eval_every": 0,
    "eval_tasks": 128,
    "threads": 1,
    "dtype": "float32",
}
LOSS = {"objective": "grpo", "objective_options": ("kl=0.0",)}
RULES = {
    "outcome": "step_group_std",
    "graded": "step_graded_outcome",
    "outcome-critic": "token_outcome_critic",
    "immediate": "token_immediate",
    "test-weighted": "step_test_weighted",
}
CELLS = [
    team_grid.Cell("programs", arm, "policy_gradient", COMMON | LOSS | {"rule": rule, "critic_lr": 1e-3})
    for arm, rule in RULES.items()
] + [team_grid.Cell("programs", "b_coder", "b_coder", COMMON)]

if __name__ == "__main__":
    team_grid.main("language_programs", CELLS, __doc__, seeds=(0, 1, 2))
