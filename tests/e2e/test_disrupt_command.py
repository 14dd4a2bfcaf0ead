"""A policy that learns, is judged by source and strength, and what is refused: through the command line."""

import json
from functools import partial

import command

evolvent = partial(command.evolvent, trains=True)
CART = "gymnasium:CartPole-v1,max_episode_steps=60"
SMALL = ("--steps", "256", "--envs", "2", "--horizon", "64", "--minibatches", "2", "--eval-episodes", "4", "--plain")


def test_the_grid_of_a_run_and_what_is_refused(tmp_path):
    evolvent("run", "ppo", "--env", CART, *SMALL, "--out", "run", cwd=tmp_path)
    grid = ("eval", "run", "--episodes", "4", "--plain", "--strengths")
    shown, _ = evolvent(*grid, "0,1", "--env", f"disrupt:[{CART}]", cwd=tmp_path)
    assert "dynamics are left out" in shown and "action: uniform" in shown
    [path] = (tmp_path / "run").glob("eval-*.json")
    found = json.loads(path.read_text())
    rows = {row["source"]: row for row in found["rows"]}
    assert set(rows) == {"obs", "reward", "action"} and found["strengths"] == [0, 1]
    own = json.loads((tmp_path / "run" / "summary.json").read_text())["greedy"]["returns"]
    assert all(row["cells"][0]["returns"] == own for row in rows.values()), "strength 0 is the run's own evaluation"
    assert rows["reward"]["cells"][1]["returns"] == own, "returns count the undisturbed reward"
    assert rows["action"]["cells"][1]["returns"] != own
    assert "costs" in path.with_suffix(".html").read_text()
    ball = f"disrupt:[{CART}],obs=adversary,adversary:policy,by=step"
    evolvent(*grid, "0,2", "--env", ball, cwd=tmp_path)
    for options, said in (
        (("0,x", "--env", ball), "two or more numbers"),
        (("-1,0", "--env", ball), "two or more numbers"),
        (("0,1", "--env", CART), "strengths of what?"),
        (("0,1", "--env", f"disrupt:[{CART}],dynamics=mass"), "no dynamics that could change"),
    ):
        _, wrong = evolvent(*grid, *options, cwd=tmp_path, code=2)
        assert said in wrong
