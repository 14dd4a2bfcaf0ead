"""A long text world in which a one-step value misleads: does looking ahead beat greedy? ``household:chores``, no model.

python benchmarks/search_chores.py                  # minutes of a core: results/search_chores.json
python benchmarks/search_deep_page.py               # docs/results/search-deep.{md,svg} from it

Held-out tasks, 17 to 23 commands at best, 40 at most. A scripted policy gives, with the chance of its skill, the next
of the shortest way from where it stands, otherwise any that is offered. Two values, each with normal noise that is the
same whenever a state is judged: *done*, the share of the goal that holds now (opening a door makes it less), and
*distance*, the share of the shortest way that is behind (which knows the future). Every way may give as many commands.
"""

import copy
import random
import zlib
from pathlib import Path

import numpy as np
from search_cells import main, summed

from evolvent import envs
from evolvent.search import beam, best_of_n, mcts_alpha
from evolvent.search.aggregate import AGGREGATORS
from evolvent.search.budget import Budget
from evolvent.search.search import Moves, Search, State
from evolvent.search.tree import Tree

RESULT = Path(__file__).parent / "results" / "search_chores.json"
SKILLS, NOISES, SEEDS, BUDGET, LONGEST = (0.5, 0.7), (0.0, 0.03, 0.1), (0, 1, 2), 640, 40
WAYS = {
    "policy alone": (lambda s: best_of_n.run(s, best_of_n.Config(1)), 1),
    "best of samples": (lambda s: best_of_n.run(s, best_of_n.Config(10_000)), 1),
    "one step ahead": (lambda s: beam.run(s, beam.Config((1,))), 16),
    "beam, 4 go on": (lambda s: beam.run(s, beam.Config((4,))), 4),
    "MCTS-alpha": (lambda s: mcts_alpha.run(s, mcts_alpha.Config(1, 8, c=0.3)), 4),
}
"""A search, and the commands that are asked for at a state: 16 of a depth for all that search."""


class Household:
    """Chores as a space: a node is the world as it stands."""

    def __init__(self, tree: Tree, starts: list, skill: float, seed: int) -> None:
        self.tree, self.skill, self.seed = tree, skill, seed
        self.worlds = {int(root): copy.deepcopy(start) for root, start in zip(tree.roots, starts, strict=True)}
        self.way = [_left(start) for start in starts]
        self.tries: dict[int, int] = {}
        self._made: dict[int, list] = {}

    def propose(self, nodes, widths, meter):
        return [self._propose(n, w, meter) for n, w in zip(nodes, widths, strict=True)]

    def _propose(self, node, width, meter):
        task, world = int(self.tree.task[node]), self.worlds[node]
        count, _ = meter.share(task, width, 1)
        if count < 1 or self.tree.depth[node] >= LONGEST:
            return None
        draw = random.Random(f"{self.seed}/{task}/{self.tree.depth[node]}/{world!r}/{self.tries.get(node, 0)}")
        offered, best = world.moves(), world.next_move()
        moves = [best if draw.random() < self.skill else draw.choice(offered) for _ in range(count)]
        meter.calls[task] += count
        meter.tokens[task] += count
        meter.longest = 1
        found = {move: moves.count(move) for move in moves}
        self._made[node] = list(found)
        return Moves(np.array(list(found.values()), float) / count, np.ones(len(found), np.int64))

    def made(self, parent, children):
        for child, move in zip(children.tolist(), self._made.pop(parent), strict=True):
            self.worlds[child] = copy.deepcopy(self.worlds[parent])
            self.worlds[child].make(move)

    def twin(self, node, new):
        self.tries[node] = self.tries.get(node, 0) + 1
        self.worlds[new], self.tries[new] = self.worlds[node], self.tries[node]

    def enter(self, nodes):
        return [1.0 if self.worlds[n].solved() else None for n in nodes]

    def state(self, node):
        return State(node, int(self.tree.task[node]), "", ())

    def key(self, node):
        return None


def _left(world):
    """Commands of the shortest way from here."""
    world, n = copy.deepcopy(world), 0
    while not world.solved():
        world.make(world.next_move())
        n += 1
    return n


def noisy(space, kind, noise):
    """One of the two values, plus the noise of that state."""

    def value(states):
        out = []
        for state in states:
            world = space.worlds[state.node]
            known = world.done() if kind == "done" else 1.0 - _left(world) / space.way[state.task]
            own = np.random.default_rng(zlib.crc32(f"{space.seed}/{state.task}/{world!r}".encode()))
            out.append(known + noise * own.standard_normal())
        return np.array(out)

    return value


def measure(skill, kind, noise, seed, tasks):
    """Of each way: tasks that are done, and commands given."""
    env, out = envs.load("household:chores"), {}
    starts = [env._start(task) for task in env.tasks("heldout", tasks, seed)]
    for name, (by, width) in WAYS.items():
        tree = Tree(tasks)
        space = Household(tree, starts, skill, seed)
        search = Search(tree, space, noisy(space, kind, noise), (width,), Budget(tokens=BUDGET))
        by(search)
        right = oracle = 0
        for task in range(tasks):
            paths = search.of(task)
            steps = [tree.value[tree.path(p.leaf)[1:]].tolist() for p in paths]
            solved = [space.worlds[p.leaf].solved() for p in paths]
            leaf = AGGREGATORS["last_max"]([str(i) for i in range(len(paths))], steps)
            right, oracle = right + (leaf is not None and solved[int(leaf)]), oracle + any(solved)
        out[name] = {"right": right, "oracle": oracle, "commands": float(search.meter.tokens.mean())}
    return out


def cells(tasks: int):
    """Every skill, value and noise, with a row for each way."""
    for skill in SKILLS:
        for kind in ("done", "distance"):
            for noise in NOISES:
                found = [measure(skill, kind, noise, seed, tasks) for seed in SEEDS]
                yield (
                    f"skill {skill}, {kind}, noise {noise}",
                    [
                        {
                            "skill": skill,
                            "value": kind,
                            "noise": noise,
                            "way": way,
                            **summed([one[way] for one in found], tasks, "commands"),
                        }
                        for way in WAYS
                    ],
                )


if __name__ == "__main__":
    main(__doc__, RESULT, 24, cells, budget=BUDGET, seeds=list(SEEDS))
