"""Attempts of your own, as an npz: a policy is learned from them, judged in the environment, and compared.

    python examples/recorded_data.py [--steps 2000] [--out recorded]

Your log of a robot or a game would take the place of ``play``: five columns with a row a step. From the command line
it is `evolvent run iql --data recorded/own.npz --env gymnasium:CartPole-v1`.
"""

import argparse
from pathlib import Path

import gymnasium
import numpy as np

import evolvent

ENV = "CartPole-v1"


def play(attempts, seed=0):
    """A clumsy player: it pushes towards where the pole leans, and four times in ten anywhere."""
    env, rng = gymnasium.make(ENV), np.random.default_rng(seed)
    rows = {name: [] for name in ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")}
    for attempt in range(attempts):
        seen, over = env.reset(seed=1_000_000 + attempt)[0], False
        while not over:
            action = int(rng.integers(2)) if rng.random() < 0.4 else int(seen[2] + 0.5 * seen[3] > 0)
            after, reward, terminated, truncated, _ = env.step(action)
            for name, value in zip(rows, (seen, action, reward, terminated, truncated, after), strict=True):
                rows[name].append(value)
            seen, over = after, terminated or truncated
    return {name: np.array(column) for name, column in rows.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2_000, help="gradient steps")
    parser.add_argument("--attempts", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("recorded"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    np.savez(given.out / "own.npz", **play(given.attempts))
    shared = {"data": str(given.out / "own.npz"), "env": f"gymnasium:{ENV}", "steps": given.steps, "hidden": (64, 64)}
    arms = {"bc": {}, "iql": {"gamma": 0.95}}
    for system, settings in arms.items():
        result = evolvent.run(system, out=given.out / system, quiet=True, **shared, **settings)
        data, learned = result.summary["data"], result.summary["score"]["value"]
        print(f"{system}: {learned:.0f}, where the attempts in the data earned {data['mean']:.0f} in the mean")
    evolvent.compare([given.out / system for system in arms], html=given.out / "compare.html", quiet=True)


if __name__ == "__main__":
    main()
