"""Long actions over many turns: credit inside actions (POAD) against discounts at every token, whole actions, groups.

    python benchmarks/language_actions.py

SmolLM2-135M in two worlds whose commands are sentences. The learners with a critic and GRPO get the same tasks,
attempts and passes; ETPO its own number of steps, without which its slow values do not move. TWOSOME chooses whole
actions by their likelihood a word, as published; all others sample token by token inside the allowed actions, so their
first policies differ from TWOSOME's: the table has success before learning too. The rate of the critics was
chosen for POAD alone (LOG); nothing was tuned for the others.
"""

import team_grid

COMMON = {"prompts": 4, "group": 4, "eval_every": 10, "eval_tasks": 32, "threads": 1, "lr": 2e-4}
CRITIC = {"epochs": 2, "minibatches": 2, "gamma": 0.95, "kl_stop": 0.05, "critic_lr": 1e-3}
ARMS = {
    "poad": CRITIC,
    "ntpo": CRITIC,
    "twosome": CRITIC,
    "grpo": {"epochs": 2, "minibatches": 2, "kl": 0.0},
    "etpo": {"minibatches": 4, "polyak": 0.2, "beta": 0.05, "gamma": 0.95, "critic_lr": 1e-3},
}
MORE = {"warmup": 3, "critic_epochs": 40}
TRACES = ("trace-1", {"gae_lambda": 1.0}), ("trace-inside-1", {"gae_lambda_inside": 1.0})
WORLDS = {
    "microwave-long": {"env": "microwave:long=true", "updates": 40},
    "food-long": {"env": "household:food,long=true", "updates": 30},
}
CELLS = (
    [
        team_grid.Cell(world, arm, arm, COMMON | where | own)
        for world, where in WORLDS.items()
        for arm, own in ARMS.items()
    ]
    + [
        # commands of a dozen tokens at 0.95 a token leave little of a reward: is it the size of NTPO's discount?
        team_grid.Cell("microwave-long", f"{arm}-99", arm, COMMON | WORLDS["microwave-long"] | CRITIC | {"gamma": 0.99})
        for arm in ("poad", "ntpo")
    ]
    + [
        # in food policies fall while their critic explains nothing: does it help to let the critic learn first or more,
        # or a trace that reaches the first command?
        team_grid.Cell("food-long", f"poad-{name}", "poad", COMMON | WORLDS["food-long"] | CRITIC | own)
        for name, own in (("critic-first", {"warmup": 6}), ("critic-more", MORE), *TRACES)
    ]
)

if __name__ == "__main__":
    team_grid.main("language_actions", CELLS, __doc__, seeds=(0, 1, 2))
