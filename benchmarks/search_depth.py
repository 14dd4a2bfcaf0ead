"""Deep against shallow: votes, best of samples, beams and trees on solutions of 2 to 16 steps, no model.

python benchmarks/search_depth.py                   # minutes of a core: results/search_depth.json
python benchmarks/search_deep_page.py               # docs/results/search-deep.{md,svg} from it

A scripted policy writes steps; a wrong one is never mended. *Step skill*: every step is right with that chance, so deep
tasks are harder; *answer skill*: the whole answer is, at every depth, so that only the depth differs. The value of a
state is 1 where all its steps are right, otherwise 0, plus normal noise, the same each time the state is judged and
independent of that of its parent; of finished answers it is the outcome model. A right step has four wordings, a wrong
one twelve; wrong answers fall on four, so that votes can go wrong. Every way may write 16 answers' steps.
"""

import random
import zlib
from pathlib import Path

import numpy as np
from search_cells import main, summed
from search_noisy_oracle import auc

from evolvent.search import beam, best_of_n, mcts_alpha, mcts_rollout
from evolvent.search.aggregate import AGGREGATORS
from evolvent.search.budget import Budget
from evolvent.search.search import Moves, Search, State
from evolvent.search.tree import Tree

RESULT = Path(__file__).parent / "results" / "search_depth.json"
DEPTHS, NOISES, SEEDS, ANSWERS = (2, 4, 8, 16), (0.0, 0.5, 1.0, 2.0), (0, 1, 2), 16
SKILLS = (("step", 0.7), ("step", 0.9), ("answer", 0.1), ("answer", 0.4))
RIGHT, WRONG, WRONG_ANSWERS = 4, 12, (0.4, 0.7, 0.9)


def many(search):
    """Independent samples until the budget ends."""
    best_of_n.run(search, best_of_n.Config(10_000))


WAYS = {
    "one answer": (lambda s: best_of_n.run(s, best_of_n.Config(1)), (1,), ("last_max",)),
    "samples": (many, (1,), ("majority", "last_vote", "last_max", "min_vote", "min_max")),
    "greedy by value": (lambda s: beam.run(s, beam.Config((1,))), (16,), ("last_max",)),
    "beam": (lambda s: beam.run(s, beam.Config((4,))), (16, 4), ("last_max", "last_vote")),
    "MCTS-Rollout": (lambda s: mcts_rollout.run(s, mcts_rollout.Config(9999, 9999)), (4,), ("last_max", "last_vote")),
    "MCTS-Rollout, c .3": (lambda s: mcts_rollout.run(s, mcts_rollout.Config(9999, 9999, c=0.3)), (4,), ("last_max",)),
    "MCTS-alpha": (lambda s: mcts_alpha.run(s, mcts_alpha.Config(4, 8)), (4,), ("last_max",)),
}
"""A search, the moves at each depth, and how one answer is chosen of what it found."""


class Steps:
    """Tasks of some depth as a space: a node is the steps that were written."""

    def __init__(self, tree: Tree, depth: int, skill: float, seed: int) -> None:
        self.tree, self.depth, self.skill, self.seed = tree, depth, skill, seed
        self.said: dict[int, tuple[int, ...]] = {int(root): () for root in tree.roots}
        self.tries: dict[int, int] = {}
        self._made: dict[int, list[int]] = {}

    def propose(self, nodes, widths, meter):
        return [self._propose(n, w, meter) for n, w in zip(nodes, widths, strict=True)]

    def _propose(self, node, width, meter):
        task = int(self.tree.task[node])
        count, _ = meter.share(task, width, 1)
        if count < 1:
            return None
        draw = random.Random(f"{self.seed}/{task}/{self.said[node]}/{self.tries.get(node, 0)}")
        moves = [
            draw.randrange(RIGHT) if draw.random() < self.skill else RIGHT + draw.randrange(WRONG) for _ in range(count)
        ]
        meter.calls[task] += count
        meter.tokens[task] += count
        meter.longest = 1
        found = {move: moves.count(move) for move in moves}
        self._made[node] = list(found)
        return Moves(np.array(list(found.values()), float) / count, np.ones(len(found), np.int64))

    def made(self, parent, children):
        for child, move in zip(children.tolist(), self._made.pop(parent), strict=True):
            self.said[child] = (*self.said[parent], move)

    def twin(self, node, new):
        self.tries[node] = self.tries.get(node, 0) + 1
        self.said[new], self.tries[new] = self.said[node], self.tries[node]

    def enter(self, nodes):
        return [None if len(self.said[n]) < self.depth else float(self.right(n)) for n in nodes]

    def right(self, node):
        """Whether no step of it is wrong."""
        return max(self.said[node], default=0) < RIGHT

    def answer(self, node):
        """What is voted on: wrong answers fall on four."""
        if len(self.said[node]) < self.depth:
            return ""  # unfinished
        return "right" if self.right(node) else f"wrong {sum(self.draw(node, 'answer') > x for x in WRONG_ANSWERS)}"

    def draw(self, node, what):
        """A number in 0..1 that belongs to a state."""
        name = f"{what}/{self.seed}/{self.tree.task[node]}/{self.said[node]}"
        return (zlib.crc32(name.encode()) + 0.5) / 2**32

    def state(self, node):
        return State(node, int(self.tree.task[node]), "", tuple(map(str, self.said[node])))

    def key(self, node):
        return None


def noisy(space, noise):
    """The value: whether all steps are right, plus the noise of that state (Box and Muller)."""

    def value(states):
        u, v = (np.array([space.draw(s.node, name) for s in states]) for name in ("u", "v"))
        right = np.array([space.right(s.node) for s in states], float)
        return right + noise * np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)

    return value


def measure(depth, skill, noise, seed, tasks):
    """Of each way to choose: on how many tasks it is right, an oracle's choice, and steps written."""
    out = {}
    for name, (by, widths, choices) in WAYS.items():
        tree = Tree(tasks)
        space = Steps(tree, depth, skill, seed)
        search = Search(tree, space, noisy(space, noise), widths, Budget(tokens=ANSWERS * depth))
        by(search)
        found = dict.fromkeys(choices, 0)
        oracle = 0
        for task in range(tasks):
            paths = search.of(task)
            answers = [space.answer(p.leaf) for p in paths]
            steps = [tree.value[tree.path(p.leaf)[1:]].tolist() for p in paths]
            oracle += "right" in answers
            for how in choices:
                found[how] += AGGREGATORS[how](answers, steps) == "right"
        for how in choices:
            out[name, how] = {"right": found[how], "oracle": oracle, "steps": float(search.meter.tokens.mean())}
    return out


def cells(tasks: int):
    """Every skill and depth, with a row for each noise and way to choose."""
    for kind, skill in SKILLS:
        for depth in DEPTHS:
            step, rows = skill if kind == "step" else skill ** (1.0 / depth), []
            for noise in NOISES:
                found = [measure(depth, step, noise, seed, tasks) for seed in SEEDS]
                rows += [
                    {
                        "kind": kind,
                        "skill": skill,
                        "depth": depth,
                        "noise": noise,
                        "auc": auc(noise),
                        "way": way,
                        "how": how,
                        **summed([one[way, how] for one in found], tasks, "steps"),
                    }
                    for way, how in found[0]
                ]
            yield f"{kind} {skill}, {depth} steps", rows


if __name__ == "__main__":
    main(__doc__, RESULT, 60, cells, answers=ANSWERS, seeds=list(SEEDS))
