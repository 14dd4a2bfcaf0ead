"""When does search beat voting? Game of 24 by enumeration, no model: a policy of known skill, a value of known noise.

python benchmarks/search_noisy_oracle.py            # two minutes of a core: results/search_noisy_oracle.json
python benchmarks/search_noisy_oracle.py --page     # docs/results/search-*.{md,svg} from it

The policy writes a legal line: with the chance of its skill one from which 24 can still be reached, otherwise any. The
value of a state is 1 where 24 can be reached and 0 where it cannot, plus noise of one deviation, the same each time a
state is judged (what a network gets wrong it gets wrong again), finished answers included. Every way has the same
number of lines for a puzzle.
"""

import argparse
import functools
import json
import math
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.envs.text import game24
from evolvent.formulas.statistics import wilson
from evolvent.search import beam, best_of_n, bfs_v, mcts_alpha, mcts_rollout
from evolvent.search.aggregate import AGGREGATORS
from evolvent.search.budget import Budget
from evolvent.search.search import Moves, Search, State
from evolvent.search.tree import Tree

HERE = Path(__file__).parent
RESULT = HERE / "results" / "search_noisy_oracle.json"
PAGE = HERE.parent / "docs" / "results" / "search-noisy-oracle"
SKILLS, NOISES, BUDGETS, SEEDS = (0.0, 0.4), (0.0, 0.25, 0.5, 1.0, 2.0), (24, 96), (0, 1, 2)
Way = tuple[Callable[[Search], None], Callable[[int], tuple[int, ...]], str]
WAYS: dict[str, Way] = {
    "one sample": (lambda s: best_of_n.run(s, best_of_n.Config(1)), lambda b: (1,), "last_max"),
    "majority of samples": (lambda s: best_of_n.run(s, best_of_n.Config(10_000)), lambda b: (1,), "majority"),
    "best of samples": (lambda s: best_of_n.run(s, best_of_n.Config(10_000)), lambda b: (1,), "last_max"),
    "sum over samples": (lambda s: best_of_n.run(s, best_of_n.Config(10_000)), lambda b: (1,), "last_vote"),
    "BFS-V, 2 go on": (lambda s: bfs_v.run(s, bfs_v.Config(2)), lambda b: (b // 5,), "last_max"),
    "beam, 4, 2 go on": (lambda s: beam.run(s, beam.Config((4, 2))), lambda b: (b // 3, b // 8, b // 12), "last_max"),
    "MCTS-Rollout": (lambda s: mcts_rollout.run(s, mcts_rollout.Config(9999, 9999)), lambda b: (b // 6,), "last_max"),
    "MCTS-alpha": (lambda s: mcts_alpha.run(s, mcts_alpha.Config(1, 10)), lambda b: (b // 6,), "last_max"),
}
"""The ways: a search, moves at each depth by the lines of a puzzle, how one answer is chosen."""


class Puzzles:
    """Game of 24 as a space: a node is the numbers that are left."""

    def __init__(self, tree: Tree, puzzles: list[tuple[int, ...]], skill: float, seed: int) -> None:
        self.tree, self.puzzles, self.skill, self.seed = tree, puzzles, skill, seed
        self.left = {i: tuple(sorted(p)) for i, p in enumerate(puzzles)}
        self.said: dict[int, tuple[str, ...]] = dict.fromkeys(range(len(puzzles)), ())
        self.tries: dict[int, int] = {}
        self._made: dict[int, list[tuple[str, tuple[int, ...]]]] = {}

    def propose(self, nodes, widths, meter):
        return [self._propose(n, w, meter) for n, w in zip(nodes, widths, strict=True)]

    def _propose(self, node: int, width: int, meter) -> Moves | None:
        task = int(self.tree.task[node])
        count, _ = meter.share(task, width, 1)
        if count < 1:
            return None
        draw = random.Random(f"{self.seed}/{task}/{self.said[node]}/{self.tries.get(node, 0)}")
        every, good = legal(self.left[node])
        drawn = (
            [draw.choice(good if good and draw.random() < self.skill else every) for _ in range(count)] if every else []
        )
        meter.calls[task] += count
        meter.tokens[task] += count
        meter.longest = 1
        found = {move: drawn.count(move) for move in drawn}
        self._made[node] = list(found)
        return Moves(np.array(list(found.values()), float) / max(len(drawn), 1), np.ones(len(found), np.int64))

    def made(self, parent, children):
        for child, (text, left) in zip(children.tolist(), self._made.pop(parent), strict=True):
            self.left[child], self.said[child] = left, (*self.said[parent], text)

    def twin(self, node, new):
        self.tries[node] = self.tries.get(node, 0) + 1
        self.left[new], self.said[new], self.tries[new] = self.left[node], self.said[node], self.tries[node]

    def enter(self, nodes):
        return [None if len(self.left[n]) > 1 else float(self.left[n] == (game24.GOAL,)) for n in nodes]

    def state(self, node):
        return State(node, int(self.tree.task[node]), game24.shown(self.puzzles[self.tree.task[node]]), self.said[node])

    def key(self, node):
        return None


@functools.cache
def legal(left: tuple[int, ...]) -> tuple[list, list]:
    """Lines that can be written, and those of them from which 24 can be reached."""
    every = game24._moves(left) if len(left) > 1 else []
    return every, [move for move in every if game24._solvable(move[1])]


def noisy(space: Puzzles, noise: float) -> Callable[[Any], np.ndarray]:
    """The value: whether 24 can be reached, plus the noise of that state."""

    def value(states):
        out = []
        for state in states:
            left, task = space.left[state.node], state.task
            own = np.random.default_rng(zlib.crc32(f"{space.seed}/{task}/{len(state.steps)}/{left}".encode()))
            out.append(float(game24._solvable(left)) + noise * own.standard_normal())
        return np.array(out)

    return value


def measure(skill: float, noise: float, budget: int, seed: int, tasks: int) -> dict[str, dict[str, float]]:
    """Share of puzzles that each way solves, with what an oracle would have chosen, and lines written."""
    puzzles = random.Random(f"noisy/{seed}").sample(game24._split("heldout"), tasks)
    out = {}
    for name, (by, widths, how) in WAYS.items():
        tree = Tree(tasks)
        space = Puzzles(tree, puzzles, skill, seed)
        search = Search(tree, space, noisy(space, noise), widths(budget), Budget(tokens=budget))
        by(search)
        right = oracle = 0
        for task in range(tasks):
            paths = search.of(task)
            answers = ["; ".join(space.said[p.leaf]) for p in paths]
            steps = [tree.value[tree.path(p.leaf)[1:]].tolist() for p in paths]
            answer = AGGREGATORS[how](answers, steps)
            won = {a for a, p in zip(answers, paths, strict=True) if space.left[p.leaf] == (game24.GOAL,)}
            right, oracle = right + (answer in won), oracle + bool(won)
        out[name] = {"right": right / tasks, "oracle": oracle / tasks, "lines": float(search.meter.tokens.mean())}
    return out


def auc(noise: float) -> float:
    """Chance that the value puts a state that can be won above one that cannot: Phi(1 / (noise sqrt 2))."""
    return 1.0 if noise == 0 else 0.5 * (1.0 + math.erf(1.0 / (2.0 * noise)))


def run(tasks: int) -> None:
    rows = []
    for skill in SKILLS:
        for noise in NOISES:
            for budget in BUDGETS:
                found = [measure(skill, noise, budget, seed, tasks) for seed in SEEDS]
                for name in WAYS:
                    mine = {key: [one[name][key] for one in found] for key in ("right", "oracle", "lines")}
                    n = tasks * len(SEEDS)
                    low, high = wilson(round(float(np.mean(mine["right"])) * n), n)
                    rows.append(
                        {
                            "skill": skill,
                            "noise": noise,
                            "auc": auc(noise),
                            "budget": budget,
                            "way": name,
                            "right": float(np.mean(mine["right"])),
                            "ci95": [low, high],
                            "seeds": mine["right"],
                            "oracle": float(np.mean(mine["oracle"])),
                            "lines": float(np.mean(mine["lines"])),
                        }
                    )
            print(f"skill {skill} noise {noise}", flush=True)
    facts = {
        "name": "search_noisy_oracle",
        "command": "python benchmarks/search_noisy_oracle.py",
        "tasks": tasks,
        "seeds": list(SEEDS),
        **provenance(),
        "rows": rows,
    }
    write_atomic(RESULT, json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    if args.page:
        import search_pages

        search_pages.main()
    else:
        run(args.tasks)
