"""Two agents against one on equal tokens: MARFT's solver and checker, and a solver that makes twice the attempts.

    python benchmarks/marft_pair.py

SmolLM2-135M says which of three digits is the largest, after four worked examples. The checker reads the solver's
answer and gives the one that counts. A run ends with the update in which it has sampled its tokens; a pair says two
answers an attempt, so one agent makes twice the attempts. The defaults of ``marft`` but for sizes, the rates, for a
guard that lets such steps pass (at the published 1e-3 it throws every one away), and for whose turn it is: ten updates
of one agent are a third of so short a run, so both learn in every update (``pair``) or five by five.
"""

import team_grid

COMMON = {
    "env": "arithmetic:largest",
    "prompts": 4,
    "updates": 400,
    "sampled": 5_000,
    "eval_every": 10,
    "eval_tasks": 64,
    "threads": 1,
    "lr": 5e-4,
    "critic_lr": 3e-4,
    "kl_stop": 0.05,
    "interval": 0,
}
PAIR = {"agents": ("solver", "checker"), "group": 8}
ARMS = {
    "one": {"agents": ("solver",), "group": 16},
    "pair": PAIR,
    "pair-in-turn": PAIR | {"interval": 5},
    "pair-tokens": PAIR | {"level": "token"},
}
CELLS = [team_grid.Cell("largest", arm, "marft", COMMON | own) for arm, own in ARMS.items()]

if __name__ == "__main__":
    team_grid.main("marft_pair", CELLS, __doc__, seeds=(0, 1, 2))
